//! The mirror: the newest snapshot of each (node, tenant, job, GPU model), in memory, for quotes to read without I/O.
//!
//! Snapshots apply only forward by (boot epoch, sequence), so that delayed, repeated and reordered deliveries come to
//! the same state. They expire by the time of their *receipt*: an agent's clock cannot keep one alive. Writers hold the
//! lock of one shard for a map insert, readers for a few pointer copies; merging happens outside of it.

mod merge;
#[cfg(test)]
mod merge_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use farebox_pricing::usage::{Observation, StatKey, UsageScope};
use jiff::{SignedDuration, Timestamp};

use crate::snapshot::Snapshot;

/// Enough that a sweep, which locks one shard at a time, never holds up a quote.
const SHARDS: usize = 64;
/// `metering.md` case 14: a snapshot from further ahead than this keeps its counters only.
const LARGEST_LEAD: SignedDuration = SignedDuration::from_secs(2);

/// What the mirror may grow to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorLimits {
    /// Most snapshots held, a few kB each.
    pub snapshots: usize,
    /// A snapshot is forgotten this long after its receipt.
    pub retention: SignedDuration,
}

impl Default for MirrorLimits {
    fn default() -> Self {
        Self { snapshots: 100_000, retention: SignedDuration::from_mins(30) }
    }
}

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

/// The mirror holds as many snapshots as it may, none of them expired. Keys that it holds still update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the usage mirror is full with {limit} snapshots; raise its limit or shorten its retention")]
pub struct MirrorFull {
    pub limit: usize,
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

/// Totals since the mirror was made, except `entries`, which is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorCounters {
    /// Stored as the newest of their key, quarantined ones included.
    pub applied: u64,
    pub not_newer: u64,
    pub quarantined: u64,
    /// Readings in applied snapshots that could not be ones.
    pub dropped_readings: u64,
    pub refused_full: u64,
    pub entries: usize,
}

/// The newest snapshot of each key. Shared by reference between any number of threads.
#[derive(Debug)]
pub struct Mirror {
    limits: MirrorLimits,
    hasher: RandomState,
    shards: [RwLock<Shard>; SHARDS],
    entries: AtomicUsize,
    /// No snapshot expires before this, Unix milliseconds: a full mirror is not swept in vain.
    next_expiry_ms: AtomicI64,
    applied: AtomicU64,
    not_newer: AtomicU64,
    quarantined: AtomicU64,
    dropped_readings: AtomicU64,
    refused_full: AtomicU64,
}

/// By tenant, then in the order of the keys, which is the order of merging.
type Shard = HashMap<String, BTreeMap<SnapshotKey, Arc<Held>>>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SnapshotKey {
    node: String,
    job: Option<String>,
    gpu_model: String,
}

