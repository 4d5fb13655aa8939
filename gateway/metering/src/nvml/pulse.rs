//! The reading thread's heartbeat: since when it is inside a call of the driver.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Clock;

const RESTING: u64 = u64::MAX;

/// Shared by the thread that reads and the one that waits for it.
#[derive(Clone, Debug)]
pub struct Pulse {
    clock: Clock,
    called_at: Arc<AtomicU64>,
    longest_us: Arc<AtomicU64>,
}

impl Pulse {
    pub fn new(clock: Clock) -> Self {
        Self { clock, called_at: Arc::new(AtomicU64::new(RESTING)), longest_us: Arc::default() }
    }

    /// Before each call of the driver.
    pub(super) fn beat(&self) {
        self.note_call();
        self.called_at.store(self.clock.now().mono_us, Ordering::Relaxed);
    }

    /// Between passes.
    pub(super) fn rest(&self) {
        self.note_call();
        self.called_at.store(RESTING, Ordering::Relaxed);
    }

    fn note_call(&self) {
        self.longest_us.fetch_max(self.in_call_for_us().unwrap_or(0), Ordering::Relaxed);
    }

    /// The longest call since this was asked, µs.
    pub fn take_longest_us(&self) -> u64 {
        self.longest_us.swap(0, Ordering::Relaxed)
    }

    /// How long the call of the driver that is going on has lasted, µs. `None`: none is going on.
    pub fn in_call_for_us(&self) -> Option<u64> {
        let called_at = self.called_at.load(Ordering::Relaxed);
        (called_at != RESTING).then(|| self.clock.now().mono_us.saturating_sub(called_at))
    }
}
