//! What is rolled up, to be kept outside of this process and given back to another.

mod form;

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;

use super::Mirror;
use super::limits::reserve;
use super::rollup::RollUp;
use super::shard::{Book, Pair};
use crate::snapshot::{MAX_NAME, is_name};

/// What is rolled up of a tenant's GPUs of one model, with what was counted of its holdings: together, so that nothing is
/// counted twice or left out by whoever goes on from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRollUp {
    pub tenant: String,
    pub gpu_model: String,
    /// Postcard; begins with the version of its form.
    pub bytes: Vec<u8>,
}

/// Whose roll-up it is: tenant and GPU model.
pub type RollUpName = (Arc<str>, Arc<str>);

/// Why bytes were not taken: of another version, torn, or of more than there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a roll-up that this version can read")]
pub struct NotARollUp;

impl Mirror {
    /// What [`pairs_changed`](Self::pairs_changed) names, all at once: much memory where there are many.
    #[cfg(test)]
    pub(crate) fn roll_ups_changed(&self, after: Option<u64>) -> (Vec<KeptRollUp>, u64) {
        let (pairs, next) = self.pairs_changed(after);
        let kept = pairs.iter().filter_map(|(tenant, gpu_model)| self.roll_up_bytes(tenant, gpu_model));
        (kept.collect(), next)
    }

    /// Those that took something in since this was last called with `after` (`Some(0)` the first time: what was restored is kept
    /// already), or all (`None`), sorted, and what to call it with next.
    pub fn pairs_changed(&self, after: Option<u64>) -> (Vec<RollUpName>, u64) {
        // What changes from here on is told next time, and perhaps already now.
        let next = self.changes.load(Ordering::SeqCst);
        let mut pairs = Vec::new();
        for shard in &self.shards {
            let draft = shard.draft();
            for (tenant, models) in &draft.books.of {
                let changed = models.iter().filter(|(_, book)| after.is_none_or(|after| book.change > after));
                pairs.extend(changed.map(|(gpu_model, _)| (Arc::clone(tenant), Arc::clone(gpu_model))));
            }
        }
        pairs.sort();
        (pairs, next)
    }

    /// As it is now; `None` where nothing is rolled up.
    pub fn roll_up_bytes(&self, tenant: &str, gpu_model: &str) -> Option<KeptRollUp> {
        let pair = Pair { tenant, gpu_model };
        let (roll_up, book) = {
            let draft = self.shard(tenant).draft();
            // Neither copies what is in it, so that writers wait for no more than this.
            (draft.roll_up(pair)?.clone(), draft.books.book(pair)?.clone())
        };
        let bytes = form::write(&roll_up, &book)?;
        Some(KeptRollUp { tenant: tenant.to_owned(), gpu_model: gpu_model.to_owned(), bytes })
    }

    /// Takes a roll-up in where nothing of this tenant and model is rolled up yet; false where something is, where there is no
    /// room, and where no window reaches any of it. Kinds and holdings for which there is no room are left out, of those that were
    /// observed longest ago.
    ///
    /// # Errors
    /// [`NotARollUp`].
    pub fn restore_roll_up(&self, kept: &KeptRollUp, now: Timestamp) -> Result<bool, NotARollUp> {
        let KeptRollUp { tenant, gpu_model, bytes } = kept;
        if !is_name(tenant, MAX_NAME) || !is_name(gpu_model, MAX_NAME) {
            return Err(NotARollUp);
        }
        let (roll_up, book) = form::read(bytes, now).ok_or(NotARollUp)?;
        Ok(self.take_back(Pair { tenant, gpu_model }, roll_up, book, now))
    }

    fn take_back(&self, pair: Pair<'_>, mut roll_up: RollUp, mut book: Book, now: Timestamp) -> bool {
        let mut draft = self.shard(pair.tenant).draft();
        if draft.books.book(pair).is_some() || !(roll_up.reaches(now) || book.reaches(now)) {
            return false;
        }
        if !self.has_place_for_pair(&mut draft, now) {
            return false;
        }
        let mut kinds: Vec<_> = roll_up.kinds().map(|(name, kind)| (Reverse(kind.fed_at), Arc::clone(name))).collect();
        kinds.sort();
        for (_, name) in kinds {
            if reserve(&self.places, self.limits.roll_ups) {
                self.kinds.fetch_add(1, Ordering::SeqCst);
            } else {
                roll_up.remove_kind(&name);
                self.kinds_let_go.fetch_add(1, Ordering::Relaxed);
            }
        }
        let mut holdings = book.holdings();
        holdings.sort_by_key(|(observed_at, _)| Reverse(*observed_at));
        for (_, holding) in holdings {
            if !reserve(&self.holdings, self.limits.snapshots) {
                book.let_go(&holding);
                self.holdings_let_go.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.open(&mut draft, pair);
        if let Some(place) = draft.books.book_mut(pair) {
            *place = book;
        }
        if let Some(place) = draft.roll_up_mut(pair) {
            *place = roll_up;
        }
        draft.publish();
        true
    }
}