#[derive(Debug)]
struct Held {
    snapshot: Snapshot,
    received_at: Timestamp,
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
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| RwLock::default()),
            entries: AtomicUsize::new(0),
            next_expiry_ms: AtomicI64::new(i64::MAX),
            applied: AtomicU64::new(0),
            not_newer: AtomicU64::new(0),
            quarantined: AtomicU64::new(0),
            dropped_readings: AtomicU64::new(0),
            refused_full: AtomicU64::new(0),
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
        let mut placement = self.place(&held);
        if matches!(placement, Placement::NoRoom)
            && self.next_expiry_ms.load(Ordering::Relaxed) <= received_at.as_millisecond()
        {
            self.sweep(received_at);
            placement = self.place(&held);
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
        let (scope, held) = self.in_scope(query)?;
        merge::merge(scope, held, query)
    }

    /// Forgets what has expired, one shard at a time; returns how many. Expired snapshots never count even if this is
    /// never called; it gives their memory back.
    pub fn sweep(&self, now: Timestamp) -> usize {
        // INVARIANT: next_expiry_ms is at most the earliest expiry. Set high first, so that what is placed during the
        // sweep lowers it too.
        self.next_expiry_ms.store(i64::MAX, Ordering::SeqCst);
        let mut swept: usize = 0;
        for shard in &self.shards {
            let mut tenants = write(shard);
            tenants.retain(|_, snapshots| {
                snapshots.retain(|_, held| {
                    let keeps = !self.is_expired(held, now);
                    if keeps {
                        self.note_expiry(held);
                    } else {
                        swept = swept.saturating_add(1);
                    }
                    keeps
                });
                !snapshots.is_empty()
            });
        }
        self.entries.fetch_sub(swept, Ordering::SeqCst);
        swept
    }

    pub fn counters(&self) -> MirrorCounters {
        MirrorCounters {
            applied: self.applied.load(Ordering::Relaxed),
            not_newer: self.not_newer.load(Ordering::Relaxed),
            quarantined: self.quarantined.load(Ordering::Relaxed),
            dropped_readings: self.dropped_readings.load(Ordering::Relaxed),
            refused_full: self.refused_full.load(Ordering::Relaxed),
            entries: self.entries.load(Ordering::Relaxed),
        }
    }

    fn place(&self, held: &Arc<Held>) -> Placement {
        let snapshot = &held.snapshot;
        let key = SnapshotKey {
            node: snapshot.node.clone(),
            job: snapshot.job.clone(),
            gpu_model: snapshot.gpu_model.clone(),
        };
        let mut tenants = write(self.shard(&snapshot.tenant));
        match tenants.get(&snapshot.tenant).and_then(|snapshots| snapshots.get(&key)) {
            Some(current) if !self.is_expired(current, held.received_at) && !held.is_newer_than(current) => {
                return Placement::NotNewer;
            }
            // An expired one counts as forgotten, whatever its epoch; its place is taken over.
            Some(_) => {}
            None if !self.reserve() => return Placement::NoRoom,
            None => {}
        }
        self.note_expiry(held);
        tenants.entry(snapshot.tenant.clone()).or_default().insert(key, Arc::clone(held));
        Placement::Stored
    }

    fn in_scope(&self, query: &UsageQuery<'_>) -> Option<(UsageScope, Vec<Arc<Held>>)> {
        let tenants = read(self.shard(query.tenant));
        let snapshots = tenants.get(query.tenant)?;
        let live = || snapshots.values().filter(|held| !self.is_expired(held, query.now));
        let of_model: Vec<_> = live().filter(|held| held.snapshot.gpu_model == query.gpu_model).cloned().collect();
        if of_model.is_empty() {
            return Some((UsageScope::Tenant, live().cloned().collect()));
        }
        Some((UsageScope::GpuModel, of_model))
    }

    /// Takes one of the limited places.
    fn reserve(&self) -> bool {
        let take = |entries: usize| (entries < self.limits.snapshots).then(|| entries.saturating_add(1));
        self.entries.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }

    fn is_expired(&self, held: &Held, now: Timestamp) -> bool {
        now.duration_since(held.received_at) >= self.limits.retention
    }

    fn note_expiry(&self, held: &Held) {
        let retention_ms = i64::try_from(self.limits.retention.as_millis()).unwrap_or(i64::MAX);
        let expiry_ms = held.received_at.as_millisecond().saturating_add(retention_ms);
        self.next_expiry_ms.fetch_min(expiry_ms, Ordering::SeqCst);
    }

    #[expect(clippy::indexing_slicing, reason = "the index is taken modulo the length")]
    fn shard(&self, tenant: &str) -> &RwLock<Shard> {
        &self.shards[self.hasher.hash_one(tenant) as usize % SHARDS]
    }
}

impl Held {
    fn is_newer_than(&self, other: &Self) -> bool {
        let (newer, older) = (&self.snapshot, &other.snapshot);
        (&newer.boot_epoch, newer.seq) > (&older.boot_epoch, older.seq)
    }

    /// The larger of "since observed" and "since received", milliseconds: an agent's clock cannot make it younger.
    fn age_ms(&self, now: Timestamp) -> u64 {
        let earliest = self.snapshot.observed_at.min(self.received_at);
        u64::try_from(now.duration_since(earliest).as_millis()).unwrap_or(0)
    }
}

/// A panic elsewhere cannot leave a shard half changed: every change is one map operation.
fn read(shard: &RwLock<Shard>) -> RwLockReadGuard<'_, Shard> {
    shard.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(shard: &RwLock<Shard>) -> RwLockWriteGuard<'_, Shard> {
    shard.write().unwrap_or_else(PoisonError::into_inner)
}
