//! The metering thread: ticks and job commands into the meter, snapshots out to delivery and to those who ask. Nothing in it
//! waits for a disk, a socket or the driver; the one file it writes is the boot epoch's, when there is a new one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use jiff::Timestamp;

use super::jobs::Command;
use super::seen::{Published, Seen};
use super::source::Source;
use super::state::{EndedJob, State};
use crate::clock::Clock;
use crate::delivery::Delivery;
use crate::meter::{Job, Meter};
use crate::reader::{ReadTick, Received};
use crate::tick::Tick;

/// Between two looks at a reader that gives nothing, and so how soon a stall is said.
const PATIENCE: Duration = Duration::from_secs(1);
/// Until then a device may not have told its name yet.
const PASSES_TO_NAME: u64 = 15;
/// Ticks that may wait for the meter, which takes each in well under a millisecond.
const TICKS: usize = 16;

/// What metering needs of the agent.
#[derive(Debug)]
pub(crate) struct Metering {
    pub(crate) clock: Clock,
    pub(crate) meter: Meter,
    /// From the configuration and from before the start.
    pub(crate) jobs: Vec<Job>,
    /// Of which the gateway may not have heard that they ended.
    pub(crate) ended: Vec<EndedJob>,
    pub(crate) state: Arc<State>,
    pub(crate) delivery: Option<Arc<Delivery>>,
    pub(crate) published: Arc<Published>,
}

/// Why metering ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Stopped,
    /// The recording is at its end.
    Source,
}

struct Loop {
    metering: Metering,
    is_recorded: bool,
    /// Of the last tick, by its own clock. `None`: none came yet.
    tick_us: Option<u64>,
    /// The last that was kept.
    epoch_us: Option<i64>,
    seen: Seen,
    /// Tenants and jobs that hold a device which has never been seen, and have been told of.
    without_device: BTreeSet<(String, Option<String>)>,
}

/// Meters until told to stop, or until the source has ended. `commands` are answered between two ticks.
pub(crate) fn run(source: Source, metering: Metering, commands: &Receiver<Command>, stop: &Receiver<()>) -> Ended {
    let is_recorded = source.is_recorded;
    let ticks = match read_on_a_thread(source.reader) {
        Ok(ticks) => ticks,
        Err(error) => {
            tracing::error!(%error, "no thread can be had to read on");
            return Ended::Source;
        }
    };
    let seen = Seen::default();
    let mut state =
        Loop { metering, is_recorded, tick_us: None, epoch_us: None, seen, without_device: BTreeSet::new() };
    if !is_recorded {
        state.start_jobs();
    }
    let ended = state.meter_on(&ticks, commands, stop);
    // What ended since the last tick, or was promised to.
    state.tell();
    ended
}

