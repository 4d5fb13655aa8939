//! How far off forecasts have been: what the days before each past day would have said of it, held against what it was.
//!
//! Nothing is written down for this. It is made of the day buckets anew whenever it is asked for, so that it is the same on every
//! replica and after every restart, and also tells of days on which nobody asked for a forecast.

use std::collections::BTreeMap;

use farebox_pricing::usage::Window;
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::super::series::{Bucket, Merged};
use super::super::tenant::Tenant;
use super::super::{Mirror, merge};
use super::effective::{Effective, Enough, Part, Source, by, scaled_to_peak};
use super::{key, part, windows};
use crate::snapshot::HISTOGRAMS;
use crate::tick::Metric;

/// Days before a day that its forecast is made of: those of a forecast of `7d`.
const DAYS_BEFORE: i64 = 7;
const DAY_S: i64 = 86_400;
const DECIMALS: u32 = 12;

/// Over the past whole days (UTC) of the last 30 on which at least a GPU-hour was held, as were at least on one of the seven
/// days before. Shares of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForecastError {
    /// Days that could be told; at least 1.
    pub days: u32,
    /// Mean of |forecast − actual|.
    pub mean_absolute: Decimal,
    /// Mean of forecast − actual: above 0, more was forecast than came.
    pub bias: Decimal,
    /// Of the days, those whose mean lay between p25 and p75 of the days before.
    pub in_band: Decimal,
}

/// By metric, then by day since 1970.
#[derive(Debug, Default)]
struct Days<'a>(BTreeMap<Metric, BTreeMap<i64, Vec<&'a Bucket>>>);

/// Sums over days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Judged {
    days: u32,
    absolute: Decimal,
    signed: Decimal,
    in_band: u32,
    /// |forecast − actual| × held µs.
    weighted: Decimal,
    held_us: u128,
}

impl Mirror {
    /// Of one GPU model or all, of one job kind or all jobs. `None` where no day can be told.
    pub fn forecast_error(
        &self,
        tenant: &str,
        gpu_model: Option<&str>,
        job_kind: Option<&str>,
        now: Timestamp,
    ) -> Option<ForecastError> {
        forecast_error(&*self.tenant(tenant)?, gpu_model, job_kind, now)
    }

    /// The mean absolute error over all tenants and GPU models, weighted by the GPU-time that was held on each day. Goes through
    /// all that is rolled up: for an interval, not for a request.
    pub fn forecast_error_of_all(&self, now: Timestamp) -> Option<Decimal> {
        let mut all = Judged::default();
        for shard in &self.shards {
            for tenant in shard.tenants().values() {
                for model in tenant.roll_ups.keys() {
                    all.add(&Days::of(tenant, Some(model), None, now).judged(today(now)));
                }
            }
        }
        all.weighted
            .checked_div(Decimal::try_from_i128_with_scale(i128::try_from(all.held_us).ok()?, 0).ok()?)
            .map(rounded)
    }
}

/// Of one tenant.
pub(in crate::mirror) fn forecast_error(
    tenant: &Tenant,
    gpu_model: Option<&str>,
    job_kind: Option<&str>,
    now: Timestamp,
) -> Option<ForecastError> {
    Days::of(tenant, gpu_model, job_kind, now).judged(today(now)).error()
}

fn today(now: Timestamp) -> i64 {
    now.as_second().div_euclid(DAY_S)
}

impl<'a> Days<'a> {
    fn of(tenant: &'a Tenant, gpu_model: Option<&'a str>, job_kind: Option<&'a str>, now: Timestamp) -> Self {
        let mut days = Self::default();
        for windows in windows(tenant, gpu_model, job_kind) {
            for metric in HISTOGRAMS {
                for (start, bucket) in windows.buckets(metric.name(), Window::D30, now) {
                    let of_metric = days.0.entry(metric).or_default();
                    of_metric.entry(start.as_second().div_euclid(DAY_S)).or_default().push(bucket);
                }
            }
        }
        days
    }

    /// All the days before today that can be.
    fn judged(&self, today: i64) -> Judged {
        let mut judged = Judged::default();
        let first = self.0.values().filter_map(|days| days.keys().next()).min();
        for day in first.map_or(today, |first| first.saturating_add(1))..today {
            self.judge(day, &mut judged);
        }
        judged
    }

    fn judge(&self, day: i64, judged: &mut Judged) {
        let enough = Enough::standard();
        let between = |from, to| -> BTreeMap<Metric, Merged> {
            self.0.iter().map(|(metric, days)| (*metric, sum(days.range(from..to).flat_map(|(_, day)| day)))).collect()
        };
        let (itself, before) = (between(day, day.saturating_add(1)), between(day.saturating_sub(DAYS_BEFORE), day));
        let actual = |metric| part_of(metric, itself.get(&metric)?);
        let expected = |metric| part_of(metric, before.get(&metric)?);
        // By the same source, or it would be two different things that are compared.
        let both = |source| by(source, expected, enough).zip(by(source, actual, enough));
        let Some((forecast, actual)) = both(Source::Gpm).or_else(|| both(Source::GpuUtil)) else { return };
        let quartile = |statistic| {
            let stat = merge::stat(&[], &key(forecast.metric, statistic, Window::D30), before.get(&forecast.metric))?;
            Some(scaled_to_peak(forecast.metric, stat.stat.value))
        };
        let band = quartile("p25").zip(quartile("p75"));
        judged.count(&forecast, &actual, band);
    }
}

fn sum<'a>(buckets: impl Iterator<Item = &'a &'a Bucket>) -> Merged {
    let mut sum = Merged::default();
    buckets.for_each(|bucket| bucket.add_to(&mut sum));
    sum
}

fn part_of(metric: Metric, merged: &Merged) -> Option<Part> {
    part(&merge::stat(&[], &key(metric, "mean", Window::D30), Some(merged))?)
}

impl Judged {
    fn count(&mut self, forecast: &Effective, actual: &Effective, band: Option<(Decimal, Decimal)>) {
        let error = forecast.value - actual.value;
        self.days = self.days.saturating_add(1);
        self.absolute += error.abs();
        self.signed += error;
        let is_in_band = band.is_some_and(|(low, high)| (low..=high).contains(&actual.value));
        self.in_band = self.in_band.saturating_add(u32::from(is_in_band));
        self.weighted += error.abs() * Decimal::from(actual.held_us);
        self.held_us = self.held_us.saturating_add(u128::from(actual.held_us));
    }

    fn add(&mut self, other: &Self) {
        self.weighted += other.weighted;
        self.held_us = self.held_us.saturating_add(other.held_us);
    }

    fn error(&self) -> Option<ForecastError> {
        let mean = |sum: Decimal| sum.checked_div(Decimal::from(self.days)).map(rounded);
        Some(ForecastError {
            days: self.days,
            mean_absolute: mean(self.absolute)?,
            bias: mean(self.signed)?,
            in_band: mean(Decimal::from(self.in_band))?,
        })
    }
}

fn rounded(value: Decimal) -> Decimal {
    value.round_dp(DECIMALS).normalize()
}
