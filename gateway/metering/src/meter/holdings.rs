//! Holdings and their parts: what a tenant's job, or nobody, has of the devices, and what was observed of it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::attribution::is_condition;
use super::counters::{Counted, Utilisation};
use super::covering::Cover;
use super::devices::{Device, Pass};
use super::held::{Held, Span};
use super::weighted::quantised;
use super::windows::{LONGEST_US, Pooled, Series};
use super::{JobEnd, Workload};
use crate::tick::{InstanceId, Metric};

/// Metrics that snapshots have histograms of.
pub(super) const HISTOGRAMS: [Metric; 2] = [Metric::GpuUtil, Metric::SmUtil];
const WHOLE: u32 = 1_000_000;

/// How a part came to its holder; told in snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Exclusive,
    Mig,
    Allotted,
    Process,
    Idle,
    Unattributed,
}

impl Method {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Mig => "mig",
            Self::Allotted => "allotted",
            Self::Process => "process",
            Self::Idle => "idle",
            Self::Unattributed => "unattributed",
        }
    }

    /// What nobody holds.
    pub(super) fn is_remainder(self) -> bool {
        matches!(self, Self::Idle | Self::Unattributed)
    }
}

#[derive(Debug)]
pub(super) struct Holding {
    pub(super) tenant: String,
    pub(super) job: Option<String>,
    pub(super) workloads: Vec<Workload>,
    /// True where it holds what its processes use, or what nobody holds; false where its parts were assigned.
    pub(super) follows_use: bool,
    pub(super) started: u64,
    pub(super) end: Option<(u64, JobEnd)>,
    /// Its tombstone is out. What it held until its end is not nobody's, so that it stays until the next pass.
    pub(super) is_told: bool,
    pub(super) parts: Vec<Portion>,
    pub(super) pools: Vec<Pool>,
}

/// A device or instance, or a share of it.
#[derive(Debug)]
pub(super) struct Portion {
    pub(super) gpu_uuid: String,
    pub(super) instance: Option<InstanceId>,
    pub(super) method: Method,
    /// Held now, millionths; 0: not at present.
    pub(super) share: u32,
    /// The last that was not 0.
    pub(super) last_share: u32,
    pub(super) since: u64,
    pub(super) held: Held,
    /// What its own processes did, where that differs from what the device did.
    pub(super) own: Vec<(Metric, Cover)>,
    pub(super) series: BTreeMap<Metric, Series>,
    /// Whether its device was under load.
    pub(super) load: Load,
    pub(super) counted: Counted,
    /// Until when it has been counted.
    pub(super) settled: u64,
    /// The index of its pool. `None`: its device has never been seen.
    pub(super) pool: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Load {
    pub(super) series: Series,
    pooled: Pooled,
}

/// What is told of all parts of one GPU model together.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) model: String,
    pub(super) windows: BTreeMap<Metric, Pooled>,
    /// µs × millionths at each per cent, counted as long as counters are.
    pub(super) histograms: BTreeMap<Metric, Box<[u128; 101]>>,
    /// Readings came since the last snapshot.
    pub(super) is_read: bool,
    pub(super) observed_at: Option<Timestamp>,
    /// Of parts that are forgotten.
    pub(super) retired: Counted,
}

/// Where a part has a metric from in this pass.
struct Source<'a> {
    covers: &'a [Cover],
    settled: u64,
    /// Readings of the whole device, of which this much is the part's.
    split: (u64, u64),
    /// They say nothing of a share of the device.
    whole_only: bool,
}

impl Portion {
    pub(super) fn new(gpu_uuid: &str, instance: Option<InstanceId>, method: Method, since: u64) -> Self {
        Self {
            gpu_uuid: gpu_uuid.to_owned(),
            instance,
            method,
            share: 0,
            last_share: 0,
            since,
            held: Held::default(),
            own: Vec::new(),
            series: BTreeMap::new(),
            load: Load { series: Series::new(Metric::SmUtil), pooled: Pooled::default() },
            counted: Counted::default(),
            settled: since,
            pool: None,
        }
    }

    pub(super) fn hold(&mut self, span: Span) {
        self.share = span.share;
        if span.share > 0 {
            self.last_share = span.share;
        }
        self.held.extend(span);
    }

    pub(super) fn is_of(&self, gpu_uuid: &str, instance: Option<InstanceId>) -> bool {
        self.gpu_uuid == gpu_uuid && self.instance == instance
    }

