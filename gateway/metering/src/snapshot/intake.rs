//! From the wire to a checked snapshot, with every violation at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farebox_pricing::usage::{StatQuality, Window};
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::reading::{self, NumberError, Reading, ReadingKind};
use super::wire::{
    WireCounter, WireCounters, WireDevice, WireHistogram, WireMetric, WireQuality, WireReading, WireSnapshot,
    WireWindows,
};
use super::{
    BINS, BootEpoch, Counters, Device, Histogram, InvalidSnapshot, MAX_COUNTER, MetricWindow, Snapshot, Violation,
    ViolationCode,
};

/// Limits in bytes and entries. They bound what a snapshot costs in memory, and how long a list of violations gets.
pub(crate) const MAX_NAME: usize = 128;
pub(crate) const MAX_BOOT_EPOCH: usize = 64;
pub(super) const MAX_WORD: usize = 64;
pub(super) const MAX_REASONS: usize = 32;
pub(crate) const MAX_DEVICES: usize = 128;
const MAX_METRICS: usize = 32;
const LONGEST_TICK_MS: u32 = 86_400_000;
/// Metrics of a whole device, which MIG instances do not have.
const DEVICE_METRICS: [&str; 2] = ["gpu_util", "mem_util"];
const HISTOGRAM_BYTES: usize = BINS * 4;

impl TryFrom<WireSnapshot> for Snapshot {
    type Error = InvalidSnapshot;

    fn try_from(wire: WireSnapshot) -> Result<Self, InvalidSnapshot> {
        let mut check = Check::default();
        if wire.schema != 1 {
            check.violate(
                "/schema",
                ViolationCode::UnsupportedSchema,
                format!("`{}` is not supported; send 1", wire.schema),
            );
        }
        if wire.seq > MAX_COUNTER {
            check.violate("/seq", ViolationCode::OutOfRange, "is over 10¹⁸");
        }
        if !(1..=LONGEST_TICK_MS).contains(&wire.tick_ms) {
            check.violate("/tick_ms", ViolationCode::OutOfRange, "must be 1 ms to a day");
        }
        for (pointer, text) in [("/node", &wire.node), ("/tenant", &wire.tenant), ("/gpu_model", &wire.gpu_model)] {
            check.name(pointer, text, MAX_NAME);
        }
        if let Some(job) = &wire.job {
            check.name("/job", job, MAX_NAME);
        }
        check.word("/health", &wire.health);
        let boot_epoch = check.boot_epoch(wire.boot_epoch);
        let observed_at = check.observed_at(&wire.observed_at);
        let reasons = check.reasons(wire.reasons);
        let devices = check.devices(wire.devices);
        let mig = devices.iter().any(|device| device.instance.is_some());
        let mut windows = check.windows(wire.windows);
        let counters = check.counters(&wire.counters);
        let mut histograms = check.histograms(&wire.histograms.unwrap_or_default());
        if mig {
            check.drop_device_readings(&mut windows);
            histograms.retain(|metric, _| !DEVICE_METRICS.contains(&metric.as_str()));
        }
        match (boot_epoch, observed_at, counters) {
            (Some(boot_epoch), Some(observed_at), Some(counters)) if check.violations.is_empty() => Ok(Self {
                node: wire.node,
                boot_epoch,
                seq: wire.seq,
                observed_at,
                tick_ms: wire.tick_ms,
                healthy: wire.health == "ok",
                health: wire.health,
                reasons,
                tenant: wire.tenant,
                job: wire.job,
                gpu_model: wire.gpu_model,
                device_shares: devices.iter().map(|device| device.share).sum(),
                devices,
                mig,
                windows,
                counters,
                histograms,
                dropped_readings: check.dropped_readings,
            }),
            _ => Err(InvalidSnapshot { violations: check.violations }),
        }
    }
}

/// What one pass over a snapshot has found.
#[derive(Default)]
struct Check {
    violations: Vec<Violation>,
    dropped_readings: u64,
}

impl Check {
    fn violate(&mut self, pointer: impl Display, code: ViolationCode, detail: impl Into<String>) {
        self.violations.push(Violation { pointer: pointer.to_string(), code, detail: detail.into() });
    }

    fn accept<T>(&mut self, pointer: impl Display, read: Result<T, NumberError>) -> Option<T> {
        read.map_err(|(code, detail)| self.violate(pointer, code, detail)).ok()
    }

    /// A name that others gave: anything short without control characters.
    fn name(&mut self, pointer: impl Display, text: &str, max: usize) {
        if !is_name(text, max) {
            let detail = format!("must have 1 to {max} bytes and no control characters");
            self.violate(pointer, ViolationCode::InvalidText, detail);
        }
    }

