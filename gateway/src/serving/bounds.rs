//! What requests may take of the process, and which web pages may send them. Enforced by the API, in front of its routes.

use std::time::Duration;

use hyper::header::HeaderValue;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// In work at once; one more is answered 503.
    pub requests: usize,
    /// From the end of a request's head to its answer's head; then 503.
    pub request_timeout: Duration,
    /// Answers that go on until the client leaves, at once; one more is answered 503.
    pub streams: usize,
}

/// The web pages that may call from a browser, by their origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// None but those that this gateway serves itself.
    #[default]
    None,
    Any,
    These(Vec<HeaderValue>),
}

impl Bounds {
    /// The bounds that the gateway ships with.
    pub const fn standard() -> Self {
        Self { requests: 1024, request_timeout: Duration::from_secs(15), streams: 256 }
    }
}
