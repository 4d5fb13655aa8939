//! What is still to be delivered: of every holding the newest snapshot only, and every tombstone; bounded.
//!
//! First come, first sent. A newer snapshot takes the place of the one before it, so that nobody waits longer because he
//! changes often. Those of an earlier boot epoch keep their own place, in front: the gateway takes snapshots forward only, and
//! their counters would be lost behind newer ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufRead};
use std::sync::Arc;

use crate::snapshot::{ENDED, WireSnapshot};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolLimits {
    pub entries: usize,
    /// Of the snapshots as JSON.
    pub bytes: usize,
}

#[derive(Debug)]
pub(super) struct Spool {
    limits: SpoolLimits,
    /// By place. The first is the next to be sent.
    entries: BTreeMap<u64, Entry>,
    next_place: u64,
    /// Where the snapshot of a holding is, if one waits that is no tombstone.
    live: HashMap<Holding, u64>,
    tombstones: BTreeSet<u64>,
    /// Ever put down.
    tombstones_offered: u64,
    bytes: usize,
    /// Entries given up because of the limits.
    evicted: u64,
}

/// One run of one holding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holding {
    pub(super) boot_epoch: String,
    pub(super) node: String,
    pub(super) tenant: String,
    pub(super) job: Option<String>,
    pub(super) gpu_model: String,
}

#[derive(Debug)]
struct Entry {
    holding: Holding,
    seq: u64,
    body: Arc<[u8]>,
}

/// A snapshot as it lies in the spool: written once, without a MAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    pub(super) place: u64,
    pub(super) holding: Holding,
    pub(super) seq: u64,
    pub(super) body: Arc<[u8]>,
}

/// A snapshot, written.
#[derive(Debug)]
pub(super) struct Written {
    holding: Holding,
    seq: u64,
    ended: bool,
    body: Arc<[u8]>,
}

impl SpoolLimits {
    pub const fn standard() -> Self {
        Self { entries: 10_000, bytes: 16 << 20 }
    }
}

impl Written {
    pub(super) fn of(snapshot: &WireSnapshot) -> Result<Self, serde_json::Error> {
        Ok(Self::with_body(snapshot, serde_json::to_vec(snapshot)?))
    }

    /// A line of a spool file.
    fn of_line(line: &[u8]) -> Option<Self> {
        let snapshot: WireSnapshot = serde_json::from_slice(line).ok()?;
        // One with a MAC is not ours: it could be signed twice.
        snapshot.mac.is_none().then(|| Self::with_body(&snapshot, line.to_vec()))
    }

    pub(super) fn boot_epoch(&self) -> &str {
        &self.holding.boot_epoch
    }

    #[cfg(test)]
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    fn with_body(snapshot: &WireSnapshot, body: Vec<u8>) -> Self {
        let holding = Holding {
            boot_epoch: snapshot.boot_epoch.clone(),
            node: snapshot.node.clone(),
            tenant: snapshot.tenant.clone(),
            job: snapshot.job.clone(),
            gpu_model: snapshot.gpu_model.clone(),
        };
        Self { holding, seq: snapshot.seq, ended: snapshot.health == ENDED, body: body.into() }
    }
}

impl Spool {
    pub(super) fn new(limits: SpoolLimits) -> Self {
        Self {
            limits,
            entries: BTreeMap::new(),
            next_place: 0,
            live: HashMap::new(),
            tombstones: BTreeSet::new(),
            tombstones_offered: 0,
            bytes: 0,
            evicted: 0,
        }
    }

    /// Takes in what an earlier run left, one snapshot a line, a line at a time. Returns how many lines were none: torn by a
    /// crash, or not ours.
    ///
    /// # Errors
    /// Where it cannot be read on; what was read before is taken in.
    pub(super) fn read(&mut self, file: &mut dyn BufRead) -> (u64, io::Result<()>) {
        let mut dropped: u64 = 0;
        for line in file.split(b'\n') {
            match line.map(|line| (line.is_empty(), Written::of_line(&line))) {
                Err(error) => return (dropped, Err(error)),
                Ok((true, _)) => {}
                Ok((false, Some(written))) => self.offer(written),
                Ok((false, None)) => dropped = dropped.saturating_add(1),
            }
        }
        (dropped, Ok(()))
    }

