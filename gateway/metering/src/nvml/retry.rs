//! When to try again: after a wait that doubles.

use std::time::Duration;

/// Times are of the monotonic clock, µs.
#[derive(Debug)]
pub(super) struct Retry {
    first_us: u64,
    most_us: u64,
    /// The next wait; `first_us` after a success.
    wait_us: u64,
    due_at: Option<u64>,
}

impl Retry {
    pub(super) fn new(first: Duration, most: Duration) -> Self {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self { first_us: us(first), most_us: us(most), wait_us: us(first), due_at: None }
    }

    /// Whether a wait is over. False where none was begun.
    pub(super) fn is_over(&self, mono_us: u64) -> bool {
        self.due_at.is_some_and(|due_at| mono_us >= due_at)
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.due_at.is_some()
    }

    /// Begins the next wait and says how long it is.
    pub(super) fn wait(&mut self, mono_us: u64) -> Duration {
        let wait_us = self.wait_us;
        self.due_at = Some(mono_us.saturating_add(wait_us));
        self.wait_us = wait_us.saturating_mul(2).min(self.most_us);
        Duration::from_micros(wait_us)
    }

    pub(super) fn succeeded(&mut self) {
        self.wait_us = self.first_us;
        self.due_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_doubles_up_to_the_longest_and_starts_over_after_a_success() {
        let mut retry = Retry::new(Duration::from_secs(1), Duration::from_secs(60));
        assert!(!retry.is_waiting());
        let waits: Vec<u64> = (0..8).map(|_| retry.wait(0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(retry.is_waiting() && !retry.is_over(59_999_999) && retry.is_over(60_000_000));
        retry.succeeded();
        assert_eq!((retry.is_waiting(), retry.wait(0).as_secs()), (false, 1));
    }
}
