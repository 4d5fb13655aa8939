//! Talks to a gateway over HTTP.

use std::time::Duration;

use serde_json::Value;

use super::Failure;
use super::exit::Exit;
use super::refusal::Refusal;

/// For one answer, unless another time is given.
const PATIENCE: Duration = Duration::from_secs(30);

/// Keeps its connections. No proxy of the environment stands between.
#[derive(Debug)]
pub(super) struct Client {
    http: ureq::Agent,
    /// `http://127.0.0.1:8080`
    pub(super) root: String,
}

impl Client {
    /// `root` is an `http://` URL; only that is spoken.
    pub(super) fn of(root: &str) -> Result<Self, Failure> {
        Self::with_patience(root, PATIENCE)
    }

    /// One that waits this long for an answer.
    pub(super) fn with_patience(root: &str, patience: Duration) -> Result<Self, Failure> {
        let host = root.strip_prefix("http://").map(|rest| rest.trim_end_matches('/')).unwrap_or_default();
        if host.is_empty() || host.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            let sentence = format!("`{root}` is not the address of a gateway; give one like `http://127.0.0.1:8080`");
            return Err(Failure::saying(sentence).ending(Exit::Usage));
        }
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
        let http = config.timeout_global(Some(patience)).max_redirects(0).max_redirects_will_error(false).build();
        Ok(Self { http: http.into(), root: format!("http://{host}") })
    }

    /// The body of a good answer, as it came.
    pub(super) fn post(&self, path: &str, body: &[u8]) -> Result<String, Failure> {
        let url = format!("{}{path}", self.root);
        let sent = self.http.post(&url).header("Content-Type", "application/json").send(body);
        answered(&url, sent)
    }

    /// The body of a good answer, as it came.
    pub(super) fn get(&self, path: &str) -> Result<String, Failure> {
        let url = format!("{}{path}", self.root);
        answered(&url, self.http.get(&url).call())
    }

    /// Like [`Self::post`], read as JSON.
    pub(super) fn post_json(&self, path: &str, body: &[u8]) -> Result<Value, Failure> {
        self.as_json(path, &self.post(path, body)?)
    }

    /// Like [`Self::get`], read as JSON.
    pub(super) fn get_json(&self, path: &str) -> Result<Value, Failure> {
        self.as_json(path, &self.get(path)?)
    }

    fn as_json(&self, path: &str, text: &str) -> Result<Value, Failure> {
        let not_ours =
            |error| Failure::because(&format!("{}{path} answers something other than JSON", self.root), error);
        serde_json::from_str(text).map_err(not_ours).map_err(|failure| failure.ending(Exit::Unavailable))
    }
}

/// The body of a good answer; anything else is a failure that says what came.
fn answered(url: &str, sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<String, Failure> {
    let unreachable = |error: ureq::Error| {
        let sentence = format!("{url} does not answer: {error}; is `farebox serve` running there?");
        Failure::saying(sentence).ending(Exit::Unavailable)
    };
    let mut answer = sent.map_err(unreachable)?;
    let status = answer.status().as_u16();
    let text = answer.body_mut().read_to_string().map_err(unreachable)?;
    if answer.status().is_success() {
        return Ok(text);
    }
    let problem = serde_json::from_str::<Value>(&text).ok().and_then(|body| Refusal::of_answer(&body));
    Err(match problem {
        Some(refusal) => refusal.failure(Exit::of_status(status)),
        None => {
            let begin: String = text.chars().take(200).collect();
            Failure::saying(format!("{url} answers {status}: {begin}")).ending(Exit::of_status(status))
        }
    })
}

/// A text as one segment of a path (RFC 3986 §3.3).
pub(super) fn path_segment(text: &str) -> String {
    let encoded = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_segment_of_the_path() {
        assert_eq!(path_segment("acme-1.a_b~"), "acme-1.a_b~");
        assert_eq!(path_segment("a/b?c#d %\n形"), "a%2Fb%3Fc%23d%20%25%0A%E5%BD%A2");
    }

    #[test]
    fn an_address_is_a_plain_http_url() {
        assert_eq!(Client::of("http://127.0.0.1:8080/").unwrap().root, "http://127.0.0.1:8080");
        for wrong in ["", "127.0.0.1:8080", "https://prices.example", "http://", "http:// x", "http://a\nb"] {
            assert_eq!(Client::of(wrong).unwrap_err().exit, Exit::Usage, "{wrong}");
        }
    }
}
