//! Roll-ups: the long windows of one tenant's GPUs of one model, made of the histograms that its snapshots bring; of all of
//! them, and of each kind of its jobs.
//!
//! A difference between two snapshots goes into the bucket in which the later one was observed: hours for 24 h, six hours
//! for 7 d, days for 30 d, all in UTC. A window is the bucket of now and those before it: at least all but one bucket of it,
//! and of what was held before it only what was not heard of until in it. Sums are of whole numbers: in whatever order differences come, and
//! whichever replica adds them, the buckets are the same.

use std::sync::Arc;

use farebox_pricing::usage::Window;
use jiff::Timestamp;
use rpds::RedBlackTreeMapSync;

use super::difference::{Difference, MetricDifference};
use super::series::{Bucket, Merged, Series, TIER, TIERS, oldest, tier_of};
use crate::snapshot::{HISTOGRAMS, Snapshot};

/// Most kinds of jobs of a tenant and model: a name that tells each run apart must not take all the room.
pub(super) const MOST_KINDS: usize = 16;

/// What is rolled up of one tenant and model.
#[derive(Clone, Debug, Default)]
pub(super) struct RollUp {
    total: Windows,
    kinds: RedBlackTreeMapSync<Arc<str>, Kind>,
}

#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// When the latest of what is in it was observed: as the order of arrival, but the same in every replica.
    pub(super) fed_at: Timestamp,
    pub(super) windows: Windows,
}

/// The long windows of some holdings, by metric in the order of [`HISTOGRAMS`].
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    metrics: [Option<Arc<Tiers>>; HISTOGRAMS.len()],
}

pub(super) type Tiers = [Series; TIERS];

/// What a snapshot brings to the windows.
#[derive(Debug)]
pub(super) struct Additions<'a>(Vec<Addition<'a>>);

#[derive(Debug)]
struct Addition<'a> {
    metric: usize,
    tier: usize,
    slot: i64,
    difference: &'a MetricDifference,
}

impl<'a> Additions<'a> {
    /// Into the buckets in which it was observed. What is older than a window is not part of it, and what a snapshot brings
    /// of a window itself is not counted twice.
    pub(super) fn of(difference: &'a Difference, snapshot: &Snapshot, now: Timestamp) -> Self {
        let of_metric = |difference: &'a MetricDifference| {
            let metric = HISTOGRAMS.iter().position(|metric| metric.name() == difference.metric);
            let tiers = TIER.into_iter().enumerate();
            tiers.filter_map(move |(tier, (window, bucket))| {
                let slot = snapshot.observed_at.as_second().div_euclid(bucket.0);
                let is_taken = slot >= oldest(now, bucket) && snapshot.metric(window, difference.metric).is_none();
                Some(Addition { metric: metric.filter(|_| is_taken)?, tier, slot, difference })
            })
        };
        Self(difference.metrics.iter().flat_map(of_metric).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl RollUp {
    /// Of all of the tenant's GPUs of the model.
    pub(super) fn total(&self) -> &Windows {
        &self.total
    }

    /// Of one kind of its jobs.
    pub(super) fn kind(&self, name: &str) -> Option<&Windows> {
        self.kinds.get(name).map(|kind| &kind.windows)
    }

    /// All kinds of its jobs, by name.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (&Arc<str>, &Kind)> {
        self.kinds.iter()
    }

    pub(super) fn kind_count(&self) -> usize {
        self.kinds.size()
    }

    /// The kind that was observed longest ago.
    pub(super) fn longest_unfed(&self) -> Option<(Timestamp, &Arc<str>)> {
        self.kinds.iter().map(|(name, kind)| (kind.fed_at, name)).min()
    }

    pub(super) fn add(&mut self, additions: &Additions<'_>, now: Timestamp) {
        self.total.forget(now);
        self.total.add(additions);
    }

    /// To a kind, which is made where there is none.
    pub(super) fn add_to_kind(
        &mut self,
        name: &str,
        additions: &Additions<'_>,
        (observed_at, now): (Timestamp, Timestamp),
    ) {
        let known = self.kinds.get_key_value(name);
        let (name, mut kind) = match known {
            Some((name, kind)) => (Arc::clone(name), kind.clone()),
            None => (Arc::from(name), Kind { fed_at: observed_at, windows: Windows::default() }),
        };
        kind.fed_at = kind.fed_at.max(observed_at);
        kind.windows.forget(now);
        kind.windows.add(additions);
        self.kinds.insert_mut(name, kind);
    }

    pub(super) fn put(&mut self, total: Windows) {
        self.total = total;
    }

    pub(super) fn put_kind(&mut self, name: Arc<str>, kind: Kind) {
        self.kinds.insert_mut(name, kind);
    }

    pub(super) fn remove_kind(&mut self, name: &str) -> bool {
        self.kinds.remove_mut(name)
    }

    /// True where [`forget`](Self::forget) would change something.
    pub(super) fn has_past(&self, now: Timestamp) -> bool {
        self.total.has_past(now) || self.kinds.values().any(|kind| kind.windows.has_past(now))
    }

    /// Drops what no window reaches any more; returns how many kinds.
    pub(super) fn forget(&mut self, now: Timestamp) -> usize {
        let before = self.kinds.size();
        self.total.forget(now);
        let past: Vec<_> = self
            .kinds
            .iter()
            .filter(|(_, kind)| kind.windows.has_past(now))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in past {
            let is_empty = self.kinds.get_mut(&name).is_none_or(|kind| {
                kind.windows.forget(now);
                kind.windows.is_empty()
            });
            if is_empty {
                self.kinds.remove_mut(&name);
            }
        }
        before.saturating_sub(self.kinds.size())
    }

    /// True where a window that ends now has some of it.
    pub(super) fn reaches(&self, now: Timestamp) -> bool {
        let mut left = self.clone();
        left.forget(now);
        !left.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total.is_empty() && self.kinds.is_empty()
    }
}

impl Windows {
    /// In the order of [`HISTOGRAMS`].
    pub(super) fn of(metrics: [Option<Arc<Tiers>>; HISTOGRAMS.len()]) -> Self {
        Self { metrics }
    }

