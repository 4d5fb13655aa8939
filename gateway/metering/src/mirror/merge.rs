//! Merges the snapshots of several nodes, and their roll-ups, into one observation.
//!
//! All arithmetic is on integers and exact up to one rounding at the end, so that every replica comes to the same
//! digits whatever the order of arrival. Bounds: values are under 10¹⁵ and held times at most 10¹⁸ µs, both by
//! `snapshot`'s invariant; with 12 decimals a weighted value stays under 10^(27+18+12) = 10⁵⁷, and a sum of 10¹² of
//! them under 2²⁵⁶.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use ethnum::U256;
use farebox_pricing::policy::Stat;
use farebox_pricing::usage::{Observation, ObservedStat, StatKey, StatQuality, UsageScope};
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::UsageQuery;
use super::series::Merged;
use super::tenant::Held;
use crate::snapshot::{MetricWindow, ONE, SCALE, scaled};

/// What a scope holds, copied out of the mirror.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) scope: UsageScope,
    pub(super) held: Vec<Arc<Held>>,
    /// For each key: what is rolled up of it, where the window is one that is.
    pub(super) rolled: Vec<Option<Merged>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    Mean,
    P25,
    P50,
    P75,
    P95,
    Min,
    Max,
}

impl Statistic {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "mean" => Some(Self::Mean),
            "p25" => Some(Self::P25),
            "p50" => Some(Self::P50),
            "p75" => Some(Self::P75),
            "p95" => Some(Self::P95),
            "min" => Some(Self::Min),
            "max" => Some(Self::Max),
            _ => None,
        }
    }

    fn of(self, metric: &MetricWindow) -> Option<Decimal> {
        match self {
            Self::Mean => metric.mean,
            // Of histograms only.
            Self::P25 | Self::P75 => None,
            Self::P50 => metric.p50,
            Self::P95 => metric.p95,
            Self::Min => metric.min,
            Self::Max => metric.max,
        }
    }
}

/// What one snapshot, or the roll-up, brings to a statistic.
struct Contribution {
    value: Decimal,
    /// Value × observed GPU-time, 10⁻¹² × µs × 10¹².
    weighted: U256,
    /// Observed GPU-time, µs × 10¹².
    observed: u128,
}

/// Leaves out what is hard-stale, where there is something that is not.
pub(super) fn freshest(mut held: Vec<Arc<Held>>, hard_stale_ms: u64, now: Timestamp) -> Vec<Arc<Held>> {
    let is_fresh = |held: &Arc<Held>| held.age_ms(now) <= hard_stale_ms;
    if held.iter().any(is_fresh) {
        held.retain(is_fresh);
    }
    held
}

/// Merges what the scope holds; `None` where it holds nothing.
pub(super) fn merge(seen: Seen, query: &UsageQuery<'_>) -> Option<Observation> {
    let Seen { scope, held, rolled } = seen;
    let reasons: BTreeSet<&String> = held.iter().flat_map(|held| &held.snapshot.reasons).collect();
    Some(Observation {
        scope,
        observed_at_ms: held.iter().map(|held| held.snapshot.observed_at.as_millisecond()).min()?,
        age_ms: held.iter().map(|held| held.age_ms(query.now)).max()?,
        healthy: held.iter().all(|held| held.snapshot.healthy),
        reasons: reasons.into_iter().cloned().collect(),
        job_held_s: longest_job_s(&held),
        mig_without_metric: held
            .iter()
            .filter(|held| held.snapshot.mig)
            .any(|held| query.keys.iter().zip(&rolled).any(|(key, rolled)| lacks(held, key, rolled.is_some()))),
        stats: query.keys.iter().zip(&rolled).filter_map(|(key, rolled)| stat(&held, key, rolled.as_ref())).collect(),
    })
}

