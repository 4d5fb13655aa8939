//! `GET /v1/tenants/{id}/usage` on the wire.

mod expectations;

use std::collections::BTreeMap;

use farebox_metering::mirror::{HeldDevice, MetricUsage, ModelUsage, Series, UsageSource};
use farebox_pricing::exact;
use farebox_pricing::usage::{StatQuality, Window};
use rust_decimal::Decimal;
use serde::Serialize;
use utoipa::ToSchema;

use super::super::effective_utilisation::ExpectedUtilisation;
use expectations::{JobKindForecast, job_kind_forecast};

/// Of a share in a series: a hundredth of a per cent, finer than anything that is drawn.
const DECIMALS: u32 = 4;

type Windows = BTreeMap<&'static str, BTreeMap<String, GpuMetricUsage>>;

/// What is known of a tenant's GPUs.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TenantUsage {
    #[schema(example = "acme")]
    pub(super) tenant_id: String,
    /// By name; those of which a live snapshot is known.
    pub(super) models: Vec<GpuModelUsage>,
}

/// A tenant's GPUs of one model, merged over nodes.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GpuModelUsage {
    #[schema(example = "A100")]
    gpu_model: String,
    /// `ok` where every snapshot says so, else what one says.
    #[schema(example = "ok")]
    health: String,
    #[schema(example = json!(["xid_79"]))]
    reasons: Vec<String>,
    /// RFC 3339 UTC; of the oldest snapshot in it.
    observed_at: String,
    /// Of the oldest snapshot in it, since it was observed or received, whichever is longer.
    age_ms: u64,
    /// The first 1,000 by node and job.
    devices: Vec<GpuDeviceUsage>,
    /// Of all devices, listed or not.
    #[schema(example = 8)]
    device_count: usize,
    /// The snapshots that this is made of: the first 1,000 by node and job.
    sources: Vec<GpuUsageSource>,
    /// Of all sources, listed or not.
    #[schema(example = 1)]
    source_count: usize,
    /// By window (`10s`, `1m`, `5m`, `15m`, `24h`, `7d`, `30d`), then by metric. What was not observed is absent.
    windows: Windows,
    /// By job kind, the windows `24h`, `7d` and `30d`. A job's kind is its name without what tells one run from another:
    /// `train-resnet50` of `train-resnet50-17`.
    job_kinds: BTreeMap<String, Windows>,
    /// By window (`24h`, `7d`, `30d`), then by metric: the means of its buckets, to draw.
    series: BTreeMap<&'static str, BTreeMap<String, GpuSeries>>,
    /// The effective utilisation to expect, of whatever job; `null` where too little is known.
    effective: Option<ExpectedUtilisation>,
    /// The same with how far off it has been: of all jobs (`job_kind` is `null`), then by job kind. What cannot be told is absent.
    forecasts: Vec<JobKindForecast>,
    counters: GpuCounters,
}

/// A device, or the part of one, that the tenant holds.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GpuDeviceUsage {
    gpu_uuid: String,
    /// GPU instance and compute instance of a MIG device.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "1/0")]
    instance: Option<String>,
    /// Of the device or instance.
    #[schema(example = "1")]
    share: String,
    /// How it was attributed.
    #[schema(example = "exclusive")]
    method: String,
    #[schema(example = "gpu-07")]
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
}

/// A snapshot: the newest of its node, job and model.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GpuUsageSource {
    #[schema(example = "gpu-07")]
    node: String,
    /// `null` where no job is told.
    #[schema(example = "train-resnet50-17")]
    job: Option<String>,
    /// Names the run of the agent that sent it.
    #[schema(example = "2026-12-01T00:00:00Z")]
    boot_epoch: String,
    /// Counts up within the run.
    #[schema(example = 41)]
    seq: u64,
    /// RFC 3339 UTC, by the agent's clock.
    #[schema(example = "2026-12-01T00:00:00Z")]
    observed_at: String,
    /// Since it was observed or received, whichever is longer.
    #[schema(example = 900)]
    age_ms: u64,
    #[schema(example = "ok")]
    health: String,
}

