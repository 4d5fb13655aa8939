//! Room for what is rolled up: who gets it, who makes it, and what has had its time.
//!
//! Pairs and holdings are limited over all of the mirror; where a limit is reached, room is looked for in the own shard only,
//! so that no writer ever waits for two locks, or goes through all that is held.

use std::sync::atomic::Ordering;

use jiff::Timestamp;

use super::limits::reserve;
use super::rollup::{Holding, RollUp};
use super::tenant::{Held, Shard};
use super::{Mirror, write};
use crate::snapshot::{HISTOGRAMS, Snapshot};

impl Mirror {
    /// Adds what a snapshot brings to the roll-up of its tenant and model.
    pub(super) fn roll_up(&self, tenants: &mut Shard, held: &Held) {
        let snapshot = &held.snapshot;
        let holding = Holding::of(snapshot);
        if !roll_up_of(tenants, snapshot).is_some_and(|roll_up| roll_up.knows(&holding)) {
            // Nothing of it is ever rolled up, until it has a histogram.
            if !HISTOGRAMS.iter().any(|metric| snapshot.histograms.contains_key(metric.name())) {
                return;
            }
            if !self.has_room(tenants, held) {
                self.roll_ups_skipped.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        if let Some(roll_up) = roll_up_of(tenants, snapshot) {
            let refused = roll_up.add(snapshot, held.received_at);
            self.histograms_refused.fetch_add(refused, Ordering::Relaxed);
        }
    }

    /// Makes sure of a roll-up, and takes a place for one more holding in it.
    fn has_room(&self, tenants: &mut Shard, held: &Held) -> bool {
        let is_new = roll_up_of(tenants, &held.snapshot).is_none();
        if is_new && !reserve(&self.roll_ups, self.limits.roll_ups) && !self.evict(tenants, held.received_at) {
            return false;
        }
        if !reserve(&self.holdings, self.limits.snapshots) && !self.let_go(tenants) {
            if is_new {
                self.roll_ups.fetch_sub(1, Ordering::SeqCst);
            }
            return false;
        }
        let tenant = tenants.entry(held.snapshot.tenant.clone()).or_default();
        tenant.roll_ups.entry(held.snapshot.gpu_model.clone()).or_default();
        true
    }

    /// Gives up the pair of the shard that was used longest ago, if that is long ago; its place is the caller's.
    fn evict(&self, tenants: &mut Shard, now: Timestamp) -> bool {
        let pairs = tenants
            .iter()
            .flat_map(|(tenant, of)| of.roll_ups.iter().map(move |(model, of)| (of.used_at(), tenant, model)));
        let longest = pairs.min().map(|(used_at, tenant, model)| (used_at, tenant.clone(), model.clone()));
        let Some((used_at, tenant, model)) = longest else { return false };
        if now.duration_since(used_at) < self.limits.retention {
            return false;
        }
        if let Some(evicted) = tenants.get_mut(&tenant).and_then(|tenant| tenant.roll_ups.remove(&model)) {
            self.holdings.fetch_sub(evicted.holdings(), Ordering::SeqCst);
            self.roll_ups_evicted.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Forgets the holding of the shard that was observed longest ago; its place is the caller's.
    fn let_go(&self, tenants: &mut Shard) -> bool {
        let roll_ups = tenants.values_mut().flat_map(|tenant| tenant.roll_ups.values_mut());
        let longest =
            roll_ups.filter_map(|roll_up| Some((roll_up.longest_unseen()?.0, roll_up))).min_by_key(|(at, _)| *at);
        let Some((_, roll_up)) = longest else { return false };
        let Some(holding) = roll_up.longest_unseen().map(|(_, holding)| holding.clone()) else { return false };
        roll_up.let_go(&holding);
        self.holdings_let_go.fetch_add(1, Ordering::Relaxed);
        true
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
                tenant.snapshots.retain(|_, held| {
                    let keeps = !self.is_expired(held, now);
                    if keeps {
                        self.note_expiry(held);
                    } else {
                        swept = swept.saturating_add(1);
                    }
                    keeps
                });
                tenant.roll_ups.retain(|_, roll_up| self.keeps(roll_up, now));
                !tenant.snapshots.is_empty() || !tenant.roll_ups.is_empty()
            });
        }
        self.entries.fetch_sub(swept, Ordering::SeqCst);
        swept
    }

    fn keeps(&self, roll_up: &mut RollUp, now: Timestamp) -> bool {
        let holdings = roll_up.holdings();
        roll_up.forget(now);
        self.holdings.fetch_sub(holdings.saturating_sub(roll_up.holdings()), Ordering::SeqCst);
        if roll_up.is_empty() {
            self.roll_ups.fetch_sub(1, Ordering::SeqCst);
        }
        !roll_up.is_empty()
    }
}

fn roll_up_of<'a>(tenants: &'a mut Shard, snapshot: &Snapshot) -> Option<&'a mut RollUp> {
    tenants.get_mut(&snapshot.tenant)?.roll_ups.get_mut(&snapshot.gpu_model)
}
