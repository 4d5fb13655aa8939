//! Snapshots: windowed statistics of one tenant's GPUs on one node at one moment (SPEC §6).
//!
//! [`WireSnapshot`] is what an agent sends (SHAPES, `POST /v1/usage-snapshots`); [`Snapshot`] proves that it was
//! checked: `Snapshot::try_from(wire)` tells every violation at once. A reading that cannot be one (a blank sentinel,
//! NaN, a share over 1) is no violation: it is dropped and counted, as if the device had not reported it.

mod intake;
mod job_kind;
mod reading;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;
use std::fmt;

use farebox_pricing::usage::{StatQuality, Window};
use jiff::Timestamp;
use rust_decimal::{Decimal, RoundingStrategy};

use crate::tick::Metric;

pub(crate) use intake::{MAX_BOOT_EPOCH, MAX_DEVICES, MAX_NAME, is_name};
pub use job_kind::job_kind;
pub use wire::{
    WireCounter, WireCounters, WireDecimal, WireDevice, WireHistogram, WireMetric, WireQuality, WireReading,
    WireSnapshot, WireWindows,
};

/// Most µs of held GPU-time, and most mJ, that a counter or window may state: over 30,000 GPU-years. A limit, so that
/// merging stays exact.
pub const MAX_COUNTER: u64 = 1_000_000_000_000_000_000;
/// Bins of a histogram: one for each per cent from 0 to 100.
pub const BINS: usize = 101;
/// Metrics that agents have histograms of, and the only ones that the mirror rolls up: the bound on what a roll-up takes.
pub const HISTOGRAMS: [Metric; 4] = [Metric::GpuUtil, Metric::SmUtil, Metric::TensorActive, Metric::DramActive];
/// The `health` of a holding's last snapshot: its tombstone.
pub const ENDED: &str = "ended";

/// A checked snapshot.
///
/// INVARIANT: every decimal in it is at least 0 and under 10¹⁵, shares of 1 are at most 1, and every µs value is at
/// most [`MAX_COUNTER`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub node: String,
    pub boot_epoch: BootEpoch,
    /// Counts up within a boot epoch.
    pub seq: u64,
    /// By the agent's clock.
    pub observed_at: Timestamp,
    /// Between readings, ms; at least 1.
    pub tick_ms: u32,
    /// `ok`, what ails the devices or the reader, or [`ENDED`].
    pub health: String,
    /// True where `health` is `ok`.
    pub healthy: bool,
    /// Sorted, each once.
    pub reasons: Vec<String>,
    pub tenant: String,
    pub job: Option<String>,
    pub gpu_model: String,
    /// As they were sent.
    pub devices: Vec<Device>,
    /// Σ of the devices' shares, in GPUs (or MIG instances); above 0.
    pub device_shares: Decimal,
    /// True where a device is a MIG instance.
    pub mig: bool,
    pub windows: BTreeMap<Window, BTreeMap<String, MetricWindow>>,
    pub counters: Counters,
    /// Of shares of 1 only; a per cent of anything else has no meaning here.
    pub histograms: BTreeMap<String, Histogram>,
    /// Readings that could not be ones, and so are absent here.
    pub dropped_readings: u64,
}

impl Snapshot {
    /// The statistics of one metric in one window.
    pub fn metric(&self, window: Window, metric: &str) -> Option<&MetricWindow> {
        self.windows.get(&window)?.get(metric)
    }

    /// True for a holding's last snapshot: its GPUs are not the tenant's any more (`metering.md` case 12).
    pub fn has_ended(&self) -> bool {
        self.health == ENDED
    }

    /// True where a window says that the metric was always 0 while power and clocks said load.
    pub fn is_suspect(&self, metric: &str) -> bool {
        let of_metric = self.windows.values().filter_map(|metrics| metrics.get(metric));
        of_metric.into_iter().any(|window| window.quality == StatQuality::SuspectZero)
    }

    /// Wall time for which its devices have been held, µs: held GPU-time ÷ shares.
    pub fn held_wall_us(&self) -> u128 {
        // INVARIANT: at most 10¹⁸ µs × 10¹²; shares are above 0, but may be under 10⁻¹².
        u128::from(self.counters.held_us) * ONE / scaled(self.device_shares).max(1)
    }