/// One metric over time.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GpuSeries {
    /// RFC 3339 UTC: when the first bucket begins.
    #[schema(example = "2026-11-30T01:00:00Z")]
    start: String,
    /// From one bucket to the next, s: 24 of an hour, 28 of six, 30 of a day.
    #[schema(example = 3600)]
    step_s: i64,
    /// The mean of each bucket as a share of 1, with at most four decimals; `null` where nothing was observed. The last is the
    /// bucket of now.
    #[schema(example = json!(["0.82", null, "0.7914"]))]
    values: Vec<Option<String>>,
}

/// One metric in one window. A percentile of several nodes is there only where the window is rolled up of their histograms alone.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GpuMetricUsage {
    /// A share of 1 for utilisations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.82")]
    mean: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<String>,
    /// Observed ÷ held GPU-time.
    #[schema(example = "0.99")]
    coverage: String,
    /// `ok` or `suspect_zero`.
    #[schema(example = "ok")]
    quality: &'static str,
    /// Held GPU-time in the window, µs.
    #[schema(example = "7200000000")]
    held_us: String,
}

/// Sums over the snapshots; absent where one of them does not bring it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GpuCounters {
    /// GPU-time held, µs.
    #[schema(example = "7200000000")]
    held_us: String,
    /// GPU-time busy, µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    busy_us: Option<String>,
    /// Energy, mJ.
    #[serde(skip_serializing_if = "Option::is_none")]
    energy_mj: Option<String>,
}

pub(super) fn model(usage: ModelUsage) -> GpuModelUsage {
    GpuModelUsage {
        gpu_model: usage.gpu_model,
        health: usage.health,
        reasons: usage.reasons,
        observed_at: usage.observed_at.to_string(),
        age_ms: usage.age_ms,
        devices: usage.devices.into_iter().map(device).collect(),
        device_count: usage.device_count,
        sources: usage.sources.into_iter().map(source).collect(),
        source_count: usage.source_count,
        windows: windows(usage.windows),
        job_kinds: usage.job_kinds.into_iter().map(|(kind, of)| (kind, windows(of))).collect(),
        series: usage.series.into_iter().map(|(window, of)| (window.as_str(), all_series(of))).collect(),
        effective: usage.effective.as_ref().map(ExpectedUtilisation::of),
        forecasts: usage.forecasts.into_iter().map(job_kind_forecast).collect(),
        counters: GpuCounters {
            held_us: usage.counters.held_us.to_string(),
            busy_us: usage.counters.busy_us.map(|busy_us| busy_us.to_string()),
            energy_mj: usage.counters.energy_mj.map(|energy_mj| energy_mj.to_string()),
        },
    }
}

fn windows(windows: BTreeMap<Window, BTreeMap<String, MetricUsage>>) -> Windows {
    let metrics = |metrics: BTreeMap<String, MetricUsage>| metrics.into_iter().map(|(name, of)| (name, metric(&of)));
    windows.into_iter().map(|(window, of)| (window.as_str(), metrics(of).collect())).collect()
}

fn all_series(series: BTreeMap<String, Series>) -> BTreeMap<String, GpuSeries> {
    let one = |Series { start, step_s, values }: Series| GpuSeries {
        start: start.to_string(),
        step_s,
        values: values.into_iter().map(|value| value.map(share)).collect(),
    };
    series.into_iter().map(|(metric, of)| (metric, one(of))).collect()
}

fn share(value: Decimal) -> String {
    exact::print(value.round_dp(DECIMALS))
}

fn source(source: UsageSource) -> GpuUsageSource {
    let UsageSource { node, job, boot_epoch, seq, observed_at, age_ms, health } = source;
    GpuUsageSource { node, job, boot_epoch, seq, observed_at: observed_at.to_string(), age_ms, health }
}

fn device(held: HeldDevice) -> GpuDeviceUsage {
    let HeldDevice { device, node, job } = held;
    let share = exact::print(device.share);
    GpuDeviceUsage { gpu_uuid: device.gpu_uuid, instance: device.instance, share, method: device.method, node, job }
}

fn metric(usage: &MetricUsage) -> GpuMetricUsage {
    let text = |value: Option<Decimal>| value.map(exact::print);
    GpuMetricUsage {
        mean: text(usage.mean),
        p50: text(usage.p50),
        p95: text(usage.p95),
        min: text(usage.min),
        max: text(usage.max),
        coverage: exact::print(usage.coverage),
        quality: match usage.quality {
            StatQuality::Ok => "ok",
            StatQuality::SuspectZero => "suspect_zero",
        },
        held_us: usage.held_us.to_string(),
    }
}