/// The reader waits in calls of its own, so that commands and the stop need not wait for it.
fn read_on_a_thread(mut reader: Box<dyn ReadTick>) -> std::io::Result<Receiver<Received>> {
    let (ticks, received): (Sender<Received>, _) = bounded(TICKS);
    thread::Builder::new().name("ticks".to_owned()).spawn(move || {
        loop {
            let tick = reader.read_tick(PATIENCE);
            let is_last = matches!(tick, Received::Ended);
            if ticks.send(tick).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(received)
}

impl Loop {
    fn meter_on(&mut self, ticks: &Receiver<Received>, commands: &Receiver<Command>, stop: &Receiver<()>) -> Ended {
        let nobody = never();
        loop {
            // In a recording a job can only start at a time of the recording's.
            let commands = if self.now_us().is_some() { commands } else { &nobody };
            select! {
                recv(ticks) -> received => match received {
                    Ok(Received::Tick(tick)) => self.observe(*tick),
                    Ok(Received::Nothing { stalled: true }) => self.stalled(),
                    Ok(Received::Nothing { stalled: false }) => {}
                    Ok(Received::Ended) | Err(_) => return Ended::Source,
                },
                recv(commands) -> command => match command {
                    Ok(command) => self.obey(command),
                    // Nobody is left to give any.
                    Err(_) => return Ended::Stopped,
                },
                recv(stop) -> _ => return Ended::Stopped,
            }
        }
    }

    /// Now, on the clock that ticks are on. `None`: a recording has not begun.
    fn now_us(&self) -> Option<u64> {
        match self.is_recorded {
            true => self.tick_us,
            false => Some(self.metering.clock.now().mono_us),
        }
    }

    fn start_jobs(&mut self) {
        let Some(now_us) = self.now_us() else { return };
        // Their devices are free again before others start. They have held nothing, so that only their tombstones are told.
        for EndedJob { job, why } in std::mem::take(&mut self.metering.ended) {
            let (tenant, name) = (job.tenant.clone(), job.job.clone());
            if self.metering.meter.start(job, now_us).is_ok() {
                self.metering.meter.end(&tenant, name.as_deref(), why, now_us);
            }
        }
        for job in std::mem::take(&mut self.metering.jobs) {
            let (tenant, name) = (job.tenant.clone(), job.job.clone());
            if let Err(error) = self.metering.meter.start(job, now_us) {
                let job = name.as_deref();
                tracing::error!(%tenant, job, %error, "a job did not start");
            }
        }
    }

    fn observe(&mut self, tick: Tick) {
        let is_first = self.tick_us.replace(tick.mono_us).is_none();
        if is_first && self.is_recorded {
            self.start_jobs();
        }
        self.metering.meter.observe(&tick);
        self.seen.is_stalled = false;
        self.seen.at_us = self.metering.clock.now().mono_us;
        self.seen.count_xids(&tick);
        self.seen.tick = Some(Arc::new(tick));
        self.tell();
    }

    fn stalled(&mut self) {
        let Some(now_us) = self.now_us() else { return };
        if !self.seen.is_stalled {
            tracing::error!("the driver hangs: time goes on unmetered");
        }
        self.metering.meter.stalled(now_us);
        self.seen.is_stalled = true;
        self.tell();
    }

    fn obey(&mut self, command: Command) {
        let Some(now_us) = self.now_us() else { return };
        match command {
            Command::Start { job, answer } => {
                let (tenant, name) = (job.tenant.clone(), job.job.clone());
                let started = self.metering.meter.start(job, now_us);
                if started.is_ok() {
                    tracing::info!(%tenant, job = name.as_deref(), "a job has started");
                }
                // Whoever asked may be gone.
                let _ = answer.send(started);
            }
            Command::End { tenant, job, why, answer } => {
                let ended = self.metering.meter.end(&tenant, Some(&job), why, now_us);
                if ended {
                    tracing::info!(%tenant, job, ?why, "a job has ended");
                }
                let _ = answer.send(ended);
            }
        }
    }

    /// Snapshots to the gateway, and everything to those who ask.
    fn tell(&mut self) {
        let wall_us = self.metering.clock.now().wall_us;
        let now = Timestamp::from_microsecond(wall_us).unwrap_or(Timestamp::UNIX_EPOCH);
        let snapshots = self.metering.meter.snapshots(now);
        self.remember_epoch();
        if let Some(delivery) = &self.metering.delivery {
            delivery.offer(&snapshots);
        }
        self.seen.tells = self.seen.tells.saturating_add(1);
        self.seen.totals = self.metering.meter.totals();
        self.warn_of_missing_devices();
        self.seen.meter = self.metering.meter.counters();
        self.metering.published.set(self.seen.clone());
    }

    /// Once for each holding, and again if it comes back.
    fn warn_of_missing_devices(&mut self) {
        if self.seen.tells < PASSES_TO_NAME {
            return;
        }
        let unseen = self.seen.totals.iter().filter(|totals| totals.gpu_model.is_none());
        let unseen: BTreeSet<_> = unseen.map(|totals| (totals.tenant.clone(), totals.job.clone())).collect();
        for (tenant, job) in unseen.difference(&self.without_device) {
            tracing::warn!(
                %tenant, job,
                "a GPU or instance that is held has never been seen: it is dead, or its name is wrong; see `farebox-agent --once`"
            );
        }
        self.without_device = unseen;
    }

    /// Before anybody hears of it: the next run must begin later, even after `kill -9`.
    fn remember_epoch(&mut self) {
        let epoch_us = self.metering.meter.epoch_us().filter(|epoch_us| self.epoch_us != Some(*epoch_us));
        let Some(epoch_us) = epoch_us else { return };
        self.epoch_us = Some(epoch_us);
        if let Err(error) = self.metering.state.keep_epoch(epoch_us) {
            tracing::warn!(%error, "the boot epoch cannot be kept: after a restart the clock alone must have gone on");
        }
    }
}

#[cfg(test)]
mod tests;