    /// A word of ours, shown on quotes and in metrics: `throttled_thermal`.
    fn word(&mut self, pointer: impl Display, text: &str) {
        let well_formed = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        if !well_formed || text.len() > MAX_WORD || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
            let detail =
                format!("must be a word of a-z, 0-9 and `_` that starts with a letter, at most {MAX_WORD} bytes");
            self.violate(pointer, ViolationCode::InvalidText, detail);
        }
    }

    /// Under MIG the driver has no utilisation of the device: whatever was sent for it is no reading of this tenant's
    /// instance, and a price must move neither way by it (SPEC §6).
    fn drop_device_readings(&mut self, windows: &mut BTreeMap<Window, BTreeMap<String, MetricWindow>>) {
        for metrics in windows.values_mut() {
            let sent = metrics.len();
            metrics.retain(|metric, _| !DEVICE_METRICS.contains(&metric.as_str()));
            self.dropped_readings += u64::try_from(sent - metrics.len()).unwrap_or_default();
        }
    }

    fn boot_epoch(&mut self, text: String) -> Option<BootEpoch> {
        let before = self.violations.len();
        self.name("/boot_epoch", &text, MAX_BOOT_EPOCH);
        if self.violations.len() > before {
            return None;
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            let Ok(number) = text.parse() else {
                self.violate("/boot_epoch", ViolationCode::OutOfRange, "has too many digits; send at most 38");
                return None;
            };
            return Some(BootEpoch::Number(number));
        }
        Some(text.parse().map_or(BootEpoch::Text(text), BootEpoch::Instant))
    }

    fn observed_at(&mut self, text: &str) -> Option<Timestamp> {
        let is_utc = text.ends_with('Z') || text.ends_with("+00:00");
        let parsed = text.parse().ok().filter(|_| is_utc);
        if parsed.is_none() {
            let detail = "is not an RFC 3339 time in UTC such as `2026-12-01T00:00:00Z`";
            self.violate("/observed_at", ViolationCode::InvalidTimestamp, detail);
        }
        parsed
    }

    fn reasons(&mut self, reasons: Vec<String>) -> Vec<String> {
        if reasons.len() > MAX_REASONS {
            self.violate("/reasons", ViolationCode::TooMany, format!("has over {MAX_REASONS} entries"));
            return Vec::new();
        }
        for (index, reason) in reasons.iter().enumerate() {
            self.word(format_args!("/reasons/{index}"), reason);
        }
        reasons.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Those whose share could be read.
    fn devices(&mut self, sent: Vec<WireDevice>) -> Vec<Device> {
        if sent.is_empty() {
            self.violate("/devices", ViolationCode::TooFew, "must name at least one device");
        }
        if sent.len() > MAX_DEVICES {
            self.violate("/devices", ViolationCode::TooMany, format!("has over {MAX_DEVICES} entries"));
            return Vec::new();
        }
        let mut by_device: BTreeMap<(String, Option<String>), Decimal> = BTreeMap::new();
        let mut devices = Vec::with_capacity(sent.len());
        for (index, device) in sent.into_iter().enumerate() {
            self.name(format_args!("/devices/{index}/gpu_uuid"), &device.gpu_uuid, MAX_NAME);
            if let Some(instance) = &device.instance {
                self.name(format_args!("/devices/{index}/instance"), instance, MAX_WORD);
            }
            self.word(format_args!("/devices/{index}/method"), &device.method);
            let pointer = format!("/devices/{index}/share");
            let Some(share) = self.accept(&pointer, reading::share(&device.share.0)) else { continue };
            let WireDevice { gpu_uuid, instance, method, .. } = device;
            let sum = by_device.entry((gpu_uuid.clone(), instance.clone())).or_default();
            *sum += share;
            if *sum > Decimal::ONE {
                let detail = format!("the shares of this device come to {}, over 1", sum.normalize());
                self.violate(pointer, ViolationCode::SharesOverDevice, detail);
            }
            devices.push(Device { gpu_uuid, instance, share, method });
        }
        devices
    }

    fn windows(&mut self, wire: WireWindows) -> BTreeMap<Window, BTreeMap<String, MetricWindow>> {
        let sent = [
            (Window::S10, wire.s10),
            (Window::M1, wire.m1),
            (Window::M5, wire.m5),
            (Window::M15, wire.m15),
            (Window::H24, wire.h24),
            (Window::D7, wire.d7),
            (Window::D30, wire.d30),
        ];
        let mut windows = BTreeMap::new();
        for (window, metrics) in sent {
            let Some(metrics) = metrics else { continue };
            let pointer = format!("/windows/{}", window.as_str());
            if metrics.len() > MAX_METRICS {
                self.violate(pointer, ViolationCode::TooMany, format!("has over {MAX_METRICS} metrics"));
                continue;
            }
            let mut checked = BTreeMap::new();
            for (metric, statistics) in metrics {
                let pointer = format!("{pointer}/{}", escaped(&metric));
                self.word(&pointer, &metric);
                let statistics = self.metric(&pointer, ReadingKind::of(&metric), &statistics);
                checked.insert(metric, statistics);
            }
            windows.insert(window, checked);
        }
        windows
    }

    fn metric(&mut self, pointer: &str, kind: ReadingKind, sent: &WireMetric) -> MetricWindow {
        let mut statistic = |name: &str, kind, value: &Option<WireReading>| {
            let value = value.as_ref()?;
            match self.accept(format_args!("{pointer}/{name}"), reading::reading(&value.0, kind))? {
                Reading::Measured(measured) => Some(measured),
                Reading::Blank => {
                    self.dropped_readings = self.dropped_readings.saturating_add(1);
                    None
                }
            }
        };
        MetricWindow {
            mean: statistic("mean", kind, &sent.mean),
            p50: statistic("p50", kind, &sent.p50),
            p95: statistic("p95", kind, &sent.p95),
            min: statistic("min", kind, &sent.min),
            max: statistic("max", kind, &sent.max),
            coverage: statistic("coverage", ReadingKind::Share, &sent.coverage),
            quality: match sent.quality {
                Some(WireQuality::SuspectZero) => StatQuality::SuspectZero,
                Some(WireQuality::Ok) | None => StatQuality::Ok,
            },
            held_us: sent.held_us.as_ref().and_then(|held| self.held_us(&format!("{pointer}/held_us"), held)),
        }
    }

    fn counters(&mut self, sent: &WireCounters) -> Option<Counters> {
        let mut measured = |name: &str, value: &Option<WireCounter>| {
            let counted = self.accept(format_args!("/counters/{name}"), reading::counter(&value.as_ref()?.0))?;
            self.dropped_readings = self.dropped_readings.saturating_add(u64::from(counted.is_none()));
            counted
        };
        let busy_us = measured("busy_us", &sent.busy_us);
        let energy_mj = measured("energy_mj", &sent.energy_mj);
        Some(Counters { held_us: self.held_us("/counters/held_us", &sent.held_us)?, busy_us, energy_mj })
    }

    /// Held time weighs the merge and decides what is thin, so that a blank one is a violation.
    fn held_us(&mut self, pointer: &str, sent: &WireCounter) -> Option<u64> {
        let counted = self.accept(pointer, reading::counter(&sent.0))?;
        if counted.is_none() {
            self.violate(pointer, ViolationCode::OutOfRange, "is over 10¹⁸");
        }
        counted
    }

    fn histograms(&mut self, sent: &BTreeMap<String, WireHistogram>) -> BTreeMap<String, Histogram> {
        let mut histograms = BTreeMap::new();
        if sent.len() > MAX_METRICS {
            self.violate("/histograms", ViolationCode::TooMany, format!("has over {MAX_METRICS} metrics"));
            return histograms;
        }
        for (metric, histogram) in sent {
            let pointer = format!("/histograms/{}", escaped(metric));
            self.word(&pointer, metric);
            let Some(bins) = bins_of(&histogram.bins) else {
                let detail = "is not the base64 of 101 u32, which are 404 bytes";
                self.violate(format_args!("{pointer}/bins"), ViolationCode::InvalidHistogram, detail);
                continue;
            };
            if ReadingKind::of(metric) == ReadingKind::Share {
                histograms.insert(metric.clone(), Histogram(bins));
            }
        }
        histograms
    }
}

/// Little-endian.
fn bins_of(base64: &str) -> Option<Box<[u32; BINS]>> {
    let bytes = STANDARD.decode(base64).ok().filter(|bytes| bytes.len() == HISTOGRAM_BYTES)?;
    let (words, _) = bytes.as_chunks::<4>();
    let mut bins = Box::new([0; BINS]);
    for (bin, word) in bins.iter_mut().zip(words) {
        *bin = u32::from_le_bytes(*word);
    }
    Some(bins)
}

/// A name that others gave: short, without control characters.
pub(crate) fn is_name(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// A key as a segment of a JSON Pointer (RFC 6901 §3).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
