//! What to do next about delivery: post, keep on disk, or wait. Pure; the thread in [`super`] does it.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead};
use std::sync::Arc;
use std::time::Duration;

use super::DeliveryCounters;
use super::post::Posted;
use super::skew::{Call, Skew};
use super::spool::{Holding, Parcel, Spool, SpoolLimits, Written};
use crate::backoff::Backoff;

/// For how long the other side is left alone after it failed.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// While the gateway is away, the spool is written this often at most.
const SAVE_EVERY_US: u64 = 10_000_000;
/// Distinct refusals that are logged; a gateway that words each one differently fills no disk.
const MOST_REASONS: usize = 64;
/// So many snapshots of this run one after the other, and the gateway has newer ones of them all: not by chance.
const SUSPICIOUS: u32 = 10;
const SAY_AGAIN_US: u64 = 3_600_000_000;

/// Whom it delivers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addressee {
    /// For the log.
    pub(super) name: &'static str,
    /// What one call may carry.
    pub(super) batch: SpoolLimits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// In this order; one at least.
    Post(Vec<Parcel>),
    /// Put these into the spool file, in place of what is there; empty: nothing is left to keep.
    Save(Vec<Arc<[u8]>>),
    /// Until something is offered, or this long.
    Wait(Option<Duration>),
    /// After the stop: all that could be sent has been.
    End,
}

#[derive(Debug)]
pub(super) struct Courier {
    to: Addressee,
    spool: Spool,
    backoff: Backoff,
    /// While the gateway is away: since when, and when it is tried again.
    away: Option<Away>,
    /// Whether there is a directory to keep the spool in.
    keeps: bool,
    /// Whether the file holds anything.
    file_is_filled: bool,
    /// What is not in the file.
    is_changed: bool,
    /// Of the tombstones that were put down: how many are in the file that is being written, and in the last that was.
    tombstones_saving: u64,
    tombstones_saved: u64,
    has_given_up: bool,
    /// Of the run that is metering now.
    boot_epoch: String,
    /// Snapshots of this run, one after the other, of which the gateway had newer ones.
    outrun: u32,
    outrun_said_us: Option<u64>,
    /// Of which the last try's end is unknown: that nothing older takes them then proves nothing.
    doubtful: HashMap<Holding, u64>,
    skew: Skew,
    saved_us: Option<u64>,
    is_stopping: bool,
    reasons: HashSet<String>,
    evicted_before: u64,
    counters: DeliveryCounters,
}

#[derive(Clone, Copy, Debug)]
struct Away {
    since_us: u64,
    until_us: u64,
}

impl Courier {
    /// `keeps`: there is a directory to keep the spool in.
    pub(super) fn new(to: Addressee, limits: SpoolLimits, keeps: bool) -> Self {
        Self {
            to,
            spool: Spool::new(limits),
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            away: None,
            keeps,
            file_is_filled: false,
            is_changed: false,
            tombstones_saving: 0,
            tombstones_saved: 0,
            has_given_up: false,
            boot_epoch: String::new(),
            outrun: 0,
            outrun_said_us: None,
            doubtful: HashMap::new(),
            skew: Skew::default(),
            saved_us: None,
            is_stopping: false,
            reasons: HashSet::new(),
            evicted_before: 0,
            counters: DeliveryCounters::default(),
        }
    }

    /// Takes in what an earlier run left.
    pub(super) fn read(&mut self, file: &mut dyn BufRead) -> io::Result<()> {
        let (torn_lines, read) = self.spool.read(file);
        self.counters.torn_lines = torn_lines;
        self.file_is_filled = !self.spool.is_empty() || torn_lines > 0;
        read
    }

    pub(super) fn offer(&mut self, snapshots: Vec<Written>) {
        self.is_changed |= !snapshots.is_empty();
        for snapshot in snapshots {
            snapshot.boot_epoch().clone_into(&mut self.boot_epoch);
            self.spool.offer(snapshot);
        }
        let evicted = self.spool.evicted();
        if evicted > 0 && self.evicted_before == 0 {
            tracing::warn!(
                "the spool is full: the oldest is given up, tombstones first (`farebox_agent_spool_evicted_total`)"
            );
        }
        self.evicted_before = evicted;
    }

