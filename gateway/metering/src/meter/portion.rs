//! A part of a holding: a device or instance, or a share of one, and what was observed of it.

use std::collections::BTreeMap;

use super::attribution::is_condition;
use super::counters::{Counted, Utilisation};
use super::covering::Cover;
use super::devices::{Device, Pass, Split};
use super::doubt::Doubt;
use super::held::{Held, Span};
use super::holdings::Pool;
use super::jobs::WHOLE;
use super::weighted::quantised;
use super::windows::{LONGEST_US, Pooled, Series};
use crate::snapshot::HISTOGRAMS;
use crate::tick::{InstanceId, Metric};

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
    /// Not held now as far as is known; but the last pass did not tell who uses its device, and it was held until lately.
    pub(super) is_missed: bool,
    pub(super) since: u64,
    pub(super) held: Held,
    /// What its own processes did, where that differs from what the device did.
    pub(super) own: Vec<(Metric, Cover)>,
    pub(super) series: BTreeMap<Metric, Series>,
    /// Whether its device was under load.
    pub(super) load: Load,
    doubt: Doubt,
    pub(super) counted: Counted,
    /// Until when it has been counted.
    pub(super) settled: u64,
    /// The index of its pool. `None`: its device has never been seen.
    pub(super) pool: Option<usize>,
}

/// A device or an instance of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) gpu_uuid: &'a str,
    pub(super) instance: Option<InstanceId>,
}

#[derive(Debug)]
pub(super) struct Load {
    pub(super) series: Series,
    pooled: Pooled,
}

/// Where a part has a metric from in this pass.
struct Source<'a> {
    covers: &'a [Cover],
    settled: u64,
    /// Readings of the whole device, of which this much is the part's.
    split: Split,
    /// They say nothing of a share of the device.
    whole_only: bool,
}

/// A value of a metric over the time that it covers.
#[derive(Clone, Copy)]
struct Reading {
    metric: Metric,
    cover: Cover,
    /// It says nothing of a share of the device.
    whole_only: bool,
    /// Power and clocks of the pass say that the device works.
    is_under_load: bool,
}

impl Portion {
    pub(super) fn new(gpu_uuid: &str, instance: Option<InstanceId>, method: Method, since: u64) -> Self {
        Self {
            gpu_uuid: gpu_uuid.to_owned(),
            instance,
            method,
            share: 0,
            last_share: 0,
            is_missed: false,
            since,
            held: Held::default(),
            own: Vec::new(),
            series: BTreeMap::new(),
            doubt: Doubt::default(),
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

    pub(super) fn is_of(&self, place: Place<'_>) -> bool {
        self.gpu_uuid == place.gpu_uuid && self.instance == place.instance
    }

    /// Held now, or taken to be, because nobody can say otherwise; 0: not.
    pub(super) fn told_share(&self) -> u32 {
        if self.is_missed { self.last_share } else { self.share }
    }

    fn source<'a>(&self, device: &'a Device, metric: Metric) -> Option<Source<'a>> {
        let whole = Split { part: 1, whole: 1 };
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
        let is_under_load = device.load.iter().any(|cover| cover.value > 0);
        for metric in Metric::ALL {
            let mut series = self.series.remove(&metric);
            let source = self.source(device, metric);
            let settled = source.as_ref().map_or(pass.now, |source| source.settled);
            if let Some(Source { covers, split, whole_only, .. }) = source {
                for cover in covers {
                    let cover = Cover { value: scaled(cover.value, split), ..*cover };
                    let reading = Reading { metric, cover, whole_only, is_under_load };
                    self.take_in(reading, &mut series, pool);
                }
            }
            for cover in self.own_covers(metric).collect::<Vec<_>>() {
                let reading = Reading { metric, cover, whole_only: false, is_under_load };
                self.take_in(reading, &mut series, pool);
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

    /// Takes a reading in over the time that it covers and that was held, into the windows and histograms.
    fn take_in(&mut self, reading: Reading, series: &mut Option<Series>, pool: &mut Pool) {
        let Reading { metric, cover, whole_only, .. } = reading;
        let mut weight: u128 = 0;
        for span in self.held.overlaps(cover.from, cover.to).filter(|span| !whole_only || span.share == WHOLE) {
            weight += span.weight();
            let series = series.get_or_insert_with(|| Series::new(metric));
            series.push(span, cover.value, pool.windows.entry(metric).or_default());
        }
        if weight > 0 && HISTOGRAMS.contains(&metric) {
            self.count_in_bins(reading, weight, pool);
        }
    }

    /// Zeros under load count only where they do not last.
    fn count_in_bins(&mut self, reading: Reading, weight: u128, pool: &mut Pool) {
        let Reading { metric, cover, is_under_load, .. } = reading;
        let is_zero = metric == Metric::GpuUtil && cover.value == 0;
        let zeros = match metric {
            Metric::GpuUtil if is_zero => self.doubt.zero((cover.from, cover.to), weight, is_under_load),
            Metric::GpuUtil => self.doubt.end(),
            _ => 0,
        };
        let bins = pool.histograms.entry(metric).or_insert_with(|| Box::new([0; 101]));
        if let Some(bin) = bins.first_mut() {
            *bin += zeros;
        }
        let bin = usize::try_from(quantised(metric, cover.value)).ok().and_then(|bin| bins.get_mut(bin));
        if let Some(bin) = bin.filter(|_| !is_zero) {
            *bin += weight;
        }
    }

    fn observe_load(&mut self, device: &Device, pass: Pass) {
        for cover in &device.load {
            for span in self.held.overlaps(cover.from, cover.to) {
                self.load.series.push(span, cover.value, &mut self.load.pooled);
            }
        }
        // As far as power readings have come: what is still to come of them may reach back two ticks.
        let settled = device.board.mark(Metric::PowerW).map_or(pass.now, |mark| mark.settled());
        self.load.series.advance(settled, &mut self.load.pooled);
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
            None => Some(Split { part: 1, whole: 1 }),
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

fn scaled(value: u64, split: Split) -> u64 {
    let scaled = u128::from(value) * u128::from(split.part) / u128::from(split.whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