    pub(super) fn offer(&mut self, written: Written) {
        let Written { holding, seq, ended, body } = written;
        let waiting = self.live.get(&holding).copied();
        if waiting.and_then(|place| self.entries.get(&place)).is_some_and(|entry| entry.seq >= seq) {
            return;
        }
        let place = waiting.unwrap_or_else(|| {
            let place = self.next_place;
            self.next_place = place.saturating_add(1);
            place
        });
        if ended {
            self.live.remove(&holding);
            self.tombstones.insert(place);
            self.tombstones_offered = self.tombstones_offered.saturating_add(1);
        } else {
            self.live.insert(holding.clone(), place);
        }
        self.bytes = self.bytes.saturating_add(body.len());
        if let Some(replaced) = self.entries.insert(place, Entry { holding, seq, body }) {
            self.bytes = self.bytes.saturating_sub(replaced.body.len());
        }
        self.keep_within_limits();
    }

    fn keep_within_limits(&mut self) {
        while self.entries.len() > self.limits.entries || self.bytes > self.limits.bytes {
            // Quotes read what runs. What has ended the gateway also knows by its age, the longer ago the surer.
            let oldest = self.tombstones.first().or_else(|| self.entries.first_key_value().map(|(place, _)| place));
            let Some(place) = oldest.copied() else { return };
            self.remove(place);
            self.evicted = self.evicted.saturating_add(1);
        }
    }

    /// What is to be sent next, in its order, within the limits but one at least.
    pub(super) fn batch(&self, limits: SpoolLimits) -> Vec<Parcel> {
        let mut bytes = 0_usize;
        let mut batch = Vec::new();
        for (place, entry) in self.entries.iter().take(limits.entries.max(1)) {
            bytes = bytes.saturating_add(entry.body.len());
            if bytes > limits.bytes && !batch.is_empty() {
                break;
            }
            let (holding, body) = (entry.holding.clone(), Arc::clone(&entry.body));
            batch.push(Parcel { place: *place, holding, seq: entry.seq, body });
        }
        batch
    }

    /// It has arrived, or never will. A newer one that has taken its place meanwhile stays.
    pub(super) fn settle(&mut self, parcel: &Parcel) {
        if self.entries.get(&parcel.place).is_some_and(|entry| entry.seq == parcel.seq) {
            self.remove(parcel.place);
        }
    }

    /// It and all of its holding, in their order, go behind the others: the gateway takes those of one holding forward only.
    pub(super) fn postpone(&mut self, parcel: &Parcel) {
        let Some(entry) = self.entries.get(&parcel.place) else { return };
        let whose = |holding: &Holding| Holding { boot_epoch: String::new(), ..holding.clone() };
        let own = whose(&entry.holding);
        let is_own = |(_, entry): &(&u64, &Entry)| whose(&entry.holding) == own;
        let places: Vec<u64> = self.entries.iter().filter(is_own).map(|(place, _)| *place).collect();
        for place in places {
            let Some(entry) = self.entries.remove(&place) else { continue };
            let last = self.next_place;
            self.next_place = last.saturating_add(1);
            if self.tombstones.remove(&place) {
                self.tombstones.insert(last);
            } else {
                self.live.insert(entry.holding.clone(), last);
            }
            self.entries.insert(last, entry);
        }
    }

    fn remove(&mut self, place: u64) {
        if let Some(entry) = self.entries.remove(&place) {
            self.bytes = self.bytes.saturating_sub(entry.body.len());
            if !self.tombstones.remove(&place) {
                self.live.remove(&entry.holding);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn has_tombstones(&self) -> bool {
        !self.tombstones.is_empty()
    }

    pub(super) fn tombstones_offered(&self) -> u64 {
        self.tombstones_offered
    }

    /// Of the snapshots as JSON.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// For the file, in the order of sending.
    pub(super) fn bodies(&self) -> Vec<Arc<[u8]>> {
        self.entries.values().map(|entry| Arc::clone(&entry.body)).collect()
    }
}

#[cfg(test)]
mod tests;
