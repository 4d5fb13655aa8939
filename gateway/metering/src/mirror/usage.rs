//! A tenant's usage as a whole, for whoever wants to look at it: every model, window, metric and statistic.

mod history;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use farebox_pricing::usage::{ObservedStat, StatKey, StatQuality, UsageRules, Window};
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::forecast::{Forecast, ForecastError, ForecastQuery, forecast, forecast_error};
use super::rollup::{RollUp, Windows};
use super::series::{Merged, is_rolled_up};
use super::tenant::{Held, Tenant};
use super::{Mirror, merge};
use crate::snapshot::{BootEpoch, Counters, Device, job_kind};

pub use history::Series;

/// Most of each that are listed of a model, the first by node and job: what a tenant with thousands of GPUs is told every second
/// stays some hundred kB. All of them are in the sums, and counted.
const MOST_LISTED: usize = 1_000;
/// Most job kinds of a model that are told of, the first by name.
const MOST_JOB_KINDS: usize = 32;

/// What is known of a tenant's GPUs of one model, merged over nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelUsage {
    pub gpu_model: String,
    /// `ok` where every snapshot says so, else what the first by name says.
    pub health: String,
    /// Sorted, each once.
    pub reasons: Vec<String>,
    /// Of the oldest snapshot in it.
    pub observed_at: Timestamp,
    /// Of the oldest, the larger of "since observed" and "since received", ms.
    pub age_ms: u64,
    /// By node, then job; at most 1,000.
    pub devices: Vec<HeldDevice>,
    /// Of all devices.
    pub device_count: usize,
    /// By node, then job; at most 1,000.
    pub sources: Vec<UsageSource>,
    /// Of all sources.
    pub source_count: usize,
    pub windows: BTreeMap<Window, BTreeMap<String, MetricUsage>>,
    /// What to expect of it, of whatever job.
    pub effective: Option<Forecast>,
    /// The same, with how far off it has been, and then by job kind. What cannot be told is left out.
    pub forecasts: Vec<Expectation>,
    /// Of the long windows, by metric.
    pub series: BTreeMap<Window, BTreeMap<String, Series>>,
    /// The long windows by job kind.
    pub job_kinds: BTreeMap<String, BTreeMap<Window, BTreeMap<String, MetricUsage>>>,
    /// Summed. What one of the snapshots does not bring is absent: a part would pass for the whole.
    pub counters: Counters,
}

/// A device, and by whose report it is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDevice {
    pub device: Device,
    pub node: String,
    pub job: Option<String>,
}

/// What is expected of the jobs of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// `None`: of all jobs.
    pub job_kind: Option<String>,
    pub forecast: Forecast,
    pub error: Option<ForecastError>,
}

/// A snapshot that is in the sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageSource {
    pub node: String,
    pub job: Option<String>,
    pub boot_epoch: String,
    pub seq: u64,
    pub observed_at: Timestamp,
    pub age_ms: u64,
    pub health: String,
}

/// One metric in one window, with what can be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricUsage {
    pub mean: Option<Decimal>,
    pub p50: Option<Decimal>,
    pub p95: Option<Decimal>,
    pub min: Option<Decimal>,
    pub max: Option<Decimal>,
    /// Observed ÷ held GPU-time, 0 to 1.
    pub coverage: Decimal,
    pub quality: StatQuality,
    /// Held GPU-time in the window, µs.
    pub held_us: u64,
}

impl Mirror {
    /// Every model of which the tenant holds GPUs, by name; `None` where nothing is known of the tenant.
    pub fn usage(&self, tenant: &str, now: Timestamp) -> Option<Vec<ModelUsage>> {
        let tenant = self.tenant(tenant)?;
        let is_kept = |held: &Held| !self.is_expired(held, now);
        if tenant.roll_ups.is_empty() && !tenant.snapshots.values().any(|held| is_kept(held)) {
            return None;
        }
        let mut models: BTreeMap<&str, Vec<Arc<Held>>> = BTreeMap::new();
        for held in tenant.live(is_kept) {
            models.entry(&held.snapshot.gpu_model).or_default().push(Arc::clone(held));
        }
        let usage = |(model, held)| Seen::of((&tenant, model), held, now, is_kept).usage(model, now);
        Some(models.into_iter().filter_map(usage).collect())
    }
}

