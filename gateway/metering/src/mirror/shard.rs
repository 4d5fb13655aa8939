//! A shard of the mirror: a map that readers follow a pointer to, and what only writers need, behind their lock.
//!
//! The map never changes: a writer makes the next one, which shares what did not change, and moves the pointer to it. So
//! readers wait for nobody, and see either all of a snapshot or nothing of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use jiff::Timestamp;
use rpds::{HashTrieMapSync, RedBlackTreeMapSync};

use super::difference::{self, Counted, Difference};
use super::rollup::RollUp;
use super::series::is_reached;
use super::tenant::Tenant;
use crate::snapshot::Snapshot;

/// Children of a node of a map: what is copied of it for a snapshot is a few of these.
const DEGREE: u8 = 16;

pub(super) type Tenants = HashTrieMapSync<Arc<str>, Arc<Tenant>>;

#[derive(Debug)]
pub(super) struct Shard {
    published: ArcSwap<Tenants>,
    books: Mutex<Books>,
}

/// What only writers need.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// By tenant, then GPU model: of all that is rolled up.
    pub(super) of: HashMap<Arc<str>, BTreeMap<Arc<str>, Book>>,
    /// Nothing that is rolled up will have been unused for long before this.
    pub(super) in_use_until: Option<Timestamp>,
}

/// What was counted of the holdings of a tenant and model.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    pub(super) counted: RedBlackTreeMapSync<Holding, Arc<Counted>>,
    /// When the latest of those was observed that are not in `counted` any more.
    pub(super) let_go_at: Option<Timestamp>,
    /// When it last took something in, by receipt.
    pub(super) used_at: Timestamp,
    /// Which change of the mirror that was.
    pub(super) change: u64,
}

/// Whose counters run on from one snapshot to the next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Holding {
    pub(super) node: String,
    pub(super) job: Option<String>,
}

/// What is rolled up together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair<'a> {
    pub(super) tenant: &'a str,
    pub(super) gpu_model: &'a str,
}

/// The next map, while it is being made; it holds the writers' lock.
pub(super) struct Draft<'a> {
    pub(super) tenants: Tenants,
    pub(super) books: MutexGuard<'a, Books>,
    published: &'a ArcSwap<Tenants>,
}

impl Default for Shard {
    fn default() -> Self {
        let tenants = HashTrieMapSync::new_sync_with_degree(DEGREE);
        Self { published: ArcSwap::from_pointee(tenants), books: Mutex::default() }
    }
}

impl Shard {
    pub(super) fn tenants(&self) -> Guard<Arc<Tenants>> {
        self.published.load()
    }

    pub(super) fn draft(&self) -> Draft<'_> {
        // A panic elsewhere leaves no half of a map: it is published as a whole.
        let books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        Draft { tenants: Tenants::clone(&self.published.load()), books, published: &self.published }
    }
}

impl Draft<'_> {
    pub(super) fn publish(self) {
        self.published.store(Arc::new(self.tenants));
    }

    /// Made where there is none.
    pub(super) fn tenant_mut(&mut self, name: &str) -> Option<&mut Tenant> {
        if !self.tenants.contains_key(name) {
            self.tenants.insert_mut(Arc::from(name), Arc::default());
        }
        self.tenants.get_mut(name).map(Arc::make_mut)
    }

    pub(super) fn roll_up(&self, pair: Pair<'_>) -> Option<&RollUp> {
        self.tenants.get(pair.tenant)?.roll_ups.get(pair.gpu_model).map(|roll_up| &**roll_up)
    }

    pub(super) fn roll_up_mut(&mut self, pair: Pair<'_>) -> Option<&mut RollUp> {
        let tenant = self.tenants.get_mut(pair.tenant).map(Arc::make_mut)?;
        tenant.roll_ups.get_mut(pair.gpu_model).map(Arc::make_mut)
    }

    /// A place for what is rolled up, where there is none yet.
    pub(super) fn open(&mut self, pair: Pair<'_>) -> Option<&mut Book> {
        if self.roll_up(pair).is_none() {
            self.tenant_mut(pair.tenant)?.roll_ups.insert_mut(Arc::from(pair.gpu_model), Arc::default());
        }
        if self.books.book(pair).is_none() {
            let of_tenant = self.books.of.entry(Arc::from(pair.tenant)).or_default();
            of_tenant.insert(Arc::from(pair.gpu_model), Book::default());
        }
        self.books.book_mut(pair)
    }

    /// Takes out what is rolled up, with what was counted of it.
    pub(super) fn close(&mut self, pair: Pair<'_>) -> Option<(RollUp, Book)> {
        let roll_up = self.roll_up(pair)?.clone();
        let tenant = self.tenant_mut(pair.tenant)?;
        tenant.roll_ups.remove_mut(pair.gpu_model);
        if tenant.is_empty() {
            self.tenants.remove_mut(pair.tenant);
        }
        let of_tenant = self.books.of.get_mut(pair.tenant)?;
        let book = of_tenant.remove(pair.gpu_model)?;
        if of_tenant.is_empty() {
            self.books.of.remove(pair.tenant);
        }
        Some((roll_up, book))
    }
}

