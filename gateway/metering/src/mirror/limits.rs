//! What the mirror may grow to, and what it counts of itself.

use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::SignedDuration;

/// What the mirror may grow to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorLimits {
    /// Most snapshots held, a few kB each; and most holdings of which what was counted is remembered, 1 to
    /// 2 kB each.
    pub snapshots: usize,
    /// A snapshot is forgotten this long after its receipt.
    pub retention: SignedDuration,
    /// Most places for long windows: each (tenant, GPU model) pair takes one, and each kind of its jobs another. Some 25 kB for each
    /// of the four metrics that is measured, at most 80. Where they are reached, what has taken in nothing for `retention` makes
    /// room, and for a pair also the kind that has taken in nothing for longest.
    pub roll_ups: usize,
}

impl Default for MirrorLimits {
    fn default() -> Self {
        Self { snapshots: 100_000, retention: SignedDuration::from_mins(30), roll_ups: 20_000 }
    }
}

/// The mirror holds as many snapshots as it may, none of them expired. Keys that it holds still update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the usage mirror is full with {limit} snapshots; raise its limit or shorten its retention")]
pub struct MirrorFull {
    pub limit: usize,
}

/// Totals since the mirror was made, except `entries`, `roll_ups`, `kinds` and `holdings`, which are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorCounters {
    /// Stored as the newest of their key, quarantined ones included.
    pub applied: u64,
    pub not_newer: u64,
    pub quarantined: u64,
    /// Readings in applied snapshots that could not be ones.
    pub dropped_readings: u64,
    pub refused_full: u64,
    /// Histograms that say more than was held.
    pub histograms_refused: u64,
    pub entries: usize,
    /// (Tenant, GPU model) pairs that are rolled up, now.
    pub roll_ups: usize,
    /// Pairs that made room for others.
    pub roll_ups_evicted: u64,
    /// Snapshots that there was no room to roll up.
    pub roll_ups_skipped: u64,
    /// Kinds of jobs that are rolled up by themselves, now.
    pub kinds: usize,
    /// Kinds that made room for others.
    pub kinds_let_go: u64,
    /// Snapshots that there was no room to roll up by the kind of their job; they are in the total.
    pub kinds_skipped: u64,
    /// Holdings of which what was counted is remembered, now.
    pub holdings: usize,
    /// Holdings that made room for others: what they held until they come back is not counted.
    pub holdings_let_go: u64,
}

/// Takes one of the limited places.
pub(super) fn reserve(taken: &AtomicUsize, limit: usize) -> bool {
    let take = |taken: usize| (taken < limit).then(|| taken.saturating_add(1));
    taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
}
