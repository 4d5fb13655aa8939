//! The buckets of one metric in the long windows, and their sums.
//!
//! Immutable where they are read: a copy shares all but the newest bucket of a window, which is the one that changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use farebox_pricing::usage::Window;
use jiff::Timestamp;

use super::difference::MetricDifference;
use crate::snapshot::BINS;

pub(super) const TIERS: usize = 3;
/// Windows, with the seconds of a bucket and the buckets of a window.
pub(super) const TIER: [(Window, (i64, i64)); TIERS] =
    [(Window::H24, (3_600, 24)), (Window::D7, (21_600, 28)), (Window::D30, (86_400, 30))];

/// True for the windows that are rolled up here.
pub(super) fn is_rolled_up(window: Window) -> bool {
    tier_of(window).is_some()
}

/// The place of a window in [`TIER`].
pub(super) fn tier_of(window: Window) -> Option<usize> {
    TIER.iter().position(|(rolled, _)| *rolled == window)
}

/// The first bucket of a window that ends now.
pub(super) fn oldest(now: Timestamp, (seconds, count): (i64, i64)) -> i64 {
    now.as_second().div_euclid(seconds).saturating_sub(count.saturating_sub(1))
}

/// True where a window that ends now has the bucket of this moment.
pub(super) fn is_reached(at: Timestamp, now: Timestamp) -> bool {
    TIER.iter().any(|(_, bucket)| at.as_second().div_euclid(bucket.0) >= oldest(now, *bucket))
}

/// The buckets of one metric in one window.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// All before `newest`.
    older: Arc<Older>,
    newest: Option<(i64, Bucket)>,
}

#[derive(Clone, Debug, Default)]
struct Older {
    buckets: BTreeMap<i64, Arc<Bucket>>,
    /// Of all these buckets: quotes ask for it, and adding up a week of them takes microseconds.
    observed: Bins,
    /// Held GPU-time in all these buckets, µs.
    held_us: u128,
}

/// What was held and observed in a span of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Held GPU-time, µs.
    pub(super) held_us: u64,
    pub(super) observed: Bins,
}

/// Observed GPU-time by per cent, of the bins that have any: a third of what whole arrays would take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bins {
    /// Bit `n` is set where bin `n` has a value.
    used: u128,
    /// ms, in the order of the bins. No bin comes near to 2⁶⁴, as a difference is under 2³².
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
    fn add(&mut self, held_us: u128, observed: &Bins) {
        self.held_us = u64::try_from(u128::from(self.held_us).saturating_add(held_us)).unwrap_or(u64::MAX);
        for (bin, ms) in observed.used() {
            if let Some(sum) = self.ms.get_mut(bin) {
                *sum = sum.saturating_add(ms);
            }
        }
    }
}

impl Series {
    /// Of buckets in the order of time.
    pub(super) fn of(buckets: impl IntoIterator<Item = (i64, Bucket)>) -> Self {
        let mut series = Self::default();
        for newest in buckets {
            series.begin(newest);
        }
        series
    }

    pub(super) fn add(&mut self, slot: i64, difference: &MetricDifference) {
        match &mut self.newest {
            Some((newest, _)) if *newest > slot => Arc::make_mut(&mut self.older).add(slot, difference),
            Some((newest, bucket)) if *newest == slot => bucket.add(difference),
            Some(_) | None => {
                let mut bucket = Bucket::default();
                bucket.add(difference);
                self.begin((slot, bucket));
            }
        }
    }

    /// A bucket after all the others.
    fn begin(&mut self, newest: (i64, Bucket)) {
        if let Some((slot, bucket)) = self.newest.replace(newest) {
            Arc::make_mut(&mut self.older).take_in(slot, bucket);
        }
    }

    /// Drops what lies before a bucket.
    pub(super) fn forget(&mut self, first: i64) {
        if self.older.first().is_some_and(|slot| slot < first) {
            Arc::make_mut(&mut self.older).forget(first);
        }
        self.newest.take_if(|(slot, _)| *slot < first);
    }

    /// True where there is something before a bucket.
    pub(super) fn reaches_before(&self, first: i64) -> bool {
        let slot = self.older.first().or_else(|| Some(self.newest.as_ref()?.0));
        slot.is_some_and(|slot| slot < first)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.older.buckets.is_empty() && self.newest.is_none()
    }

    /// Adds the buckets from the first on to a sum.
    pub(super) fn add_to(&self, sum: &mut Merged, first: i64) {
        if self.older.first().is_none_or(|slot| slot >= first) {
            sum.add(self.older.held_us, &self.older.observed);
            self.newest.iter().filter(|(slot, _)| *slot >= first).for_each(|(_, bucket)| bucket.add_to(sum));
        } else {
            self.buckets(first).for_each(|(_, bucket)| bucket.add_to(sum));
        }
    }

