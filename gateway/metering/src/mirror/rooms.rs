//! Room for what is rolled up: who gets it, who makes it, and what has had its time.
//!
//! Pairs, kinds and holdings are limited over all of the mirror; where a limit is reached, room is looked for in the own shard
//! only, so that no writer ever waits for two locks, or goes through all that is held.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;

use super::Mirror;
use super::limits::reserve;
use super::rollup::{Additions, MOST_KINDS};
use super::shard::{Books, Draft, Holding, Pair};
use super::tenant::Held;
use crate::snapshot::{HISTOGRAMS, Snapshot, job_kind};

/// Who asks for a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim<'a> {
    /// It moves prices: a kind makes room for it, however lately it was used.
    Pair,
    /// A kind of this pair, which itself stays.
    Kind(Pair<'a>),
}

/// Who may give a place up; in the order in which they do.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Occupant<'a> {
    used_at: Timestamp,
    /// A kind goes before the pair that it is of.
    is_pair: bool,
    pair: Pair<'a>,
    /// `None`: the pair, with all its kinds.
    kind: Option<&'a str>,
}

impl Mirror {
    /// Adds what a snapshot brings to the roll-up of its tenant and model, and of the kind of its job.
    pub(super) fn roll_up(&self, draft: &mut Draft<'_>, held: &Held) {
        let (snapshot, now) = (&held.snapshot, held.received_at);
        let pair = Pair::of(snapshot);
        if !draft.books.book(pair).is_some_and(|book| book.counted.contains_key(&Holding::of(snapshot))) {
            // Nothing of it is ever rolled up, until it has a histogram.
            if !HISTOGRAMS.iter().any(|metric| snapshot.histograms.contains_key(metric.name())) {
                return;
            }
            if !self.has_room(draft, pair, now) {
                self.roll_ups_skipped.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        let Some(book) = draft.books.book_mut(pair) else { return };
        let Some(difference) = book.count(snapshot, now) else { return };
        book.change = self.changes.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        self.histograms_refused.fetch_add(difference.refused, Ordering::Relaxed);
        let additions = Additions::of(&difference, snapshot, now);
        if additions.is_empty() {
            return;
        }
        let kind = snapshot.job.as_deref().map(job_kind);
        let kind = kind.filter(|kind| self.has_room_for_kind(draft, snapshot, kind, now));
        if let Some(roll_up) = draft.roll_up_mut(pair) {
            roll_up.add(&additions, now);
            if let Some(kind) = kind {
                roll_up.add_to_kind(kind, &additions, (snapshot.observed_at, now));
            }
        }
    }

    /// Makes sure of a roll-up, and takes a place for one more holding in it.
    fn has_room(&self, draft: &mut Draft<'_>, pair: Pair<'_>, now: Timestamp) -> bool {
        let is_new = draft.books.book(pair).is_none();
        if is_new && !self.has_place(draft, Claim::Pair, now) {
            return false;
        }
        if !reserve(&self.holdings, self.limits.snapshots) && !self.let_go(&mut draft.books) {
            if is_new {
                self.places.fetch_sub(1, Ordering::SeqCst);
            }
            return false;
        }
        if is_new {
            self.open(draft, pair);
        }
        true
    }

    /// Of a pair that has a place.
    pub(super) fn open(&self, draft: &mut Draft<'_>, pair: Pair<'_>) {
        draft.open(pair);
        self.roll_ups.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn has_place_for_pair(&self, draft: &mut Draft<'_>, now: Timestamp) -> bool {
        self.has_place(draft, Claim::Pair, now)
    }

    /// Makes sure of a place for the kind of a job.
    fn has_room_for_kind(&self, draft: &mut Draft<'_>, snapshot: &Snapshot, kind: &str, now: Timestamp) -> bool {
        let pair = Pair::of(snapshot);
        let Some(roll_up) = draft.roll_up(pair) else { return false };
        if roll_up.kind(kind).is_some() {
            return true;
        }
        let is_full = roll_up.kind_count() >= MOST_KINDS;
        let has_room = if is_full {
            // One that was observed before all the others is no part of what is kept.
            let longest = roll_up.longest_unfed().map(|(fed_at, name)| (fed_at, Arc::clone(name)));
            let earlier = longest.filter(|(fed_at, name)| (*fed_at, &**name) < (snapshot.observed_at, kind));
            earlier.is_some_and(|(_, name)| self.let_kind_go(draft, pair, &name))
        } else {
            self.has_place(draft, Claim::Kind(pair), now)
        };
        if has_room {
            self.kinds.fetch_add(1, Ordering::SeqCst);
        } else {
            self.kinds_skipped.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Its place is the caller's.
    fn let_kind_go(&self, draft: &mut Draft<'_>, pair: Pair<'_>, name: &str) -> bool {
        let is_gone = draft.roll_up_mut(pair).is_some_and(|roll_up| roll_up.remove_kind(name));
        if is_gone {
            self.kinds.fetch_sub(1, Ordering::SeqCst);
            self.kinds_let_go.fetch_add(1, Ordering::Relaxed);
        }
        is_gone
    }

    fn has_place(&self, draft: &mut Draft<'_>, claim: Claim<'_>, now: Timestamp) -> bool {
        reserve(&self.places, self.limits.roll_ups)
            || self.evict_unused(draft, claim, now)
            || (claim == Claim::Pair && self.evict_kind(draft))
    }

    /// Gives up what the shard has used longest ago, if that is long ago; its place is the caller's.
    fn evict_unused(&self, draft: &mut Draft<'_>, claim: Claim<'_>, now: Timestamp) -> bool {
        if draft.books.in_use_until.is_some_and(|until| now < until) {
            return false;
        }
        let pairs =
            draft.books.all().map(|(pair, book)| Occupant { used_at: book.used_at, is_pair: true, pair, kind: None });
        let longest = pairs.filter(|of| claim != Claim::Kind(of.pair)).chain(kinds(draft)).min();
        let Some(Occupant { used_at, pair, kind, .. }) = longest else { return false };
        if now.duration_since(used_at) < self.limits.retention {
            draft.books.in_use_until = used_at.checked_add(self.limits.retention).ok();
            return false;
        }
        let (tenant, gpu_model) = (pair.tenant.to_owned(), pair.gpu_model.to_owned());
        let pair = Pair { tenant: &tenant, gpu_model: &gpu_model };
        match kind.map(str::to_owned) {
            Some(kind) => self.let_kind_go(draft, pair, &kind),
            None => {
                let is_evicted = self.close(draft, pair);
                // That gave up its place.
                self.places.fetch_add(usize::from(is_evicted), Ordering::SeqCst);
                self.roll_ups_evicted.fetch_add(u64::from(is_evicted), Ordering::Relaxed);
                is_evicted
            }
        }
    }

    /// Gives up the kind of the shard that was fed longest ago; its place is the caller's.
    fn evict_kind(&self, draft: &mut Draft<'_>) -> bool {
        let Some(Occupant { pair, kind: Some(kind), .. }) = kinds(draft).min() else { return false };
        let (tenant, gpu_model, kind) = (pair.tenant.to_owned(), pair.gpu_model.to_owned(), kind.to_owned());
        self.let_kind_go(draft, Pair { tenant: &tenant, gpu_model: &gpu_model }, &kind)
    }

    /// Takes out what is rolled up of a pair, with all places that it took.
    fn close(&self, draft: &mut Draft<'_>, pair: Pair<'_>) -> bool {
        let Some((roll_up, book)) = draft.close(pair) else { return false };
        self.roll_ups.fetch_sub(1, Ordering::SeqCst);
        self.kinds.fetch_sub(roll_up.kind_count(), Ordering::SeqCst);
        self.places.fetch_sub(roll_up.kind_count().saturating_add(1), Ordering::SeqCst);
        self.holdings.fetch_sub(book.counted.size(), Ordering::SeqCst);
        true
    }

    /// Forgets the holding of the shard that was observed longest ago; its place is the caller's.
    pub(super) fn let_go(&self, books: &mut Books) -> bool {
        let longest = books.all().filter_map(|(pair, book)| Some((book.longest_unseen()?, pair))).min();
        let Some(((_, holding), Pair { tenant, gpu_model })) = longest else { return false };
        let (holding, tenant, gpu_model) = (holding.clone(), tenant.to_owned(), gpu_model.to_owned());
        let book = books.book_mut(Pair { tenant: &tenant, gpu_model: &gpu_model });
        book.into_iter().for_each(|book| book.let_go(&holding));
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
            let mut draft = shard.draft();
            for name in draft.tenants.keys().cloned().collect::<Vec<_>>() {
                swept = swept.saturating_add(self.sweep_snapshots(&mut draft, &name, now));
                self.sweep_roll_ups(&mut draft, &name, now);
            }
            draft.publish();
        }
        self.entries.fetch_sub(swept, Ordering::SeqCst);
        swept
    }

    fn sweep_snapshots(&self, draft: &mut Draft<'_>, name: &str, now: Timestamp) -> usize {
        let Some(tenant) = draft.tenants.get(name) else { return 0 };
        let mut expired = Vec::new();
        for (key, held) in &tenant.snapshots {
            if self.is_expired(held, now) {
                expired.push(key.clone());
            } else {
                self.note_expiry(held);
            }
        }
        if expired.is_empty() {
            return 0;
        }
        if let Some(tenant) = draft.tenant_mut(name) {
            expired.iter().for_each(|key| _ = tenant.snapshots.remove_mut(key));
            if tenant.is_empty() {
                draft.tenants.remove_mut(name);
            }
        }
        expired.len()
    }

    fn sweep_roll_ups(&self, draft: &mut Draft<'_>, tenant: &str, now: Timestamp) {
        let models = draft.books.of.get(tenant).into_iter().flat_map(|models| models.keys().cloned());
        for gpu_model in models.collect::<Vec<_>>() {
            let pair = Pair { tenant, gpu_model: &gpu_model };
            let holdings = draft.books.book_mut(pair).map_or(0, |book| book.forget(now));
            self.holdings.fetch_sub(holdings, Ordering::SeqCst);
            if draft.roll_up(pair).is_some_and(|roll_up| roll_up.has_past(now)) {
                let kinds = draft.roll_up_mut(pair).map_or(0, |roll_up| roll_up.forget(now));
                self.kinds.fetch_sub(kinds, Ordering::SeqCst);
                self.places.fetch_sub(kinds, Ordering::SeqCst);
            }
            let is_empty = draft.roll_up(pair).is_some_and(|roll_up| roll_up.is_empty());
            if is_empty && draft.books.book(pair).is_some_and(|book| book.counted.is_empty()) {
                self.close(draft, pair);
            }
        }
    }
}

fn kinds<'a>(draft: &'a Draft<'_>) -> impl Iterator<Item = Occupant<'a>> {
    draft.tenants.iter().flat_map(|(tenant, of_tenant)| {
        of_tenant.roll_ups.iter().flat_map(move |(gpu_model, roll_up)| {
            let pair = Pair { tenant, gpu_model };
            roll_up.kinds().map(move |(name, kind)| Occupant {
                used_at: kind.fed_at,
                is_pair: false,
                pair,
                kind: Some(name),
            })
        })
    })
}
