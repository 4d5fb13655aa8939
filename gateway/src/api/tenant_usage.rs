//! `GET /v1/tenants/{id}/usage`: what is known of a tenant's GPUs at this moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use farebox_metering::mirror::{HeldDevice, MetricUsage, ModelUsage};
use farebox_pricing::exact;
use farebox_pricing::usage::StatQuality;
use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::Serialize;
use utoipa::ToSchema;

use super::Gateway;
use super::problem::{Problem, ProblemBody};
use crate::quoting::Road;

/// What is known of a tenant's GPUs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TenantUsage {
    #[schema(example = "acme")]
    tenant_id: String,
    /// By name; those of which a live snapshot is known.
    models: Vec<GpuModelUsage>,
}

/// A tenant's GPUs of one model, merged over nodes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GpuModelUsage {
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
    devices: Vec<GpuDeviceUsage>,
    /// By window (`10s`, `1m`, `5m`, `15m`, `24h`, `7d`, `30d`), then by metric. What was not observed is absent.
    windows: BTreeMap<&'static str, BTreeMap<String, GpuMetricUsage>>,
    counters: GpuCounters,
}

/// A device, or the part of one, that the tenant holds.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GpuDeviceUsage {
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

/// One metric in one window. A percentile of several nodes is there only where the window is rolled up of their histograms alone.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GpuMetricUsage {
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
pub(crate) struct GpuCounters {
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

/// Reads what is known of a tenant's GPUs at this moment.
///
/// Also what is too stale for a quote, which leaves it out where there is a fresher snapshot. Whoever asks may name any tenant:
/// there is no access control yet.
#[utoipa::path(get, path = "/v1/tenants/{id}/usage", operation_id = "read_tenant_usage", tag = "quote", params(("id" = String, Path, description = "the tenant")), responses(
    (status = 200, description = "by GPU model; none where no live snapshot is known", body = TenantUsage),
    (status = 404, description = "`not-found`: neither a file nor a snapshot names this tenant", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(super) async fn read(
    State(gateway): State<Gateway>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let now = gateway.clock.now();
    let road = Arc::clone(&gateway.road);
    let tenant = id.ok().map(|Path(id)| id);
    // A tenant may hold thousands of GPUs: this is work, and not for the threads that serve connections.
    let usage = gateway.workers.run(move || usage_of(&road, tenant?, now)).await?;
    let usage = usage.ok_or_else(|| Problem::not_found("there is no such tenant"))?;
    Ok(([(header::CACHE_CONTROL, "private, no-store")], Json(usage)).into_response())
}

fn usage_of(road: &Road, tenant_id: String, now: Timestamp) -> Option<TenantUsage> {
    let models = road.mirror.usage(&tenant_id, now);
    let is_known = models.is_some() || road.catalog.tenants.contains_key(&tenant_id);
    let models = models.unwrap_or_default().into_iter().map(model).collect();
    is_known.then_some(TenantUsage { tenant_id, models })
}

fn model(usage: ModelUsage) -> GpuModelUsage {
    let metrics = |metrics: BTreeMap<String, MetricUsage>| metrics.into_iter().map(|(name, of)| (name, metric(&of)));
    GpuModelUsage {
        gpu_model: usage.gpu_model,
        health: usage.health,
        reasons: usage.reasons,
        observed_at: usage.observed_at.to_string(),
        age_ms: usage.age_ms,
        devices: usage.devices.into_iter().map(device).collect(),
        windows: usage.windows.into_iter().map(|(window, of)| (window.as_str(), metrics(of).collect())).collect(),
        counters: GpuCounters {
            held_us: usage.counters.held_us.to_string(),
            busy_us: usage.counters.busy_us.map(|busy_us| busy_us.to_string()),
            energy_mj: usage.counters.energy_mj.map(|energy_mj| energy_mj.to_string()),
        },
    }
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