    /// From the first on, in the order of time.
    pub(super) fn buckets(&self, first: i64) -> impl Iterator<Item = (i64, &Bucket)> {
        let older = self.older.buckets.range(first..).map(|(slot, bucket)| (*slot, &**bucket));
        older.chain(self.newest.iter().filter(move |(slot, _)| *slot >= first).map(|(slot, bucket)| (*slot, bucket)))
    }

    /// What it takes in memory beside itself, roughly: nodes of maps are counted as full.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let bins = |bins: &Bins| bins.ms.capacity() * 8;
        let older = self.older.buckets.values();
        let older = older.map(|bucket| (size_of::<Bucket>() + 16) + bins(&bucket.observed) + 2 * 16).sum::<usize>();
        let newest = self.newest.iter().map(|(_, bucket)| bins(&bucket.observed)).sum::<usize>();
        size_of::<Self>() + size_of::<Older>() + bins(&self.older.observed) + older + newest
    }
}

impl Older {
    fn first(&self) -> Option<i64> {
        self.buckets.first_key_value().map(|(slot, _)| *slot)
    }

    fn take_in(&mut self, slot: i64, bucket: Bucket) {
        self.held_us = self.held_us.saturating_add(u128::from(bucket.held_us));
        for (bin, ms) in bucket.observed.used() {
            self.observed.add(bin, ms);
        }
        self.buckets.insert(slot, Arc::new(bucket));
    }

    /// Late: into a bucket that others follow.
    fn add(&mut self, slot: i64, difference: &MetricDifference) {
        let bucket = self.buckets.remove(&slot);
        let mut bucket = bucket.map(|bucket| {
            self.leave(&bucket);
            Arc::unwrap_or_clone(bucket)
        });
        bucket.get_or_insert_default().add(difference);
        self.take_in(slot, bucket.unwrap_or_default());
    }

    fn forget(&mut self, first: i64) {
        let kept = self.buckets.split_off(&first);
        for bucket in std::mem::replace(&mut self.buckets, kept).values() {
            self.leave(bucket);
        }
    }

    fn leave(&mut self, bucket: &Bucket) {
        self.held_us = self.held_us.saturating_sub(u128::from(bucket.held_us));
        self.observed.subtract(&bucket.observed);
    }
}

impl Bucket {
    pub(super) fn add_to(&self, sum: &mut Merged) {
        sum.add(u128::from(self.held_us), &self.observed);
    }

    fn add(&mut self, difference: &MetricDifference) {
        self.held_us = self.held_us.saturating_add(difference.held_us);
        for (bin, added) in difference.observed.iter().flatten().enumerate().filter(|(_, added)| **added > 0) {
            self.observed.add(bin, u64::from(*added));
        }
    }
}

impl Bins {
    /// `None` for what cannot be bins: of other ones, or without a value.
    pub(super) fn of(used: u128, ms: Vec<u64>) -> Option<Self> {
        let are_bins = used >> BINS == 0 && used.count_ones() as usize == ms.len() && !ms.contains(&0);
        are_bins.then_some(Self { used, ms })
    }

    /// As [`Self::of`] takes them.
    pub(super) fn parts(&self) -> (u128, &[u64]) {
        (self.used, &self.ms)
    }

    fn add(&mut self, bin: usize, ms: u64) {
        let (bit, place) = self.place(bin);
        if self.used & bit == 0 {
            // Exactly: there are many of these, and each gets few bins.
            self.ms.reserve_exact(1);
            self.ms.insert(place, 0);
            self.used |= bit;
        }
        if let Some(sum) = self.ms.get_mut(place) {
            *sum = sum.saturating_add(ms);
        }
    }

    fn subtract(&mut self, other: &Self) {
        for (bin, ms) in other.used() {
            let (bit, place) = self.place(bin);
            let Some(sum) = self.ms.get_mut(place).filter(|_| self.used & bit != 0) else { continue };
            *sum = sum.saturating_sub(ms);
            if *sum == 0 {
                self.ms.remove(place);
                self.used &= !bit;
            }
        }
    }

    fn place(&self, bin: usize) -> (u128, usize) {
        let bit = 1_u128 << bin;
        (bit, (self.used & (bit - 1)).count_ones() as usize)
    }

    /// Bins that have a value, with it.
    pub(super) fn used(&self) -> impl Iterator<Item = (usize, u64)> {
        let mut used = self.used;
        self.ms.iter().map(move |ms| {
            let bin = used.trailing_zeros() as usize;
            used &= used.wrapping_sub(1);
            (bin, *ms)
        })
    }
}