impl Books {
    pub(super) fn book(&self, pair: Pair<'_>) -> Option<&Book> {
        self.of.get(pair.tenant)?.get(pair.gpu_model)
    }

    pub(super) fn book_mut(&mut self, pair: Pair<'_>) -> Option<&mut Book> {
        self.of.get_mut(pair.tenant)?.get_mut(pair.gpu_model)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (Pair<'_>, &Book)> {
        self.of
            .iter()
            .flat_map(|(tenant, models)| models.iter().map(move |(gpu_model, book)| (Pair { tenant, gpu_model }, book)))
    }
}

impl Book {
    /// Counts a snapshot: what it brings beyond what is counted of its holding. `None` where it is no newer.
    pub(super) fn count(&mut self, snapshot: &Snapshot, now: Timestamp) -> Option<Difference> {
        let holding = Holding::of(snapshot);
        let before = self.counted.get(&holding).map(|counted| &**counted);
        let (difference, counted) = difference::since(before, snapshot, self.let_go_at)?;
        self.counted.insert_mut(holding, Arc::new(counted));
        self.used_at = now;
        Some(difference)
    }

    /// The holding that was observed longest ago, with when.
    pub(super) fn longest_unseen(&self) -> Option<(Timestamp, &Holding)> {
        self.counted.iter().map(|(holding, counted)| (counted.observed_at, holding)).min()
    }

    /// All of them, each with when it was observed last.
    pub(super) fn holdings(&self) -> Vec<(Timestamp, Holding)> {
        self.counted.iter().map(|(holding, counted)| (counted.observed_at, holding.clone())).collect()
    }

    /// True where a window that ends now has the bucket in which one of them was observed.
    pub(super) fn reaches(&self, now: Timestamp) -> bool {
        self.counted.values().any(|counted| is_reached(counted.observed_at, now))
    }

    /// Makes room for another holding. If this one comes back, it goes on from there; what was in between is not counted.
    pub(super) fn let_go(&mut self, holding: &Holding) {
        if let Some(counted) = self.counted.get(holding) {
            self.let_go_at = self.let_go_at.max(Some(counted.observed_at));
            self.counted.remove_mut(holding);
        }
    }

    /// Drops holdings that were observed last when no window reaches any more; returns how many.
    pub(super) fn forget(&mut self, now: Timestamp) -> usize {
        let is_past = |counted: &Counted| !is_reached(counted.observed_at, now);
        let past = self.counted.iter().filter(|(_, counted)| is_past(counted)).map(|(holding, _)| holding.clone());
        let past: Vec<_> = past.collect();
        for holding in &past {
            self.counted.remove_mut(holding);
        }
        past.len()
    }
}

impl Holding {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self { node: snapshot.node.clone(), job: snapshot.job.clone() }
    }
}

impl<'a> Pair<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        Self { tenant: &snapshot.tenant, gpu_model: &snapshot.gpu_model }
    }
}
