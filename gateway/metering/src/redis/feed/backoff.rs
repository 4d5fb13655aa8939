//! How long to leave Redis alone after it failed.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// Doubling further changes nothing.
const MOST_DOUBLINGS: u32 = 6;

#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    random: RandomState,
}

impl Backoff {
    /// After one more failure: doubles from 0.1 s to 5 s, less up to half by chance, so that the gateways of a fleet do not come
    /// back at the same moment.
    pub(super) fn failed(&mut self) -> Duration {
        let doubled = FIRST.saturating_mul(1 << self.failures.min(MOST_DOUBLINGS)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let most_ms = u64::try_from(doubled.as_millis()).unwrap_or(u64::MAX);
        let less = self.random.hash_one(self.failures).checked_rem(most_ms / 2).unwrap_or_default();
        Duration::from_millis(most_ms.saturating_sub(less))
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_five_seconds_and_a_success_starts_anew() {
        let mut backoff = Backoff::default();
        for most_ms in [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
            let pause = backoff.failed().as_millis();
            assert!((most_ms / 2..=most_ms).contains(&pause), "{pause} of {most_ms}");
        }
        backoff.succeeded();
        assert!(backoff.failed() <= FIRST);
        let pauses: Vec<_> = (0..8).map(|_| Backoff { failures: 9, ..Backoff::default() }.failed()).collect();
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
    }
}