    fn source<'a>(&'a self, device: &'a Device, metric: Metric) -> Option<Source<'a>> {
        let whole = (1, 1);
        if is_condition(metric) {
            let mark = device.board.mark(metric)?;
            let split = match self.instance {
                Some(id) if metric == Metric::PowerW => device.split(id)?,
                _ => whole,
            };
            return Some(Source { covers: mark.covers(), settled: mark.settled(), split, whole_only: false });
        }
        let mark = match (self.method, self.instance) {
            (Method::Allotted | Method::Process, _) => return None,
            // Under MIG, the device as a whole tells nothing of anybody's use.
            (_, None) if device.mig => return None,
            (_, None) => device.board.mark(metric)?,
            (_, Some(_)) if matches!(metric, Metric::GpuUtil | Metric::MemUtil) => return None,
            (_, Some(id)) => device.instances.get(&id)?.unit.mark(metric)?,
        };
        let whole_only = self.method.is_remainder();
        Some(Source { covers: mark.covers(), settled: mark.settled(), split: whole, whole_only })
    }

    /// Takes in what the pass brought of its device.
    pub(super) fn observe(&mut self, pool: &mut Pool, device: &Device, pass: Pass) {
        for metric in Metric::ALL {
            let mut series = self.series.remove(&metric);
            let source = self.source(device, metric);
            let settled = source.as_ref().map_or(pass.now, |source| source.settled);
            if let Some(source) = source {
                let (part, whole) = source.split;
                for cover in source.covers {
                    let cover = Cover { value: scaled(cover.value, part, whole), ..*cover };
                    take_in(metric, cover, (&self.held, source.whole_only), &mut series, pool);
                }
            }
            for (_, cover) in self.own.iter().filter(|(of, _)| *of == metric) {
                take_in(metric, *cover, (&self.held, false), &mut series, pool);
            }
            if let Some(mut series) = series {
                series.advance(settled, pool.windows.entry(metric).or_default());
                if !series.is_empty() {
                    self.series.insert(metric, series);
                }
            }
        }
        self.observe_load(device, pass);
    }

    fn observe_load(&mut self, device: &Device, pass: Pass) {
        for cover in &device.load {
            for span in self.held.overlaps(cover.from, cover.to) {
                self.load.series.push(span, cover.value, &mut self.load.pooled);
            }
        }
        self.load.series.advance(pass.now, &mut self.load.pooled);
    }

    /// Counts until where the pass has come to. Without a device, nothing is metered.
    pub(super) fn count(&mut self, device: Option<&Device>, pass: Pass) {
        let nothing = Utilisation { covers: &[], whole_only: false };
        let mut counted = self.counted;
        let settled = match (self.method, device) {
            (Method::Process, _) => {
                counted.count_used(&self.held, self.settled, pass.now);
                pass.now
            }
            (Method::Allotted, _) => {
                let covers: Vec<Cover> = self.own_covers(Metric::GpuUtil).collect();
                counted.count(&self.held, self.settled, pass.now, Utilisation { covers: &covers, whole_only: false });
                pass.now
            }
            (_, Some(device)) => {
                let utilisation = if self.instance.is_some() { Metric::SmUtil } else { device.board.utilisation() };
                let horizon = match self.instance {
                    None => device.board.horizon(),
                    Some(id) => device.instances.get(&id).map_or(pass.now, |instance| instance.unit.horizon()),
                };
                let source = self.source(device, utilisation);
                let settled = source.as_ref().map_or(horizon, |source| source.settled);
                let read = source
                    .map_or(nothing, |source| Utilisation { covers: source.covers, whole_only: source.whole_only });
                counted.count(&self.held, self.settled, settled, read);
                settled
            }
            (_, None) => {
                counted.count(&self.held, self.settled, pass.now, nothing);
                pass.now
            }
        };
        self.counted = counted;
        self.settled = self.settled.max(settled);
        if let Some(device) = device {
            self.count_energy(device);
        }
        self.own.clear();
        let kept = LONGEST_US.saturating_add(pass.tick_us.saturating_mul(2));
        self.held.forget(self.settled.min(pass.now).saturating_sub(kept));
    }

    fn own_covers(&self, metric: Metric) -> impl Iterator<Item = Cover> {
        self.own.iter().filter(move |(of, _)| *of == metric).map(|(_, cover)| *cover)
    }

    fn count_energy(&mut self, device: &Device) {
        let Some(energy) = device.energy else { return };
        let split = match self.instance {
            None => Some((1, 1)),
            Some(id) => device.split(id),
        };
        let Some(split) = split else { return };
        let held = self.held.between(energy.from, energy.to);
        self.counted.count_energy(energy.mj, held, energy.to - energy.from, split);
    }

    /// It is held no longer, and nothing that is still to come is of it.
    pub(super) fn close(&mut self, end: u64) {
        let nothing = Utilisation { covers: &[], whole_only: false };
        self.counted.count(&self.held, self.settled, end.max(self.settled), nothing);
        self.settled = end.max(self.settled);
    }
}

