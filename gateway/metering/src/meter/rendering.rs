//! From holdings to snapshots on the wire.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farebox_pricing::exact;
use farebox_pricing::usage::Window;
use jiff::Timestamp;
use rust_decimal::Decimal;
use serde_json::Value;

use super::counters::Counted;
use super::devices::Device;
use super::health::{Health, told};
use super::holdings::{Holding, Pool};
use super::portion::{Method, Portion};
use super::weighted::{self, Weighted, millionths};
use super::windows::{Sums, WINDOWS};
use super::{JobEnd, MeterSettings};
use crate::snapshot::{
    ENDED, MAX_DEVICES, WireCounter, WireCounters, WireDecimal, WireDevice, WireHistogram, WireMetric, WireQuality,
    WireReading, WireSnapshot, WireWindows,
};
use crate::tick::Metric;

const LONGEST_TICK_MS: u128 = 86_400_000;
/// Millionths of a GPU and µs make the ms of histograms.
const PER_MS: u128 = 1_000_000_000;

/// What all snapshots of a moment have in common.
#[derive(Debug)]
pub(super) struct Moment<'a> {
    pub(super) settings: &'a MeterSettings,
    pub(super) devices: &'a BTreeMap<String, Device>,
    pub(super) boot_epoch: String,
    /// What ails the whole agent.
    pub(super) health: Health,
    /// Monotonic µs.
    pub(super) at: u64,
    pub(super) now: Timestamp,
}

impl Moment<'_> {
    /// The snapshots of a holding that goes on, one for each GPU model of which it holds something now, or held until lately
    /// and nobody can say whether it still does.
    pub(super) fn live(&self, holding: &mut Holding, next_seq: &mut impl FnMut() -> u64) -> Vec<WireSnapshot> {
        // A part that was never seen has no model, and so no snapshot of its own to be missed in.
        let is_short = !holding.follows_use && holding.parts.iter().any(|part| part.pool.is_none());
        let health = self.health.max(if is_short { Health::Degraded } else { Health::Ok });
        self.render(holding, Portion::told_share, next_seq, |snapshot, pool, parts| {
            snapshot.windows = self.windows(pool, parts);
            let ails = parts.iter().map(|part| self.health_of(part)).max().unwrap_or(health);
            snapshot.health = ails.max(health).word().to_owned();
            snapshot.reasons = told(parts.iter().flat_map(|part| self.reasons_of(part)));
        })
    }

    /// The last ones of a holding: what it came to, and that it is over.
    pub(super) fn last(
        &self,
        holding: &mut Holding,
        why: JobEnd,
        next_seq: &mut impl FnMut() -> u64,
    ) -> Vec<WireSnapshot> {
        self.render(
            holding,
            |part| part.last_share,
            next_seq,
            |snapshot, _, _| {
                snapshot.health = ENDED.to_owned();
                snapshot.reasons = vec![why.as_str().to_owned()];
            },
        )
    }

    fn render(
        &self,
        holding: &mut Holding,
        share: impl Fn(&Portion) -> u32,
        next_seq: &mut impl FnMut() -> u64,
        complete: impl Fn(&mut WireSnapshot, &Pool, &[&Portion]),
    ) -> Vec<WireSnapshot> {
        let mut snapshots = Vec::new();
        for (index, pool) in holding.pools.iter_mut().enumerate() {
            let parts: Vec<&Portion> = holding.parts.iter().filter(|part| part.pool == Some(index)).collect();
            let devices: Vec<WireDevice> = parts
                .iter()
                .filter_map(|part| Some(wire_device(part, std::num::NonZeroU32::new(share(part))?.get())))
                .take(MAX_DEVICES)
                .collect();
            if devices.is_empty() {
                continue;
            }
            // While no readings arrive it stays, so that the snapshot ages.
            if std::mem::take(&mut pool.is_read) || pool.observed_at.is_none() {
                pool.observed_at = Some(self.now);
            }
            let mut snapshot = WireSnapshot {
                schema: 1,
                node: self.settings.node.clone(),
                boot_epoch: self.boot_epoch.clone(),
                seq: next_seq(),
                observed_at: pool.observed_at.unwrap_or(self.now).to_string(),
                tick_ms: u32::try_from(self.settings.tick.as_millis().clamp(1, LONGEST_TICK_MS)).unwrap_or(u32::MAX),
                health: String::new(),
                reasons: Vec::new(),
                tenant: holding.tenant.clone(),
                job: holding.job.clone(),
                gpu_model: pool.model.clone(),
                devices,
                windows: WireWindows::default(),
                counters: wire_counters(&pool_counters(pool, &parts)),
                histograms: wire_histograms(pool),
                mac: None,
            };
            complete(&mut snapshot, pool, &parts);
            snapshots.push(snapshot);
        }
        snapshots
    }

    fn health_of(&self, part: &Portion) -> Health {
        // One that is not held now ails nobody.
        if part.told_share() == 0 {
            return Health::Ok;
        }
        let of_device = match (self.devices.get(&part.gpu_uuid), part.instance) {
            (None, _) => Health::Degraded,
            (Some(device), None) => device.health,
            (Some(device), Some(id)) => device.instance_health(id),
        };
        of_device.max(if part.is_missed { Health::Degraded } else { Health::Ok })
    }

    fn reasons_of<'b>(&'b self, part: &'b Portion) -> impl Iterator<Item = (u64, &'b str)> {
        let device = self.devices.get(&part.gpu_uuid).filter(|_| part.told_share() > 0);
        device.into_iter().flat_map(|device| device.reasons.of(part.instance, part.since))
    }

    fn windows(&self, pool: &Pool, parts: &[&Portion]) -> WireWindows {
        let mut windows: [Option<BTreeMap<String, WireMetric>>; 4] = Default::default();
        for (metric, pooled) in &pool.windows {
            for (index, (window, set)) in windows.iter_mut().zip(pooled).enumerate() {
                if let Some(statistics) = self.metric(*metric, index, set, parts) {
                    window.get_or_insert_default().insert(metric.name().to_owned(), statistics);
                }
            }
        }
        let mut wire = WireWindows::default();
        for ((window, _), metrics) in WINDOWS.into_iter().zip(windows) {
            match window {
                Window::S10 => wire.s10 = metrics,
                Window::M1 => wire.m1 = metrics,
                Window::M5 => wire.m5 = metrics,
                Window::M15 => wire.m15 = metrics,
                // The gateway's, from histograms.
                Window::H24 | Window::D7 | Window::D30 => {}
            }
        }
        wire
    }

    /// `None` where nothing was observed.
    fn metric(&self, metric: Metric, window: usize, set: &Weighted, parts: &[&Portion]) -> Option<WireMetric> {
        let length = WINDOWS.get(window)?.1;
        let (mut all, mut held) = (Sums::default(), 0);
        let mut quality = WireQuality::Ok;
        for part in parts {
            let series = part.series.get(&metric);
            let end = series.map_or(self.at, |series| series.end());
            held += part.held.between(end.saturating_sub(length), end);
            let Some(sums) = series.and_then(|series| series.sums().get(window).copied()) else { continue };
            all.covered += sums.covered;
            all.sum += sums.sum;
            if metric == Metric::GpuUtil && is_suspect(part, window, sums) {
                quality = WireQuality::SuspectZero;
            }
        }
        let shown = |quanta: Option<u32>| Some(reading(weighted::shown(metric, quanta?)));
        Some(WireMetric {
            mean: Some(reading(weighted::mean(metric, all.sum, all.covered)?)),
            p50: shown(set.percentile(50)),
            p95: shown(set.percentile(95)),
            min: shown(set.min()),
            max: shown(set.max()),
            coverage: Some(reading(weighted::ratio(all.covered, held)?)),
            quality: Some(quality),
            held_us: Some(counter(u64::try_from(held / 1_000_000).unwrap_or(u64::MAX))),
        })
    }
}

