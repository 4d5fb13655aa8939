//! Roll-ups: the long windows of one tenant's GPUs of one model, made of the histograms that its snapshots bring.
//!
//! A difference between two snapshots goes into the bucket in which the later one was observed: hours for 24 h, six hours
//! for 7 d, days for 30 d, all in UTC. A window is the bucket of now and those before it: at least all but one bucket of it,
//! and of what was held before it only what was not heard of until in it. Sums are of whole numbers: in whatever order differences come, and
//! whichever replica adds them, the buckets are the same.

use std::collections::BTreeMap;

use farebox_pricing::usage::Window;
use jiff::Timestamp;

use super::difference::{self, Counted, MetricDifference};
use crate::snapshot::{BINS, Snapshot};

const TIERS: usize = 3;
/// Windows, with the seconds of a bucket and the buckets of a window.
const TIER: [(Window, (i64, i64)); TIERS] =
    [(Window::H24, (3_600, 24)), (Window::D7, (21_600, 28)), (Window::D30, (86_400, 30))];

/// The buckets of one tenant and model, and what of each holding is in them.
#[derive(Debug, Default)]
pub(super) struct RollUp {
    /// Only [`HISTOGRAMS`](crate::snapshot::HISTOGRAMS).
    metrics: BTreeMap<&'static str, [Series; TIERS]>,
    counted: BTreeMap<Holding, Counted>,
    /// When the latest of those was observed that are not in `counted` any more.
    let_go_at: Option<Timestamp>,
    /// By receipt.
    used_at: Timestamp,
}

/// Whose counters run on from one snapshot to the next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Holding {
    node: String,
    job: Option<String>,
}

impl Holding {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self { node: snapshot.node.clone(), job: snapshot.job.clone() }
    }
}

/// The buckets of one metric in one window.
#[derive(Debug)]
struct Series {
    buckets: BTreeMap<i64, Bucket>,
    /// Of all the buckets: quotes ask for it, and adding up a week of them takes microseconds. ms; no bin comes near to
    /// 2⁶⁴, as a difference is under 2³².
    sum: Box<[u64; BINS]>,
}

impl Default for Series {
    fn default() -> Self {
        Self { buckets: BTreeMap::new(), sum: Box::new([0; BINS]) }
    }
}

#[derive(Debug, Default)]
struct Bucket {
    /// Held GPU-time, µs.
    held_us: u64,
    observed: Bins,
}

/// Observed GPU-time by per cent, of the bins that have any: a third of what whole arrays would take.
#[derive(Debug, Default)]
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

impl Merged {
    pub(super) fn add(&mut self, other: &Self) {
        self.held_us = self.held_us.saturating_add(other.held_us);
        for (sum, ms) in self.ms.iter_mut().zip(&other.ms) {
            *sum = sum.saturating_add(*ms);
        }
    }
}

/// True for the windows that are rolled up here.
pub(super) fn is_rolled_up(window: Window) -> bool {
    TIER.iter().any(|(rolled, _)| *rolled == window)
}

/// How long a bucket of a window is.
pub(super) fn bucket_seconds(window: Window) -> Option<i64> {
    TIER.iter().find(|(rolled, _)| *rolled == window).map(|(_, (seconds, _))| *seconds)
}

/// The buckets of a window that ends now.
pub(super) fn slots(window: Window, now: Timestamp) -> std::ops::RangeInclusive<i64> {
    let bucket = TIER.iter().find(|(rolled, _)| *rolled == window).map_or((1, 1), |(_, bucket)| *bucket);
    oldest(now, bucket)..=now.as_second().div_euclid(bucket.0)
}

/// The first bucket of a window that ends now.
fn oldest(now: Timestamp, (seconds, count): (i64, i64)) -> i64 {
    now.as_second().div_euclid(seconds).saturating_sub(count.saturating_sub(1))
}

impl RollUp {
    /// Adds what a snapshot brings beyond what is counted of its holding; returns how many of its histograms say too much.
    pub(super) fn add(&mut self, snapshot: &Snapshot, now: Timestamp) -> u64 {
        self.forget_buckets(now);
        let holding = Holding::of(snapshot);
        let before = self.counted.get(&holding);
        let Some((difference, counted)) = difference::since(before, snapshot, self.let_go_at) else { return 0 };
        self.counted.insert(holding, counted);
        self.used_at = now;
        for of_metric in &difference.metrics {
            self.add_metric(of_metric, snapshot, now);
        }
        difference.refused
    }

    /// Into the buckets in which it was observed. What is older than a window is not part of it, and what a snapshot brings
    /// of a window itself is not counted twice.
    fn add_metric(&mut self, difference: &MetricDifference, snapshot: &Snapshot, now: Timestamp) {
        for (index, (window, bucket)) in TIER.into_iter().enumerate() {
            let slot = snapshot.observed_at.as_second().div_euclid(bucket.0);
            if slot < oldest(now, bucket) || snapshot.metric(window, difference.metric).is_some() {
                continue;
            }
            let tiers = self.metrics.entry(difference.metric).or_default();
            tiers.get_mut(index).into_iter().for_each(|series| series.add(slot, difference));
        }
    }