/// A reading that covers held time, into the windows and histograms.
fn take_in(metric: Metric, cover: Cover, of: (&Held, bool), series: &mut Option<Series>, pool: &mut Pool) {
    let (held, whole_only) = of;
    for span in held.overlaps(cover.from, cover.to).filter(|span| !whole_only || span.share == WHOLE) {
        let series = series.get_or_insert_with(|| Series::new(metric));
        series.push(span, cover.value, pool.windows.entry(metric).or_default());
        if HISTOGRAMS.contains(&metric) {
            let bins = pool.histograms.entry(metric).or_insert_with(|| Box::new([0; 101]));
            let bin = usize::try_from(quantised(metric, cover.value)).ok().and_then(|bin| bins.get_mut(bin));
            if let Some(bin) = bin {
                *bin += span.weight();
            }
        }
    }
}

fn scaled(value: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl Pool {
    fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            windows: BTreeMap::new(),
            histograms: BTreeMap::new(),
            is_read: false,
            observed_at: None,
            retired: Counted::default(),
        }
    }
}

impl Holding {
    pub(super) fn new(tenant: String, job: Option<String>, started: u64) -> Self {
        let (workloads, parts, pools) = (Vec::new(), Vec::new(), Vec::new());
        Self { tenant, job, workloads, follows_use: true, started, end: None, is_told: false, parts, pools }
    }

    /// Adds held time of a device or instance that follows use.
    pub(super) fn hold(&mut self, (gpu_uuid, instance): (&str, Option<InstanceId>), method: Method, span: Span) {
        let span = Span {
            to: self.end.map_or(span.to, |(end, _)| span.to.min(end)),
            from: span.from.max(self.started),
            ..span
        };
        if span.from >= span.to {
            return;
        }
        if let Some(part) = self.parts.iter_mut().find(|part| part.is_of(gpu_uuid, instance)) {
            part.hold(span);
            return;
        }
        let mut part = Portion::new(gpu_uuid, instance, method, span.from);
        part.hold(span);
        self.parts.push(part);
    }

    /// What was assigned is held from its start to its end, whatever is read of it.
    pub(super) fn hold_assigned(&mut self, last: u64, now: u64) {
        let to = self.end.map_or(now, |(end, _)| now.min(end));
        for part in &mut self.parts {
            let from = part.since.max(last);
            if from < to {
                part.hold(Span { from, to, share: part.share });
            }
        }
    }

    /// Puts each part whose device is known to those of its GPU model.
    pub(super) fn join_pools(&mut self, devices: &BTreeMap<String, Device>) {
        for part in self.parts.iter_mut().filter(|part| part.pool.is_none()) {
            part.pool = devices.get(&part.gpu_uuid).map(|device| pool_of(&mut self.pools, &device.model));
        }
    }

    /// Takes in a pass: readings into windows, and what was held since into counters.
    pub(super) fn observe(&mut self, devices: &BTreeMap<String, Device>, pass: Pass) {
        self.join_pools(devices);
        for part in &mut self.parts {
            let device = devices.get(&part.gpu_uuid);
            if let Some((device, pool)) = device.zip(part.pool.and_then(|index| self.pools.get_mut(index))) {
                part.observe(pool, device, pass);
                pool.is_read |= device.is_read;
            }
            part.count(device, pass);
        }
    }

    /// Forgets parts that follow use and whose device or instance is gone; what they counted stays.
    pub(super) fn forget_parts(&mut self, devices: &BTreeMap<String, Device>) {
        let pools = &mut self.pools;
        self.parts.retain(|part| {
            let device = devices.get(&part.gpu_uuid);
            let is_known =
                device.is_some_and(|device| part.instance.is_none_or(|id| device.instances.contains_key(&id)));
            if !is_known && let Some(pool) = part.pool.and_then(|index| pools.get_mut(index)) {
                pool.retired.add(&part.counted);
            }
            is_known
        });
    }

    pub(super) fn restart_counters(&mut self) {
        self.parts.iter_mut().for_each(|part| part.counted.restart());
        for pool in &mut self.pools {
            pool.retired.restart();
            pool.histograms.values_mut().for_each(|bins| bins.fill(0));
        }
    }

    /// The last of what was held is told of.
    pub(super) fn close(&mut self, end: u64, last: u64) {
        if !self.follows_use {
            self.hold_assigned(last, end);
        }
        self.parts.iter_mut().for_each(|part| part.close(end));
    }
}

fn pool_of(pools: &mut Vec<Pool>, model: &str) -> usize {
    let found = pools.iter().position(|pool| pool.model == model);
    found.unwrap_or_else(|| {
        pools.push(Pool::new(model));
        pools.len() - 1
    })
}
