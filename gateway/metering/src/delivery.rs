//! Delivery: snapshots with their MAC to the gateway's `POST /v1/usage-snapshots` or into Redis, on a thread of its own.
//!
//! Whoever meters only puts them down ([`Delivery::offer`]) and never waits: neither for the other side nor for a disk. While
//! that is away, what waits is bounded and kept on disk (`spool.jsonl`); a newer snapshot takes the place of an older one, because
//! the newest state is what is wanted, and counters go on by themselves.

mod courier;
pub mod mac;
mod port;
mod post;
#[cfg(test)]
mod redis_tests;
mod skew;
mod spool;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender as Channel, bounded};

use crate::clock::Clock;
use crate::durable;
use crate::snapshot::{WireSnapshot, WireWindows};
use courier::{Courier, Step};
use mac::MacKey;
pub use port::Destination;
use port::Port;
pub use spool::SpoolLimits;
use spool::Written;

/// In the state directory.
const FILE: &str = "spool.jsonl";

#[derive(Clone, Debug)]
pub struct DeliverySettings {
    pub to: Destination,
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
    /// Of `applied`: those whose windows the gateway does not use, because by its clock they come from the future.
    pub from_the_future: u64,
    /// The gateway had a newer one, or this one already.
    pub not_newer: u64,
    /// 400, 413, 415 and 422: given up.
    pub refused: u64,
    /// Tries that nobody answered, or with anything but a receipt or a refusal.
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
    /// Snapshots put down without their windows, because this host's clock was off.
    pub windows_withheld: u64,
    /// How far this host's clock is ahead of the other side's at least, below 0: behind; 0: they may agree. `None`: no answer yet.
    pub clock_skew_us: Option<i64>,
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
    /// Holds one token, which whoever writes the file takes. A mutex could not be waited for with a time limit.
    writing: (Channel<()>, Receiver<()>),
}

struct Sender {
    shared: Arc<Shared>,
    port: Port,
    key: Option<MacKey>,
    clock: Clock,
    random: RandomState,
}

impl Delivery {
    /// Starts with what an earlier run left.
    ///
    /// # Errors
    /// Where no thread can be had, or Redis' authorities are no certificates.
    pub fn start(settings: DeliverySettings, clock: Clock) -> io::Result<Self> {
        let file = settings.state_dir.map(|directory| directory.join(FILE));
        let mut courier = Courier::new(settings.to.addressee(), settings.limits, file.is_some());
        if let Some(file) = &file {
            read_left_by_an_earlier_run(&mut courier, file, settings.limits);
        }
        let counters = courier.counters();
        if counters.waiting > 0 || counters.torn_lines > 0 {
            let DeliveryCounters { waiting, torn_lines, .. } = counters;
            tracing::info!(waiting, torn_lines, "an earlier run left snapshots undelivered");
        }
        let writing = bounded(1);
        let _ = writing.0.send(());
        let shared = Arc::new(Shared { courier: Mutex::new(courier), changed: Condvar::new(), file, writing });
        let (key, port) = (settings.key, settings.to.open(&clock)?);
        let mut sender = Sender { shared: Arc::clone(&shared), port, key, clock, random: RandomState::new() };
        let (end, ended) = bounded(1);
        thread::Builder::new().name("delivery".to_owned()).spawn(move || {
            sender.run();
            let _ = end.send(());
        })?;
        Ok(Self { shared, ended })
    }

    /// Puts snapshots down to be sent. Never waits. Without windows while this host's clock is known to be off: when they were
    /// observed nobody could tell, and counters and histograms need no clock.
    pub fn offer(&self, snapshots: &[WireSnapshot]) {
        let is_off = self.shared.courier().clock_is_off();
        let written = snapshots.iter().filter_map(|snapshot| {
            let written = match is_off {
                true => Written::of(&WireSnapshot { windows: WireWindows::default(), ..snapshot.clone() }),
                false => Written::of(snapshot),
            };
            written.map_err(|error| tracing::error!(%error, "a snapshot cannot be written as JSON")).ok()
        });
        let written: Vec<Written> = written.collect();
        let mut courier = self.shared.courier();
        if is_off {
            courier.windows_withheld(written.len());
        }
        courier.offer(written);
        drop(courier);
        self.shared.changed.notify_one();
    }

    pub fn counters(&self) -> DeliveryCounters {
        self.shared.courier().counters()
    }

    /// Whether every tombstone that was put down has been delivered, or is on disk if anything is.
    pub fn tombstones_are_safe(&self) -> bool {
        self.shared.courier().tombstones_are_safe()
    }

    /// Within `patience`, sends what waits, then keeps the rest on disk; a fifth is for an older write to end.
    pub fn stop(&self, patience: Duration) {
        self.shared.courier().stop();
        self.shared.changed.notify_one();
        let for_writing = patience / 5;
        if self.ended.recv_timeout(patience.saturating_sub(for_writing)).is_err() {
            let rest = self.shared.courier().give_up();
            if let Some(rest) = rest {
                self.shared.save_last(&rest, for_writing);
            }
        }
    }
}

impl Shared {
    fn courier(&self) -> MutexGuard<'_, Courier> {
        self.courier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save(&self, bodies: &[Arc<[u8]>]) {
        // The end has written, or is about to write, what is newer.
        if self.writing.1.recv().is_ok() {
            if !self.courier().has_given_up() {
                self.write(bodies);
            }
            let _ = self.writing.0.send(());
        }
    }

    /// Once an older write has ended, if that is soon.
    fn save_last(&self, bodies: &[Arc<[u8]>], patience: Duration) {
        match self.writing.1.recv_timeout(patience) {
            Ok(()) => {
                self.write(bodies);
                let _ = self.writing.0.send(());
            }
            Err(_) => tracing::error!("the disk is too slow: the last snapshots are not in the spool"),
        }
    }

    fn write(&self, bodies: &[Arc<[u8]>]) {
        let Some(file) = &self.file else { return };
        match write(file, bodies) {
            Ok(()) => self.courier().saved(),
            Err(error) => self.courier().save_failed(&error),
        }
    }
}

impl Sender {
    fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        loop {
            let mut courier = shared.courier();
            match courier.next(self.clock.now().mono_us) {
                Step::Post(parcels) => {
                    drop(courier);
                    let tried = self.port.post(&parcels, self.key.as_ref(), &self.clock);
                    let now_us = self.clock.now().mono_us;
                    let mut courier = shared.courier();
                    if let Some(call) = tried.call {
                        courier.compare_clocks(call);
                    }
                    courier.posted(&parcels, tried.outcomes, now_us, self.random.hash_one(now_us));
                }
                Step::Save(bodies) => {
                    drop(courier);
                    shared.save(&bodies);
                }
                Step::Wait(Some(pause)) => {
                    drop(shared.changed.wait_timeout(courier, pause).unwrap_or_else(PoisonError::into_inner));
                }
                Step::Wait(None) => drop(shared.changed.wait(courier).unwrap_or_else(PoisonError::into_inner)),
                Step::End => return,
            }
        }
    }
}

/// What does not fit the limits anyway is not read: its last line is torn then.
fn read_left_by_an_earlier_run(courier: &mut Courier, file: &Path, limits: SpoolLimits) {
    let most = u64::try_from(limits.bytes.saturating_add(limits.entries)).unwrap_or(u64::MAX);
    match File::open(file).and_then(|left| courier.read(&mut BufReader::new(left.take(most)))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, file = %file.display(), "what an earlier run left undelivered cannot be read");
        }
        _ => {}
    }
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
