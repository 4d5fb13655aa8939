//! The meter: from ticks and jobs to what each tenant held, used and may be told, as snapshots.
//!
//! Pure: time comes with ticks and jobs. What was not observed is not metered: of every span that a device is held, metered and
//! unmetered parts sum to the span, to the microsecond.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::snapshot::WireSnapshot;
use crate::tick::{InstanceId, Tick};

/// What does not change while the agent runs.
#[derive(Clone, Debug)]
pub struct MeterSettings {
    /// Names the host in snapshots.
    pub node: String,
    /// Between two passes.
    pub tick: Duration,
    /// The driver's device names to the price book's: `NVIDIA A100-SXM4-80GB` to `A100`. Others follow a rule
    /// (`meter::models`).
    pub models: BTreeMap<String, String>,
    /// Boot epochs are later than this, however the clock was set between two runs; Unix µs.
    pub after_epoch_us: i64,
}

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
    /// Of the device or instance, millionths, above 0 and at most 1,000,000.
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

/// Why a job cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobRefused {
    #[error("`{job}` of `{tenant}` is running")]
    Running { tenant: String, job: String },
    #[error("`{part}` would be shared out to {percent} %; at most 100 % of a device is anybody's")]
    OverDevice { part: String, percent: u64 },
}

/// What it has counted, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterCounters {
    pub ticks: u64,
    /// Clock steps, epochs and gaps noticed.
    pub gaps: u64,
    pub refused_readings: u64,
    pub clamped_readings: u64,
}

#[derive(Debug)]
pub struct Meter {
    settings: MeterSettings,
}

impl Meter {
    pub fn new(settings: MeterSettings) -> Self {
        Self { settings }
    }

    /// From now (`mono_us`) on, these devices are this job's.
    ///
    /// # Errors
    /// [`JobRefused`]; nothing has changed then.
    pub fn start(&mut self, _job: Job, _mono_us: u64) -> Result<(), JobRefused> {
        Ok(())
    }

    /// From now on they are not. The next [`Self::snapshots`] has its last one, a tombstone. False: no such job.
    pub fn end(&mut self, _tenant: &str, _job: Option<&str>, _why: JobEnd, _mono_us: u64) -> bool {
        false
    }

    pub fn jobs(&self) -> Vec<Job> {
        Vec::new()
    }

    /// Takes in what a pass read.
    pub fn observe(&mut self, _tick: &Tick) {}

    /// Nothing came from the reader, which hangs: held time goes on, unmetered; `stalled` from now on.
    pub fn stalled(&mut self, _mono_us: u64) {}

    /// The state of every holding, with the next sequence numbers, and the tombstones of those that ended since. `now` is what
    /// `observed_at` is told in while readings arrive: the wall clock, in a replay the present. While they do not, it stays.
    pub fn snapshots(&mut self, _now: Timestamp) -> Vec<WireSnapshot> {
        let _ = &self.settings;
        Vec::new()
    }

    pub fn counters(&self) -> MeterCounters {
        MeterCounters::default()
    }
}
