//! The outermost layer: a trace for each request, the metrics and the log line of each answer, the rendering of problems
//! and the encoding of answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::HttpBody as _;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tracing::{Instrument as _, Span};

use super::problem::Problem;
use super::trace_context::{TRACEPARENT, TraceContext};
use super::{Gateway, gzip};
use crate::telemetry::{Answered, Metrics};

/// Header that carries the trace id back.
pub(super) const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");

/// Put on an answer by the handler that knows which quote it is about, for the log line.
#[derive(Clone, Debug)]
pub(super) struct QuoteId(pub(super) String);

pub(super) async fn trace(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    let context = TraceContext::of(request.headers());
    // Nobody gets the body of an answer to a `HEAD`: it stays as it is, and its headers say so.
    let takes_gzip = request.method() != Method::HEAD && gzip::is_accepted(request.headers());
    let path = request.uri().path().to_owned();
    // At every level of the log there is something that wants to be found by its trace.
    let span = tracing::error_span!("request", trace_id = context.trace_id);
    let passage = Passage::begin(&gateway, &request, span.clone());
    let mut response = match misaddressed(&request) {
        Some(problem) => problem.into_response(),
        None => next.run(request).instrument(span).await,
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        problem.render(&path, &context.trace_id, &mut response);
    }
    let quote = response.extensions_mut().remove::<QuoteId>();
    let mut response = gzip::encode(response, takes_gzip).await;
    identify(&context, response.headers_mut());
    if gateway.draining.has_begun() {
        // So that no client sends its next request on a connection that is about to close.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    passage.end(&response, quote.as_ref());
    response
}

/// HTTP/1.1 wants one `Host` (RFC 9112 §3.2): without it, or with two, what stands between us and the client may have
/// routed the request by another name than we would.
fn misaddressed(request: &Request) -> Option<Problem> {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    (hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11)).then(|| {
        Problem::invalid_as(StatusCode::BAD_REQUEST, "an HTTP/1.1 request names one host; send one `Host` header")
    })
}

/// A problem that is answered outside of the router.
pub(super) fn untraced(problem: &Problem, path: &str) -> Response {
    let context = TraceContext::of(&HeaderMap::new());
    let mut response = problem.clone().into_response();
    problem.render(path, &context.trace_id, &mut response);
    identify(&context, response.headers_mut());
    response
}

/// The headers of every answer.
fn identify(context: &TraceContext, headers: &mut HeaderMap) {
    if let Ok(value) = HeaderValue::from_str(&context.trace_id) {
        headers.insert(TRACE_ID, value);
    }
    if let Some(value) = context.header() {
        headers.insert(TRACEPARENT, value);
    }
}

/// As a number that the log has a form for.
fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

/// A request on its way through. Dropped before its end, its client has gone away or its handler has panicked: that is
/// counted and logged too.
struct Passage {
    started: Instant,
    metrics: Arc<Metrics>,
    /// Names the trace in each line of the log.
    span: Span,
    method: Method,
    /// The route's pattern, so that ids do not become labels.
    route: Option<MatchedPath>,
    has_ended: bool,
}

impl Passage {
    fn begin(gateway: &Gateway, request: &Request, span: Span) -> Self {
        let metrics = Arc::clone(&gateway.metrics);
        metrics.http_began();
        let route = request.extensions().get::<MatchedPath>().cloned();
        Self { started: Instant::now(), metrics, span, method: request.method().clone(), route, has_ended: false }
    }

    fn end(mut self, response: &Response, quote: Option<&QuoteId>) {
        self.has_ended = true;
        let (took, status) = (self.started.elapsed(), response.status());
        let (method, route) = (&self.method, self.route());
        let length = response.body().size_hint().exact().filter(|_| *method != Method::HEAD);
        let bytes = length.unwrap_or_default();
        self.metrics.http_answered(&Answered { route, method, status, took, bytes });
        let (status, duration_us, quote) = (status.as_u16(), micros(took), quote.map(|QuoteId(id)| id.as_str()));
        self.span.in_scope(|| tracing::info!(%method, route, status, duration_us, bytes, quote, "answered"));
    }

    fn route(&self) -> Option<&str> {
        self.route.as_ref().map(MatchedPath::as_str)
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.metrics.http_left();
        if !self.has_ended {
            self.metrics.http_abandoned();
            let (method, route) = (&self.method, self.route());
            self.span.in_scope(|| tracing::info!(%method, route, "ended without an answer"));
        }
    }
}
