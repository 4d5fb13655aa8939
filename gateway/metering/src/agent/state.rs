//! What outlives the agent's process: running jobs, the last boot epoch, and (by `crate::delivery`) the spool.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::config::StateDir;
use super::jobs::wire;
use crate::durable;
use crate::meter::{Job, JobEnd};

const JOBS: &str = "jobs.json";
const EPOCH: &str = "epoch";
const LOCK: &str = "lock";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// An open state directory, which no other agent may use meanwhile; or none.
#[derive(Debug)]
pub(crate) struct State {
    directory: Option<PathBuf>,
    /// The kernel's name for the time since the host's start.
    boot_id: Option<String>,
    /// Locked until this process ends, however it ends.
    _lock: Option<File>,
}

/// What is kept of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) running: Vec<Job>,
    /// Of which the gateway may not have heard yet.
    pub(crate) ended: Vec<EndedJob>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndedJob {
    pub(crate) job: Job,
    pub(crate) why: JobEnd,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    #[error("the state directory `{path}` cannot be used: {error}")]
    Unusable { path: PathBuf, error: io::Error },
    #[error("another agent uses the state directory `{0}`; stop it, or give this one its own (`state_dir`)")]
    InUse(PathBuf),
}

impl State {
    /// A directory that was named is made where it is not there; the usual one is not, and without it nothing is kept.
    ///
    /// # Errors
    /// Where it was named and cannot be used, and where another agent uses it.
    pub(crate) fn open(settings: &StateDir) -> Result<Self, StateError> {
        let path = &settings.path;
        let opened = if settings.was_named { make(path) } else { Ok(()) }.and_then(|()| File::create(path.join(LOCK)));
        match opened {
            Ok(lock) => match lock.try_lock() {
                Ok(()) => Ok(Self { directory: Some(path.clone()), boot_id: boot_id(), _lock: Some(lock) }),
                Err(TryLockError::WouldBlock) => Err(StateError::InUse(path.clone())),
                Err(TryLockError::Error(error)) => Err(StateError::Unusable { path: path.clone(), error }),
            },
            Err(error) if settings.was_named => Err(StateError::Unusable { path: path.clone(), error }),
            Err(error) => {
                let directory = path.display();
                tracing::warn!(
                    %directory, %error,
                    "without a state directory nothing is kept: a restart forgets jobs and what is undelivered"
                );
                Ok(Self::nowhere())
            }
        }
    }

    pub(crate) fn nowhere() -> Self {
        Self { directory: None, boot_id: None, _lock: None }
    }

    /// The jobs that another agent keeps in this directory; none where they cannot be read. For show.
    pub(crate) fn jobs_in(directory: &Path) -> Vec<Job> {
        let text = fs::read(directory.join(JOBS)).unwrap_or_default();
        jobs_of(&text).map(|(kept, _)| kept.running).unwrap_or_default()
    }

    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The jobs that ran. Those from before the host's last start have ended with it: preempted. A file that is none is set
    /// aside and said: an agent that does not start meters nobody.
    pub(crate) fn jobs(&self) -> Kept {
        let Some(file) = self.file(JOBS) else { return Kept::default() };
        let read = match fs::read(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Kept::default(),
            Err(error) => Err(error.to_string()),
            Ok(text) => jobs_of(&text),
        };
        let read = read.map(|(mut kept, boot_id)| {
            if boot_id.is_some() && boot_id != self.boot_id {
                let running = std::mem::take(&mut kept.running);
                tracing::warn!(jobs = running.len(), "the host has started anew: the jobs from before have ended");
                kept.ended.extend(running.into_iter().map(|job| EndedJob { job, why: JobEnd::Preempted }));
            }
            kept
        });
        read.unwrap_or_else(|reason| {
            let aside = file.with_extension("json.broken");
            let moved = fs::rename(&file, &aside).is_ok();
            let (file, aside) = (file.display(), aside.display());
            tracing::error!(%file, %reason, moved, %aside, "the jobs that ran are lost; start them again");
            Kept::default()
        })
    }

    /// On return they are on disk, if anything is.
    pub(crate) fn keep_jobs(&self, kept: &Kept) -> io::Result<()> {
        let Some(file) = self.file(JOBS) else { return Ok(()) };
        let running: Vec<_> = kept.running.iter().map(wire::named_job).collect();
        let ended: Vec<_> = kept.ended.iter().map(ended_value).collect();
        let document = json!({ "schema": 1, "boot_id": self.boot_id, "jobs": running, "ended": ended });
        durable::replace(&file, |out| serde_json::to_writer(out, &document).map_err(io::Error::from))
    }

    /// Of the last run, Unix µs; the beginning of time where there is none.
    pub(crate) fn last_epoch_us(&self) -> i64 {
        let Some(file) = self.file(EPOCH) else { return 0 };
        match fs::read_to_string(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => {
                tracing::warn!(%error, "the last boot epoch cannot be read; the clock alone must have gone on");
                0
            }
            Ok(text) => text.trim().parse().unwrap_or_else(|_| {
                tracing::warn!("the last boot epoch cannot be read; the clock alone must have gone on");
                0
            }),
        }
    }

    pub(crate) fn keep_epoch(&self, epoch_us: i64) -> io::Result<()> {
        let Some(file) = self.file(EPOCH) else { return Ok(()) };
        durable::replace(&file, |out| writeln!(out, "{epoch_us}"))
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.join(name))
    }
}

fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn boot_id() -> Option<String> {
    fs::read_to_string(BOOT_ID).ok().map(|id| id.trim().to_owned())
}

