//! What to do next about delivery: post, keep on disk, or wait. Pure; the thread in [`super`] does it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::DeliveryCounters;
use super::backoff::Backoff;
use super::post::Posted;
use super::spool::{Parcel, Spool, SpoolLimits, Written};

/// While the gateway is away, the spool is written this often at most.
const SAVE_EVERY_US: u64 = 10_000_000;
/// Distinct refusals that are logged; a gateway that words each one differently fills no disk.
const MOST_REASONS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Post(Parcel),
    /// Put these into the spool file, in place of what is there; empty: nothing is left to keep.
    Save(Vec<Arc<[u8]>>),
    /// Until something is offered, or this long.
    Wait(Option<Duration>),
    /// After the stop: all that could be sent has been.
    End,
}

#[derive(Debug)]
pub(super) struct Courier {
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
    /// `file` is what an earlier run left; `None`: nothing can be kept.
    pub(super) fn new(limits: SpoolLimits, file: Option<&[u8]>) -> Self {
        let mut spool = Spool::new(limits);
        let torn_lines = file.map_or(0, |file| spool.read(file));
        Self {
            spool,
            backoff: Backoff::default(),
            away: None,
            keeps: file.is_some(),
            file_is_filled: file.is_some_and(|file| !file.is_empty()),
            is_changed: false,
            saved_us: None,
            is_stopping: false,
            reasons: HashSet::new(),
            evicted_before: 0,
            counters: DeliveryCounters { torn_lines, ..DeliveryCounters::default() },
        }
    }

    pub(super) fn offer(&mut self, snapshots: Vec<Written>) {
        self.is_changed |= !snapshots.is_empty();
        for snapshot in snapshots {
            self.spool.offer(snapshot);
        }
        let evicted = self.spool.evicted();
        if evicted > 0 && self.evicted_before == 0 {
            tracing::warn!(
                "the spool is full: the oldest tombstones are given up (`farebox_agent_spool_evicted_total`)"
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
                if let Some(parcel) = self.spool.first() {
                    return Step::Post(parcel);
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
        let bodies = self.spool.bodies();
        self.file_is_filled = !bodies.is_empty();
        Step::Save(bodies)
    }

    /// The file could not be written: said once, tried again with the next change.
    pub(super) fn save_failed(&mut self, error: &std::io::Error) {
        if self.counters.saves_failed == 0 {
            tracing::warn!(%error, "the spool cannot be kept on disk: a restart loses what is undelivered");
        }
        self.counters.saves_failed = self.counters.saves_failed.saturating_add(1);
    }

    pub(super) fn posted(&mut self, parcel: &Parcel, outcome: Posted, now_us: u64, random: u64) {
        let counted = match &outcome {
            Posted::Applied => &mut self.counters.applied,
            Posted::NotNewer => &mut self.counters.not_newer,
            Posted::Refused { .. } => &mut self.counters.refused,
            Posted::Away { .. } => &mut self.counters.failed,
        };
        *counted = counted.saturating_add(1);
        match outcome {
            Posted::Applied | Posted::NotNewer => self.answered(parcel, now_us),
            Posted::Refused { reason } => {
                self.answered(parcel, now_us);
                if self.reasons.len() < MOST_REASONS && self.reasons.insert(reason.clone()) {
                    tracing::error!(%reason, "the gateway refuses a snapshot; the same again is counted, not logged");
                }
            }
            Posted::Away { reason, retry_after } => {
                let pause = self.backoff.failed(retry_after, random);
                if self.away.is_none() {
                    tracing::warn!(%reason, "the gateway is away; the newest snapshots wait");
                }
                let pause_us = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
                let since_us = self.away.map_or(now_us, |away| away.since_us);
                self.away = Some(Away { since_us, until_us: now_us.saturating_add(pause_us) });
            }
        }
    }

    fn answered(&mut self, parcel: &Parcel, now_us: u64) {
        self.spool.settle(parcel);
        self.backoff.succeeded();
        if let Some(away) = self.away.take() {
            let away_s = now_us.saturating_sub(away.since_us) / 1_000_000;
            tracing::info!(away_s, waiting = self.spool.len(), "the gateway answers again");
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
        (self.keeps && self.is_changed).then(|| self.spool.bodies())
    }

    pub(super) fn counters(&self) -> DeliveryCounters {
        DeliveryCounters {
            waiting: self.spool.len(),
            waiting_bytes: self.spool.bytes(),
            evicted: self.spool.evicted(),
            away: self.away.is_some(),
            ..self.counters
        }
    }
}

#[cfg(test)]
mod tests;
