//! A tenant's usage as a whole, for whoever wants to look at it: every model, window, metric and statistic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use farebox_pricing::usage::{ObservedStat, StatKey, StatQuality, Window};
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::series::{Merged, is_rolled_up};
use super::tenant::Held;
use super::{Mirror, merge};
use crate::snapshot::{Counters, Device};

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
    /// By node, then job.
    pub devices: Vec<HeldDevice>,
    pub windows: BTreeMap<Window, BTreeMap<String, MetricUsage>>,
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
        let mut models: BTreeMap<String, Seen> = BTreeMap::new();
        let tenant = self.tenant(tenant)?;
        let is_kept = |held: &Held| !self.is_expired(held, now);
        if tenant.roll_ups.is_empty() && !tenant.snapshots.values().any(|held| is_kept(held)) {
            return None;
        }
        for held in tenant.live(is_kept) {
            models.entry(held.snapshot.gpu_model.clone()).or_default().held.push(Arc::clone(held));
        }
        for (model, seen) in &mut models {
            let roll_up = tenant.roll_ups.get(model.as_str());
            let windows = roll_up.into_iter().flat_map(|roll_up| roll_up.total().windows(now));
            seen.rolled = windows.map(|(window, metric, sum)| ((window, metric), sum)).collect();
        }
        Some(models.into_iter().filter_map(|(model, seen)| seen.usage(&model, now)).collect())
    }
}

/// What is known of one model, copied out of the mirror.
#[derive(Default)]
struct Seen {
    held: Vec<Arc<Held>>,
    rolled: BTreeMap<(Window, &'static str), Merged>,
}

impl Seen {
    fn usage(&self, gpu_model: &str, now: Timestamp) -> Option<ModelUsage> {
        let snapshots = || self.held.iter().map(|held| &held.snapshot);
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
        let windows = Window::ALL.into_iter().map(|window| (window, self.window(window)));
        Some(ModelUsage {
            gpu_model: gpu_model.to_owned(),
            health: ailing.unwrap_or("ok").to_owned(),
            reasons: reasons.into_iter().cloned().collect(),
            observed_at: snapshots().map(|snapshot| snapshot.observed_at).min()?,
            age_ms: self.held.iter().map(|held| held.age_ms(now)).max()?,
            devices: devices.collect(),
            windows: windows.filter(|(_, metrics)| !metrics.is_empty()).collect(),
            counters: Counters {
                held_us: sum(|counters| Some(counters.held_us)).unwrap_or(u64::MAX),
                busy_us: sum(|counters| counters.busy_us),
                energy_mj: sum(|counters| counters.energy_mj),
            },
        })
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
