//! The past of a tenant's GPUs of one model, bucket by bucket: what a sparkline is drawn of.

use std::collections::BTreeMap;

use farebox_pricing::usage::{StatKey, Window};
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::super::merge;
use super::super::rollup::Windows;
use super::super::series::{Merged, TIER, oldest};
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

/// Of each long window, of each metric that was observed in it.
pub(super) fn series(windows: &Windows, now: Timestamp) -> BTreeMap<Window, BTreeMap<String, Series>> {
    let mut all: BTreeMap<Window, BTreeMap<String, Series>> = BTreeMap::new();
    for (window, bucket) in TIER {
        for metric in HISTOGRAMS.map(|metric| metric.name()) {
            let means: BTreeMap<Timestamp, Decimal> = windows
                .buckets(metric, window, now)
                .filter_map(|(start, bucket)| {
                    let mut merged = Merged::default();
                    bucket.add_to(&mut merged);
                    Some((start, mean(metric, window, &merged)?))
                })
                .collect();
            if let Some(series) = of(&means, bucket, now).filter(|_| !means.is_empty()) {
                all.entry(window).or_default().insert(metric.to_owned(), series);
            }
        }
    }
    all
}

fn of(means: &BTreeMap<Timestamp, Decimal>, (step_s, count): (i64, i64), now: Timestamp) -> Option<Series> {
    let first = oldest(now, (step_s, count));
    let start = |slot: i64| Timestamp::from_second(slot.checked_mul(step_s)?).ok();
    let slots = first..first.saturating_add(count);
    let values = slots.map(|slot| means.get(&start(slot)?).copied()).collect();
    Some(Series { start: start(first)?, step_s, values })
}

fn mean(metric: &str, window: Window, bucket: &Merged) -> Option<Decimal> {
    let key = StatKey { metric: metric.to_owned(), statistic: "mean".to_owned(), window };
    Some(merge::stat(&[], &key, Some(bucket))?.stat.value)
}
