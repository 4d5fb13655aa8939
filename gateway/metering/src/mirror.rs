//! The mirror: the newest snapshot of each (node, tenant, job, GPU model), in memory, for quotes to read without I/O.
//!
//! Snapshots apply only forward by (boot epoch, sequence), so that delayed, repeated and reordered deliveries come to
//! the same state. They expire by the time of their *receipt*: an agent's clock cannot keep one alive. A holding's last
//! one, its tombstone, is kept like any other and observed as nothing. What each brings beyond the one before it goes into
//! the roll-up of its tenant and model, where the long windows come from. Writers hold the lock of one shard for
//! some additions, readers for a few pointer copies and a sum over the buckets of a window; merging happens outside of it.

mod difference;
mod merge;
#[cfg(test)]
mod merge_tests;
mod rollup;
#[cfg(test)]
mod rollup_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tombstone_tests;
mod usage;

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use farebox_pricing::usage::{Observation, StatKey, UsageScope};
use jiff::{SignedDuration, Timestamp};

use crate::snapshot::Snapshot;
use merge::Seen;
use rollup::{Merged, RollUp};

pub use usage::{HeldDevice, MetricUsage, ModelUsage};

/// Enough that a sweep, which locks one shard at a time, never holds up a quote.
const SHARDS: usize = 64;
/// `metering.md` case 14: a snapshot from further ahead than this keeps its counters only. One from behind cannot be told
/// from one that waited in an agent's spool: it counts where it was observed, and its age says the rest.
const LARGEST_LEAD: SignedDuration = SignedDuration::from_secs(2);

/// What the mirror may grow to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorLimits {
    /// Most snapshots held, a few kB each.
    pub snapshots: usize,
    /// A snapshot is forgotten this long after its receipt.
    pub retention: SignedDuration,
    /// Most (tenant, GPU model) pairs whose long windows are rolled up, some 35 kB for each metric, at most 80.
    pub roll_ups: usize,
}

impl Default for MirrorLimits {
    fn default() -> Self {
        Self { snapshots: 100_000, retention: SignedDuration::from_mins(30), roll_ups: 10_000 }
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

/// Totals since the mirror was made, except `entries` and `roll_ups`, which are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MirrorCounters {
    /// Stored as the newest of their key, quarantined ones included.
    pub applied: u64,
    pub not_newer: u64,
    pub quarantined: u64,
    /// Readings in applied snapshots that could not be ones.
    pub dropped_readings: u64,
    pub refused_full: u64,
    /// Histograms that say more than was held, and those of a pair that there was no room to roll up.
    pub histograms_refused: u64,
    pub entries: usize,
    /// (Tenant, GPU model) pairs that are rolled up, now.
    pub roll_ups: usize,
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
    roll_ups: AtomicUsize,
    histograms_refused: AtomicU64,
}

type Shard = HashMap<String, Tenant>;

#[derive(Debug, Default)]
struct Tenant {
    /// In the order of the keys, which is the order of merging.
    snapshots: BTreeMap<SnapshotKey, Entry>,
    /// By GPU model. They outlive the snapshots.
    roll_ups: BTreeMap<String, RollUp>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SnapshotKey {
    node: String,
    job: Option<String>,
    gpu_model: String,
}

#[derive(Clone, Debug)]
struct Entry {
    newest: Arc<Held>,
    /// What the roll-up has counted of this key: the newest that was not quarantined.
    counted: Option<Arc<Held>>,
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
            roll_ups: AtomicUsize::new(0),
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
        merge::merge(self.in_scope(query)?, query)
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
            tenants.retain(|_, tenant| {
                tenant.snapshots.retain(|_, entry| {
                    let keeps = !self.is_expired(&entry.newest, now);
                    if keeps {
                        self.note_expiry(&entry.newest);
                    } else {
                        swept = swept.saturating_add(1);
                    }
                    keeps
                });
                tenant.roll_ups.retain(|_, roll_up| {
                    roll_up.forget(now);
                    if roll_up.is_empty() {
                        self.roll_ups.fetch_sub(1, Ordering::SeqCst);
                    }
                    !roll_up.is_empty()
                });
                !tenant.snapshots.is_empty() || !tenant.roll_ups.is_empty()
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
            histograms_refused: self.histograms_refused.load(Ordering::Relaxed),
            roll_ups: self.roll_ups.load(Ordering::Relaxed),
            entries: self.entries.load(Ordering::Relaxed),
        }
    }