/// Wall time for which the longest contributing job has held its GPUs; unknown where a contribution has no job.
fn longest_job_s(held: &[Arc<Held>]) -> Option<u64> {
    let seconds = held.iter().map(|held| {
        held.snapshot.job.as_ref()?;
        Some(u64::try_from(held.snapshot.held_wall_us() / 1_000_000).unwrap_or(u64::MAX))
    });
    seconds.collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn lacks(held: &Held, key: &StatKey, is_rolled_up: bool) -> bool {
    if is_rolled_up && held.snapshot.histograms.contains_key(&key.metric) {
        return false;
    }
    let metric = held.snapshot.metric(key.window, &key.metric);
    let value = Statistic::parse(&key.statistic).zip(metric).and_then(|(statistic, metric)| statistic.of(metric));
    value.is_none()
}

/// Merges one statistic; `None` where nothing brings it, or where it cannot be merged from what does.
///
/// What is rolled up is one contribution beside the snapshots that bring the window themselves. A snapshot that does not
/// bring it still held its GPUs: its held time counts, as not observed (SPEC §2, coverage), once: in the roll-up where it has a
/// histogram of the metric. Where no snapshot brings the window, those without a histogram are no part of it.
pub(super) fn stat(held: &[Arc<Held>], key: &StatKey, rolled: Option<&Merged>) -> Option<ObservedStat> {
    let statistic = Statistic::parse(&key.statistic)?;
    let mut contributions = Vec::with_capacity(held.len().saturating_add(1));
    let mut held_us: u64 = 0;
    let mut is_suspect = false;
    let is_brought = held.iter().any(|held| held.snapshot.metric(key.window, &key.metric).is_some());
    for snapshot in held.iter().map(|held| &held.snapshot) {
        let own_held_us = snapshot.held_us(key.window, &key.metric);
        let Some(metric) = snapshot.metric(key.window, &key.metric) else {
            // What is suspect now casts doubt on all that is rolled up of it.
            is_suspect |= rolled.is_some() && snapshot.is_suspect(&key.metric);
            let is_rolled_up = rolled.is_some() && (!is_brought || snapshot.histograms.contains_key(&key.metric));
            held_us = held_us.saturating_add(if is_rolled_up { 0 } else { own_held_us });
            continue;
        };
        held_us = held_us.saturating_add(own_held_us);
        is_suspect |= metric.quality == StatQuality::SuspectZero;
        if let Some(value) = statistic.of(metric) {
            let observed = u128::from(own_held_us) * scaled(metric.coverage.unwrap_or_default());
            contributions.push(Contribution { value, weighted: weighted(scaled(value), observed), observed });
        }
    }
    let rolled = rolled.filter(|rolled| rolled.held_us > 0);
    if let Some(rolled) = rolled {
        held_us = held_us.saturating_add(rolled.held_us);
        contributions.extend(rolled.contribution(statistic));
    }
    let coverage = match held {
        [only] if rolled.is_none() => only.snapshot.metric(key.window, &key.metric)?.coverage.unwrap_or_default(),
        _ => merged_coverage(&contributions, held_us)?,
    };
    let stat = Stat {
        metric: key.metric.clone(),
        statistic: key.statistic.clone(),
        window_s: key.window.seconds(),
        value: merged_value(statistic, &contributions)?.normalize(),
        coverage: coverage.normalize(),
    };
    let quality = if is_suspect { StatQuality::SuspectZero } else { StatQuality::Ok };
    Some(ObservedStat { stat, held_us, quality })
}

fn merged_value(statistic: Statistic, contributions: &[Contribution]) -> Option<Decimal> {
    if let [only] = contributions {
        return Some(only.value);
    }
    let values = contributions.iter().map(|contribution| contribution.value);
    match statistic {
        Statistic::Mean => weighted_mean(contributions),
        Statistic::Min => values.min(),
        Statistic::Max => values.max(),
        // Percentiles merge only from histograms, which short windows do not have; never averaged.
        Statistic::P25 | Statistic::P50 | Statistic::P75 | Statistic::P95 => None,
    }
}

fn weighted(scaled: u128, observed: u128) -> U256 {
    U256::from(scaled) * U256::from(observed)
}

/// Σ value × observed ÷ Σ observed, rounded half-even to 12 decimals; `None` where nothing was observed.
fn weighted_mean(contributions: &[Contribution]) -> Option<Decimal> {
    let observed: U256 = contributions.iter().map(|part| U256::from(part.observed)).sum();
    if observed == U256::ZERO {
        return None;
    }
    divided(contributions.iter().map(|part| part.weighted).sum(), observed)
}

/// Rounded half-even to a whole number of 10⁻¹².
fn divided(dividend: U256, divisor: U256) -> Option<Decimal> {
    let (quotient, remainder) = (dividend / divisor, dividend % divisor);
    let rounds_up = match (remainder * U256::new(2)).cmp(&divisor) {
        Ordering::Less => false,
        Ordering::Equal => quotient % U256::new(2) == U256::ONE,
        Ordering::Greater => true,
    };
    unscaled(quotient.as_u128() + u128::from(rounds_up))
}

impl Merged {
    /// `None` where nothing was observed. A bin stands for its per cent.
    fn contribution(&self, statistic: Statistic) -> Option<Contribution> {
        let used = || self.ms.iter().zip(0_u32..).filter(|(ms, _)| **ms > 0);
        // At most 2⁶⁴ × 101 × 10¹⁵.
        let observed = self.observed_ms() * 1_000 * ONE;
        let per_cent: u128 = used().map(|(ms, percent)| u128::from(*ms) * u128::from(percent)).sum();
        let weighted = weighted(per_cent * 1_000, ONE * (ONE / 100));
        let percent = |percent| Decimal::from_parts(percent, 0, 0, false, 2);
        let value = match statistic {
            Statistic::Mean => divided(weighted, U256::new(observed.max(1)))?,
            Statistic::P25 => percent(self.percentile(25)?),
            Statistic::P50 => percent(self.percentile(50)?),
            Statistic::P75 => percent(self.percentile(75)?),
            Statistic::P95 => percent(self.percentile(95)?),
            Statistic::Min => percent(used().next()?.1),
            Statistic::Max => percent(used().last()?.1),
        };
        (observed > 0).then_some(Contribution { value, weighted, observed })
    }

    /// By nearest rank: the least per cent that this share of the observed time does not exceed.
    pub(super) fn percentile(&self, share: u128) -> Option<u32> {
        let rank = (self.observed_ms() * share).div_ceil(100).max(1);
        let mut counted = 0;
        let reached = self.ms.iter().zip(0_u32..).find(|(ms, _)| {
            counted += u128::from(**ms);
            counted >= rank
        });
        reached.map(|(_, percent)| percent)
    }

    fn observed_ms(&self) -> u128 {
        self.ms.iter().copied().map(u128::from).sum()
    }
}

/// Σ observed ÷ Σ held, cut to 12 decimals, so that what is just under a threshold is never lifted to it.
fn merged_coverage(contributions: &[Contribution], held_us: u64) -> Option<Decimal> {
    let observed: u128 = contributions.iter().map(|part| part.observed).sum();
    unscaled(observed.checked_div(u128::from(held_us)).unwrap_or(0).min(ONE))
}

fn unscaled(units: u128) -> Option<Decimal> {
    Decimal::try_from_i128_with_scale(i128::try_from(units).ok()?, SCALE).ok()
}
