//! Reading a JSON body: its type, its size and the time it may take.

use std::error::Error;

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::LengthLimitError;

use super::problem::Problem;
use crate::serving::BodyTooSlow;

/// The bytes of a JSON body of at most `limit` bytes. How long it may take is the server's limit.
pub(super) async fn json_bytes(request: Request, limit: usize) -> Result<Bytes, Problem> {
    check_media_type(request.headers())?;
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if declared.and_then(|text| text.parse::<usize>().ok()).is_some_and(|length| length > limit) {
        return Err(too_large(limit));
    }
    to_bytes(request.into_body(), limit).await.map_err(|error| {
        if caused_by::<LengthLimitError>(&error).is_some() {
            return too_large(limit);
        }
        match caused_by::<BodyTooSlow>(&error) {
            Some(slow) => Problem::invalid_as(StatusCode::REQUEST_TIMEOUT, slow.to_string()),
            None => Problem::malformed_json("the body broke off"),
        }
    })
}

/// `application/json` or `application/…+json`; a body without a type is taken for JSON.
fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return Err(Problem::invalid_as(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send the body without `Content-Encoding`",
        ));
    }
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    let detail = "send the body as `Content-Type: application/json`";
    Err(Problem::invalid_as(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
}

fn caused_by<Cause: Error + 'static>(error: &axum::Error) -> Option<&Cause> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(found) = cause.downcast_ref::<Cause>() {
            return Some(found);
        }
        source = cause.source();
    }
    None
}

fn too_large(limit: usize) -> Problem {
    Problem::invalid_as(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {limit} bytes"))
}
