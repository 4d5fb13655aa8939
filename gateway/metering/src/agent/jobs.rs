//! The book of running jobs: started and ended over HTTP, kept on disk before the answer, told to the meter.

pub(crate) mod wire;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};

use super::seen::Published;
use super::state::{EndedJob, Kept, State};
use crate::delivery::Delivery;
use crate::meter::{Job, JobEnd, JobRefused};

/// More than a host's GPUs can be shared out to sensibly.
const MOST_JOBS: usize = 1024;
/// The metering thread answers between two ticks; this long only while the process ends.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the metering thread is asked to do, and where it answers.
#[derive(Debug)]
pub(crate) enum Command {
    Start { job: Job, answer: Sender<Result<(), JobRefused>> },
    End { tenant: String, job: String, why: JobEnd, answer: Sender<bool> },
}

/// INVARIANT: what runs in it is on disk, and is metered.
#[derive(Debug)]
pub(crate) struct JobBook {
    running: Vec<Job>,
    /// The oldest first, each with how often metering had told when it ended. They stay until their tombstone is safe, so that
    /// a crash does not leave a ghost at the gateway.
    ended: Vec<(EndedJob, u64)>,
    /// Jobs that were promised to nobody, but may be metered: whoever was asked did not answer. Tenant and job.
    unowned: Vec<(String, String)>,
    state: Arc<State>,
    meter: Sender<Command>,
    aftermath: Aftermath,
}

/// What becomes of the last snapshots of jobs that ended.
#[derive(Debug, Default)]
pub(crate) struct Aftermath {
    pub(crate) published: Arc<Published>,
    pub(crate) delivery: Option<Arc<Delivery>>,
}

impl Aftermath {
    fn tells(&self) -> u64 {
        self.published.get().tells
    }

    /// Of a job that ended when metering had told so often.
    fn is_safe(&self, tells: u64) -> bool {
        self.tells() > tells && self.delivery.as_ref().is_none_or(|delivery| delivery.tombstones_are_safe())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    New,
    /// It ran already, holding the same.
    Same,
}

/// Why a job was not started or ended; nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotDone {
    #[error(
        "`{job}` of `{tenant}` is running and holds something else; end it first, or give the new one another name"
    )]
    Other { tenant: String, job: String },
    #[error(transparent)]
    Refused(JobRefused),
    #[error("{MOST_JOBS} jobs are running, which is the most; end some")]
    TooMany,
    #[error("the state directory cannot be written")]
    NotKept(#[source] io::Error),
    #[error("the agent is stopping; try again once it runs")]
    Stopping,
}

impl JobBook {
    /// `kept` is on disk; what runs in it is metered already.
    pub(crate) fn new(kept: Kept, state: Arc<State>, meter: Sender<Command>, aftermath: Aftermath) -> Self {
        let ended = kept.ended.into_iter().map(|ended| (ended, 0)).collect();
        Self { running: kept.running, ended, unowned: Vec::new(), state, meter, aftermath }
    }

    pub(crate) fn jobs(&self) -> &[Job] {
        &self.running
    }

    /// # Errors
    /// [`NotDone`].
    pub(crate) fn start(&mut self, job: Job) -> Result<Started, NotDone> {
        if let Some(known) = self.running.iter().find(|known| (&known.tenant, &known.job) == (&job.tenant, &job.job)) {
            if *known == job {
                return Ok(Started::Same);
            }
            return Err(NotDone::Other { tenant: job.tenant, job: job.job.unwrap_or_default() });
        }
        if self.running.len() >= MOST_JOBS {
            return Err(NotDone::TooMany);
        }
        self.end_unowned()?;
        let before = self.ended.clone();
        // What it says takes the place of its tombstone.
        self.ended.retain(|(ended, _)| (&ended.job.tenant, &ended.job.job) != (&job.tenant, &job.job));
        // On disk first: a crash between the two leaves a job that its scheduler was not promised, and will ask for again.
        self.running.push(job.clone());
        let started = self.keep().and_then(|()| self.tell_start(job));
        if started.is_err() {
            self.running.pop();
            self.ended = before;
            self.keep_again();
        }
        started.map(|()| Started::New)
    }

    /// False: no such job.
    ///
    /// # Errors
    /// [`NotDone`].
    pub(crate) fn end(&mut self, tenant: &str, job: &str, why: JobEnd) -> Result<bool, NotDone> {
        let is_it = |known: &Job| known.tenant == tenant && known.job.as_deref() == Some(job);
        let Some(position) = self.running.iter().position(is_it) else { return Ok(false) };
        let ended = self.running.remove(position);
        self.ended.push((EndedJob { job: ended, why }, u64::MAX));
        let told = self.keep().and_then(|()| self.tell_end(tenant, job, why));
        let Some((ended, _)) = self.ended.pop() else { return Ok(false) };
        match told {
            Ok(()) => {
                if self.ended.len() >= MOST_JOBS {
                    self.ended.remove(0);
                }
                self.ended.push((ended, self.aftermath.tells()));
                Ok(true)
            }
            Err(error) => {
                self.running.insert(position, ended.job);
                self.keep_again();
                Err(error)
            }
        }
    }