    pub(super) fn next(&mut self, now_us: u64) -> Step {
        let is_drained = self.file_is_filled && self.spool.is_empty();
        let is_due = self.is_changed && self.away.is_some() && self.save_due_us() <= now_us;
        if self.keeps && (is_drained || is_due) {
            return self.save(now_us);
        }
        match self.away {
            Some(_) if self.is_stopping => {}
            Some(away) if away.until_us > now_us => {
                let until =
                    if self.keeps && self.is_changed { away.until_us.min(self.save_due_us()) } else { away.until_us };
                return Step::Wait(Some(Duration::from_micros(until.saturating_sub(now_us))));
            }
            _ => {
                let batch = self.spool.batch(self.to.batch);
                if !batch.is_empty() {
                    return Step::Post(batch);
                }
            }
        }
        if !self.is_stopping {
            return Step::Wait(None);
        }
        if self.keeps && self.is_changed && !self.spool.is_empty() { self.save(now_us) } else { Step::End }
    }

    fn save_due_us(&self) -> u64 {
        self.saved_us.map_or(0, |saved_us| saved_us.saturating_add(SAVE_EVERY_US))
    }

    fn save(&mut self, now_us: u64) -> Step {
        self.saved_us = Some(now_us);
        self.is_changed = false;
        self.tombstones_saving = self.spool.tombstones_offered();
        let bodies = self.spool.bodies();
        self.file_is_filled = !bodies.is_empty();
        Step::Save(bodies)
    }

    pub(super) fn saved(&mut self) {
        self.tombstones_saved = self.tombstones_saving;
    }

    /// Whether every tombstone that was put down has been delivered, or is on disk if anything is.
    pub(super) fn tombstones_are_safe(&self) -> bool {
        !self.keeps || !self.spool.has_tombstones() || self.tombstones_saved == self.spool.tombstones_offered()
    }

    /// The file could not be written: said once, tried again with the next change.
    pub(super) fn save_failed(&mut self, error: &io::Error) {
        if self.counters.saves_failed == 0 {
            tracing::warn!(%error, "the spool cannot be kept on disk: a restart loses what is undelivered");
        }
        self.counters.saves_failed = self.counters.saves_failed.saturating_add(1);
    }

    /// `outcomes` of `parcels`, in their order; `None`: not tried, because one before it found nobody.
    pub(super) fn posted(&mut self, parcels: &[Parcel], outcomes: Vec<Option<Posted>>, now_us: u64, random: u64) {
        let doubtful = std::mem::take(&mut self.doubtful);
        let mut absence = None;
        for (parcel, outcome) in parcels.iter().zip(outcomes) {
            match outcome {
                Some(Posted::Away { reason, retry_after, was_answered }) => {
                    absence = Some((parcel, reason, retry_after, was_answered));
                    self.doubtful.insert(parcel.holding.clone(), parcel.seq);
                }
                None => {
                    self.doubtful.insert(parcel.holding.clone(), parcel.seq);
                }
                Some(outcome) => {
                    let is_doubtful = doubtful.get(&parcel.holding) == Some(&parcel.seq);
                    self.settled(parcel, outcome, is_doubtful, now_us);
                }
            }
        }
        let Some((parcel, reason, retry_after, was_answered)) = absence else { return };
        self.counters.failed = self.counters.failed.saturating_add(1);
        if was_answered {
            self.spool.postpone(parcel);
        }
        let pause = self.backoff.failed(retry_after, random);
        if self.away.is_none() {
            tracing::warn!(%reason, "{} is away; the newest snapshots wait", self.to.name);
        }
        let pause_us = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        let since_us = self.away.map_or(now_us, |away| away.since_us);
        self.away = Some(Away { since_us, until_us: now_us.saturating_add(pause_us) });
    }