/// Always 0, while for at least half of the time power and clocks say load. Not of what its own processes did: there, the
/// load may be another's.
fn is_suspect(part: &Portion, window: usize, utilisation: Sums) -> bool {
    let load = part.load.series.sums().get(window).copied().unwrap_or_default();
    let is_loaded = load.covered > 0 && load.sum * 2 >= load.covered * 1_000_000;
    part.method != Method::Allotted && utilisation.covered > 0 && utilisation.sum == 0 && is_loaded
}

/// What a pool's parts have counted together, and those that it has no more.
pub(super) fn pool_counters(pool: &Pool, parts: &[&Portion]) -> Counted {
    let mut counted = pool.retired;
    parts.iter().for_each(|part| counted.add(&part.counted));
    counted
}

fn wire_counters(counted: &Counted) -> WireCounters {
    WireCounters {
        held_us: counter(counted.held_us()),
        busy_us: counted.busy_us().map(counter),
        energy_mj: counted.energy_mj().map(counter),
    }
}

fn wire_device(part: &Portion, share: u32) -> WireDevice {
    let share = millionths(u128::from(share)).unwrap_or(Decimal::ONE);
    WireDevice {
        gpu_uuid: part.gpu_uuid.clone(),
        instance: part.instance.map(|id| id.to_string()),
        share: WireDecimal(Value::String(exact::print(share))),
        method: part.method.word().to_owned(),
    }
}

fn wire_histograms(pool: &Pool) -> Option<BTreeMap<String, WireHistogram>> {
    let encoded = pool.histograms.iter().map(|(metric, bins)| {
        // Modulo 2³², as SHAPES has it.
        let in_ms = bins.iter().map(|weight| u32::try_from((weight / PER_MS) % (1 << 32)).unwrap_or_default());
        let bytes: Vec<u8> = in_ms.flat_map(u32::to_le_bytes).collect();
        (metric.name().to_owned(), WireHistogram { bins: STANDARD.encode(bytes) })
    });
    let histograms: BTreeMap<_, _> = encoded.collect();
    (!histograms.is_empty()).then_some(histograms)
}

fn reading(value: Decimal) -> WireReading {
    WireReading(Value::String(exact::print(value)))
}

fn counter(value: u64) -> WireCounter {
    WireCounter(Value::String(value.to_string()))
}