    /// All of the book on disk, less the ended whose tombstones are safe.
    fn keep(&mut self) -> Result<(), NotDone> {
        self.ended.retain(|(_, tells)| !self.aftermath.is_safe(*tells));
        self.state.keep_jobs(&self.kept()).map_err(NotDone::NotKept)
    }

    fn kept(&self) -> Kept {
        let ended = self.ended.iter().map(|(ended, _)| ended.clone()).collect();
        Kept { running: self.running.clone(), ended }
    }

    fn tell_start(&mut self, job: Job) -> Result<(), NotDone> {
        let (answer, answered) = bounded(1);
        let name = (job.tenant.clone(), job.job.clone().unwrap_or_default());
        self.meter.send_timeout(Command::Start { job, answer }, PATIENCE).map_err(|_| NotDone::Stopping)?;
        match answered.recv_timeout(PATIENCE) {
            Ok(started) => started.map_err(NotDone::Refused),
            Err(_) => {
                self.unowned.push(name);
                self.end_unowned().and(Err(NotDone::Stopping))
            }
        }
    }

    fn tell_end(&self, tenant: &str, job: &str, why: JobEnd) -> Result<(), NotDone> {
        let (answer, answered) = bounded(1);
        let command = Command::End { tenant: tenant.to_owned(), job: job.to_owned(), why, answer };
        self.meter.send_timeout(command, PATIENCE).map_err(|_| NotDone::Stopping)?;
        answered.recv_timeout(PATIENCE).map(drop).map_err(|_| NotDone::Stopping)
    }

    fn end_unowned(&mut self) -> Result<(), NotDone> {
        while let Some((tenant, job)) = self.unowned.last() {
            self.tell_end(tenant, job, JobEnd::Preempted)?;
            self.unowned.pop();
        }
        Ok(())
    }

