//! Entity tags: of what is sent, and the conditions that requests make on them (RFC 9110 §13).

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use sha2::{Digest as _, Sha256};

use super::gzip;
use crate::hex::short_hex;

/// The strong tag of some bytes, without its quotes.
pub(super) fn of(bytes: &[u8]) -> String {
    short_hex(&Sha256::digest(bytes))
}

/// `"tag"`
pub(super) fn header_of(tag: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("\"{tag}\"")).ok()
}

/// The 304 for a request whose `If-None-Match` names `tag`, in either encoding, or `*`. It carries the tag that the client
/// has, so that the client knows which of its copies is still good.
pub(super) fn not_modified(headers: &HeaderMap, tag: &str) -> Option<Response> {
    let known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .map(str::trim)
        .find(|sent| *sent == "*" || names(sent, tag))?;
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    let own = if known == "*" { header_of(tag) } else { HeaderValue::from_str(known).ok() };
    if let Some(value) = own {
        response.headers_mut().insert(header::ETAG, value);
    }
    Some(response)
}

/// Weak comparison: `W/"tag"` names it as well, as caches on the way may have weakened it.
fn names(sent: &str, tag: &str) -> bool {
    let opaque = sent.strip_prefix("W/").unwrap_or(sent);
    let inner = opaque.strip_prefix('"').and_then(|opaque| opaque.strip_suffix('"'));
    inner.is_some_and(|inner| inner.strip_suffix(gzip::ETAG_SUFFIX).unwrap_or(inner) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(condition: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_str(condition).unwrap());
        let response = not_modified(&headers, "a")?;
        assert_eq!(response.status(), 304);
        Some(response.headers()[header::ETAG].to_str().unwrap().to_owned())
    }

    #[test]
    fn a_client_that_has_it_is_told_so_under_its_own_tag() {
        for (condition, tag) in [
            ("\"a\"", "\"a\""),
            ("\"a-gzip\"", "\"a-gzip\""),
            ("W/\"a\"", "W/\"a\""),
            ("\"b\", \"a\"", "\"a\""),
            ("*", "\"a\""),
        ] {
            assert_eq!(asked(condition).as_deref(), Some(tag), "{condition}");
        }
        for condition in ["\"b\"", "a", "\"A\"", "", "\"a", "\"-gzip\""] {
            assert_eq!(asked(condition), None, "{condition}");
        }
        assert!(not_modified(&HeaderMap::new(), "a").is_none());
    }

    #[test]
    fn a_tag_is_of_the_bytes() {
        // printf abc | sha256sum
        assert_eq!(of(b"abc"), "ba7816bf8f01cfea414140de5dae2223");
    }
}
