//! Holdings: what a tenant's job, or nobody, has of the devices, and what is told of it together.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::counters::Counted;
use super::devices::{Device, Pass};
use super::held::Span;
use super::jobs::WHOLE;
use super::portion::{Method, Place, Portion};
use super::windows::Pooled;
use super::{JobEnd, Workload};
use crate::tick::Metric;

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
    pub(super) fn hold(&mut self, place: Place<'_>, method: Method, span: Span) {
        let span = Span {
            to: self.end.map_or(span.to, |(end, _)| span.to.min(end)),
            from: span.from.max(self.started),
            ..span
        };
        if span.from >= span.to {
            return;
        }
        if let Some(part) = self.parts.iter_mut().find(|part| part.is_of(place)) {
            part.hold(span);
            return;
        }
        let mut part = Portion::new(place.gpu_uuid, place.instance, method, span.from);
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

    /// Puts each part whose device has a model to those of its GPU model.
    pub(super) fn join_pools(&mut self, devices: &BTreeMap<String, Device>) {
        for part in self.parts.iter_mut().filter(|part| part.pool.is_none()) {
            let model = devices.get(&part.gpu_uuid).and_then(|device| device.model.as_ref());
            part.pool = model.map(|model| pool_of(&mut self.pools, model));
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

    /// Energy of what is cut into no instance of a partitioned board.
    pub(super) fn count_uncut(&mut self, devices: &BTreeMap<String, Device>) {
        for device in devices.values() {
            let Some((energy, split)) = device.energy.zip(device.uncut()) else { continue };
            let Some(model) = &device.model else { continue };
            let index = pool_of(&mut self.pools, model);
            if let Some(pool) = self.pools.get_mut(index) {
                let span_us = energy.to - energy.from;
                pool.retired.count_energy(energy.mj, u128::from(span_us) * u128::from(WHOLE), span_us, split);
            }
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
