//! One tenant in the mirror: its newest snapshots, and what is rolled up of its models.

use std::sync::Arc;

use farebox_pricing::usage::{StatKey, UsageScope};
use jiff::Timestamp;
use rpds::RedBlackTreeMapSync;

use super::UsageQuery;
use super::merge::{self, Seen};
use super::rollup::RollUp;
use super::series::{Merged, is_rolled_up};
use crate::snapshot::Snapshot;

/// Immutable where it is read; a copy shares all but what changes in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Tenant {
    /// In the order of the keys, which is the order of merging.
    pub(super) snapshots: RedBlackTreeMapSync<SnapshotKey, Arc<Held>>,
    /// By GPU model. They outlive the snapshots.
    pub(super) roll_ups: RedBlackTreeMapSync<Arc<str>, Arc<RollUp>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SnapshotKey {
    node: String,
    job: Option<String>,
    gpu_model: String,
}

impl SnapshotKey {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self { node: snapshot.node.clone(), job: snapshot.job.clone(), gpu_model: snapshot.gpu_model.clone() }
    }
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) snapshot: Snapshot,
    pub(super) received_at: Timestamp,
}

impl Held {
    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        let (newer, older) = (&self.snapshot, &other.snapshot);
        (&newer.boot_epoch, newer.seq) > (&older.boot_epoch, older.seq)
    }

    /// The larger of "since observed" and "since received", milliseconds: an agent's clock cannot make it younger.
    pub(super) fn age_ms(&self, now: Timestamp) -> u64 {
        let earliest = self.snapshot.observed_at.min(self.received_at);
        u64::try_from(now.duration_since(earliest).as_millis()).unwrap_or(0)
    }
}

impl Tenant {
    pub(super) fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.roll_ups.is_empty()
    }

    /// Snapshots of holdings that go on.
    pub(super) fn live(&self, is_kept: impl Fn(&Held) -> bool) -> impl Iterator<Item = &Arc<Held>> {
        self.snapshots.values().filter(move |held| is_kept(held) && !held.snapshot.has_ended())
    }

    /// What a query is about, with the sums that it asks for.
    pub(super) fn seen(&self, query: &UsageQuery<'_>, is_kept: impl Fn(&Held) -> bool) -> Seen {
        let live: Vec<_> = self.live(is_kept).collect();
        let of_model = live.iter().filter(|held| held.snapshot.gpu_model == query.gpu_model);
        let of_model: Vec<_> = of_model.map(|held| Arc::clone(held)).collect();
        let (scope, held) = if of_model.is_empty() {
            (UsageScope::Tenant, live.into_iter().cloned().collect())
        } else {
            (UsageScope::GpuModel, of_model)
        };
        let model = (scope == UsageScope::GpuModel).then_some(query.gpu_model);
        let rolled = query.keys.iter().map(|key| self.rolled_up(model, key, query.now)).collect();
        Seen { scope, held: merge::freshest(held, query.hard_stale_ms, query.now), rolled }
    }

    /// A long window of one model, or of all.
    fn rolled_up(&self, model: Option<&str>, key: &StatKey, now: Timestamp) -> Option<Merged> {
        if !is_rolled_up(key.window) {
            return None;
        }
        let mut merged = Merged::default();
        let mut add = |roll_up: &RollUp| roll_up.total().add_to(&mut merged, &key.metric, key.window, now);
        match model {
            Some(model) => self.roll_ups.get(model).into_iter().for_each(|roll_up| add(roll_up)),
            None => self.roll_ups.values().for_each(|roll_up| add(roll_up)),
        }
        Some(merged)
    }
}
