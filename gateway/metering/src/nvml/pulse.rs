//! A thread's heartbeat: since when it is busy with the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;

const RESTING: u64 = u64::MAX;

/// Shared by the thread that calls the driver and the one that waits for it.
#[derive(Clone, Debug)]
pub struct Pulse {
    clock: Clock,
    busy_since: Arc<AtomicU64>,
    longest_us: Arc<AtomicU64>,
}

impl Pulse {
    pub fn new(clock: Clock) -> Self {
        Self { clock, busy_since: Arc::new(AtomicU64::new(RESTING)), longest_us: Arc::default() }
    }

    /// Another thread's, by the same clock.
    pub(super) fn of_another(&self) -> Self {
        Self::new(self.clock.clone())
    }

    /// Before each call of the driver. Many calls that are slow one by one are as bad as one that hangs, so it is the first
    /// after a rest that counts.
    pub(super) fn beat(&self) {
        let now = self.clock.now().mono_us;
        let _ = self.busy_since.compare_exchange(RESTING, now, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Nothing is asked of the driver any more, until the next beat.
    pub(super) fn rest(&self) {
        self.longest_us.fetch_max(self.busy_for_us().unwrap_or(0), Ordering::Relaxed);
        self.busy_since.store(RESTING, Ordering::Relaxed);
    }

    /// The longest time between two rests since this was asked, µs.
    pub fn take_longest_us(&self) -> u64 {
        self.longest_us.swap(0, Ordering::Relaxed)
    }

    /// How long the driver has been asked without a rest, µs. `None`: it rests.
    pub fn busy_for_us(&self) -> Option<u64> {
        let since = self.busy_since.load(Ordering::Relaxed);
        (since != RESTING).then(|| self.clock.now().mono_us.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Now;

    #[test]
    fn many_slow_calls_are_one_slow_pass() {
        let time = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&time);
        let pulse = Pulse::new(Clock::from_fn(move || Now { wall_us: 0, mono_us: told.load(Ordering::Relaxed) }));
        assert_eq!(pulse.busy_for_us(), None);
        for _ in 0..10 {
            pulse.beat();
            time.fetch_add(900, Ordering::Relaxed);
        }
        assert_eq!(pulse.busy_for_us(), Some(9_000));
        pulse.rest();
        assert_eq!((pulse.busy_for_us(), pulse.take_longest_us(), pulse.take_longest_us()), (None, 9_000, 0));
        time.fetch_add(50_000, Ordering::Relaxed);
        pulse.beat();
        assert_eq!(pulse.busy_for_us(), Some(0), "the rest is not counted");
    }
}
