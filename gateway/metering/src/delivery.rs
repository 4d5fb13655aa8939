//! Delivery: snapshots to the gateway's `POST /v1/usage-snapshots`, with their MAC, on a thread of its own.
//!
//! Whoever meters only puts them down ([`Delivery::offer`]) and never waits: neither for the gateway nor for a disk. While the
//! gateway is away, what waits is bounded and kept on disk (`spool.jsonl`); a newer snapshot takes the place of an older one,
//! because the gateway wants the newest state, and counters go on by themselves.

mod backoff;
mod courier;
pub mod mac;
mod post;
mod spool;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use crate::agent::durable;
use crate::clock::Clock;
use crate::snapshot::WireSnapshot;
use courier::{Courier, Step};
use mac::MacKey;
use post::{Gateway, Posted};
pub use spool::SpoolLimits;
use spool::Written;

/// In the state directory.
const FILE: &str = "spool.jsonl";

#[derive(Clone, Debug)]
pub struct DeliverySettings {
    /// `http://host:port`
    pub gateway: String,
    /// `None`: snapshots carry no MAC.
    pub key: Option<MacKey>,
    pub limits: SpoolLimits,
    /// `None`: what is undelivered is lost with the process.
    pub state_dir: Option<PathBuf>,
}

/// What delivery has done since the start, and what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounters {
    pub applied: u64,
    /// The gateway had a newer one.
    pub not_newer: u64,
    /// 4xx: given up.
    pub refused: u64,
    /// Tries that nobody answered, or that were answered 429 or 5xx.
    pub failed: u64,
    /// Given up because of the spool's limits.
    pub evicted: u64,
    /// Lines of an earlier run's spool that were no snapshots.
    pub torn_lines: u64,
    pub saves_failed: u64,
    pub waiting: usize,
    /// As JSON.
    pub waiting_bytes: usize,
    pub away: bool,
}

/// The thread that delivers.
#[derive(Debug)]
pub struct Delivery {
    shared: Arc<Shared>,
    ended: Receiver<()>,
}

#[derive(Debug)]
struct Shared {
    courier: Mutex<Courier>,
    /// Something was offered, or the end was asked for.
    changed: Condvar,
    file: Option<PathBuf>,
    writing: Mutex<()>,
}

struct Sender {
    shared: Arc<Shared>,
    gateway: Gateway,
    key: Option<MacKey>,
    clock: Clock,
    random: RandomState,
}

impl Delivery {
    /// Starts with what an earlier run left.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub fn start(settings: DeliverySettings, clock: Clock) -> io::Result<Self> {
        let file = settings.state_dir.map(|directory| directory.join(FILE));
        let left = file.as_deref().map(|file| left_by_an_earlier_run(file, settings.limits));
        let courier = Courier::new(settings.limits, left.as_deref());
        let counters = courier.counters();
        if counters.waiting > 0 || counters.torn_lines > 0 {
            let DeliveryCounters { waiting, torn_lines, .. } = counters;
            tracing::info!(waiting, torn_lines, "an earlier run left snapshots undelivered");
        }
        let shared =
            Arc::new(Shared { courier: Mutex::new(courier), changed: Condvar::new(), file, writing: Mutex::new(()) });
        let (key, gateway) = (settings.key, Gateway::new(&settings.gateway));
        let sender = Sender { shared: Arc::clone(&shared), gateway, key, clock, random: RandomState::new() };
        let (end, ended) = bounded(1);
        thread::Builder::new().name("delivery".to_owned()).spawn(move || {
            sender.run();
            let _ = end.send(());
        })?;
        Ok(Self { shared, ended })
    }

    /// Puts snapshots down to be sent. Never waits.
    pub fn offer(&self, snapshots: &[WireSnapshot]) {
        let written = snapshots.iter().filter_map(|snapshot| {
            let written = Written::of(snapshot);
            written.map_err(|error| tracing::error!(%error, "a snapshot cannot be written as JSON")).ok()
        });
        let written = written.collect();
        self.shared.courier().offer(written);
        self.shared.changed.notify_one();
    }

    pub fn counters(&self) -> DeliveryCounters {
        self.shared.courier().counters()
    }

    /// Sends what waits for as long as that, then keeps the rest on disk.
    pub fn stop(&self, patience: Duration) {
        self.shared.courier().stop();
        self.shared.changed.notify_one();
        if self.ended.recv_timeout(patience).is_err() {
            let rest = self.shared.courier().give_up();
            if let Some(rest) = rest {
                self.shared.save(&rest);
            }
        }
    }
}

impl Shared {
    fn courier(&self) -> MutexGuard<'_, Courier> {
        self.courier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save(&self, bodies: &[Arc<[u8]>]) {
        let Some(file) = &self.file else { return };
        let saved = match self.writing.try_lock() {
            Ok(_writing) => write(file, bodies),
            // The other thread is writing the same.
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(_)) => Err(io::Error::other("a write panicked")),
        };
        if let Err(error) = saved {
            self.courier().save_failed(&error);
        }
    }
}

impl Sender {
    fn run(&self) {
        loop {
            let mut courier = self.shared.courier();
            match courier.next(self.clock.now().mono_us) {
                Step::Post(parcel) => {
                    drop(courier);
                    let outcome = self.post(&parcel.body);
                    let now_us = self.clock.now().mono_us;
                    self.shared.courier().posted(&parcel, outcome, now_us, self.random.hash_one(now_us));
                }
                Step::Save(bodies) => {
                    drop(courier);
                    self.shared.save(&bodies);
                }
                Step::Wait(Some(pause)) => {
                    drop(self.shared.changed.wait_timeout(courier, pause).unwrap_or_else(PoisonError::into_inner));
                }
                Step::Wait(None) => drop(self.shared.changed.wait(courier).unwrap_or_else(PoisonError::into_inner)),
                Step::End => return,
            }
        }
    }

    fn post(&self, snapshot: &[u8]) -> Posted {
        match &self.key {
            None => self.gateway.post(snapshot, post::TIMEOUT),
            Some(key) => match mac::sign(key, snapshot) {
                Ok(signed) => self.gateway.post(&signed, post::TIMEOUT),
                Err(error) => Posted::Refused { reason: error.to_string() },
            },
        }
    }
}

/// What does not fit the limits anyway is not read: its last line is torn then.
fn left_by_an_earlier_run(file: &Path, limits: SpoolLimits) -> Vec<u8> {
    let most = limits.bytes.saturating_add(limits.entries);
    let mut left = Vec::new();
    let read =
        File::open(file).and_then(|file| file.take(u64::try_from(most).unwrap_or(u64::MAX)).read_to_end(&mut left));
    match read {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, file = %file.display(), "what an earlier run left undelivered cannot be read");
        }
        _ => {}
    }
    left
}

fn write(file: &Path, bodies: &[Arc<[u8]>]) -> io::Result<()> {
    if bodies.is_empty() {
        return match std::fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    durable::replace(file, |out| {
        for body in bodies {
            out.write_all(body)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })
}
