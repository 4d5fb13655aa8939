//! The past of a tenant's GPUs of one model, bucket by bucket: what a sparkline is drawn of.

use std::collections::BTreeMap;

use farebox_pricing::usage::{StatKey, Window};
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::super::merge;
use super::super::rollup::{self, Merged, RollUp};
use crate::snapshot::HISTOGRAMS;

/// The means of one metric over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// When the first bucket begins.
    pub start: Timestamp,
    /// From one to the next, seconds.
    pub step_s: i64,
    /// `None` where nothing was observed. The last is the bucket of now.
    pub values: Vec<Option<Decimal>>,
}

/// Of each long window, of each metric that was ever observed in it.
pub(super) fn series(roll_up: &RollUp, now: Timestamp) -> BTreeMap<Window, BTreeMap<String, Series>> {
    let mut all: BTreeMap<Window, BTreeMap<String, Series>> = BTreeMap::new();
    for window in Window::ALL {
        for metric in HISTOGRAMS {
            let means: BTreeMap<i64, Decimal> = roll_up
                .buckets(metric.name(), window, now)
                .filter_map(|(slot, bucket)| Some((slot, mean(metric.name(), window, &bucket)?)))
                .collect();
            if let Some(series) = of(&means, window, now) {
                all.entry(window).or_default().insert(metric.name().to_owned(), series);
            }
        }
    }
    all
}

fn of(means: &BTreeMap<i64, Decimal>, window: Window, now: Timestamp) -> Option<Series> {
    if means.is_empty() {
        return None;
    }
    let (step_s, slots) = (rollup::bucket_seconds(window)?, rollup::slots(window, now));
    let start = Timestamp::from_second(slots.start().checked_mul(step_s)?).ok()?;
    Some(Series { start, step_s, values: slots.map(|slot| means.get(&slot).copied()).collect() })
}

fn mean(metric: &str, window: Window, bucket: &Merged) -> Option<Decimal> {
    let key = StatKey { metric: metric.to_owned(), statistic: "mean".to_owned(), window };
    Some(merge::stat(&[], &key, Some(bucket))?.stat.value)
}
