//! What a feed counts, and how it stands.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use prometheus_client::metrics::histogram::Histogram;

use super::trust::Dropped;

/// From the server's receipt to the mirror: a few ms, unless Redis or the gateway falls behind.
const LAG_SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0, 600.0];
const MINUTE_US: u64 = 60_000_000;

/// Totals since the start, of all shards.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) entries: AtomicU64,
    pub(super) gaps: AtomicU64,
    pub(super) bootstraps: AtomicU64,
    pub(super) roll_ups_kept: AtomicU64,
    pub(super) roll_ups_restored: AtomicU64,
    pub(super) roll_ups_refused: AtomicU64,
    pub(super) roll_ups_failed: AtomicU64,
    dropped: [Reason; Dropped::ALL.len()],
}

#[derive(Debug, Default)]
struct Reason {
    count: AtomicU64,
    /// When it was last logged, monotonic µs + 1; 0: never.
    logged: AtomicU64,
}

/// How one shard's connection stands.
#[derive(Debug, Default)]
pub(super) struct ShardState {
    pub(super) is_connected: AtomicBool,
    /// When Redis last answered, monotonic µs; `u64::MAX`: never.
    answered_us: AtomicU64,
}

/// Seconds from the server's receipt to the mirror.
#[derive(Clone)]
pub struct Lag(pub Histogram);

/// A feed at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedObserved {
    pub shards: u64,
    /// Shards without a connection, or whose snapshots are being read for the first time.
    pub away: u64,
    /// Since the shard that Redis has been silent on for longest answered last, ms; `None`: on one it never has.
    pub age_ms: Option<u64>,
    pub entries: u64,
    pub gaps: u64,
    pub bootstraps: u64,
    /// In the order of [`Dropped::ALL`].
    pub dropped: [(&'static str, u64); Dropped::ALL.len()],
    pub roll_ups_kept: u64,
    pub roll_ups_restored: u64,
    /// No gateway's MAC, or bytes that this version does not read.
    pub roll_ups_refused: u64,
    /// Could not be written, and are tried again.
    pub roll_ups_failed: u64,
}

impl Counts {
    /// Counts it; true if it is to be logged: once a minute and reason.
    pub(super) fn drop_for(&self, dropped: Dropped, now_us: u64) -> bool {
        let Some(reason) = Dropped::ALL.iter().position(|known| *known == dropped).and_then(|at| self.dropped.get(at))
        else {
            return false;
        };
        reason.count.fetch_add(1, Ordering::Relaxed);
        let last = reason.logged.load(Ordering::Relaxed);
        let (is_due, now) =
            (last == 0 || now_us.saturating_add(1).saturating_sub(last) >= MINUTE_US, now_us.saturating_add(1));
        // Of several at once, one.
        is_due && reason.logged.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(super) fn observed(&self, states: &[ShardState], now_us: u64) -> FeedObserved {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let is_away = |state: &&ShardState| !state.is_connected.load(Ordering::Relaxed);
        let mut dropped = Dropped::ALL.map(|reason| (reason.name(), 0));
        for ((_, number), reason) in dropped.iter_mut().zip(&self.dropped) {
            *number = count(&reason.count);
        }
        let ages: Option<Vec<u64>> = states.iter().map(|state| state.age_us(now_us)).collect();
        FeedObserved {
            shards: u64::try_from(states.len()).unwrap_or(u64::MAX),
            away: u64::try_from(states.iter().filter(is_away).count()).unwrap_or(u64::MAX),
            age_ms: ages.and_then(|ages| ages.into_iter().max()).map(|age| age / 1_000),
            entries: count(&self.entries),
            gaps: count(&self.gaps),
            bootstraps: count(&self.bootstraps),
            dropped,
            roll_ups_kept: count(&self.roll_ups_kept),
            roll_ups_restored: count(&self.roll_ups_restored),
            roll_ups_refused: count(&self.roll_ups_refused),
            roll_ups_failed: count(&self.roll_ups_failed),
        }
    }
}

impl ShardState {
    pub(super) fn new() -> Self {
        Self { is_connected: AtomicBool::new(false), answered_us: AtomicU64::new(u64::MAX) }
    }

    pub(super) fn answered(&self, now_us: u64) {
        self.answered_us.store(now_us, Ordering::Relaxed);
    }

    fn age_us(&self, now_us: u64) -> Option<u64> {
        let answered_us = self.answered_us.load(Ordering::Relaxed);
        (answered_us != u64::MAX).then(|| now_us.saturating_sub(answered_us))
    }
}

impl Default for Lag {
    fn default() -> Self {
        Self(Histogram::new(LAG_SECONDS))
    }
}

impl fmt::Debug for Lag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Lag")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_logged_once_a_minute_and_counted_always() {
        let counts = Counts::default();
        let logged: Vec<_> = [0, 1, MINUTE_US, MINUTE_US + 1, 2 * MINUTE_US]
            .map(|now_us| counts.drop_for(Dropped::MacWrong, now_us))
            .to_vec();
        assert_eq!(logged, [true, false, true, false, true]);
        assert!(counts.drop_for(Dropped::Invalid, 5));
        let observed = counts.observed(&[ShardState::new()], 0);
        assert_eq!(observed.dropped[1], ("mac_wrong", 5));
        assert_eq!(observed.dropped[5], ("invalid", 1));
    }

    #[test]
    fn the_age_is_that_of_the_most_silent_shard() {
        let (counts, states) = (Counts::default(), [ShardState::new(), ShardState::new()]);
        states[0].answered(1_000_000);
        assert_eq!(counts.observed(&states, 9_000_000).age_ms, None);
        states[1].answered(4_000_000);
        states[1].is_connected.store(true, Ordering::Relaxed);
        let observed = counts.observed(&states, 9_000_000);
        assert_eq!((observed.age_ms, observed.shards, observed.away), (Some(8_000), 2, 1));
    }
}
