//! The snapshot on the wire, exactly as SHAPES.md has it, and its JSON Schema.
//!
//! Numbers are kept as the JSON value that was sent and are read by `intake`, digit for digit, so that a wrong one is a
//! violation with a pointer beside all the others. The schema's limits repeat those of `intake` (the derive takes
//! literals only); a test holds them together.

use std::collections::BTreeMap;

use farebox_pricing::exact;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::openapi::schema::{ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// Windowed statistics of one tenant's GPUs on one node at one moment. The newest by (`boot_epoch`, `seq`) of each
/// (node, tenant, job, gpu_model) counts; an older one changes nothing.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = UsageSnapshot)]
#[serde(deny_unknown_fields)]
pub struct WireSnapshot {
    /// Version of this format: 1.
    #[schema(minimum = 1, maximum = 1)]
    pub schema: u32,
    /// The GPU host.
    #[schema(min_length = 1, max_length = 128)]
    pub node: String,
    /// Names one run of the agent: digits, an RFC 3339 time, or a text that sorts later after each restart.
    #[schema(min_length = 1, max_length = 64)]
    pub boot_epoch: String,
    /// Counts up within a boot epoch, at most 10¹⁸.
    #[schema(maximum = 1_000_000_000_000_000_000u64)]
    pub seq: u64,
    /// When the newest reading in it was taken, RFC 3339 UTC. Over 2 s ahead of receipt: the windows are not used.
    #[schema(format = DateTime)]
    pub observed_at: String,
    /// Milliseconds between readings, at most a day.
    #[schema(minimum = 1, maximum = 86_400_000)]
    pub tick_ms: u32,
    /// `ok`, or what ails the devices or the reader: `stalled`, `lost` … Anything but `ok` bars surcharges. `ended`: the last
    /// one of this holding, which no longer counts as a live observation.
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-z][a-z0-9_]*$")]
    pub health: String,
    /// What explains the readings: `xid_79`, `throttled_thermal` … Each a word in lower case.
    #[schema(max_items = 32)]
    pub reasons: Vec<String>,
    /// The billing tenant.
    #[schema(min_length = 1, max_length = 128)]
    pub tenant: String,
    /// The job that holds the devices; absent where they are not bound to one.
    #[schema(min_length = 1, max_length = 128)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// As in the price book: `A100`.
    #[schema(min_length = 1, max_length = 128)]
    pub gpu_model: String,
    /// What is held, at least one.
    #[schema(min_items = 1, max_items = 128)]
    pub devices: Vec<WireDevice>,
    pub windows: WireWindows,
    pub counters: WireCounters,
    /// By metric: observed GPU-time at each per cent, counted as long as `counters` are. Long windows are made of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histograms: Option<BTreeMap<String, WireHistogram>>,
    /// HMAC-SHA-256 over the snapshot without this field. Over HTTP the `meter` credential stands for it.
    #[schema(max_length = 128)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

/// A device, or the part of one, that the tenant holds.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = UsageSnapshotDevice)]
#[serde(deny_unknown_fields)]
pub struct WireDevice {
    /// As NVML names it: `GPU-…`.
    #[schema(min_length = 1, max_length = 128)]
    pub gpu_uuid: String,
    /// GPU instance and compute instance of a MIG device: `1/0`. Absent: the whole device.
    #[schema(min_length = 1, max_length = 64)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Part of the device or instance that is the tenant's, above 0 and at most 1; at most 1 in all.
    pub share: WireDecimal,
    /// How it was attributed: `exclusive` …
    #[schema(min_length = 1, max_length = 64, pattern = "^[a-z][a-z0-9_]*$")]
    pub method: String,
}

/// Statistics by window, then by metric (`gpu_util`, `sm_util`, `mem_used_bytes`, `power_w` …). A window that was not
/// observed is absent.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[schema(as = UsageSnapshotWindows)]
#[serde(deny_unknown_fields)]
pub struct WireWindows {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "10s")]
    pub s10: Option<BTreeMap<String, WireMetric>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "1m")]
    pub m1: Option<BTreeMap<String, WireMetric>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "5m")]
    pub m5: Option<BTreeMap<String, WireMetric>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "15m")]
    pub m15: Option<BTreeMap<String, WireMetric>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "24h")]
    pub h24: Option<BTreeMap<String, WireMetric>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "7d")]
    pub d7: Option<BTreeMap<String, WireMetric>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "30d")]
    pub d30: Option<BTreeMap<String, WireMetric>>,
}

