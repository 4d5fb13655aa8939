//! Problems: every error answer of the API, as RFC 9457 `application/problem+json`.
//!
//! Inside a room errors are typed; here they become one [`Problem`]. A handler returns it, and the outermost layer
//! ([`super::trace`]) adds what only the request knows: `instance` and `trace_id`. The cause is logged once and never shown.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::schema::Violation;

/// What kind of problem it is; the last part of its `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    MalformedJson,
    InvalidRequest,
    UnknownPrice,
    PolicyRefused,
    PolicyFault,
    NotFound,
    Overloaded,
    Unavailable,
}

impl Kind {
    pub(crate) fn slug(self) -> &'static str {
        match self {
            Self::MalformedJson => "malformed-json",
            Self::InvalidRequest => "invalid-request",
            Self::UnknownPrice => "unknown-price",
            Self::PolicyRefused => "policy-refused",
            Self::PolicyFault => "policy-fault",
            Self::NotFound => "not-found",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::MalformedJson => "the body is not the JSON it must be",
            Self::InvalidRequest => "the request cannot be fulfilled as it is",
            Self::UnknownPrice => "there is no price for what is asked",
            Self::PolicyRefused => "a pricing policy refuses the request",
            Self::PolicyFault => "a pricing policy failed",
            Self::NotFound => "there is no such thing",
            Self::Overloaded => "too much is asked at the moment",
            Self::Unavailable => "the service cannot answer at the moment",
        }
    }
}

/// An error answer. `detail` is a sentence for the person who called.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) kind: Kind,
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
    pub(crate) errors: Vec<Violation>,
    retry_after_s: Option<u32>,
}

impl Problem {
    fn new(kind: Kind, status: StatusCode, detail: impl Into<String>) -> Self {
        Self { kind, status, detail: detail.into(), errors: Vec::new(), retry_after_s: None }
    }

    pub(crate) fn malformed_json(detail: impl Into<String>) -> Self {
        Self::new(Kind::MalformedJson, StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn invalid(detail: impl Into<String>, errors: Vec<Violation>) -> Self {
        Self { errors, ..Self::new(Kind::InvalidRequest, StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    /// An invalid request with a status of its own, such as 405, 413 or 415.
    pub(crate) fn invalid_as(status: StatusCode, detail: impl Into<String>) -> Self {
        Self::new(Kind::InvalidRequest, status, detail)
    }

    pub(crate) fn unknown_price(detail: impl Into<String>, errors: Vec<Violation>) -> Self {
        Self { errors, ..Self::new(Kind::UnknownPrice, StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    pub(crate) fn policy_refused(detail: impl Into<String>, error: Violation) -> Self {
        Self { errors: vec![error], ..Self::new(Kind::PolicyRefused, StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    pub(crate) fn policy_fault(detail: impl Into<String>) -> Self {
        Self { retry_after_s: Some(1), ..Self::new(Kind::PolicyFault, StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn overloaded(detail: impl Into<String>) -> Self {
        Self { retry_after_s: Some(1), ..Self::new(Kind::Overloaded, StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self { retry_after_s: Some(1), ..Self::new(Kind::Unavailable, StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// The answer, with what only the request knows.
    pub(crate) fn render(&self, instance: &str, trace_id: &str, response: &mut Response) {
        let body = ProblemBody {
            kind: format!("/problems/{}", self.kind.slug()),
            title: self.kind.title(),
            status: self.status.as_u16(),
            detail: &self.detail,
            instance,
            trace_id,
            errors: &self.errors,
        };
        // Strings and numbers always serialise.
        let json = serde_json::to_vec(&body).unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.remove(header::CONTENT_LENGTH);
        *response.body_mut() = json.into();
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.extensions_mut().insert(self);
        response
    }
}

/// A problem on the wire (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody<'a> {
    /// `/problems/<slug>`; decide by this, not by `detail`.
    #[serde(rename = "type")]
    #[schema(example = "/problems/invalid-request")]
    kind: String,
    title: &'static str,
    #[schema(example = 422)]
    status: u16,
    /// One sentence about this occurrence, for a person.
    detail: &'a str,
    /// Path of the request.
    instance: &'a str,
    /// Names this request in the logs.
    trace_id: &'a str,
    /// Where fields are at fault: each with a JSON Pointer into the body.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [Violation],
}
