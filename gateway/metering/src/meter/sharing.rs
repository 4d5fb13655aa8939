//! Shares out each device's time: to those it was assigned to, to those whose processes used it, and the rest to nobody. At
//! every instant the shares of a device, or of each of its instances, sum to 1.

use std::collections::BTreeMap;

use super::attribution::{Use, Works};
use super::covering::{Cover, PETABYTE};
use super::devices::{Device, Pass};
use super::held::Span;
use super::holdings::Holding;
use super::jobs::WHOLE;
use super::portion::{Method, Place};
use super::windows::LONGEST_US;
use crate::tick::{InstanceId, Metric};

/// From (exclusive) to (inclusive), monotonic µs.
#[derive(Clone, Copy, Debug)]
struct Over {
    from: u64,
    to: u64,
}

/// What nobody holds.
#[derive(Debug)]
pub(super) struct Remainders {
    /// Nobody holds it, and nothing runs on it.
    pub(super) idle: Holding,
    /// Something runs on it, or it is not known whether; and nobody is known to hold it.
    pub(super) unattributed: Holding,
}

impl Remainders {
    pub(super) fn new() -> Self {
        let of = |tenant: &str| Holding::new(tenant.to_owned(), None, 0);
        Self { idle: of("_idle"), unattributed: of("_unattributed") }
    }

    pub(super) fn both(&mut self) -> [&mut Holding; 2] {
        [&mut self.idle, &mut self.unattributed]
    }
}

/// Shares out the time since the last pass.
pub(super) fn share_out(
    devices: &mut BTreeMap<String, Device>,
    holdings: &mut [Holding],
    remainders: &mut Remainders,
    pass: Pass,
) {
    for holding in holdings.iter_mut() {
        if holding.follows_use {
            holding.parts.iter_mut().for_each(|part| part.share = 0);
        } else {
            holding.hold_assigned(pass.last, pass.now);
        }
    }
    remainders.both().into_iter().flat_map(|holding| &mut holding.parts).for_each(|part| part.share = 0);
    for (gpu_uuid, device) in devices.iter_mut() {
        let shared_out = std::mem::replace(&mut device.shared_out, pass.now);
        let over = Over { from: shared_out, to: pass.now };
        // Samples are of the time since the last pass, and cover at most two ticks of it.
        let sampled = |barrier: u64| Over {
            from: pass.now.saturating_sub(pass.tick_us.saturating_mul(2)).max(barrier).max(shared_out),
            to: pass.now,
        };
        if device.is_partitioned() {
            for (id, instance) in device.instances.iter().filter(|(_, instance)| instance.is_present) {
                let place = Place { gpu_uuid, instance: Some(*id) };
                let mut taken = assigned(holdings, gpu_uuid, Some(*id));
                follow_instance(place, &instance.used, holdings, &mut taken, sampled(instance.unit.barrier()));
                share_rest(place, instance.used.works, &taken, over, remainders);
            }
        } else {
            let mut taken = assigned(holdings, gpu_uuid, None);
            if !device.mig {
                follow_use(gpu_uuid, &device.used, holdings, &mut taken, sampled(device.board.barrier()));
            }
            share_rest(Place { gpu_uuid, instance: None }, device.used.works, &taken, over, remainders);
        }
    }
    miss(devices, holdings, pass.now);
}

/// Notes of which parts that follow use nobody can say whether they are used.
fn miss(devices: &BTreeMap<String, Device>, holdings: &mut [Holding], now: u64) {
    for part in holdings.iter_mut().filter(|holding| holding.follows_use).flat_map(|holding| &mut holding.parts) {
        let is_lately = part.held.end().is_some_and(|end| now.saturating_sub(end) < LONGEST_US);
        let is_told = devices.get(&part.gpu_uuid).is_some_and(|device| device.tells_use(part.instance, now));
        part.is_missed = part.share == 0 && is_lately && !is_told;
    }
}

/// What was assigned of a device, or of an instance and the device it is of.
fn assigned(holdings: &[Holding], gpu_uuid: &str, instance: Option<InstanceId>) -> Vec<Span> {
    let mut taken = Vec::new();
    for holding in holdings.iter().filter(|holding| !holding.follows_use) {
        let to = holding.end.map_or(u64::MAX, |(end, _)| end);
        let parts = holding.parts.iter().filter(|part| part.gpu_uuid == gpu_uuid);
        let concerning = parts.filter(|part| part.instance.is_none() || part.instance == instance);
        taken.extend(concerning.map(|part| Span { from: part.since, to, share: part.share }));
    }
    taken
}

