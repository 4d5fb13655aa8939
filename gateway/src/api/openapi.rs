//! `/openapi.json`: the API as OpenAPI 3.1, from the same types that are checked and rendered.

use axum::Json;
use serde_json::Value;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(title = "Farebox", description = "Prices GPU compute with sandboxed policies on live utilisation.\n\nDecimals are JSON strings in answers; in requests plain number literals are read digit for digit as well. Times are RFC 3339 UTC, currencies ISO 4217, errors RFC 9457."),
    paths(
        super::quotes::create,
        super::quotes::read,
        super::usage_snapshots::apply,
        super::probes::healthz,
        super::probes::readyz,
        super::probes::metrics,
        document,
    ),
    tags(
        (name = "quote", description = "storefronts"),
        (name = "meter", description = "agents on GPU hosts"),
        (name = "operations", description = "probes, metrics and this document"),
    ),
)]
struct Document;

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "operations", responses((status = 200, description = "OpenAPI 3.1")))]
pub(super) async fn document() -> Json<Value> {
    Json(value())
}

pub(super) fn value() -> Value {
    // The derived document always serialises; a test reads it.
    serde_json::to_value(Document::openapi()).unwrap_or_default()
}
