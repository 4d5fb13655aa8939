//! `POST /v1/quotes` and `GET /v1/quotes/{id}`.

mod outcomes;
mod problems;

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;

use super::body::json_bytes;
use super::problem::{Problem, ProblemBody};
use super::trace::QuoteId;
use super::wire::QuoteView;
use super::{Gateway, etag};
use crate::intake::body::QuoteBody;
use crate::ledger::Quote;

/// Prices a request and issues a quote.
#[utoipa::path(post, path = "/v1/quotes", operation_id = "create_quote", tag = "quote", request_body = QuoteBody, responses(
    (status = 201, description = "the quote", body = QuoteView, headers(
        ("Location" = String, description = "where the quote can be read"),
        ("ETag" = String, description = "hash of the priced content; does not change with the status"))),
    (status = 400, description = "`malformed-json`", body = ProblemBody, content_type = "application/problem+json"),
    (status = 408, description = "`invalid-request`: the body took too long", body = ProblemBody, content_type = "application/problem+json"),
    (status = 413, description = "`invalid-request`: the body is too large", body = ProblemBody, content_type = "application/problem+json"),
    (status = 415, description = "`invalid-request`: the body is not JSON", body = ProblemBody, content_type = "application/problem+json"),
    (status = 422, description = "`invalid-request`, `unknown-price`, `policy-refused`", body = ProblemBody, content_type = "application/problem+json"),
    (status = 503, description = "`policy-fault`, `overloaded`, `unavailable`; retry after `Retry-After`", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(super) async fn create(State(gateway): State<Gateway>, request: Request) -> Result<Response, Problem> {
    let bytes = json_bytes(request, gateway.body_limit_bytes).await?;
    let now = gateway.clock.now();
    let road = Arc::clone(&gateway.road);
    let quoted = gateway.workers.run(move || road.quote(&bytes, now)).await;
    outcomes::record(&gateway.metrics, &quoted);
    let quote = quoted??;
    let mut response = render(&quote, now, StatusCode::CREATED)?;
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/quotes/{}", quote.issued.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Reads a quote; an expired one stays readable.
#[utoipa::path(get, path = "/v1/quotes/{id}", operation_id = "read_quote", tag = "quote", params(("id" = String, Path, description = "`q_…`")), responses(
    (status = 200, description = "the quote", body = QuoteView, headers(
        ("ETag" = String, description = "hash of the priced content; does not change with the status"))),
    (status = 404, description = "`not-found`: never issued, or no longer kept", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(super) async fn read(
    State(gateway): State<Gateway>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let quote = id.ok().and_then(|Path(id)| gateway.road.quotes.find(&id));
    let quote = quote.ok_or_else(|| Problem::not_found("there is no such quote"))?;
    render(&quote, gateway.clock.now(), StatusCode::OK)
}

fn render(quote: &Quote, now: Timestamp, status: StatusCode) -> Result<Response, Problem> {
    let defect = |error: &dyn std::fmt::Display| {
        tracing::error!(quote = quote.issued.id, %error, "a quote could not be rendered");
        Problem::unavailable("the quote could not be rendered")
    };
    let view = QuoteView::of(quote, now).map_err(|error| defect(&error))?;
    let json = serde_json::to_vec(&view).map_err(|error| defect(&error))?;
    let mut response = (status, json).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    if let Some(etag) = etag::header_of(&quote.etag) {
        headers.insert(header::ETAG, etag);
    }
    response.extensions_mut().insert(QuoteId(quote.issued.id.clone()));
    Ok(response)
}