/// Gives an instance to the holding whose processes all of its own are, where nobody else was assigned any of it.
fn follow_instance(place: Place<'_>, used: &Use, holdings: &mut [Holding], taken: &mut Vec<Span>, over: Over) {
    let only = used.by_holding.iter().flatten().next().map(|(index, _)| *index);
    let Some(holding) = only.and_then(|index| holdings.get_mut(index)).filter(|holding| holding.follows_use) else {
        return;
    };
    if over.from >= over.to || segments(taken, over).any(|rest| rest.share < WHOLE) {
        return;
    }
    holding.hold(place, Method::Mig, Span { from: over.from, to: over.to, share: WHOLE });
    taken.push(taken_by(holding, over, WHOLE));
}

/// What a holding has of a stretch, from its start to its end.
fn taken_by(holding: &Holding, over: Over, share: u32) -> Span {
    let from = over.from.max(holding.started);
    Span { from, to: over.to.min(holding.end.map_or(u64::MAX, |(end, _)| end)).max(from), share }
}

/// Gives holdings that hold what they use their part of a device, and tells those that were allotted one how much they used.
fn follow_use(gpu_uuid: &str, used: &Use, holdings: &mut [Holding], taken: &mut Vec<Span>, over: Over) {
    let Over { from, to } = over;
    let place = Place { gpu_uuid, instance: None };
    let Some(by_holding) = used.by_holding.as_ref().filter(|_| from < to) else { return };
    let free = segments(taken, over).map(|span| span.share).min().unwrap_or_default();
    let wanted: u64 = by_holding
        .iter()
        .filter(|(index, _)| holdings.get(**index).is_some_and(|holding| holding.follows_use))
        .map(|(_, own)| own.sm)
        .sum();
    for (index, own) in by_holding {
        let Some(holding) = holdings.get_mut(*index) else { continue };
        if holding.follows_use {
            let share = if wanted > u64::from(free) { own.sm * u64::from(free) / wanted } else { own.sm };
            let share = u32::try_from(share).unwrap_or(WHOLE);
            holding.hold(place, Method::Process, Span { from, to, share });
            taken.push(taken_by(holding, over, share));
        }
    }
    for (index, holding) in holdings.iter_mut().enumerate() {
        // Nothing is known of a job that does not say which processes are its own.
        let Some(own) = used.own(index).filter(|_| !holding.workloads.is_empty()) else { continue };
        for part in holding.parts.iter_mut().filter(|part| part.is_of(place)) {
            if part.method == Method::Allotted {
                let used = own.sm * u64::from(WHOLE) / u64::from(part.share.max(1));
                part.own.push((Metric::GpuUtil, Cover { from, to, value: used.min(u64::from(WHOLE)) }));
            }
            if matches!(part.method, Method::Allotted | Method::Process)
                && let Some(value) = own.memory.filter(|bytes| *bytes < PETABYTE)
            {
                part.own.push((Metric::MemUsedBytes, Cover { from, to, value }));
            }
        }
    }
}

/// Gives nobody the rest.
fn share_rest(place: Place<'_>, works: Works, taken: &[Span], over: Over, remainders: &mut Remainders) {
    let (holding, method) = match works {
        Works::Idle => (&mut remainders.idle, Method::Idle),
        Works::Busy | Works::Unknown => (&mut remainders.unattributed, Method::Unattributed),
    };
    for rest in segments(taken, over) {
        holding.hold(place, method, rest);
    }
}

/// What is not taken, from one change to the next.
fn segments(taken: &[Span], Over { from, to }: Over) -> impl Iterator<Item = Span> {
    let edges = taken.iter().flat_map(|span| [span.from, span.to]).filter(|edge| (from..to).contains(edge));
    let mut edges: Vec<u64> = edges.chain([from, to]).collect();
    edges.sort_unstable();
    edges.dedup();
    let taken = taken.to_vec();
    let ends: Vec<u64> = edges.iter().skip(1).copied().collect();
    edges.into_iter().zip(ends).map(move |(from, to)| {
        let shares = taken.iter().filter(|span| span.from <= from && span.to >= to).map(|span| u64::from(span.share));
        let rest = u64::from(WHOLE).saturating_sub(shares.sum());
        Span { from, to, share: u32::try_from(rest).unwrap_or(WHOLE) }
    })
}