    /// Nothing has changed, so the file must say what it said: even where a write failed, the new one may be there.
    fn keep_again(&mut self) {
        if let Err(error) = self.state.keep_jobs(&self.kept()) {
            tracing::error!(%error, "`jobs.json` may differ from the jobs that run, and will count after a restart");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::super::config::StateDir;
    use super::super::seen::Seen;
    use super::*;
    use crate::durable::tests::fail_once;
    use crate::meter::Part;
    use crate::samples::Directory;

    fn job(name: &str, share: u32) -> Job {
        let part = Part { gpu_uuid: "GPU-1".to_owned(), instance: None, share };
        Job { tenant: "acme".to_owned(), job: Some(name.to_owned()), parts: vec![part], workloads: Vec::new() }
    }

    fn running(running: Vec<Job>) -> Kept {
        Kept { running, ended: Vec::new() }
    }

    /// A meter that refuses shares over a half, and whose answers to ends do not matter.
    fn meter() -> Sender<Command> {
        let (commands, received) = bounded(1);
        thread::spawn(move || {
            for command in received {
                match command {
                    Command::Start { job, answer } => {
                        let share = job.parts[0].share;
                        let over =
                            JobRefused::OverDevice { part: "GPU-1".to_owned(), percent: u64::from(share) / 5_000 };
                        let _ = answer.send(if share > 500_000 { Err(over) } else { Ok(()) });
                    }
                    Command::End { answer, .. } => drop(answer.send(true)),
                }
            }
        });
        commands
    }

    fn state(directory: &Directory) -> Arc<State> {
        Arc::new(State::open(&StateDir { path: directory.path().join("state"), was_named: true }).unwrap())
    }

    #[test]
    fn a_start_is_on_disk_before_it_is_answered_and_can_be_repeated() {
        let directory = Directory::new();
        let state = state(&directory);
        let mut book = JobBook::new(Kept::default(), Arc::clone(&state), meter(), Aftermath::default());
        assert_eq!(book.start(job("a", 1)).unwrap(), Started::New);
        assert_eq!(state.jobs().running, [job("a", 1)]);
        assert_eq!(book.start(job("a", 1)).unwrap(), Started::Same);
        assert!(matches!(book.start(job("a", 2)), Err(NotDone::Other { .. })));
        assert!(book.end("acme", "a", JobEnd::Ended).unwrap());
        assert!(state.jobs().running.is_empty());
        assert!(!book.end("acme", "a", JobEnd::Ended).unwrap());
    }

    #[test]
    fn what_the_meter_refuses_is_not_kept() {
        let directory = Directory::new();
        let state = state(&directory);
        let mut book = JobBook::new(Kept::default(), Arc::clone(&state), meter(), Aftermath::default());
        book.start(job("a", 1)).unwrap();
        assert!(matches!(book.start(job("b", 600_000)), Err(NotDone::Refused(JobRefused::OverDevice { .. }))));
        assert_eq!((state.jobs().running, book.jobs()), (vec![job("a", 1)], &[job("a", 1)][..]));
    }

    #[test]
    fn a_full_disk_starts_nothing_and_ends_nothing() {
        let directory = Directory::new();
        let mut book = JobBook::new(Kept::default(), state(&directory), meter(), Aftermath::default());
        book.start(job("a", 1)).unwrap();
        fs::remove_dir_all(directory.path().join("state")).unwrap();
        assert!(matches!(book.start(job("b", 1)), Err(NotDone::NotKept(_))));
        assert!(matches!(book.end("acme", "a", JobEnd::Ended), Err(NotDone::NotKept(_))));
        assert_eq!(book.jobs(), [job("a", 1)]);
    }

    #[test]
    fn a_stopping_agent_promises_nothing() {
        let directory = Directory::new();
        let state = state(&directory);
        let (commands, received) = bounded(1);
        drop(received);
        let mut book = JobBook::new(running(vec![job("a", 1)]), Arc::clone(&state), commands, Aftermath::default());
        assert!(matches!(book.start(job("b", 1)), Err(NotDone::Stopping)));
        assert!(matches!(book.end("acme", "a", JobEnd::Ended), Err(NotDone::Stopping)));
        assert_eq!(state.jobs().running, [job("a", 1)]);
    }

    #[test]
    fn an_ended_job_is_kept_until_its_tombstone_was_told() {
        let directory = Directory::new();
        let (state, published) = (state(&directory), Arc::new(Published::default()));
        let aftermath = Aftermath { published: Arc::clone(&published), delivery: None };
        let mut book = JobBook::new(Kept::default(), Arc::clone(&state), meter(), aftermath);
        for name in ["a", "b", "c"] {
            book.start(job(name, 1)).unwrap();
        }
        book.end("acme", "a", JobEnd::Preempted).unwrap();
        let ended = |name: &str, why| EndedJob { job: job(name, 1), why };
        assert_eq!(state.jobs().ended, [ended("a", JobEnd::Preempted)]);
        book.end("acme", "b", JobEnd::Ended).unwrap();
        assert_eq!(state.jobs().ended, [ended("a", JobEnd::Preempted), ended("b", JobEnd::Ended)]);
        // One that starts again is told by what it holds.
        book.start(job("b", 1)).unwrap();
        assert_eq!(state.jobs().ended, [ended("a", JobEnd::Preempted)]);
        published.set(Seen { tells: 1, ..Seen::default() });
        book.end("acme", "c", JobEnd::Ended).unwrap();
        assert_eq!(state.jobs().ended, [ended("c", JobEnd::Ended)]);
    }

    #[test]
    fn a_start_that_nobody_answered_is_ended_before_anything_else_starts() {
        let (commands, received) = bounded(1);
        let (told, seen) = bounded(9);
        thread::spawn(move || {
            for (number, command) in received.into_iter().enumerate() {
                match command {
                    // As of a thread that hangs: neither the first start nor the first end is answered.
                    Command::Start { answer, .. } => {
                        told.send("start").unwrap();
                        if number > 0 {
                            answer.send(Ok(())).unwrap();
                        }
                    }
                    Command::End { answer, job, .. } => {
                        assert_eq!(job, "a");
                        told.send("end").unwrap();
                        if number > 1 {
                            answer.send(true).unwrap();
                        }
                    }
                }
            }
        });
        let mut book = JobBook::new(Kept::default(), Arc::new(State::nowhere()), commands, Aftermath::default());
        assert!(matches!(book.start(job("a", 1)), Err(NotDone::Stopping)));
        assert_eq!(book.start(job("a", 2)).unwrap(), Started::New);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["start", "end", "end", "start"]);
    }

    #[test]
    fn a_file_that_may_or_may_not_be_there_is_written_as_it_was() {
        let directory = Directory::new();
        let state = state(&directory);
        let mut book = JobBook::new(Kept::default(), Arc::clone(&state), meter(), Aftermath::default());
        book.start(job("a", 1)).unwrap();
        fail_once();
        assert!(matches!(book.start(job("b", 1)), Err(NotDone::NotKept(_))));
        assert_eq!(state.jobs().running, [job("a", 1)]);
        fail_once();
        assert!(matches!(book.end("acme", "a", JobEnd::Ended), Err(NotDone::NotKept(_))));
        assert_eq!(state.jobs(), running(vec![job("a", 1)]));
    }

    #[test]
    fn there_is_a_most_of_jobs() {
        let jobs = (0..MOST_JOBS).map(|number| job(&number.to_string(), 1)).collect();
        let mut book = JobBook::new(running(jobs), Arc::new(State::nowhere()), meter(), Aftermath::default());
        assert!(matches!(book.start(job("one more", 1)), Err(NotDone::TooMany)));
        assert_eq!(book.start(job("7", 1)).unwrap(), Started::Same);
    }
}