    /// Adds a window that ends now to a sum.
    pub(super) fn add_to(&self, sum: &mut Merged, metric: &str, window: Window, now: Timestamp) {
        if let Some((series, first)) = self.series(metric, window, now) {
            series.add_to(sum, first);
        }
    }

    /// The buckets of a window that ends now, each with its beginning, in the order of time. One in which nothing was held is
    /// not there.
    pub(super) fn buckets(
        &self,
        metric: &str,
        window: Window,
        now: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, &Bucket)> {
        let seconds = tier_of(window).and_then(|tier| TIER.get(tier)).map_or(0, |(_, (seconds, _))| *seconds);
        let buckets = self.series(metric, window, now).into_iter().flat_map(|(series, first)| series.buckets(first));
        buckets
            .filter_map(move |(slot, bucket)| Some((Timestamp::from_second(slot.checked_mul(seconds)?).ok()?, bucket)))
    }

    /// All that it holds, as of now.
    pub(super) fn windows(&self, now: Timestamp) -> impl Iterator<Item = (Window, &'static str, Merged)> {
        let metrics = HISTOGRAMS.into_iter().zip(&self.metrics).filter(|(_, tiers)| tiers.is_some());
        metrics.flat_map(move |(metric, _)| {
            TIER.into_iter().map(move |(window, _)| {
                let mut sum = Merged::default();
                self.add_to(&mut sum, metric.name(), window, now);
                (window, metric.name(), sum)
            })
        })
    }

    fn series(&self, metric: &str, window: Window, now: Timestamp) -> Option<(&Series, i64)> {
        let place = HISTOGRAMS.iter().position(|named| named.name() == metric)?;
        let tier = tier_of(window)?;
        let series = self.metrics.get(place)?.as_ref()?.get(tier)?;
        Some((series, oldest(now, TIER.get(tier)?.1)))
    }

    /// By metric, in the order of [`HISTOGRAMS`].
    pub(super) fn metrics(&self) -> impl Iterator<Item = (usize, &Tiers)> {
        self.metrics.iter().enumerate().filter_map(|(place, tiers)| Some((place, tiers.as_deref()?)))
    }

    fn add(&mut self, additions: &Additions<'_>) {
        for addition in &additions.0 {
            let tiers = self.metrics.get_mut(addition.metric).map(Option::get_or_insert_default);
            let series = tiers.and_then(|tiers| Arc::make_mut(tiers).get_mut(addition.tier));
            series.into_iter().for_each(|series| series.add(addition.slot, addition.difference));
        }
    }

    fn has_past(&self, now: Timestamp) -> bool {
        let mut series = self.metrics.iter().flatten().flat_map(|tiers| tiers.iter().zip(TIER));
        series.any(|(series, (_, bucket))| series.reaches_before(oldest(now, bucket)))
    }

    fn forget(&mut self, now: Timestamp) {
        if !self.has_past(now) {
            return;
        }
        for metric in &mut self.metrics {
            let Some(tiers) = metric else { continue };
            let of_metric = Arc::make_mut(tiers);
            for (series, (_, bucket)) in of_metric.iter_mut().zip(TIER) {
                series.forget(oldest(now, bucket));
            }
            if of_metric.iter().all(Series::is_empty) {
                *metric = None;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.metrics.iter().all(Option::is_none)
    }

    /// What it takes in memory beside itself, roughly.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.metrics.iter().flatten().flat_map(|tiers| tiers.iter()).map(Series::bytes).sum::<usize>()
    }
}
