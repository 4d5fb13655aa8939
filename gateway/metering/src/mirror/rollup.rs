//! Roll-ups: the long windows of one tenant's GPUs of one model, made of the histograms that its snapshots bring.
//!
//! A difference between two snapshots goes into the bucket in which the later one was observed: hours for 24 h, six hours
//! for 7 d, days for 30 d, all in UTC. A window is the bucket of now and those before it, so at most as long as its name
//! says and at least all but one bucket of it. Sums are of whole numbers: in whatever order differences come, and
//! whichever replica adds them, the buckets are the same.

use std::collections::BTreeMap;

use farebox_pricing::usage::Window;
use jiff::Timestamp;

use super::difference::Difference;
use crate::snapshot::BINS;

/// Metrics of one roll-up. Agents send six at most.
const MOST_METRICS: usize = 8;
const TIERS: usize = 3;
/// Seconds of a bucket, and buckets of a window.
const BUCKETS: [(i64, i64); TIERS] = [(3_600, 24), (21_600, 28), (86_400, 30)];

/// The buckets of one tenant and model.
#[derive(Clone, Debug, Default)]
pub(super) struct RollUp {
    /// Held GPU-time, µs, of every metric alike: what a snapshot does not bring was held and not observed.
    held_us: [BTreeMap<i64, u64>; TIERS],
    metrics: BTreeMap<String, [Series; TIERS]>,
}

/// The buckets of one metric in one window.
#[derive(Clone, Debug)]
struct Series {
    buckets: BTreeMap<i64, Bins>,
    /// Of all the buckets: quotes ask for it, and adding up a week of them takes microseconds. ms; no bin comes near to
    /// 2⁶⁴, as a difference is under 2³².
    sum: Box<[u64; BINS]>,
}

impl Default for Series {
    fn default() -> Self {
        Self { buckets: BTreeMap::new(), sum: Box::new([0; BINS]) }
    }
}

/// Observed GPU-time by per cent, of the bins that have any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Bins {
    /// Bit `n` is set where bin `n` has a value.
    used: u128,
    /// ms, in the order of the bins.
    ms: Vec<u64>,
}

/// A long window, summed over its buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Merged {
    /// Held GPU-time, µs.
    pub(super) held_us: u64,
    /// Observed GPU-time at each per cent, ms.
    pub(super) ms: [u64; BINS],
}

impl Default for Merged {
    fn default() -> Self {
        Self { held_us: 0, ms: [0; BINS] }
    }
}

/// Which buckets a window is made of; `None` for those that agents bring.
fn tier(window: Window) -> Option<usize> {
    match window {
        Window::S10 | Window::M1 | Window::M5 | Window::M15 => None,
        Window::H24 => Some(0),
        Window::D7 => Some(1),
        Window::D30 => Some(2),
    }
}

/// True for the windows that are rolled up here.
pub(super) fn is_rolled_up(window: Window) -> bool {
    tier(window).is_some()
}

/// The first bucket of a window that ends now.
fn oldest(now: Timestamp, (seconds, count): (i64, i64)) -> i64 {
    now.as_second().div_euclid(seconds).saturating_sub(count.saturating_sub(1))
}

impl RollUp {
    /// Adds what was observed at an instant. What is older than a window is not part of it.
    pub(super) fn add(&mut self, difference: &Difference<'_>, observed_at: Timestamp, now: Timestamp) {
        self.forget(now);
        let slots = BUCKETS.map(|bucket| {
            let slot = observed_at.as_second().div_euclid(bucket.0);
            (slot >= oldest(now, bucket)).then_some(slot)
        });
        if difference.held_us > 0 {
            for (held_us, slot) in self.held_us.iter_mut().zip(slots).filter_map(|(held, slot)| Some((held, slot?))) {
                let held_us = held_us.entry(slot).or_default();
                *held_us = held_us.saturating_add(difference.held_us);
            }
        }
        for (metric, bins) in &difference.observed {
            if bins.iter().all(|ms| *ms == 0) || slots == [None; TIERS] {
                continue;
            }
            if !self.metrics.contains_key(*metric) {
                if self.metrics.len() >= MOST_METRICS {
                    continue;
                }
                self.metrics.insert((*metric).to_owned(), Default::default());
            }
            let tiers = self.metrics.get_mut(*metric).into_iter().flatten();
            for (series, slot) in tiers.zip(slots).filter_map(|(series, slot)| Some((series, slot?))) {
                series.add(slot, bins);
            }
        }
    }

