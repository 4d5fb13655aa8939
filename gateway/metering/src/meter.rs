//! The meter: from ticks and jobs to what each tenant held, used and may be told, as snapshots.
//!
//! Pure: time comes with ticks and jobs. What was not observed is not metered: of every span that a device is held, metered and
//! unmetered parts sum to the span, to the microsecond. Counters and windows come to the last reading of a device, at most two
//! ticks back: of what lies behind it, the next reading decides.
//!
//! - `passes`: from one tick to the next
//! - `devices`, `covering`: what each reading of a pass covers, and what it says of the device; `health`: in words
//! - `attribution`, `cgroup`: whose processes used a device; `sharing`: who therefore held how much of it
//! - `holdings`, `portion`, `held`, `counters`: what a tenant held, and how much of that was metered, busy, and used energy
//! - `windows`, `weighted`: statistics of the last 10 s to 15 min
//! - `jobs`: what is held by whom, as it is asked
//! - `admission`, `epochs`, `models`, `rendering`: the doors in and out
//!
//! GPU-time is time of what is held: a second of a MIG instance is a second, as a second of a whole device is. Price books
//! price instances.
//!
//! Percentiles, minimum and maximum are at a resolution of 1 %, 1 MiB, 1 W and 1 MHz; means are of exact values.

mod admission;
mod attribution;
mod cgroup;
mod counters;
mod covering;
mod devices;
mod doubt;
mod epochs;
mod health;
mod held;
mod holdings;
mod jobs;
mod models;
mod passes;
mod portion;
mod rendering;
mod sharing;
#[cfg(test)]
mod tests;
mod weighted;
mod windows;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

pub(crate) use self::cgroup::fit;
use self::devices::Device;
use self::epochs::Epochs;
use self::health::Health;
use self::holdings::Holding;
pub use self::jobs::{Job, JobEnd, JobRefused, Part, WHOLE, Workload};
use self::portion::{Method, Portion};
use self::rendering::{Moment, pool_counters};
use self::sharing::Remainders;
use crate::snapshot::WireSnapshot;
use crate::tick::Library;

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

/// What it has counted, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterCounters {
    pub ticks: u64,
    /// Clock steps, epochs and gaps noticed.
    pub gaps: u64,
    pub refused_readings: u64,
    pub clamped_readings: u64,
    /// Xid events of a UUID that no device has; told of all devices.
    pub unplaced_xids: u64,
}

/// What a holding has of one GPU model, counted since the boot epoch or its start; exact, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    pub tenant: String,
    pub job: Option<String>,
    /// `None`: devices that have never been seen.
    pub gpu_model: Option<String>,
    /// GPU-time held and observed, µs × millionths of a GPU: a second of a quarter of a GPU is 250,000,000,000.
    pub metered: u128,
    /// GPU-time held and not observed, in the same unit. Their sum is all that was held.
    pub unmetered: u128,
    /// GPU-time busy, µs; `None` where no utilisation was reported.
    pub busy_us: Option<u64>,
    /// mJ; `None` where the devices have no energy counter.
    pub energy_mj: Option<u64>,
}

#[derive(Debug)]
pub struct Meter {
    settings: MeterSettings,
    devices: BTreeMap<String, Device>,
    /// In the order of their start, with those that ended since the last snapshots.
    holdings: Vec<Holding>,
    remainders: Remainders,
    epochs: Epochs,
    counters: MeterCounters,
    /// Up to where everything has been taken in, monotonic µs.
    now: u64,
    last_tick: Option<LastTick>,
    is_stalled: bool,
}

#[derive(Clone, Copy, Debug)]
struct LastTick {
    wall_us: i64,
    mono_us: u64,
    library_run: u32,
    library: Library,
}

impl Meter {
    pub fn new(settings: MeterSettings) -> Self {
        Self {
            epochs: Epochs::after(settings.after_epoch_us),
            settings,
            devices: BTreeMap::new(),
            holdings: Vec::new(),
            remainders: Remainders::new(),
            counters: MeterCounters::default(),
            now: 0,
            last_tick: None,
            is_stalled: false,
        }
    }

    /// From now (`mono_us`) on, these devices are this job's. What was taken in already is not told anew: a start before the
    /// last pass counts from there.
    ///
    /// # Errors
    /// [`JobRefused`]; nothing has changed then.
    pub fn start(&mut self, job: Job, mono_us: u64) -> Result<(), JobRefused> {
        admission::check(&job, &self.holdings)?;
        let ended = self.holdings.iter().filter_map(|holding| Some(holding.end?.0)).max().unwrap_or_default();
        let since = mono_us.max(self.now).max(ended);
        let mut holding = Holding::new(job.tenant, job.job, since);
        holding.workloads = job.workloads;
        holding.follows_use = job.parts.is_empty();
        holding.parts = job.parts.into_iter().map(|part| portion(&part, since)).collect();
        holding.join_pools(&self.devices);
        self.holdings.push(holding);
        Ok(())
    }

