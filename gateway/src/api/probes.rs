//! Whether the process lives, whether it can quote, and its metrics.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use farebox_metering::redis::feed::FeedWatch;
use serde::Serialize;
use utoipa::ToSchema;

use super::Gateway;
use crate::telemetry::METRICS_CONTENT_TYPE;

/// That the process answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`
    status: &'static str,
}

/// Whether the process can quote.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Readiness {
    /// `ready` or `draining`.
    status: &'static str,
    /// Plans that can be priced under.
    plans: usize,
    /// What of the data directory was left out, with file, line and column.
    problems: Vec<String>,
    usage: UsageReadiness,
}

/// Where usage comes from. Nothing of it makes the process unready: quotes go on without it, and say how old their usage is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsageReadiness {
    /// `redis`; `http` where snapshots come by `POST /v1/usage-snapshots` only.
    feed: &'static str,
    /// Shards in Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u64>,
    /// Shards without a connection to Redis, now.
    #[serde(skip_serializing_if = "Option::is_none")]
    away: Option<u64>,
    /// Since Redis answered last, ms, on the shard that is silent for longest; absent where one has never been heard.
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
}

impl UsageReadiness {
    fn of(feed: Option<&FeedWatch>) -> Self {
        let Some(observed) = feed.map(FeedWatch::observed) else {
            return Self { feed: "http", shards: None, away: None, age_ms: None };
        };
        Self { feed: "redis", shards: Some(observed.shards), away: Some(observed.away), age_ms: observed.age_ms }
    }
}

/// Alive: the process answers.
#[utoipa::path(get, path = "/healthz", operation_id = "read_health", tag = "operations", responses(
    (status = 200, description = "alive", body = Health),
))]
pub(super) async fn healthz() -> Response {
    Json(Health { status: "ok" }).into_response()
}

/// Ready: the process has not been told to stop. It does not start without a plan to price under; `problems` tells what of
/// the data directory was left out, `usage` whether usage comes from Redis, which is not needed to be ready.
#[utoipa::path(get, path = "/readyz", operation_id = "read_readiness", tag = "operations", responses(
    (status = 200, description = "ready to quote", body = Readiness),
    (status = 503, description = "the process is stopping", body = Readiness),
))]
pub(super) async fn readyz(State(gateway): State<Gateway>) -> Response {
    let catalog = &gateway.road.catalog;
    let (status, word) = match gateway.draining.has_begun() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        false => (StatusCode::OK, "ready"),
    };
    let problems: Vec<String> = catalog.problems.iter().map(ToString::to_string).collect();
    let usage = UsageReadiness::of(gateway.feed.as_ref());
    (status, Json(Readiness { status: word, plans: catalog.plans.len(), problems, usage })).into_response()
}

/// Metrics in the OpenMetrics text format.
#[utoipa::path(get, path = "/metrics", operation_id = "read_metrics", tag = "operations", responses(
    (status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8"),
))]
pub(super) async fn metrics(State(gateway): State<Gateway>) -> Response {
    let text = gateway.metrics.encode();
    ([(header::CONTENT_TYPE, METRICS_CONTENT_TYPE)], text).into_response()
}
