//! `/openapi.json`: the API as OpenAPI 3.1, from the same types that are checked and rendered.

mod completion;

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use serde_json::Value;
use utoipa::OpenApi;

use super::gzip;
use super::representation::Representation;

#[derive(OpenApi)]
#[openapi(
    info(title = "Farebox", description = "Prices GPU compute with sandboxed policies on live utilisation.\n\nDecimals are JSON strings in answers; in requests plain number literals are read digit for digit as well. Times are RFC 3339 UTC, currencies ISO 4217, errors RFC 9457.\n\nEvery answer carries `traceparent` and `X-Trace-Id`, which name the request in the log. Where a `GET` is there, so is `HEAD`; `OPTIONS` answers with `Allow`. Answers of 4 kB and more are sent in gzip to those who accept it; their `ETag` then ends in `-gzip` and names the same thing."),
    paths(
        super::quotes::create,
        super::quotes::read,
        super::catalog::read,
        super::tenant_usage::read,
        super::usage_snapshots::apply,
        super::probes::healthz,
        super::probes::readyz,
        super::probes::metrics,
        super::docs::page,
        super::docs::asset,
        document,
    ),
    tags(
        (name = "quote", description = "storefronts"),
        (name = "meter", description = "agents on GPU hosts"),
        (name = "operations", description = "probes, metrics and this document"),
    ),
)]
struct Document;

/// The level of compression that takes longest.
const SMALLEST: u8 = 9;

/// As it is served, in both encodings: made once.
static SERVED: LazyLock<Representation> = LazyLock::new(|| {
    let json = value().to_string();
    let gzip = gzip::compress(json.as_bytes(), SMALLEST);
    Representation::of("application/json", json).with_gzip(Some(gzip.into()))
});

/// This document.
#[utoipa::path(get, path = "/openapi.json", operation_id = "read_openapi", tag = "operations", responses(
    (status = 200, description = "OpenAPI 3.1", body = Value, headers(("ETag" = String, description = "of the document"))),
    (status = 304, description = "still the one that `If-None-Match` names"),
))]
pub(super) async fn document(headers: HeaderMap) -> Response {
    SERVED.answer(&headers, HeaderValue::from_static("no-cache"))
}

fn value() -> Value {
    // The derived document always serialises; a test reads it.
    let mut document = serde_json::to_value(Document::openapi()).unwrap_or_default();
    completion::complete(&mut document);
    document
}