    /// Drops what no window reaches any more: buckets, and holdings that were observed last so long ago.
    pub(super) fn forget(&mut self, now: Timestamp) {
        self.forget_buckets(now);
        let reaches =
            |at: Timestamp| TIER.iter().any(|(_, bucket)| at.as_second().div_euclid(bucket.0) >= oldest(now, *bucket));
        self.counted.retain(|_, counted| reaches(counted.observed_at));
    }

    fn forget_buckets(&mut self, now: Timestamp) {
        for tiers in self.metrics.values_mut() {
            for (series, (_, bucket)) in tiers.iter_mut().zip(TIER) {
                series.forget(oldest(now, bucket));
            }
        }
        self.metrics.retain(|_, tiers| tiers.iter().any(|series| !series.buckets.is_empty()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.metrics.is_empty() && self.counted.is_empty()
    }

    /// How many holdings it remembers.
    pub(super) fn holdings(&self) -> usize {
        self.counted.len()
    }

    pub(super) fn knows(&self, holding: &Holding) -> bool {
        self.counted.contains_key(holding)
    }

    /// The holding that was observed longest ago, with when.
    pub(super) fn longest_unseen(&self) -> Option<(Timestamp, &Holding)> {
        self.counted.iter().map(|(holding, counted)| (counted.observed_at, holding)).min()
    }

    /// Makes room for another holding. If this one comes back, it goes on from there; what was in between is not counted.
    pub(super) fn let_go(&mut self, holding: &Holding) {
        if let Some(counted) = self.counted.remove(holding) {
            self.let_go_at = self.let_go_at.max(Some(counted.observed_at));
        }
    }

    /// When it last took something in, by receipt.
    pub(super) fn used_at(&self) -> Timestamp {
        self.used_at
    }

    /// All that it holds, as of now.
    pub(super) fn windows(&self, now: Timestamp) -> impl Iterator<Item = (Window, &'static str, Merged)> {
        let metrics = self.metrics.keys();
        metrics.flat_map(move |metric| {
            TIER.into_iter().map(move |(window, _)| {
                let mut sum = Merged::default();
                self.add_to(&mut sum, metric, window, now);
                (window, *metric, sum)
            })
        })
    }

    /// Adds a window that ends now to a sum.
    pub(super) fn add_to(&self, sum: &mut Merged, metric: &str, window: Window, now: Timestamp) {
        let tiers = self.metrics.get(metric).into_iter().flatten();
        if let Some((series, (_, bucket))) = tiers.zip(TIER).find(|(_, (rolled, _))| *rolled == window) {
            series.add_to(sum, oldest(now, bucket));
        }
    }

    /// The buckets of a metric in a window that ends now.
    pub(super) fn buckets(&self, metric: &str, window: Window, now: Timestamp) -> impl Iterator<Item = (i64, Merged)> {
        let tiers = self.metrics.get(metric).into_iter().flatten().zip(TIER);
        let of_window = tiers.filter(move |(_, (rolled, _))| *rolled == window);
        of_window.flat_map(move |(series, (_, bucket))| {
            series.buckets.range(oldest(now, bucket)..).map(|(slot, bucket)| {
                let mut sum = Merged { held_us: bucket.held_us, ..Merged::default() };
                for (bin, ms) in bucket.observed.used() {
                    sum.ms.get_mut(bin).into_iter().for_each(|sum| *sum = ms);
                }
                (*slot, sum)
            })
        })
    }

    /// What it takes in memory beside itself, roughly: nodes of maps are counted as full.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let of_tier = |Series { buckets, sum }: &Series| {
            let bins = buckets.values().map(|bucket| bucket.observed.ms.capacity() * 8).sum::<usize>();
            size_of_val(&**sum) + buckets.len() * (8 + size_of::<Bucket>()) * 2 + bins
        };
        let metrics = self.metrics.values().map(|tiers| tiers.iter().map(of_tier).sum::<usize>());
        size_of::<Self>() + metrics.sum::<usize>()
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
    fn add(&mut self, slot: i64, difference: &MetricDifference) {
        let bucket = self.buckets.entry(slot).or_default();
        bucket.held_us = bucket.held_us.saturating_add(difference.held_us);
        let Some(observed) = &difference.observed else { return };
        bucket.observed.add(observed);
        for (sum, added) in self.sum.iter_mut().zip(observed) {
            *sum = sum.saturating_add(u64::from(*added));
        }
    }

    fn forget(&mut self, first: i64) {
        for bucket in split_before(&mut self.buckets, first).values() {
            for (bin, ms) in bucket.observed.used() {
                if let Some(sum) = self.sum.get_mut(bin) {
                    *sum = sum.saturating_sub(ms);
                }
            }
        }
    }

    fn add_to(&self, sum: &mut Merged, first: i64) {
        let is_whole = self.buckets.first_key_value().is_none_or(|(slot, _)| *slot >= first);
        if is_whole {
            for (sum, ms) in sum.ms.iter_mut().zip(self.sum.iter()) {
                *sum = sum.saturating_add(*ms);
            }
        }
        for (_, bucket) in self.buckets.range(first..) {
            sum.held_us = sum.held_us.saturating_add(bucket.held_us);
            for (bin, ms) in bucket.observed.used().filter(|_| !is_whole) {
                if let Some(sum) = sum.ms.get_mut(bin) {
                    *sum = sum.saturating_add(ms);
                }
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
