//! The mirror: the newest snapshot of each (node, tenant, job, GPU model), in memory, for quotes to read without I/O.
//!
//! Snapshots apply only forward by (boot epoch, sequence), so that delayed, repeated and reordered deliveries come to
//! the same state. They expire by the time of their *receipt*: an agent's clock cannot keep one alive. A holding's last
//! one, its tombstone, is kept like any other and observed as nothing. What each brings beyond what was counted of its holding
//! goes into the roll-up of its tenant and model, where the long windows come from; that does not expire with the snapshots.
//!
//! Readers wait for nobody: each shard is an immutable map behind an atomic pointer, and a writer, who holds the shard's lock
//! for some additions, makes the next map of what changed and of the rest as it is.

mod difference;
#[cfg(test)]
mod difference_tests;
mod forecast;
mod kept;
#[cfg(test)]
mod kept_tests;
mod limits;
mod merge;
#[cfg(test)]
mod merge_tests;
mod newest;
mod rollup;
#[cfg(test)]
mod rollup_tests;
mod rooms;
#[cfg(test)]
mod rooms_tests;
mod series;
mod shard;
mod tenant;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tombstone_tests;
mod usage;

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use farebox_pricing::usage::{Observation, StatKey};
use jiff::{SignedDuration, Timestamp};

use crate::snapshot::Snapshot;
use limits::reserve;
use shard::Shard;
use tenant::{Held, SnapshotKey, Tenant};

pub use forecast::{Basis, BasisScope, DRAM_PEAK, Forecast, ForecastError, ForecastQuery, TENSOR_PEAK};
pub use kept::{KeptRollUp, NotARollUp, RollUpName};
pub use limits::{MirrorCounters, MirrorFull, MirrorLimits};
pub use newest::Newest;
pub use usage::{Expectation, HeldDevice, MetricUsage, ModelUsage, Series, UsageSource};

/// Enough that a sweep, which locks one shard at a time, does not hold up those who deliver.
const SHARDS: usize = 64;
/// `metering.md` case 14: a snapshot from further ahead than this keeps its counters only. One from behind cannot be told
/// from one that waited in an agent's spool: it counts where it was observed, and its age says the rest.
const LARGEST_LEAD: SignedDuration = SignedDuration::from_secs(2);

/// What became of a snapshot that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is now the newest of its key.
    Stored,
    /// Its key already has one at least as new; nothing changed.
    NotNewer,
    /// It is now the newest of its key, with its counters only: its windows are not used.
    Quarantined(Quarantine),
}

/// Why the windows of a snapshot are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quarantine {
    /// Observed over 2 s after it was received.
    FromTheFuture,
}

/// What a quote asks the mirror.
#[derive(Clone, Copy, Debug)]
pub struct UsageQuery<'a> {
    pub tenant: &'a str,
    /// The scope: this model's snapshots, or all of the tenant's where it has none of this model.
    pub gpu_model: &'a str,
    /// The statistics that the plan reads.
    pub keys: &'a [StatKey],
    /// Snapshots older than this are left out while the scope has a fresher one; milliseconds, a plan parameter.
    pub hard_stale_ms: u64,
    pub now: Timestamp,
}

/// The newest snapshot of each key. Shared by reference between any number of threads.
#[derive(Debug)]
pub struct Mirror {
    limits: MirrorLimits,
    shards: [Shard; SHARDS],
    entries: AtomicUsize,
    /// No snapshot expires before this, Unix milliseconds: a full mirror is not swept in vain.
    next_expiry_ms: AtomicI64,
    applied: AtomicU64,
    not_newer: AtomicU64,
    quarantined: AtomicU64,
    dropped_readings: AtomicU64,
    refused_full: AtomicU64,
    /// Taken by pairs and kinds.
    places: AtomicUsize,
    roll_ups: AtomicUsize,
    roll_ups_evicted: AtomicU64,
    roll_ups_skipped: AtomicU64,
    kinds: AtomicUsize,
    kinds_let_go: AtomicU64,
    kinds_skipped: AtomicU64,
    /// How often something was rolled up.
    changes: AtomicU64,
    holdings: AtomicUsize,
    holdings_let_go: AtomicU64,
    histograms_refused: AtomicU64,
}

enum Placement {
    Stored,
    NotNewer,
    NoRoom,
}

impl Mirror {
    pub fn new(limits: MirrorLimits) -> Self {
        Self {
            limits,
            shards: std::array::from_fn(|_| Shard::default()),
            entries: AtomicUsize::new(0),
            next_expiry_ms: AtomicI64::new(i64::MAX),
            applied: AtomicU64::new(0),
            not_newer: AtomicU64::new(0),
            quarantined: AtomicU64::new(0),
            dropped_readings: AtomicU64::new(0),
            refused_full: AtomicU64::new(0),
            places: AtomicUsize::new(0),
            roll_ups: AtomicUsize::new(0),
            roll_ups_evicted: AtomicU64::new(0),
            roll_ups_skipped: AtomicU64::new(0),
            kinds: AtomicUsize::new(0),
            kinds_let_go: AtomicU64::new(0),
            kinds_skipped: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            holdings: AtomicUsize::new(0),
            holdings_let_go: AtomicU64::new(0),
            histograms_refused: AtomicU64::new(0),
        }
    }

