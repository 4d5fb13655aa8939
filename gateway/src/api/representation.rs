//! What a client may have already: bytes with a tag, answered by a 304 where they are still good (RFC 9110 §15.4.5).

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::{etag, gzip};

#[derive(Debug)]
pub(super) struct Representation {
    media_type: &'static str,
    pub(super) plain: Bytes,
    /// Where it was compressed ahead of time.
    pub(super) gzip: Option<Bytes>,
    tag: String,
}

impl Representation {
    pub(super) fn of(media_type: &'static str, plain: impl Into<Bytes>) -> Self {
        let plain = plain.into();
        Self { media_type, tag: etag::of(&plain), plain, gzip: None }
    }

    /// Has its compressed form ready, so that no answer waits for that.
    pub(super) fn with_gzip(self, gzip: Option<Bytes>) -> Self {
        Self { gzip, ..self }
    }

    /// `kept` is for how long without asking again.
    pub(super) fn answer(&self, headers: &HeaderMap, kept: HeaderValue) -> Response {
        let packed = self.gzip.as_ref().filter(|_| gzip::is_accepted(headers));
        let mut response = etag::not_modified(headers, &self.tag).unwrap_or_else(|| {
            let body = packed.unwrap_or(&self.plain).clone();
            let mut response = (StatusCode::OK, [(header::CONTENT_TYPE, self.media_type)], body).into_response();
            if let Some(tag) = etag::header_of(&self.tag) {
                response.headers_mut().insert(header::ETAG, tag);
            }
            if packed.is_some() {
                gzip::mark(response.headers_mut());
            }
            response
        });
        response.headers_mut().insert(header::CACHE_CONTROL, kept);
        let length = self.plain.len().try_into().unwrap_or(u64::MAX);
        if self.gzip.is_some() || gzip::is_worth_it(self.media_type, length) {
            gzip::vary(response.headers_mut());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(representation: &Representation, name: header::HeaderName, value: &str) -> Response {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        representation.answer(&headers, HeaderValue::from_static("no-cache"))
    }

    #[test]
    fn a_304_carries_what_the_200_would() {
        let short = Representation::of("application/json", "{}");
        let long = Representation::of("application/json", "x".repeat(4096));
        let image = Representation::of("image/png", "x".repeat(4096));
        let packed = Representation::of("text/css", "a {}").with_gzip(Some(Bytes::from_static(b"p")));
        for (representation, varies) in [(&short, false), (&long, true), (&image, false), (&packed, true)] {
            let full = asked(representation, header::ACCEPT_ENCODING, "identity");
            let known = asked(representation, header::IF_NONE_MATCH, &format!("\"{}\"", representation.tag));
            assert_eq!((full.status(), known.status()), (StatusCode::OK, StatusCode::NOT_MODIFIED));
            for name in [header::ETAG, header::CACHE_CONTROL, header::VARY] {
                assert_eq!(full.headers().get(&name), known.headers().get(&name), "{name}");
            }
            let vary: Vec<_> = known.headers().get_all(header::VARY).iter().collect();
            assert_eq!(vary, if varies { vec!["accept-encoding"] } else { vec![] });
        }
        let sent = asked(&packed, header::ACCEPT_ENCODING, "gzip");
        assert_eq!(sent.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(sent.headers()[header::ETAG], format!("\"{}-gzip\"", packed.tag));
    }
}
