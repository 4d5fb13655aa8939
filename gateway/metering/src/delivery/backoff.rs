//! How long to leave the gateway alone after it failed.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Doubling further changes nothing.
const MOST_DOUBLINGS: u32 = 5;
/// Whoever asks for more is a proxy with a page about maintenance: the gateway may be back long before.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// After one more failure: doubles from 1 s to 30 s, less up to half by chance, so that the agents of a fleet do not come
    /// back at the same moment. `asked` is the gateway's `Retry-After`: the least, up to a minute.
    pub(super) fn failed(&mut self, asked: Option<Duration>, random: u64) -> Duration {
        let doubled = FIRST.saturating_mul(1 << self.failures.min(MOST_DOUBLINGS)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let most_ms = u64::try_from(doubled.as_millis()).unwrap_or(u64::MAX);
        let less = random.checked_rem(most_ms / 2).unwrap_or_default();
        let pause = Duration::from_millis(most_ms.saturating_sub(less));
        asked.map_or(pause, |asked| asked.min(LONGEST_ASKED).max(pause))
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(random: u64) -> Vec<u128> {
        let mut backoff = Backoff::default();
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
        let mut backoff = Backoff::default();
        for _ in 0..100 {
            backoff.failed(None, 0);
        }
        backoff.succeeded();
        assert_eq!(backoff.failed(None, 0), FIRST);
        assert_eq!(backoff.failed(Some(Duration::from_secs(50)), 0), Duration::from_secs(50));
        assert_eq!(backoff.failed(Some(Duration::ZERO), 0), Duration::from_secs(4));
        assert_eq!(backoff.failed(Some(Duration::MAX), 0), LONGEST_ASKED);
    }
}
