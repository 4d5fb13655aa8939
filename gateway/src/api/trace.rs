//! The outermost layer: a trace id for each request, the metrics and the log line of each answer, and the rendering of
//! problems.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument as _;

use super::Gateway;
use super::problem::Problem;

/// Header that carries the trace id back.
const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");

pub(super) async fn trace(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let trace_id = trace_id(request.headers());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    // The route's pattern, so that ids do not become labels.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map(MatchedPath::as_str);
    let span = tracing::info_span!("request", trace_id);
    let mut response = next.run(request).instrument(span).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        problem.render(&path, &trace_id, &mut response);
    }
    if let Ok(value) = HeaderValue::from_str(&trace_id) {
        response.headers_mut().insert(TRACE_ID, value);
    }
    if gateway.draining.has_begun() {
        // So that no client sends its next request on a connection that is about to close.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let elapsed = started.elapsed();
    gateway.metrics.http_answered(route, &method, response.status(), elapsed);
    let (status, micros) = (response.status().as_u16(), elapsed.as_micros());
    tracing::info!(trace_id, %method, route, status, micros, "answered");
    response
}

/// The trace id of a `traceparent` header (W3C Trace Context), else a new one.
fn trace_id(headers: &HeaderMap) -> String {
    let sent = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let sent = sent.and_then(|parent| parent.split('-').nth(1)).filter(|id| is_trace_id(id));
    sent.map_or_else(new_trace_id, str::to_owned)
}

pub(super) fn new_trace_id() -> String {
    let mut random = [0; 16];
    // Without randomness the id is all zeros, which W3C Trace Context reads as "none".
    let _ = getrandom::fill(&mut random);
    format!("{:032x}", u128::from_be_bytes(random))
}

fn is_trace_id(id: &str) -> bool {
    let is_hex = id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    id.len() == 32 && is_hex && id.bytes().any(|byte| byte != b'0')
}
