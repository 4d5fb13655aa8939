//! Whether the process lives, whether it can quote, and its metrics.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::Gateway;
use crate::telemetry::METRICS_CONTENT_TYPE;

/// Alive: the process answers.
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, description = "alive")))]
pub(super) async fn healthz() -> Response {
    Json(json!({ "status": "ok" })).into_response()
}

/// Ready: the process has not been told to stop. It does not start without a plan to price under; `problems` tells what of
/// the data directory was left out.
#[utoipa::path(get, path = "/readyz", tag = "operations", responses(
    (status = 200, description = "ready to quote"),
    (status = 503, description = "the process is stopping"),
))]
pub(super) async fn readyz(State(gateway): State<Gateway>) -> Response {
    let catalog = &gateway.road.catalog;
    let (status, word) = match gateway.draining.has_begun() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        false => (StatusCode::OK, "ready"),
    };
    let problems: Vec<String> = catalog.problems.iter().map(ToString::to_string).collect();
    let body = json!({ "status": word, "plans": catalog.plans.len(), "problems": problems });
    (status, Json(body)).into_response()
}

/// Metrics in the OpenMetrics text format.
#[utoipa::path(get, path = "/metrics", tag = "operations", responses((status = 200, description = "OpenMetrics text")))]
pub(super) async fn metrics(State(gateway): State<Gateway>) -> Response {
    let text = gateway.metrics.encode();
    ([(header::CONTENT_TYPE, METRICS_CONTENT_TYPE)], text).into_response()
}
