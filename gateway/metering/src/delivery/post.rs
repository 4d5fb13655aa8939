//! One snapshot to the gateway over HTTP, and what its answer means.

use std::time::Duration;

use serde::Deserialize;

/// For a connection to be made, and for the whole exchange.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// Of an answer. The longest that the gateway gives lists violations.
const MOST_ANSWER_BYTES: u64 = 256 << 10;

/// What became of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Posted {
    Applied,
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

    pub(super) fn post(&self, body: &[u8], timeout: Duration) -> Posted {
        let request = self.http.post(&self.url).config().timeout_global(Some(timeout)).build();
        let away = |error: ureq::Error| Posted::Away { reason: error.to_string(), retry_after: None };
        let mut answer = match request.header("Content-Type", "application/json").send(body) {
            Ok(answer) => answer,
            Err(error) => return away(error),
        };
        let status = answer.status().as_u16();
        let retry_after = answer.headers().get("Retry-After").and_then(|value| value.to_str().ok()).and_then(seconds);
        // To its end, or the connection could not be used again.
        match answer.body_mut().with_config().limit(MOST_ANSWER_BYTES).read_to_vec() {
            Ok(text) => meaning(status, retry_after, &text),
            Err(error) => away(error),
        }
    }
}

/// `Retry-After` in seconds. As a date it would need the gateway's clock; the back-off does as well then.
fn seconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().map(Duration::from_secs)
}

fn meaning(status: u16, retry_after: Option<Duration>, body: &[u8]) -> Posted {
    let away = |reason: String| Posted::Away { reason, retry_after };
    match status {
        200..300 => match serde_json::from_slice(body) {
            Ok(Receipt { applied: true }) => Posted::Applied,
            Ok(Receipt { applied: false }) => Posted::NotNewer,
            Err(_) => away(format!("answered {status} without a receipt: that is no Farebox gateway")),
        },
        // Too slow, or too many: nothing is wrong with the snapshot.
        408 | 429 => away(format!("answered {status}")),
        400..500 => Posted::Refused { reason: refusal(status, body) },
        _ => away(format!("answered {status}")),
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
        for (status, body) in
            [(200, &b"<html>"[..]), (204, b""), (301, b""), (408, b""), (429, b""), (500, b""), (503, b"{}")]
        {
            assert!(matches!(meaning(status, None, body), Posted::Away { .. }), "{status}");
        }
        for status in [400, 401, 404, 413, 422] {
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
    fn retry_after_is_read_in_seconds() {
        assert_eq!(seconds(" 7 "), Some(Duration::from_secs(7)));
        for other in ["", "-1", "Fri, 31 Dec 1999 23:59:59 GMT", "99999999999999999999"] {
            assert_eq!(seconds(other), None, "{other}");
        }
    }
}
