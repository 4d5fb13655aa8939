//! One snapshot to the gateway over HTTP, and what its answer means.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use serde::Deserialize;

/// For a connection to be made, and for the whole exchange.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// Of an answer. The longest that the gateway gives lists violations.
const MOST_ANSWER_BYTES: u64 = 256 << 10;
/// The gateway's word for it.
const FROM_THE_FUTURE: &str = "from_the_future";

/// What became of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Posted {
    Applied,
    /// Taken, but its windows are not used: by the gateway's clock it was observed in the future.
    FromTheFuture,
    /// The gateway had a newer one, or this one already.
    NotNewer,
    /// The gateway will never take it.
    Refused {
        reason: String,
    },
    /// Nobody took it; later somebody may.
    Away {
        reason: String,
        retry_after: Option<Duration>,
        /// With 5xx: it may be this one snapshot that cannot be taken, so that others go first.
        was_answered: bool,
    },
}

#[derive(Debug)]
pub(super) struct Gateway {
    http: ureq::Agent,
    url: String,
}

#[derive(Deserialize)]
struct Receipt {
    applied: bool,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Problem {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    errors: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    pointer: String,
    code: String,
}

impl Gateway {
    /// `root` as the configuration checked it: `http://host:port`. Its connection is kept between snapshots.
    pub(super) fn new(root: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("farebox-agent/", env!("CARGO_PKG_VERSION")));
        Self { http: config.build().into(), url: format!("{}/v1/usage-snapshots", root.trim_end_matches('/')) }
    }

    /// What became of it, and the answer's date, to the second, if it has one.
    pub(super) fn post(&self, body: &[u8], timeout: Duration) -> (Posted, Option<Timestamp>) {
        let request = self.http.post(&self.url).config().timeout_global(Some(timeout)).build();
        let away = |error: ureq::Error| (away(error.to_string(), None), None);
        let mut answer = match request.header("Content-Type", "application/json").send(body) {
            Ok(answer) => answer,
            Err(error) => return away(error),
        };
        let status = answer.status().as_u16();
        let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let (retry_after, date) = (header("Retry-After").and_then(seconds), header("Date").and_then(instant));
        // To its end, or the connection could not be used again.
        match answer.body_mut().with_config().limit(MOST_ANSWER_BYTES).read_to_vec() {
            Ok(text) => (meaning(status, retry_after, &text), date),
            Err(error) => away(error),
        }
    }
}

/// `Retry-After` in seconds. As a date it would need the gateway's clock; the back-off does as well then.
fn seconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().map(Duration::from_secs)
}

/// As HTTP writes dates, in GMT.
fn instant(text: &str) -> Option<Timestamp> {
    DateTimeParser::new().parse_timestamp(text.trim()).ok()
}

fn away(reason: String, retry_after: Option<Duration>) -> Posted {
    Posted::Away { reason, retry_after, was_answered: false }
}

fn meaning(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Posted {
    match status {
        200..300 => match serde_json::from_slice(body) {
            Ok(Receipt { applied: true, reason }) if reason.as_deref() == Some(FROM_THE_FUTURE) => {
                Posted::FromTheFuture
            }
            Ok(Receipt { applied: true, .. }) => Posted::Applied,
            Ok(Receipt { applied: false, .. }) => Posted::NotNewer,
            Err(_) => away(format!("answered {status} without a receipt: that is no Farebox gateway"), retry_after),
        },
        // Only these judge the snapshot. The others say that the gateway is busy, elsewhere, or wants another credential.
        400 | 413 | 415 | 422 => Posted::Refused { reason: refusal(status, body) },
        500..600 => Posted::Away { reason: format!("answered {status}"), retry_after, was_answered: true },
        _ => away(format!("answered {status}"), retry_after),
    }
}

/// The same for the same fault, so that each is logged once: no values of the snapshot.
fn refusal(status: u16, body: &[u8]) -> String {
    let Ok(Problem { kind, errors }) = serde_json::from_slice(body) else { return format!("answered {status}") };
    let printable = |text: &str| text.chars().filter(|letter| !letter.is_control()).take(100).collect::<String>();
    let first = errors.first().map(|fault| format!(", `{}` {}", printable(&fault.pointer), printable(&fault.code)));
    format!("answered {status}, {}{}", printable(&kind), first.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_mean_what_they_say() {
        assert_eq!(meaning(202, None, br#"{"applied":true}"#), Posted::Applied);
        assert_eq!(meaning(202, None, br#"{"applied":false,"reason":"not_newer"}"#), Posted::NotNewer);
        let future = br#"{"applied":true,"reason":"from_the_future"}"#;
        assert_eq!(meaning(202, None, future), Posted::FromTheFuture);
        for (status, body) in
            [(200, &b"<html>"[..]), (204, b""), (301, b""), (401, b""), (404, b""), (408, b""), (429, b"{}")]
        {
            let Posted::Away { was_answered: false, .. } = meaning(status, None, body) else { panic!("{status}") };
        }
        for status in [500, 502, 503, 599] {
            let Posted::Away { was_answered: true, .. } = meaning(status, None, b"") else { panic!("{status}") };
        }
        for status in [400, 413, 415, 422] {
            assert!(matches!(meaning(status, None, b""), Posted::Refused { .. }), "{status}");
        }
    }

    #[test]
    fn a_refusal_names_its_first_fault_and_no_value() {
        let body = br#"{"type":"/problems/invalid-request","errors":[{"pointer":"/seq","code":"out_of_range","detail":"is 7"}]}"#;
        let reason = "answered 422, /problems/invalid-request, `/seq` out_of_range".to_owned();
        assert_eq!(meaning(422, None, body), Posted::Refused { reason });
        let reason = "answered 422, a[2J".to_owned();
        assert_eq!(meaning(422, None, b"{\"type\":\"a\\u001b[2J\"}"), Posted::Refused { reason });
    }

    #[test]
    fn dates_are_read_as_http_writes_them() {
        let expected: Timestamp = "1994-11-06T08:49:37Z".parse().unwrap();
        assert_eq!(instant("Sun, 06 Nov 1994 08:49:37 GMT"), Some(expected));
        assert_eq!(instant("now"), None);
    }

    #[test]
    fn retry_after_is_read_in_seconds() {
        assert_eq!(seconds(" 7 "), Some(Duration::from_secs(7)));
        for other in ["", "-1", "Fri, 31 Dec 1999 23:59:59 GMT", "99999999999999999999"] {
            assert_eq!(seconds(other), None, "{other}");
        }
    }
}
