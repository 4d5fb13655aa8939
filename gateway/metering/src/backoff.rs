//! How long to leave the other side alone after it failed.

use std::time::Duration;

/// Doubling further changes nothing, or would take days.
const MOST_DOUBLINGS: u32 = 16;
/// Whoever asks for more is a proxy with a page about maintenance: the gateway may be back long before.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// After one more failure: doubles from the first to the longest, less up to half by chance, so that those of a fleet do not
    /// come back at the same moment. `asked` is the other side's `Retry-After`: the least, up to a minute.
    pub(crate) fn failed(&mut self, asked: Option<Duration>, random: u64) -> Duration {
        let doubled = self.first.saturating_mul(1 << self.failures.min(MOST_DOUBLINGS)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        let most_ms = u64::try_from(doubled.as_millis()).unwrap_or(u64::MAX);
        let less = random.checked_rem(most_ms / 2).unwrap_or_default();
        let pause = Duration::from_millis(most_ms.saturating_sub(less));
        asked.map_or(pause, |asked| asked.min(LONGEST_ASKED).max(pause))
    }

    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(1);

    fn of_an_agent() -> Backoff {
        Backoff::new(FIRST, Duration::from_secs(30))
    }

    fn pauses(random: u64) -> Vec<u128> {
        let mut backoff = of_an_agent();
        (0..8).map(|_| backoff.failed(None, random).as_millis()).collect()
    }

    #[test]
    fn pauses_double_to_half_a_minute() {
        assert_eq!(pauses(0), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
        for random in [1, 499, 14_999, 123_456_789, u64::MAX] {
            let least_and_most = [(501, 1_000), (1_001, 2_000), (2_001, 4_000), (4_001, 8_000), (8_001, 16_000)];
            for (pause, (least, most)) in pauses(random).into_iter().zip(least_and_most) {
                assert!((least..=most).contains(&pause), "{pause} of {random}");
            }
        }
        assert_ne!(pauses(1), pauses(2));
    }

    #[test]
    fn a_success_starts_anew_and_retry_after_is_the_least() {
        let mut backoff = of_an_agent();
        for _ in 0..100 {
            backoff.failed(None, 0);
        }
        backoff.succeeded();
        assert_eq!(backoff.failed(None, 0), FIRST);
        assert_eq!(backoff.failed(Some(Duration::from_secs(50)), 0), Duration::from_secs(50));
        assert_eq!(backoff.failed(Some(Duration::ZERO), 0), Duration::from_secs(4));
        assert_eq!(backoff.failed(Some(Duration::MAX), 0), LONGEST_ASKED);
    }

    #[test]
    fn a_feeds_pauses_double_to_five_seconds_and_a_success_starts_anew() {
        let first = Duration::from_millis(100);
        let mut backoff = Backoff::new(first, Duration::from_secs(5));
        for most_ms in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            let pause = backoff.failed(None, most_ms).as_millis();
            assert!((u128::from(most_ms) / 2..=u128::from(most_ms)).contains(&pause), "{pause} of {most_ms}");
        }
        backoff.succeeded();
        assert!(backoff.failed(None, 7) <= first);
        let after_nine = |random| Backoff { failures: 9, ..of_an_agent() }.failed(None, random);
        assert_ne!(after_nine(1), after_nine(2));
    }
}