    fn place(&self, held: &Arc<Held>, is_ahead: bool) -> Placement {
        let snapshot = &held.snapshot;
        let key = SnapshotKey {
            node: snapshot.node.clone(),
            job: snapshot.job.clone(),
            gpu_model: snapshot.gpu_model.clone(),
        };
        let mut tenants = write(self.shard(&snapshot.tenant));
        let entry = tenants.get(&snapshot.tenant).and_then(|tenant| tenant.snapshots.get(&key));
        // An expired one counts as forgotten, whatever its epoch; its place is taken over.
        let current = entry.filter(|entry| !self.is_expired(&entry.newest, held.received_at));
        if current.is_some_and(|current| !held.is_newer_than(&current.newest)) {
            return Placement::NotNewer;
        }
        if entry.is_none() && !reserve(&self.entries, self.limits.snapshots) {
            return Placement::NoRoom;
        }
        let mut counted = current.and_then(|current| current.counted.clone());
        self.note_expiry(held);
        let tenant = tenants.entry(snapshot.tenant.clone()).or_default();
        if !is_ahead {
            self.roll_up(tenant, counted.as_deref(), held);
            counted = Some(Arc::clone(held));
        }
        tenant.snapshots.insert(key, Entry { newest: Arc::clone(held), counted });
        Placement::Stored
    }

    /// Adds what a snapshot brings beyond the one that was counted last.
    fn roll_up(&self, tenant: &mut Tenant, counted: Option<&Held>, held: &Held) {
        let snapshot = &held.snapshot;
        let Some(difference) = difference::since(counted.map(|counted| &counted.snapshot), snapshot) else { return };
        self.histograms_refused.fetch_add(difference.refused, Ordering::Relaxed);
        if difference.held_us == 0 {
            return;
        }
        if !tenant.roll_ups.contains_key(&snapshot.gpu_model) {
            if !reserve(&self.roll_ups, self.limits.roll_ups) {
                let refused = u64::try_from(difference.observed.len()).unwrap_or(u64::MAX);
                self.histograms_refused.fetch_add(refused, Ordering::Relaxed);
                return;
            }
            tenant.roll_ups.insert(snapshot.gpu_model.clone(), RollUp::default());
        }
        if let Some(roll_up) = tenant.roll_ups.get_mut(&snapshot.gpu_model) {
            roll_up.add(&difference, snapshot.observed_at, held.received_at);
        }
    }

    fn in_scope(&self, query: &UsageQuery<'_>) -> Option<Seen> {
        let tenants = read(self.shard(query.tenant));
        let tenant = tenants.get(query.tenant)?;
        let live = || tenant.live(|held| !self.is_expired(held, query.now));
        let of_model: Vec<_> = live().filter(|held| held.snapshot.gpu_model == query.gpu_model).cloned().collect();
        let (scope, held) = if of_model.is_empty() {
            (UsageScope::Tenant, live().cloned().collect())
        } else {
            (UsageScope::GpuModel, of_model)
        };
        let model = (scope == UsageScope::GpuModel).then_some(query.gpu_model);
        let held = merge::freshest(held, query);
        let rolled = query.keys.iter().map(|key| tenant.rolled_up(&held, model, key, query.now)).collect();
        Some(Seen { scope, held, rolled })
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

impl Tenant {
    /// Snapshots of holdings that go on.
    fn live(&self, is_kept: impl Fn(&Held) -> bool) -> impl Iterator<Item = &Arc<Held>> {
        let newest = self.snapshots.values().map(|entry| &entry.newest);
        newest.filter(move |held| is_kept(held) && !held.snapshot.has_ended())
    }

    /// A long window of one model, or of all, where no snapshot brings it.
    fn rolled_up(&self, held: &[Arc<Held>], model: Option<&str>, key: &StatKey, now: Timestamp) -> Option<Merged> {
        if held.is_empty() || !merge::is_rolled_up(held, key.window, &key.metric) {
            return None;
        }
        let mut merged = Merged::default();
        for (_, roll_up) in self.roll_ups.iter().filter(|(name, _)| model.is_none_or(|model| model == *name)) {
            roll_up.add_to(&mut merged, &key.metric, key.window, now);
        }
        Some(merged)
    }
}

/// Takes one of the limited places.
fn reserve(taken: &AtomicUsize, limit: usize) -> bool {
    let take = |taken: usize| (taken < limit).then(|| taken.saturating_add(1));
    taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
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