    /// Drops the buckets that no window reaches any more.
    pub(super) fn forget(&mut self, now: Timestamp) {
        let first = BUCKETS.map(|bucket| oldest(now, bucket));
        for (buckets, first) in self.held_us.iter_mut().zip(first) {
            drop(split_before(buckets, first));
        }
        for tiers in self.metrics.values_mut() {
            for (series, first) in tiers.iter_mut().zip(first) {
                series.forget(first);
            }
        }
        self.metrics.retain(|_, tiers| tiers.iter().any(|series| !series.buckets.is_empty()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.metrics.is_empty() && self.held_us.iter().all(BTreeMap::is_empty)
    }

    pub(super) fn metrics(&self) -> impl Iterator<Item = &str> {
        self.metrics.keys().map(String::as_str)
    }

    /// Adds a window that ends now to a sum.
    pub(super) fn add_to(&self, sum: &mut Merged, metric: &str, window: Window, now: Timestamp) {
        let Some(tier) = tier(window) else { return };
        let (Some(held_us), Some(bucket)) = (self.held_us.get(tier), BUCKETS.get(tier)) else { return };
        let first = oldest(now, *bucket);
        for (_, held_us) in held_us.range(first..) {
            sum.held_us = sum.held_us.saturating_add(*held_us);
        }
        if let Some(series) = self.metrics.get(metric).and_then(|tiers| tiers.get(tier)) {
            series.add_to(&mut sum.ms, first);
        }
    }

    /// What it takes in memory beside itself, roughly: nodes of maps are counted as full.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let of_tier = |Series { buckets, sum }: &Series| {
            let bins = buckets.values().map(|bins| bins.ms.capacity() * 8).sum::<usize>();
            size_of_val(&**sum) + buckets.len() * (8 + size_of::<Bins>()) * 2 + bins
        };
        let held: usize = self.held_us.iter().map(|buckets| buckets.len() * 32).sum();
        let metrics =
            self.metrics.iter().map(|(metric, tiers)| metric.len() + tiers.iter().map(of_tier).sum::<usize>());
        size_of::<Self>() + held + metrics.sum::<usize>()
    }
}

/// Takes out what lies before a bucket.
fn split_before<T>(buckets: &mut BTreeMap<i64, T>, first: i64) -> BTreeMap<i64, T> {
    if buckets.first_key_value().is_none_or(|(slot, _)| *slot >= first) {
        return BTreeMap::new();
    }
    let kept = buckets.split_off(&first);
    std::mem::replace(buckets, kept)
}

impl Series {
    fn add(&mut self, slot: i64, added: &[u32; BINS]) {
        self.buckets.entry(slot).or_default().add(added);
        for (sum, added) in self.sum.iter_mut().zip(added) {
            *sum = sum.saturating_add(u64::from(*added));
        }
    }

    fn forget(&mut self, first: i64) {
        for bins in split_before(&mut self.buckets, first).values() {
            for (bin, ms) in bins.used() {
                if let Some(sum) = self.sum.get_mut(bin) {
                    *sum = sum.saturating_sub(ms);
                }
            }
        }
    }

    fn add_to(&self, sum: &mut [u64; BINS], first: i64) {
        let is_whole = self.buckets.first_key_value().is_none_or(|(slot, _)| *slot >= first);
        if is_whole {
            for (sum, ms) in sum.iter_mut().zip(self.sum.iter()) {
                *sum = sum.saturating_add(*ms);
            }
            return;
        }
        for (bin, ms) in self.buckets.range(first..).flat_map(|(_, bins)| bins.used()) {
            if let Some(sum) = sum.get_mut(bin) {
                *sum = sum.saturating_add(ms);
            }
        }
    }
}

impl Bins {
    fn add(&mut self, added: &[u32; BINS]) {
        for (bin, added) in added.iter().enumerate().filter(|(_, added)| **added > 0) {
            let bit = 1_u128 << bin;
            let place = (self.used & (bit - 1)).count_ones() as usize;
            if self.used & bit == 0 {
                // Exactly: there are many of these, and each gets few bins.
                self.ms.reserve_exact(1);
                self.ms.insert(place, 0);
                self.used |= bit;
            }
            if let Some(ms) = self.ms.get_mut(place) {
                *ms = ms.saturating_add(u64::from(*added));
            }
        }
    }

    /// Bins that have a value, with it.
    fn used(&self) -> impl Iterator<Item = (usize, u64)> {
        let mut used = self.used;
        self.ms.iter().map(move |ms| {
            let bin = used.trailing_zeros() as usize;
            used &= used.wrapping_sub(1);
            (bin, *ms)
        })
    }
}