/// One metric in one window. Utilisations (`…_util`, `…_active`, `…_occupancy`) are shares of 1. What the device does
/// not report is absent, never 0.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[schema(as = UsageSnapshotMetric)]
#[serde(deny_unknown_fields)]
pub struct WireMetric {
    /// Time-weighted mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<WireReading>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<WireReading>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<WireReading>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<WireReading>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<WireReading>,
    /// Observed ÷ held GPU-time, 0 to 1. Absent counts as nothing observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<WireReading>,
    /// `ok` where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<WireQuality>,
    /// Held GPU-time in the window, µs; `counters.held_us` where absent, under 24 h at most what the window can hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_us: Option<WireCounter>,
}

/// `suspect_zero`: always 0 while power and clocks say load.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = UsageSnapshotQuality)]
#[serde(rename_all = "snake_case")]
pub enum WireQuality {
    Ok,
    SuspectZero,
}

/// Totals since the boot epoch or the job's start, whichever is later.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = UsageSnapshotCounters)]
#[serde(deny_unknown_fields)]
pub struct WireCounters {
    /// GPU-time held, µs: a held second on two GPUs counts 2,000,000, and on a MIG instance 1,000,000 (instance-time).
    pub held_us: WireCounter,
    /// GPU-time busy, µs; absent where no utilisation is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_us: Option<WireCounter>,
    /// Energy, mJ; absent where the device has no energy counter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_mj: Option<WireCounter>,
}

/// How long the metric had which value, in ms since the boot epoch or the job's start, whichever is later; each bin modulo 2³².
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = UsageSnapshotHistogram)]
#[serde(deny_unknown_fields)]
pub struct WireHistogram {
    /// Base64 (padded) of 101 little-endian u32, one for each per cent from 0 to 100.
    #[schema(min_length = 540, max_length = 540)]
    pub bins: String,
}

/// A plain decimal, in a string or as a number, read digit for digit.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct WireDecimal(pub Value);

/// A device reading: a decimal that is not negative. One that cannot be a reading (NaN, a blank sentinel, a share over
/// 1) is dropped and counted.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct WireReading(pub Value);

/// A whole number of µs or mJ from 0 to 10¹⁸, in a string or as a number.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct WireCounter(pub Value);

impl PartialSchema for WireDecimal {
    fn schema() -> RefOr<Schema> {
        let text = "A plain decimal, in a string or as a number, read digit for digit: no exponent, at most 28 digits.";
        text_or(Type::Number, text).pattern(Some(exact::PATTERN)).into()
    }
}

impl ToSchema for WireDecimal {
    fn name() -> std::borrow::Cow<'static, str> {
        "UsageSnapshotDecimal".into()
    }
}

impl PartialSchema for WireReading {
    fn schema() -> RefOr<Schema> {
        // No pattern: `NaN` and `9.22e18` are readings to drop and count, not reasons to refuse the other metrics.
        let text = "A device reading: a decimal that is not negative, in a string or as a number. One that cannot be a \
                    reading (NaN, a blank sentinel, a share over 1) is dropped and counted.";
        text_or(Type::Number, text).max_length(Some(64)).into()
    }
}

impl ToSchema for WireReading {
    fn name() -> std::borrow::Cow<'static, str> {
        "UsageSnapshotReading".into()
    }
}

impl PartialSchema for WireCounter {
    fn schema() -> RefOr<Schema> {
        let text = "A whole number of µs or mJ, in a string or as a number, at most 10¹⁸.";
        text_or(Type::Integer, text).pattern(Some("^[0-9]{1,20}$")).into()
    }
}

impl ToSchema for WireCounter {
    fn name() -> std::borrow::Cow<'static, str> {
        "UsageSnapshotCounter".into()
    }
}

fn text_or(number: Type, description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::String, number])).description(Some(description))
}