/// What is known of one model.
struct Seen {
    whole: Part,
    /// By job kind.
    kinds: BTreeMap<String, Part>,
    series: BTreeMap<Window, BTreeMap<String, Series>>,
    forecasts: Vec<Expectation>,
}

/// Some of the snapshots, and what is rolled up of their holdings.
struct Part {
    held: Vec<Arc<Held>>,
    rolled: BTreeMap<(Window, &'static str), Merged>,
}

impl Seen {
    fn of(
        (tenant, gpu_model): (&Tenant, &str),
        held: Vec<Arc<Held>>,
        now: Timestamp,
        is_kept: impl Fn(&Held) -> bool,
    ) -> Self {
        let roll_up = tenant.roll_ups.get(gpu_model);
        let total = roll_up.map(|roll_up| roll_up.total());
        let kinds = kinds(&held, roll_up.map(Arc::as_ref));
        let mut held_of: BTreeMap<&str, Vec<Arc<Held>>> = BTreeMap::new();
        for held in &held {
            if let Some(job) = &held.snapshot.job {
                held_of.entry(job_kind(job)).or_default().push(Arc::clone(held));
            }
        }
        let of_kind = |kind| {
            let rolled = roll_up.and_then(|roll_up| roll_up.kind(kind));
            (str::to_owned(kind), Part::of(held_of.remove(kind).unwrap_or_default(), rolled, now))
        };
        let UsageRules { min_coverage, thin_held_us, hard_stale_ms, .. } = UsageRules::default();
        let expectation = |job_kind: Option<&str>| {
            let (tenant_name, gpu_model) = ("", Some(gpu_model));
            let query = ForecastQuery {
                tenant: tenant_name,
                gpu_model,
                job_kind,
                min_coverage,
                thin_held_us,
                hard_stale_ms,
                now,
            };
            Some(Expectation {
                job_kind: job_kind.map(str::to_owned),
                forecast: forecast(tenant, &query, &is_kept)?,
                error: forecast_error(tenant, gpu_model, job_kind, now),
            })
        };
        let asked = std::iter::once(None).chain(kinds.iter().copied().map(Some));
        Self {
            series: total.map(|total| history::series(total, now)).unwrap_or_default(),
            forecasts: asked.filter_map(expectation).collect(),
            kinds: kinds.into_iter().map(of_kind).collect(),
            whole: Part::of(held, total, now),
        }
    }