    /// Held GPU-time in a window, µs: the metric's own, else the counter's (SHAPES). The counter runs since the boot epoch or
    /// the job's start: where it stands for a metric that is not there, or for a window that agents have themselves, it
    /// counts for no more than the window can hold.
    pub fn held_us(&self, window: Window, metric: &str) -> u64 {
        let found = self.metric(window, metric);
        if let Some(held_us) = found.and_then(|found| found.held_us) {
            return held_us;
        }
        if found.is_some() && window >= Window::H24 {
            return self.counters.held_us;
        }
        // INVARIANT: at most 2²² s × 10²⁷.
        let most = u128::from(window.seconds()) * scaled(self.device_shares) / (ONE / 1_000_000);
        u64::try_from(most).map_or(self.counters.held_us, |most| most.min(self.counters.held_us))
    }
}

/// A device, or the part of one, that the tenant holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// As NVML names it: `GPU-…`.
    pub gpu_uuid: String,
    /// Of a MIG device: `1/0`.
    pub instance: Option<String>,
    /// Of the device or instance, above 0 and at most 1.
    pub share: Decimal,
    /// How it was attributed: `exclusive` …
    pub method: String,
}

/// Observed GPU-time at each per cent, ms since the boot epoch or the job's start, whichever is later, modulo 2³².
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram(pub Box<[u32; BINS]>);

/// Decimals in which values are weighed.
pub(crate) const SCALE: u32 = 12;
/// 1 in units of 10⁻¹².
pub(crate) const ONE: u128 = 1_000_000_000_000;

/// In units of 10⁻¹², rounded half-even. Under 10²⁷ for what a snapshot may hold.
pub(crate) fn scaled(value: Decimal) -> u128 {
    let rounded = value.round_dp_with_strategy(SCALE, RoundingStrategy::MidpointNearestEven);
    let up = SCALE.saturating_sub(rounded.scale());
    rounded.mantissa().unsigned_abs() * 10_u128.pow(up)
}

/// One metric in one window. What the device did not report is `None`, never 0. Utilisations are shares of 1, other
/// metrics in the unit that their name ends in (`mem_used_bytes`, `power_w`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricWindow {
    /// Time-weighted.
    pub mean: Option<Decimal>,
    pub p50: Option<Decimal>,
    pub p95: Option<Decimal>,
    pub min: Option<Decimal>,
    pub max: Option<Decimal>,
    /// Observed ÷ held GPU-time, 0 to 1. Unknown counts as nothing observed.
    pub coverage: Option<Decimal>,
    pub quality: StatQuality,
    /// Held GPU-time in the window, µs.
    pub held_us: Option<u64>,
}

/// Totals since the agent's boot epoch or the job's start, whichever is later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// GPU-time held, µs: a held second on two GPUs counts 2,000,000.
    pub held_us: u64,
    /// GPU-time busy, µs.
    pub busy_us: Option<u64>,
    /// Energy, mJ.
    pub energy_mj: Option<u64>,
}

/// Names one run of an agent; a later run has a later epoch.
///
/// Digits compare as a number and RFC 3339 times as instants, so that `10` follows `9` and `…:00.5Z` follows `…:00Z`;
/// other texts compare by bytes. Numbers come before instants and instants before texts: whatever an agent mixes, the
/// order is total, and which snapshot is the newest does not depend on the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BootEpoch {
    Number(u128),
    Instant(Timestamp),
    Text(String),
}

/// One thing that is wrong with a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// JSON Pointer into the snapshot: `/windows/7d/gpu_util/mean`.
    pub pointer: String,
    pub code: ViolationCode,
    /// For a person: what was sent and what to do.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationCode {
    UnsupportedSchema,
    /// Text that is empty, too long or not of the asked form.
    InvalidText,
    InvalidTimestamp,
    /// Not a plain decimal or integer.
    InvalidNumber,
    OutOfRange,
    TooFew,
    TooMany,
    /// Σ of the shares of one device is over 1.
    SharesOverDevice,
    InvalidHistogram,
}

impl ViolationCode {
    /// The `code` in a problem's `errors`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnsupportedSchema => "unsupported_schema",
            Self::InvalidText => "invalid_text",
            Self::InvalidTimestamp => "invalid_timestamp",
            Self::InvalidNumber => "invalid_number",
            Self::OutOfRange => "out_of_range",
            Self::TooFew => "too_few",
            Self::TooMany => "too_many",
            Self::SharesOverDevice => "shares_over_device",
            Self::InvalidHistogram => "invalid_histogram",
        }
    }
}

/// Everything that is wrong with a snapshot; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InvalidSnapshot {
    pub violations: Vec<Violation>,
}

impl fmt::Display for InvalidSnapshot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the snapshot has {} violation(s)", self.violations.len())?;
        match self.violations.first() {
            Some(first) => write!(out, ", first at `{}`: {}", first.pointer, first.detail),
            None => Ok(()),
        }
    }
}
