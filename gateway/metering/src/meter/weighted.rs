//! Multisets of quantised values weighed by the time they held: what percentiles, minimum and maximum come from.

use std::collections::BTreeMap;

use rust_decimal::Decimal;

use crate::tick::{Metric, Unit};

/// Values of a metric's quantum to their weight. Values are told at that resolution: 1 % for shares, 1 MiB, 1 W, 1 MHz.
///
/// Weights are µs × millionths of a device: at most 128 devices × 900 s × 10⁶, far below 2⁶⁴.
#[derive(Debug, Default)]
pub(super) struct Weighted {
    weights: BTreeMap<u32, u64>,
    total: u64,
}

impl Weighted {
    pub(super) fn add(&mut self, value: u32, weight: u64) {
        if weight > 0 {
            *self.weights.entry(value).or_default() += weight;
            self.total += weight;
        }
    }

    /// Takes away what was added before.
    pub(super) fn remove(&mut self, value: u32, weight: u64) {
        let Some(held) = self.weights.get_mut(&value) else { return };
        let taken = weight.min(*held);
        *held -= taken;
        self.total -= taken;
        if *held == 0 {
            self.weights.remove(&value);
        }
    }

    pub(super) fn min(&self) -> Option<u32> {
        Some(*self.weights.first_key_value()?.0)
    }

    pub(super) fn max(&self) -> Option<u32> {
        Some(*self.weights.last_key_value()?.0)
    }

    /// Nearest rank by weight: the smallest value at or below which at least this part of the time lies.
    pub(super) fn percentile(&self, percent: u32) -> Option<u32> {
        let rank = u128::from(self.total) * u128::from(percent);
        let mut below: u128 = 0;
        for (value, weight) in &self.weights {
            below += u128::from(*weight);
            if below * 100 >= rank {
                return Some(*value);
            }
        }
        None
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.weights.len()
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> u128 {
        u128::from(self.total)
    }
}

/// A reading in its metric's quanta, rounded half up.
pub(super) fn quantised(metric: Metric, value: u64) -> u32 {
    let quanta = match metric.unit() {
        Unit::Millionths => (value.saturating_add(5_000) / 10_000).min(100),
        Unit::Bytes => value.saturating_add(1 << 19) >> 20,
        Unit::Milliwatts => value.saturating_add(500) / 1_000,
        Unit::Megahertz => value,
    };
    u32::try_from(quanta).unwrap_or(u32::MAX)
}

/// Quanta in the unit that snapshots have: shares of 1, bytes, watts, megahertz.
pub(super) fn shown(metric: Metric, quanta: u32) -> Decimal {
    match metric.unit() {
        Unit::Millionths => Decimal::new(i64::from(quanta), 2).normalize(),
        Unit::Bytes => Decimal::from(u64::from(quanta) << 20),
        Unit::Milliwatts | Unit::Megahertz => Decimal::from(quanta),
    }
}

/// Σ value × weight ÷ Σ weight in the unit that snapshots have, cut to 6 decimals, so that what is just under a threshold is
/// never lifted to it. `None` where nothing was observed.
pub(super) fn mean(metric: Metric, sum: u128, weight: u128) -> Option<Decimal> {
    let up = match metric.unit() {
        Unit::Millionths => 1,
        Unit::Milliwatts => 1_000,
        Unit::Bytes | Unit::Megahertz => 1_000_000,
    };
    millionths(sum.checked_mul(up)?.checked_div(weight)?)
}

/// Part ÷ whole, at most 1, cut to 6 decimals.
pub(super) fn ratio(part: u128, whole: u128) -> Option<Decimal> {
    millionths(part.checked_mul(1_000_000)?.checked_div(whole)?.min(1_000_000))
}

pub(super) fn millionths(value: u128) -> Option<Decimal> {
    Some(Decimal::try_from_i128_with_scale(i128::try_from(value).ok()?, 6).ok()?.normalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entries: &[(u32, u64)]) -> Weighted {
        let mut set = Weighted::default();
        entries.iter().for_each(|(value, weight)| set.add(*value, *weight));
        set
    }

    #[test]
    fn percentiles_are_nearest_ranks_by_covered_time() {
        let set = of(&[(10, 50), (20, 45), (90, 5)]);
        assert_eq!(set.percentile(50), Some(10), "exactly half of the time is at or below 10");
        assert_eq!(set.percentile(51), Some(20));
        assert_eq!(set.percentile(95), Some(20));
        assert_eq!(set.percentile(96), Some(90));
        assert_eq!((set.min(), set.max()), (Some(10), Some(90)));
        assert_eq!(Weighted::default().percentile(50), None);
    }

    #[test]
    fn what_leaves_is_gone_with_its_key() {
        let mut set = of(&[(10, 50), (20, 45)]);
        set.remove(10, 20);
        assert_eq!((set.min(), set.total), (Some(10), 75));
        set.remove(10, 30);
        assert_eq!((set.min(), set.entries()), (Some(20), 1));
    }

    #[test]
    fn quanta_round_half_up() {
        assert_eq!(quantised(Metric::GpuUtil, 4_999), 0);
        assert_eq!(quantised(Metric::GpuUtil, 5_000), 1);
        assert_eq!(quantised(Metric::GpuUtil, 1_000_000), 100);
        assert_eq!(quantised(Metric::MemUsedBytes, (3 << 20) + (1 << 19)), 4);
        assert_eq!(quantised(Metric::PowerW, 78_499), 78);
        assert_eq!(quantised(Metric::SmClockMhz, 1_980), 1_980);
        assert_eq!(shown(Metric::GpuUtil, 70).to_string(), "0.7");
        assert_eq!(shown(Metric::MemUsedBytes, 3).to_string(), "3145728");
    }

    #[test]
    fn a_mean_just_under_a_threshold_stays_under_it() {
        // 299,999.999… millionths: rounding would make it 0.3, and the surcharge below 0.3 would be missed.
        assert_eq!(mean(Metric::GpuUtil, 2_999_999_999, 10_000).unwrap().to_string(), "0.299999");
        assert_eq!(mean(Metric::GpuUtil, 3_000_000_000, 10_000).unwrap().to_string(), "0.3");
        assert_eq!(mean(Metric::PowerW, 627_500, 1).unwrap().to_string(), "627.5");
        assert_eq!(mean(Metric::SmClockMhz, 4_000, 3).unwrap().to_string(), "1333.333333");
        assert_eq!(mean(Metric::GpuUtil, 0, 0), None);
        assert_eq!(ratio(799_999_999, 1_000_000_000).unwrap().to_string(), "0.799999");
        assert_eq!(ratio(5, 4).unwrap().to_string(), "1");
    }
}