fn ended_value(ended: &EndedJob) -> Value {
    json!({ "job": wire::named_job(&ended.job), "reason": ended.why.as_str() })
}

fn ended_of(value: &Value) -> Option<EndedJob> {
    let why = value.get("reason").and_then(Value::as_str).and_then(wire::read_end)?;
    wire::read_named_job(value.get("job")?).ok().map(|job| EndedJob { job, why })
}

/// And the boot id of then.
fn jobs_of(text: &[u8]) -> Result<(Kept, Option<String>), String> {
    let document: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if document.get("schema") != Some(&json!(1)) {
        return Err("its schema is not 1".to_owned());
    }
    let jobs = document.get("jobs").and_then(Value::as_array).ok_or("it has no jobs")?;
    let read = |job: &Value| wire::read_named_job(job).map_err(|violations| format!("{violations:?}"));
    let running = jobs.iter().map(read).collect::<Result<_, _>>()?;
    // An earlier agent's has none. One that cannot be read is a tombstone less, not a reason to lose those that run.
    let ended = document.get("ended").and_then(Value::as_array).into_iter().flatten().filter_map(ended_of).collect();
    Ok((Kept { running, ended }, document.get("boot_id").and_then(Value::as_str).map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{Part, Workload};
    use crate::samples::Directory;
    use crate::tick::InstanceId;

    fn named(directory: &Directory) -> StateDir {
        StateDir { path: directory.path().join("state"), was_named: true }
    }

    fn job() -> Job {
        let instance = Some(InstanceId { gpu_instance: 1, compute_instance: 0 });
        Job {
            tenant: "acme".to_owned(),
            job: Some("a/b ü".to_owned()),
            parts: vec![Part { gpu_uuid: "GPU-1".to_owned(), instance, share: 250_000 }],
            workloads: vec![
                Workload::Pod("3f2c1e5a-0000-4000-8000-0123456789ab".to_owned()),
                Workload::Cgroup("/slurm/job_1".to_owned()),
            ],
        }
    }

    #[test]
    fn jobs_and_the_epoch_are_read_back_as_they_were() {
        let directory = Directory::new();
        let state = State::open(&named(&directory)).unwrap();
        assert_eq!((state.jobs(), state.last_epoch_us()), (Kept::default(), 0));
        state.keep_jobs(&kept()).unwrap();
        state.keep_epoch(1_796_083_200_000_001).unwrap();
        drop(state);
        let state = State::open(&named(&directory)).unwrap();
        assert_eq!((state.jobs(), state.last_epoch_us()), (kept(), 1_796_083_200_000_001));
    }

    fn kept() -> Kept {
        let ended = Job { job: Some("over".to_owned()), ..job() };
        Kept { running: vec![job()], ended: vec![EndedJob { job: ended, why: JobEnd::Preempted }] }
    }

    #[test]
    fn jobs_from_before_the_hosts_start_have_ended() {
        let directory = Directory::new();
        let mut state = State::open(&named(&directory)).unwrap();
        assert!(state.boot_id.is_some());
        state.keep_jobs(&kept()).unwrap();
        state.boot_id = Some("another".to_owned());
        let (Kept { running, ended }, before) = (state.jobs(), kept());
        assert_eq!((running, &ended[0]), (Vec::new(), &before.ended[0]));
        assert_eq!(ended[1..], [EndedJob { job: job(), why: JobEnd::Preempted }]);
        // By an agent that did not keep it.
        fs::write(state.file(JOBS).unwrap(), json!({"schema":1,"jobs":[wire::named_job(&job())]}).to_string()).unwrap();
        assert_eq!(state.jobs().running, [job()]);
    }

    #[test]
    fn two_agents_cannot_share_a_directory() {
        let directory = Directory::new();
        let first = State::open(&named(&directory)).unwrap();
        assert!(matches!(State::open(&named(&directory)), Err(StateError::InUse(_))));
        drop(first);
        assert!(State::open(&named(&directory)).is_ok());
    }

    #[test]
    fn a_broken_file_is_set_aside_and_not_written_over() {
        for broken in
            ["", "{", "[]", r#"{"schema":2,"jobs":[]}"#, r#"{"schema":1,"jobs":[{"tenant":"_idle","job":"1"}]}"#]
        {
            let directory = Directory::new();
            let state = State::open(&named(&directory)).unwrap();
            fs::write(state.file(JOBS).unwrap(), broken).unwrap();
            fs::write(state.file(EPOCH).unwrap(), "soon").unwrap();
            assert_eq!((state.jobs(), state.last_epoch_us()), (Kept::default(), 0));
            assert_eq!(fs::read_to_string(state.file("jobs.json.broken").unwrap()).unwrap(), broken);
            state.keep_jobs(&kept()).unwrap();
            assert_eq!(state.jobs(), kept());
        }
    }

    #[test]
    fn without_the_usual_directory_nothing_is_kept_and_a_named_one_must_do() {
        let directory = Directory::new();
        let usual = StateDir { path: directory.path().join("absent"), was_named: false };
        let state = State::open(&usual).unwrap();
        assert_eq!(state.directory(), None);
        state.keep_jobs(&kept()).unwrap();
        assert_eq!(state.jobs(), Kept::default());
        fs::write(directory.path().join("file"), "").unwrap();
        let named = StateDir { path: directory.path().join("file/state"), was_named: true };
        assert!(matches!(State::open(&named), Err(StateError::Unusable { .. })));
    }
}
