//! The book of running jobs: started and ended over HTTP, kept on disk before the answer, told to the meter.

pub(crate) mod wire;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};

use super::state::State;
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

/// INVARIANT: what is in it is on disk, and runs.
#[derive(Debug)]
pub(crate) struct JobBook {
    jobs: Vec<Job>,
    state: Arc<State>,
    meter: Sender<Command>,
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
    /// `jobs` run already.
    pub(crate) fn new(jobs: Vec<Job>, state: Arc<State>, meter: Sender<Command>) -> Self {
        Self { jobs, state, meter }
    }

    pub(crate) fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// # Errors
    /// [`NotDone`].
    pub(crate) fn start(&mut self, job: Job) -> Result<Started, NotDone> {
        if let Some(known) = self.jobs.iter().find(|known| (&known.tenant, &known.job) == (&job.tenant, &job.job)) {
            if *known == job {
                return Ok(Started::Same);
            }
            return Err(NotDone::Other { tenant: job.tenant, job: job.job.unwrap_or_default() });
        }
        if self.jobs.len() >= MOST_JOBS {
            return Err(NotDone::TooMany);
        }
        // On disk first: a crash between the two leaves a job that its scheduler was not promised, and will ask for again.
        self.jobs.push(job.clone());
        let started = self.state.keep_jobs(&self.jobs).map_err(NotDone::NotKept).and_then(|()| self.tell_start(job));
        if started.is_err() {
            self.jobs.pop();
            if let Err(NotDone::Refused(_) | NotDone::Stopping) = started {
                self.keep_again();
            }
        }
        started.map(|()| Started::New)
    }

    /// False: no such job.
    ///
    /// # Errors
    /// [`NotDone`].
    pub(crate) fn end(&mut self, tenant: &str, job: &str, why: JobEnd) -> Result<bool, NotDone> {
        let is_it = |known: &Job| known.tenant == tenant && known.job.as_deref() == Some(job);
        let Some(position) = self.jobs.iter().position(is_it) else { return Ok(false) };
        let ended = self.jobs.remove(position);
        if let Err(error) = self.state.keep_jobs(&self.jobs) {
            self.jobs.insert(position, ended);
            return Err(NotDone::NotKept(error));
        }
        let (answer, answered) = bounded(1);
        let command = Command::End { tenant: tenant.to_owned(), job: job.to_owned(), why, answer };
        if self.meter.send_timeout(command, PATIENCE).is_ok() && answered.recv_timeout(PATIENCE).is_ok() {
            return Ok(true);
        }
        self.jobs.insert(position, ended);
        self.keep_again();
        Err(NotDone::Stopping)
    }

    fn tell_start(&self, job: Job) -> Result<(), NotDone> {
        let (answer, answered) = bounded(1);
        let command = Command::Start { job, answer };
        self.meter.send_timeout(command, PATIENCE).map_err(|_| NotDone::Stopping)?;
        answered.recv_timeout(PATIENCE).map_err(|_| NotDone::Stopping)?.map_err(NotDone::Refused)
    }

    fn keep_again(&self) {
        if let Err(error) = self.state.keep_jobs(&self.jobs) {
            tracing::error!(%error, "a job that did not start is on disk, and will be started after a restart");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::super::config::StateDir;
    use super::*;
    use crate::meter::Part;
    use crate::samples::Directory;

    fn job(name: &str, share: u32) -> Job {
        let part = Part { gpu_uuid: "GPU-1".to_owned(), instance: None, share };
        Job { tenant: "acme".to_owned(), job: Some(name.to_owned()), parts: vec![part], workloads: Vec::new() }
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
        let mut book = JobBook::new(Vec::new(), Arc::clone(&state), meter());
        assert_eq!(book.start(job("a", 1)).unwrap(), Started::New);
        assert_eq!(state.jobs(), [job("a", 1)]);
        assert_eq!(book.start(job("a", 1)).unwrap(), Started::Same);
        assert!(matches!(book.start(job("a", 2)), Err(NotDone::Other { .. })));
        assert!(book.end("acme", "a", JobEnd::Ended).unwrap());
        assert!(state.jobs().is_empty());
        assert!(!book.end("acme", "a", JobEnd::Ended).unwrap());
    }

    #[test]
    fn what_the_meter_refuses_is_not_kept() {
        let directory = Directory::new();
        let state = state(&directory);
        let mut book = JobBook::new(Vec::new(), Arc::clone(&state), meter());
        book.start(job("a", 1)).unwrap();
        assert!(matches!(book.start(job("b", 600_000)), Err(NotDone::Refused(JobRefused::OverDevice { .. }))));
        assert_eq!((state.jobs(), book.jobs()), (vec![job("a", 1)], &[job("a", 1)][..]));
    }

    #[test]
    fn a_full_disk_starts_nothing_and_ends_nothing() {
        let directory = Directory::new();
        let mut book = JobBook::new(Vec::new(), state(&directory), meter());
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
        let mut book = JobBook::new(vec![job("a", 1)], Arc::clone(&state), commands);
        assert!(matches!(book.start(job("b", 1)), Err(NotDone::Stopping)));
        assert!(matches!(book.end("acme", "a", JobEnd::Ended), Err(NotDone::Stopping)));
        assert_eq!(state.jobs(), [job("a", 1)]);
    }

    #[test]
    fn there_is_a_most_of_jobs() {
        let jobs = (0..MOST_JOBS).map(|number| job(&number.to_string(), 1)).collect();
        let mut book = JobBook::new(jobs, Arc::new(State::nowhere()), meter());
        assert!(matches!(book.start(job("one more", 1)), Err(NotDone::TooMany)));
        assert_eq!(book.start(job("7", 1)).unwrap(), Started::Same);
    }
}