    /// Takes a snapshot in, if it is newer than what its key has.
    ///
    /// # Errors
    /// [`MirrorFull`] where its key is new and there is no room, also not after sweeping.
    pub fn apply(&self, mut snapshot: Snapshot, received_at: Timestamp) -> Result<Applied, MirrorFull> {
        let is_ahead = snapshot.observed_at.duration_since(received_at) > LARGEST_LEAD;
        if is_ahead {
            snapshot.windows.clear();
        }
        let dropped_readings = snapshot.dropped_readings;
        let held = Arc::new(Held { snapshot, received_at });
        let mut placement = self.place(&held, is_ahead);
        if matches!(placement, Placement::NoRoom)
            && self.next_expiry_ms.load(Ordering::Relaxed) <= received_at.as_millisecond()
        {
            self.sweep(received_at);
            placement = self.place(&held, is_ahead);
        }
        match placement {
            Placement::NoRoom => {
                self.refused_full.fetch_add(1, Ordering::Relaxed);
                Err(MirrorFull { limit: self.limits.snapshots })
            }
            Placement::NotNewer => {
                self.not_newer.fetch_add(1, Ordering::Relaxed);
                Ok(Applied::NotNewer)
            }
            Placement::Stored => {
                self.applied.fetch_add(1, Ordering::Relaxed);
                self.dropped_readings.fetch_add(dropped_readings, Ordering::Relaxed);
                self.quarantined.fetch_add(u64::from(is_ahead), Ordering::Relaxed);
                Ok(if is_ahead { Applied::Quarantined(Quarantine::FromTheFuture) } else { Applied::Stored })
            }
        }
    }

    /// What is known of a tenant's GPUs at `query.now`, merged over nodes; `None` where nothing is.
    pub fn observe(&self, query: &UsageQuery<'_>) -> Option<Observation> {
        merge::merge(self.tenant(query.tenant)?.seen(query, |held| !self.is_expired(held, query.now)), query)
    }

    pub fn counters(&self) -> MirrorCounters {
        MirrorCounters {
            applied: self.applied.load(Ordering::Relaxed),
            not_newer: self.not_newer.load(Ordering::Relaxed),
            quarantined: self.quarantined.load(Ordering::Relaxed),
            dropped_readings: self.dropped_readings.load(Ordering::Relaxed),
            refused_full: self.refused_full.load(Ordering::Relaxed),
            histograms_refused: self.histograms_refused.load(Ordering::Relaxed),
            roll_ups: self.roll_ups.load(Ordering::Relaxed),
            roll_ups_evicted: self.roll_ups_evicted.load(Ordering::Relaxed),
            roll_ups_skipped: self.roll_ups_skipped.load(Ordering::Relaxed),
            kinds: self.kinds.load(Ordering::Relaxed),
            kinds_let_go: self.kinds_let_go.load(Ordering::Relaxed),
            kinds_skipped: self.kinds_skipped.load(Ordering::Relaxed),
            holdings: self.holdings.load(Ordering::Relaxed),
            holdings_let_go: self.holdings_let_go.load(Ordering::Relaxed),
            entries: self.entries.load(Ordering::Relaxed),
        }
    }

    fn place(&self, held: &Arc<Held>, is_ahead: bool) -> Placement {
        let snapshot = &held.snapshot;
        let key = SnapshotKey::of(snapshot);
        let mut draft = self.shard(&snapshot.tenant).draft();
        let newest = draft.tenants.get(&*snapshot.tenant).and_then(|tenant| tenant.snapshots.get(&key));
        // An expired one counts as forgotten, whatever its epoch; its place is taken over. The roll-up does not forget.
        let current = newest.filter(|newest| !self.is_expired(newest, held.received_at));
        if current.is_some_and(|current| !held.is_newer_than(current)) {
            return Placement::NotNewer;
        }
        if newest.is_none() && !reserve(&self.entries, self.limits.snapshots) {
            return Placement::NoRoom;
        }
        self.note_expiry(held);
        if !is_ahead {
            self.roll_up(&mut draft, held);
        }
        if let Some(tenant) = draft.tenant_mut(&snapshot.tenant) {
            tenant.snapshots.insert_mut(key, Arc::clone(held));
        }
        draft.publish();
        Placement::Stored
    }

    fn is_expired(&self, held: &Held, now: Timestamp) -> bool {
        now.duration_since(held.received_at) >= self.limits.retention
    }

    fn note_expiry(&self, held: &Held) {
        let retention_ms = i64::try_from(self.limits.retention.as_millis()).unwrap_or(i64::MAX);
        let expiry_ms = held.received_at.as_millisecond().saturating_add(retention_ms);
        self.next_expiry_ms.fetch_min(expiry_ms, Ordering::SeqCst);
    }

    /// All that is known of a tenant at this moment; it never changes.
    fn tenant(&self, name: &str) -> Option<Arc<Tenant>> {
        self.shard(name).tenants().get(name).cloned()
    }

    /// The same in every replica, so that who makes room for whom is.
    #[expect(clippy::indexing_slicing, reason = "the index is taken modulo the length")]
    fn shard(&self, tenant: &str) -> &Shard {
        &self.shards[BuildHasherDefault::<DefaultHasher>::default().hash_one(tenant) as usize % SHARDS]
    }
}
