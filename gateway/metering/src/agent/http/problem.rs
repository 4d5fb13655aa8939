//! Problems as JSON (RFC 9457), in the shape of the gateway's.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::Answer;
use crate::agent::jobs::NotDone;
use crate::agent::jobs::wire::Violation;

#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    slug: &'static str,
    title: &'static str,
    detail: String,
    errors: Vec<Violation>,
    /// A header that the answer has.
    header: Option<(&'static str, &'static str)>,
}

impl Problem {
    fn new(status: StatusCode, slug: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, slug, title, detail: detail.into(), errors: Vec::new(), header: None }
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "not found", detail)
    }

    pub(super) fn not_allowed(allow: &'static str) -> Self {
        let detail = format!("this path takes {allow}");
        let problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "invalid-request", "method not allowed", detail);
        Self { header: Some(("allow", allow)), ..problem }
    }

    pub(super) fn unauthenticated() -> Self {
        let detail = "send `Authorization: Bearer …` with the token of `control_token_file`";
        let problem = Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", "no credentials, or wrong ones", detail);
        Self { header: Some(("www-authenticate", "Bearer")), ..problem }
    }

    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "forbidden", detail)
    }

    pub(super) fn malformed_json(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed-json", "malformed JSON", detail)
    }

    pub(super) fn invalid(detail: impl Into<String>, errors: Vec<Violation>) -> Self {
        let problem = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-request", "invalid request", detail);
        Self { errors, ..problem }
    }

    pub(super) fn bad_query(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-request", "invalid request", detail)
    }

    pub(super) fn too_large(most: usize) -> Self {
        let detail = format!("a body has at most {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid-request", "body too large", detail)
    }

    pub(super) fn too_slow() -> Self {
        let detail = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "invalid-request", "request timeout", detail)
    }

    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "unavailable", detail)
    }

    pub(super) fn of_job(error: &NotDone) -> Self {
        match error {
            NotDone::Other { .. } | NotDone::Refused(_) => {
                Self::new(StatusCode::CONFLICT, "job-conflict", "conflict with what runs", error.to_string())
            }
            NotDone::TooMany => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "overloaded", error.to_string())
            }
            NotDone::NotKept(cause) => {
                tracing::error!(error = %cause, "a job is not started or ended: the state directory cannot be written");
                Self::unavailable(error.to_string())
            }
            NotDone::Stopping => Self::unavailable(error.to_string()),
        }
    }

    /// `instance` is the path that was asked for.
    pub(super) fn answer(self, instance: &str) -> Answer {
        let mut body = json!({
            "type": format!("/problems/{}", self.slug),
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
            "instance": instance,
        });
        if let (false, Value::Object(members)) = (self.errors.is_empty(), &mut body) {
            members.insert("errors".to_owned(), json!(self.errors));
        }
        let mut answer = json_answer(self.status, &body);
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some((name, value)) = self.header {
            headers.insert(name, HeaderValue::from_static(value));
        }
        answer
    }
}

pub(super) fn json_answer(status: StatusCode, body: &Value) -> Answer {
    answer(status, "application/json", body.to_string())
}

pub(super) fn answer(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}