    fn usage(self, gpu_model: &str, now: Timestamp) -> Option<ModelUsage> {
        let held = &self.whole.held;
        let snapshots = || held.iter().map(|held| &held.snapshot);
        let reasons: BTreeSet<&String> = snapshots().flat_map(|snapshot| &snapshot.reasons).collect();
        let ailing = snapshots().filter(|snapshot| !snapshot.healthy).map(|snapshot| snapshot.health.as_str()).min();
        let devices = snapshots().flat_map(|snapshot| {
            let held_device = |device: &Device| HeldDevice {
                device: device.clone(),
                node: snapshot.node.clone(),
                job: snapshot.job.clone(),
            };
            snapshot.devices.iter().map(held_device)
        });
        let sum = |counter: fn(&Counters) -> Option<u64>| -> Option<u64> {
            snapshots()
                .map(|snapshot| counter(&snapshot.counters))
                .try_fold(0, |sum: u64, count| Some(sum.saturating_add(count?)))
        };
        let long = |part: &Part| part.windows(Window::ALL.into_iter().filter(|window| is_rolled_up(*window)));
        Some(ModelUsage {
            gpu_model: gpu_model.to_owned(),
            health: ailing.unwrap_or("ok").to_owned(),
            reasons: reasons.into_iter().cloned().collect(),
            observed_at: snapshots().map(|snapshot| snapshot.observed_at).min()?,
            age_ms: held.iter().map(|held| held.age_ms(now)).max()?,
            device_count: snapshots().map(|snapshot| snapshot.devices.len()).sum(),
            devices: devices.take(MOST_LISTED).collect(),
            source_count: held.len(),
            sources: held.iter().take(MOST_LISTED).map(|held| source(held, now)).collect(),
            effective: self.forecasts.iter().find(|of| of.job_kind.is_none()).map(|of| of.forecast.clone()),
            job_kinds: self.kinds.iter().map(|(kind, part)| (kind.clone(), long(part))).collect(),
            windows: self.whole.windows(Window::ALL.into_iter()),
            counters: Counters {
                held_us: sum(|counters| Some(counters.held_us)).unwrap_or(u64::MAX),
                busy_us: sum(|counters| counters.busy_us),
                energy_mj: sum(|counters| counters.energy_mj),
            },
            forecasts: self.forecasts,
            series: self.series,
        })
    }
}

/// The kinds of jobs that hold GPUs of the model, or did.
fn kinds<'a>(held: &'a [Arc<Held>], roll_up: Option<&'a RollUp>) -> Vec<&'a str> {
    let live = held.iter().filter_map(|held| held.snapshot.job.as_deref()).map(job_kind);
    let rolled = roll_up.into_iter().flat_map(RollUp::kinds).map(|(kind, _)| &**kind);
    let kinds: BTreeSet<&str> = live.chain(rolled).collect();
    kinds.into_iter().take(MOST_JOB_KINDS).collect()
}

impl Part {
    fn of(held: Vec<Arc<Held>>, rolled: Option<&Windows>, now: Timestamp) -> Self {
        let rolled = rolled.into_iter().flat_map(|windows| windows.windows(now));
        Self { held, rolled: rolled.map(|(window, metric, sum)| ((window, metric), sum)).collect() }
    }

    fn windows(&self, windows: impl Iterator<Item = Window>) -> BTreeMap<Window, BTreeMap<String, MetricUsage>> {
        let windows = windows.map(|window| (window, self.window(window)));
        windows.filter(|(_, metrics)| !metrics.is_empty()).collect()
    }

    fn window(&self, window: Window) -> BTreeMap<String, MetricUsage> {
        let brought = self.held.iter().filter_map(|held| held.snapshot.windows.get(&window)).flat_map(BTreeMap::keys);
        let mut metrics: BTreeSet<&str> = brought.map(String::as_str).collect();
        metrics.extend(self.rolled.keys().filter(|(rolled, _)| *rolled == window).map(|(_, metric)| *metric));
        let nothing = is_rolled_up(window).then(Merged::default);
        let usage = |metric: &str| {
            let rolled = self.rolled.iter().find(|(key, _)| **key == (window, metric)).map(|(_, sum)| sum);
            let rolled = rolled.or(nothing.as_ref());
            let key = |statistic: &str| StatKey { metric: metric.to_owned(), statistic: statistic.to_owned(), window };
            let stats = ["mean", "p50", "p95", "min", "max"].map(|name| merge::stat(&self.held, &key(name), rolled));
            let ObservedStat { stat: said, held_us, quality } = stats.iter().flatten().next()?.clone();
            let [mean, p50, p95, min, max] = stats.map(|stat| Some(stat?.stat.value));
            Some(MetricUsage { mean, p50, p95, min, max, coverage: said.coverage, quality, held_us })
        };
        metrics.into_iter().filter_map(|metric| Some((metric.to_owned(), usage(metric)?))).collect()
    }
}

fn source(held: &Held, now: Timestamp) -> UsageSource {
    let snapshot = &held.snapshot;
    UsageSource {
        node: snapshot.node.clone(),
        job: snapshot.job.clone(),
        boot_epoch: match &snapshot.boot_epoch {
            BootEpoch::Number(number) => number.to_string(),
            BootEpoch::Instant(instant) => instant.to_string(),
            BootEpoch::Text(text) => text.clone(),
        },
        seq: snapshot.seq,
        observed_at: snapshot.observed_at,
        age_ms: held.age_ms(now),
        health: snapshot.health.clone(),
    }
}