    fn settled(&mut self, parcel: &Parcel, outcome: Posted, is_doubtful: bool, now_us: u64) {
        let counted = match &outcome {
            Posted::Applied | Posted::FromTheFuture => &mut self.counters.applied,
            Posted::NotNewer => &mut self.counters.not_newer,
            Posted::Refused { .. } => &mut self.counters.refused,
            Posted::Away { .. } => &mut self.counters.failed,
        };
        *counted = counted.saturating_add(1);
        match outcome {
            Posted::FromTheFuture => {
                if self.counters.from_the_future == 0 {
                    tracing::warn!("the gateway does not use windows: its clock is behind this host's; set them both");
                }
                self.counters.from_the_future = self.counters.from_the_future.saturating_add(1);
                self.outrun = 0;
            }
            Posted::NotNewer if parcel.holding.boot_epoch == self.boot_epoch && !is_doubtful => {
                self.outrun_again(now_us);
            }
            Posted::Refused { reason } => {
                if self.reasons.len() < MOST_REASONS && self.reasons.insert(reason.clone()) {
                    tracing::error!(%reason, "a snapshot is refused; the same again is counted, not logged");
                }
            }
            Posted::Applied => self.outrun = 0,
            Posted::NotNewer | Posted::Away { .. } => {}
        }
        self.answered(parcel, now_us);
    }

    /// Of this run: whoever else speaks in this host's name is ahead, and this host is not heard at all.
    fn outrun_again(&mut self, now_us: u64) {
        self.outrun = self.outrun.saturating_add(1);
        let is_due = self.outrun_said_us.is_none_or(|said_us| now_us.saturating_sub(said_us) >= SAY_AGAIN_US);
        if self.outrun >= SUSPICIOUS && is_due {
            self.outrun_said_us = Some(now_us);
            tracing::error!(
                "{} has newer snapshots than all of this agent's: another agent has the same `node`, or had a clock in the \
                 future",
                self.to.name
            );
        }
    }

    /// By what the other side's clock said during a call.
    pub(super) fn compare_clocks(&mut self, call: Call) {
        self.skew.compare(call, self.to.name);
    }

    /// Whether this host's clock is known to be off so far that nobody may use its windows.
    pub(super) fn clock_is_off(&self) -> bool {
        self.skew.is_off()
    }

    pub(super) fn windows_withheld(&mut self, snapshots: usize) {
        let snapshots = u64::try_from(snapshots).unwrap_or(u64::MAX);
        self.counters.windows_withheld = self.counters.windows_withheld.saturating_add(snapshots);
    }

    fn answered(&mut self, parcel: &Parcel, now_us: u64) {
        self.spool.settle(parcel);
        self.backoff.succeeded();
        if let Some(away) = self.away.take() {
            let away_s = now_us.saturating_sub(away.since_us) / 1_000_000;
            tracing::info!(away_s, waiting = self.spool.len(), "{} answers again", self.to.name);
        }
    }

    /// From now on, whatever waits is tried once; what fails is kept.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
        self.away = None;
        self.is_changed |= !self.spool.is_empty();
    }

    /// The time is up: no more is sent.
    pub(super) fn give_up(&mut self) -> Option<Vec<Arc<[u8]>>> {
        self.has_given_up = true;
        self.tombstones_saving = self.spool.tombstones_offered();
        (self.keeps && self.is_changed).then(|| self.spool.bodies())
    }

    pub(super) fn has_given_up(&self) -> bool {
        self.has_given_up
    }

    pub(super) fn counters(&self) -> DeliveryCounters {
        DeliveryCounters {
            waiting: self.spool.len(),
            waiting_bytes: self.spool.bytes(),
            evicted: self.spool.evicted(),
            away: self.away.is_some(),
            clock_skew_us: self.skew.us(),
            ..self.counters
        }
    }
}

#[cfg(test)]
mod tests;
