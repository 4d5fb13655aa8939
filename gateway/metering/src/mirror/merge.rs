//! Merges the snapshots of several nodes into one observation.
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
use rust_decimal::{Decimal, RoundingStrategy};

use super::{Held, UsageQuery};
use crate::snapshot::MetricWindow;

/// Decimals of a merged value.
const SCALE: u32 = 12;
/// 1 in units of 10⁻¹².
const ONE: u128 = 1_000_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    Mean,
    P50,
    P95,
    Min,
    Max,
}

impl Statistic {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "mean" => Some(Self::Mean),
            "p50" => Some(Self::P50),
            "p95" => Some(Self::P95),
            "min" => Some(Self::Min),
            "max" => Some(Self::Max),
            _ => None,
        }
    }

    fn of(self, metric: &MetricWindow) -> Option<Decimal> {
        match self {
            Self::Mean => metric.mean,
            Self::P50 => metric.p50,
            Self::P95 => metric.p95,
            Self::Min => metric.min,
            Self::Max => metric.max,
        }
    }
}

/// What one snapshot brings to a statistic.
struct Contribution {
    value: Decimal,
    /// Observed GPU-time, µs × 10¹².
    observed: u128,
}

/// Merges what the scope holds; `None` where it holds nothing.
pub(super) fn merge(scope: UsageScope, mut held: Vec<Arc<Held>>, query: &UsageQuery<'_>) -> Option<Observation> {
    let is_fresh = |held: &Arc<Held>| held.age_ms(query.now) <= query.hard_stale_ms;
    if held.iter().any(is_fresh) {
        held.retain(is_fresh);
    }
    let reasons: BTreeSet<&String> = held.iter().flat_map(|held| &held.snapshot.reasons).collect();
    Some(Observation {
        scope,
        observed_at_ms: held.iter().map(|held| held.snapshot.observed_at.as_millisecond()).min()?,
        age_ms: held.iter().map(|held| held.age_ms(query.now)).max()?,
        healthy: held.iter().all(|held| held.snapshot.healthy),
        reasons: reasons.into_iter().cloned().collect(),
        job_held_s: longest_job_s(&held),
        mig_without_metric: held.iter().any(|held| held.snapshot.mig && query.keys.iter().any(|key| lacks(held, key))),
        stats: query.keys.iter().filter_map(|key| merge_stat(&held, key)).collect(),
    })
}

/// Wall time for which the longest contributing job has held its GPUs; unknown where a contribution has no job.
fn longest_job_s(held: &[Arc<Held>]) -> Option<u64> {
    let seconds = held.iter().map(|held| {
        held.snapshot.job.as_ref()?;
        let wall_us = u128::from(held.snapshot.counters.held_us) * ONE / scaled(held.snapshot.device_shares).max(1);
        Some(u64::try_from(wall_us / 1_000_000).unwrap_or(u64::MAX))
    });
    seconds.collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn lacks(held: &Held, key: &StatKey) -> bool {
    let metric = held.snapshot.metric(key.window, &key.metric);
    let value = Statistic::parse(&key.statistic).zip(metric).and_then(|(statistic, metric)| statistic.of(metric));
    value.is_none()
}

/// Merges one statistic; `None` where no snapshot brings it, or where it cannot be merged from those that do.
///
/// A snapshot that does not bring it still held its GPUs: its held time counts, as not observed (SPEC §2, coverage).
fn merge_stat(held: &[Arc<Held>], key: &StatKey) -> Option<ObservedStat> {
    let statistic = Statistic::parse(&key.statistic)?;
    let mut contributions = Vec::with_capacity(held.len());
    let mut quality = StatQuality::Ok;
    let mut held_us: u64 = 0;
    for held in held {
        let snapshot = &held.snapshot;
        let own_held_us = snapshot.held_us(key.window, &key.metric);
        held_us = held_us.saturating_add(own_held_us);
        let Some(metric) = snapshot.metric(key.window, &key.metric) else { continue };
        if metric.quality == StatQuality::SuspectZero {
            quality = StatQuality::SuspectZero;
        }
        if let Some(value) = statistic.of(metric) {
            let observed = u128::from(own_held_us) * scaled(metric.coverage.unwrap_or_default());
            contributions.push(Contribution { value, observed });
        }
    }
    let coverage = match held {
        [only] => only.snapshot.metric(key.window, &key.metric)?.coverage.unwrap_or_default(),
        _ => merged_coverage(&contributions, held_us)?,
    };
    let stat = Stat {
        metric: key.metric.clone(),
        statistic: key.statistic.clone(),
        window_s: key.window.seconds(),
        value: merged_value(statistic, &contributions)?.normalize(),
        coverage: coverage.normalize(),
    };
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
        // Percentiles merge only from histograms of the same window, which snapshots do not bring; never averaged.
        Statistic::P50 | Statistic::P95 => None,
    }
}

/// Σ value × observed ÷ Σ observed, rounded half-even to 12 decimals; `None` where nothing was observed.
fn weighted_mean(contributions: &[Contribution]) -> Option<Decimal> {
    let observed: U256 = contributions.iter().map(|part| U256::from(part.observed)).sum();
    if observed == U256::ZERO {
        return None;
    }
    let weighted: U256 =
        contributions.iter().map(|part| U256::from(scaled(part.value)) * U256::from(part.observed)).sum();
    let (quotient, remainder) = (weighted / observed, weighted % observed);
    let rounds_up = match (remainder * U256::new(2)).cmp(&observed) {
        Ordering::Less => false,
        Ordering::Equal => quotient % U256::new(2) == U256::ONE,
        Ordering::Greater => true,
    };
    unscaled(quotient.as_u128() + u128::from(rounds_up))
}

/// Σ observed ÷ Σ held, cut to 12 decimals, so that what is just under a threshold is never lifted to it.
fn merged_coverage(contributions: &[Contribution], held_us: u64) -> Option<Decimal> {
    let observed: u128 = contributions.iter().map(|part| part.observed).sum();
    unscaled(observed.checked_div(u128::from(held_us)).unwrap_or(0).min(ONE))
}

/// In units of 10⁻¹², rounded half-even. Under 10²⁷ for what a snapshot may hold.
fn scaled(value: Decimal) -> u128 {
    let rounded = value.round_dp_with_strategy(SCALE, RoundingStrategy::MidpointNearestEven);
    let up = SCALE.saturating_sub(rounded.scale());
    rounded.mantissa().unsigned_abs() * 10_u128.pow(up)
}

fn unscaled(units: u128) -> Option<Decimal> {
    Decimal::try_from_i128_with_scale(i128::try_from(units).ok()?, SCALE).ok()
}