    /// From now on they are not. The next [`Self::snapshots`] has its last one, a tombstone, unless it has never held a device
    /// that was seen. False: no such job.
    pub fn end(&mut self, tenant: &str, job: Option<&str>, why: JobEnd, mono_us: u64) -> bool {
        let now = self.now;
        let named =
            |holding: &&mut Holding| holding.tenant == tenant && holding.job.as_deref() == job && holding.end.is_none();
        let Some(holding) = self.holdings.iter_mut().find(named) else { return false };
        holding.end = Some((mono_us.max(now).max(holding.started), why));
        true
    }

    pub fn jobs(&self) -> Vec<Job> {
        self.holdings.iter().filter(|holding| holding.end.is_none()).map(job_of).collect()
    }

    /// The state of every holding that holds something now, with the next sequence numbers, and the tombstones of those that
    /// ended since. `now` is what `observed_at` is told in while readings arrive: the wall clock, in a replay the present.
    /// While they do not, it stays.
    ///
    /// A holding over several GPU models has a snapshot for each. Devices that have never been seen have no model, and so are
    /// in none.
    pub fn snapshots(&mut self, now: Timestamp) -> Vec<WireSnapshot> {
        if !self.epochs.has_begun() {
            self.epochs.begin(now.as_microsecond());
        }
        let boot_epoch = self.epochs.name();
        let mut next_seq = || self.epochs.next_seq();
        let is_gone = self.last_tick.is_some_and(|last| last.library == Library::Gone);
        let health = match (self.is_stalled, is_gone) {
            (true, _) => Health::Stalled,
            (false, true) => Health::LibraryGone,
            (false, false) => Health::Ok,
        };
        let (settings, devices) = (&self.settings, &self.devices);
        let moment = Moment { settings, devices, boot_epoch, health, at: self.now, now };
        let mut snapshots = Vec::new();
        for holding in self.holdings.iter_mut().filter(|holding| !holding.is_told) {
            let Some((end, why)) = holding.end else { continue };
            holding.close(end, self.now);
            holding.is_told = true;
            snapshots.extend(moment.last(holding, why, &mut next_seq));
        }
        // Until the first pass after its start a job has held nothing, and its devices are told as they were before.
        let live = self.holdings.iter_mut().filter(|holding| holding.end.is_none() && holding.started < self.now);
        for holding in live.chain(self.remainders.both()) {
            snapshots.extend(moment.live(holding, &mut next_seq));
        }
        snapshots
    }

    pub fn counters(&self) -> MeterCounters {
        self.counters
    }

    /// What every holding, and nobody, has counted.
    pub fn totals(&self) -> Vec<Totals> {
        let untold = self.holdings.iter().filter(|holding| !holding.is_told);
        let all = untold.chain([&self.remainders.idle, &self.remainders.unattributed]);
        all.flat_map(totals_of).collect()
    }

    /// The boot epoch of snapshots, Unix µs, to be kept for [`MeterSettings::after_epoch_us`] of the next run.
    pub fn epoch_us(&self) -> Option<i64> {
        self.epochs.epoch_us()
    }
}

fn portion(part: &Part, since: u64) -> Portion {
    let method = match part.instance {
        _ if part.share < WHOLE => Method::Allotted,
        Some(_) => Method::Mig,
        None => Method::Exclusive,
    };
    let mut portion = Portion::new(&part.gpu_uuid, part.instance, method, since);
    (portion.share, portion.last_share) = (part.share, part.share);
    portion
}

fn job_of(holding: &Holding) -> Job {
    let assigned = holding.parts.iter().filter(|_| !holding.follows_use);
    let parts =
        assigned.map(|part| Part { gpu_uuid: part.gpu_uuid.clone(), instance: part.instance, share: part.share });
    Job {
        tenant: holding.tenant.clone(),
        job: holding.job.clone(),
        parts: parts.collect(),
        workloads: holding.workloads.clone(),
    }
}

fn totals_of(holding: &Holding) -> Vec<Totals> {
    let pools = holding.pools.iter().enumerate().map(|(index, pool)| (Some(index), Some(pool)));
    let unseen = holding.parts.iter().any(|part| part.pool.is_none()).then_some((None, None));
    let counted = pools.chain(unseen).map(|(index, pool)| {
        let parts: Vec<&Portion> = holding.parts.iter().filter(|part| part.pool == index).collect();
        let mut counted = pool.map_or_else(Default::default, |pool| pool_counters(pool, &[]));
        parts.iter().for_each(|part| counted.add(&part.counted));
        Totals {
            tenant: holding.tenant.clone(),
            job: holding.job.clone(),
            gpu_model: pool.map(|pool| pool.model.clone()),
            metered: counted.metered,
            unmetered: counted.unmetered,
            busy_us: counted.busy_us(),
            energy_mj: counted.energy_mj(),
        }
    });
    counted.collect()
}
