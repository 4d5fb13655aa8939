//! `/openapi.json`: the API as OpenAPI 3.1, from the same types that are checked and rendered.

mod completion;

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;
use utoipa::OpenApi;

use super::etag;

#[derive(OpenApi)]
#[openapi(
    info(title = "Farebox", description = "Prices GPU compute with sandboxed policies on live utilisation.\n\nDecimals are JSON strings in answers; in requests plain number literals are read digit for digit as well. Times are RFC 3339 UTC, currencies ISO 4217, errors RFC 9457.\n\nEvery answer carries `traceparent` and `X-Trace-Id`, which name the request in the log. Where a `GET` is there, so is `HEAD`; `OPTIONS` answers with `Allow`. Answers of 4 kB and more are sent in gzip to those who accept it; their `ETag` then ends in `-gzip` and names the same thing."),
    paths(
        super::quotes::create,
        super::quotes::read,
        super::catalogue::read,
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

/// As it is served, and its tag: made once.
static SERVED: LazyLock<(Bytes, String)> = LazyLock::new(|| {
    let json = value().to_string();
    let tag = etag::of(json.as_bytes());
    (json.into(), tag)
});

/// This document.
#[utoipa::path(get, path = "/openapi.json", operation_id = "read_openapi", tag = "operations", responses(
    (status = 200, description = "OpenAPI 3.1", body = Value, headers(("ETag" = String, description = "of the document"))),
    (status = 304, description = "still the one that `If-None-Match` names"),
))]
pub(super) async fn document(headers: HeaderMap) -> Response {
    let (json, tag) = &*SERVED;
    let mut response = etag::not_modified(&headers, tag).unwrap_or_else(|| {
        let media_type = [(header::CONTENT_TYPE, "application/json")];
        let mut response = (StatusCode::OK, media_type, json.clone()).into_response();
        if let Some(value) = etag::header_of(tag) {
            response.headers_mut().insert(header::ETAG, value);
        }
        response
    });
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn value() -> Value {
    // The derived document always serialises; a test reads it.
    let mut document = serde_json::to_value(Document::openapi()).unwrap_or_default();
    completion::complete(&mut document);
    document
}
