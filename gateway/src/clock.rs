//! The one place that reads the clock. Everything else is told the time.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

/// Tells the time; an argument of the server, so that a test can stop it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The system's clock, in whole milliseconds: what a quote shows is what it was priced at.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn system() -> Self {
        Self(Arc::new(|| {
            let now = Timestamp::now();
            Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
        }))
    }

    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Clock")
    }
}
