//! The one place that reads the agent's clocks. Everything else is told the time.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;

/// One moment, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Unix µs. May be set at any time, forwards and backwards.
    pub wall_us: i64,
    /// µs since the clock was made. Never runs backwards.
    pub mono_us: u64,
}

/// Tells the time; an argument, so that a test can set it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Now + Send + Sync>);

impl Clock {
    /// The machine's. Make one and clone it: the monotonic times of two do not compare.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn system() -> Self {
        let start = Instant::now();
        Self(Arc::new(move || Now {
            wall_us: Timestamp::now().as_microsecond(),
            mono_us: u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX),
        }))
    }

    pub fn from_fn(now: impl Fn() -> Now + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Now {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Clock")
    }
}
