//! Jobs: who holds what, and which processes are its own.

use crate::tick::InstanceId;

/// All of a device or instance, in the millionths of shares.
pub const WHOLE: u32 = 1_000_000;

/// A tenant's hold on devices or parts of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub tenant: String,
    /// `None`: a standing assignment of devices that is no job.
    pub job: Option<String>,
    /// Devices or instances held. Empty: whatever its processes use.
    pub parts: Vec<Part>,
    /// Whose processes are its own, on devices that it shares with others.
    pub workloads: Vec<Workload>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub gpu_uuid: String,
    pub instance: Option<InstanceId>,
    /// Of the device or instance, millionths, above 0 and at most [`WHOLE`].
    pub share: u32,
}

/// What a process's cgroup says of whose it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Workload {
    /// A Kubernetes pod by its UID, with `-`.
    Pod(String),
    /// A container by its id, 64 hex digits.
    Container(String),
    /// Any cgroup path that begins so: `/slurm/uid_1000/job_42`.
    Cgroup(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    Ended,
    Preempted,
}

impl JobEnd {
    /// In tombstones' reasons, job calls and the file of jobs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Preempted => "preempted",
        }
    }
}

/// Why a job cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobRefused {
    #[error("`{job}` of `{tenant}` is running")]
    Running { tenant: String, job: String },
    #[error("`{part}` would be shared out to {percent} %; at most 100 % of a device is anybody's")]
    OverDevice { part: String, percent: u64 },
    #[error("`{gpu_uuid}` would be held both as a whole and by instances; name one or the other")]
    WholeAndInstance { gpu_uuid: String },
    #[error("the job cannot start: {what}")]
    Invalid { what: String },
}
