//! gzip of answers, for clients that ask for it: whole bodies, since ours are whole when they are made.
//!
//! An `ETag` names one encoding of an answer (RFC 9110 §8.8.3): that of the gzip form ends in `-gzip`.

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use tokio::task::spawn_blocking;

use super::accept::weight;

/// Below this, what gzip saves on the wire is not worth its computing: a quote of one line is not compressed.
const SMALLEST_BYTES: u64 = 4096;
/// Fast: answers are made once and sent once.
const LEVEL: u8 = 1;
/// Above this, compressing takes about a millisecond and more.
const LARGEST_INLINE_BYTES: usize = 64 << 10;
/// What is above this is sent as it is.
const LARGEST_BYTES: usize = 64 << 20;
const TEXTS: [&str; 3] = ["application/json", "application/problem+json", "application/openmetrics-text"];
pub(super) const ETAG_SUFFIX: &str = "-gzip";

/// True where `Accept-Encoding` takes gzip: by name, or by `*`, with a weight above 0.
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    let mut named = None;
    let mut any = None;
    for value in headers.get_all(header::ACCEPT_ENCODING) {
        for coding in value.to_str().unwrap_or_default().split(',') {
            let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
            let is_taken = !is_zero_weight(parameters);
            match name.trim() {
                name if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") => {
                    named = Some(is_taken);
                }
                "*" => any = Some(is_taken),
                _ => {}
            }
        }
    }
    named.or(any).unwrap_or(false)
}

/// `q=0`, `q=0.0` …
fn is_zero_weight(parameters: &str) -> bool {
    weight(parameters)
        .is_some_and(|weight| weight.starts_with('0') && weight.bytes().all(|byte| matches!(byte, b'0' | b'.')))
}

/// The answer, compressed where that is asked for and worth it.
pub(super) async fn encode(mut response: Response, is_accepted: bool) -> Response {
    if !is_encodable(&response) {
        return response;
    }
    vary(response.headers_mut());
    if !is_accepted {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, LARGEST_BYTES).await else {
        // INVARIANT: a body of known length, no longer than that, is in memory and does not fail.
        return Response::from_parts(parts, Body::empty());
    };
    match packed(bytes.clone()).await {
        Some(packed) => {
            mark(&mut parts.headers);
            Response::from_parts(parts, packed.into())
        }
        None => Response::from_parts(parts, bytes.into()),
    }
}

/// Long ones beside the threads that serve: milliseconds in which other connections would wait. `None` where that cannot be.
async fn packed(bytes: Bytes) -> Option<Vec<u8>> {
    if bytes.len() <= LARGEST_INLINE_BYTES {
        return Some(compress(&bytes, LEVEL));
    }
    spawn_blocking(move || compress(&bytes, LEVEL)).await.ok()
}

/// Says, once, that the answer would be another under another `Accept-Encoding`.
pub(super) fn vary(headers: &mut HeaderMap) {
    const NAME: &str = "accept-encoding";
    if !headers.get_all(header::VARY).iter().any(|value| value == NAME) {
        headers.append(header::VARY, HeaderValue::from_static(NAME));
    }
}

/// The headers of an answer whose body is in gzip.
pub(super) fn mark(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.remove(header::CONTENT_LENGTH);
    let suffixed = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).and_then(|tag| tag.strip_suffix('"'));
    let suffixed = suffixed.and_then(|tag| HeaderValue::from_str(&format!("{tag}{ETAG_SUFFIX}\"")).ok());
    if let Some(tag) = suffixed {
        headers.insert(header::ETAG, tag);
    }
}

/// A body that is whole, not encoded yet and worth it.
fn is_encodable(response: &Response) -> bool {
    let headers = response.headers();
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let length = response.body().size_hint().exact();
    !headers.contains_key(header::CONTENT_ENCODING) && length.is_some_and(|length| is_worth_it(media_type, length))
}

/// A text of some length.
pub(super) fn is_worth_it(media_type: &str, length: u64) -> bool {
    let is_text = TEXTS.iter().any(|text| media_type.starts_with(text));
    is_text && length >= SMALLEST_BYTES && usize::try_from(length).is_ok_and(|length| length <= LARGEST_BYTES)
}

pub(super) fn compress(bytes: &[u8], level: u8) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    frame(&miniz_oxide::deflate::compress_to_vec(bytes, level), crc32fast::hash(bytes), length)
}

/// A deflate stream as a gzip file (RFC 1952): no name, no time, no system.
pub(super) fn frame(deflated: &[u8], crc: u32, length: u32) -> Vec<u8> {
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    [&head, deflated, &crc.to_le_bytes(), &length.to_le_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use axum::http::StatusCode;
    use axum::response::IntoResponse as _;

    use super::*;

    fn asking(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_str(value).unwrap());
        }
        is_accepted(&headers)
    }

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        let taking: [&[&str]; 8] = [
            &["gzip"],
            &["GZIP"],
            &["deflate, gzip;q=0.5, br"],
            &["*"],
            &["identity;q=0, *;q=1"],
            &["br", "gzip"],
            &["x-gzip"],
            &["gzip;q=0.001"],
        ];
        assert!(taking.iter().all(|values| asking(values)));
        let refusing: [&[&str]; 7] =
            [&[], &[""], &["identity"], &["br, deflate"], &["gzip;q=0"], &["gzip; Q=0.000, *"], &["*;q=0"]];
        assert!(!refusing.iter().any(|values| asking(values)));
    }

    fn answer(length: usize, media_type: &'static str) -> Response {
        let headers = [(header::CONTENT_TYPE, media_type), (header::ETAG, "\"a\"")];
        (StatusCode::OK, headers, "x".repeat(length)).into_response()
    }

    #[tokio::test]
    async fn long_texts_are_compressed_under_a_tag_of_their_own() {
        for length in [4096, LARGEST_INLINE_BYTES + 1] {
            let encoded = encode(answer(length, "application/json"), true).await;
            let headers = encoded.headers();
            assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
            assert_eq!(headers[header::VARY], "accept-encoding");
            assert_eq!(headers[header::ETAG], "\"a-gzip\"");
            let bytes = to_bytes(encoded.into_body(), 4096).await.unwrap();
            assert_eq!(gunzip(&bytes), "x".repeat(length).as_bytes());
        }
    }

    fn gunzip(bytes: &[u8]) -> Vec<u8> {
        let mut gunzip = Command::new("gzip")
            .args(["--decompress", "--stdout"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        gunzip.stdin.take().unwrap().write_all(bytes).unwrap();
        let output = gunzip.wait_with_output().unwrap();
        assert!(output.status.success());
        output.stdout
    }

    #[tokio::test]
    async fn nothing_else_is_touched() {
        let not_asked = encode(answer(4096, "application/json"), false).await;
        assert_eq!(not_asked.headers()[header::VARY], "accept-encoding", "the answer would have been another");
        assert_eq!(not_asked.headers()[header::ETAG], "\"a\"");
        for (length, media_type) in
            [(4095, "application/json"), (4096, "image/png"), (LARGEST_BYTES + 1, "application/json")]
        {
            let plain = encode(answer(length, media_type), true).await;
            assert_eq!(plain.body().size_hint().exact(), Some(length as u64), "the body is all there");
            assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
            assert!(!plain.headers().contains_key(header::VARY));
        }
    }
}
