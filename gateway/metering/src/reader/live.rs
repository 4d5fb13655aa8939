//! Ticks of this machine's GPUs, read by a thread of their own.

use std::io;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::{ReadTick, Received};
use crate::clock::Clock;
use crate::nvml::{Machine, Options, Pulse};
use crate::tick::Tick;

/// Ticks that wait for a slow caller. After that, passes are skipped.
const MOST_WAITING: usize = 4;
/// A pass that lasts longer than so many ticks hangs, in one call of the driver or bit by bit.
const STALLED_TICKS: u64 = 5;
/// How long a reader that is dropped waits for its thread. One that hangs in the driver is left behind.
const FAREWELL: Duration = Duration::from_secs(1);

/// Reads once per tick while it lives. A driver that hangs stops the ticks and nothing else; when it goes on, so do they.
#[derive(Debug)]
pub struct LiveReader {
    ticks: Option<Receiver<Box<Tick>>>,
    /// Dropped to end the thread.
    stays: Option<Sender<()>>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
    pulse: Pulse,
    stalled_us: u64,
}

impl LiveReader {
    /// # Errors
    /// The operating system gives no thread. A machine without NVML is no error: its ticks say so, and it is tried again.
    pub fn start(options: Options, clock: Clock) -> io::Result<Self> {
        let (give, ticks) = bounded(MOST_WAITING);
        let (stays, stop) = bounded(0);
        let (end, ended) = bounded(0);
        let pulse = Pulse::new(clock.clone());
        let tick_us = u64::try_from(options.tick.as_micros()).unwrap_or(u64::MAX).max(1);
        let machine = Machine::new(options, pulse.clone());
        let stalled_us = tick_us.saturating_mul(STALLED_TICKS);
        let schedule = Schedule { clock, tick_us, stalled_us, pulse: pulse.clone() };
        let body = move || {
            // Dropped last, when nothing of the library is left.
            let _end: Sender<()> = end;
            run(machine, &schedule, &give, &stop);
        };
        thread::Builder::new().name("nvml".to_owned()).spawn(body)?;
        Ok(Self { ticks: Some(ticks), stays: Some(stays), ended, pulse, stalled_us })
    }
}

impl ReadTick for LiveReader {
    fn read_tick(&mut self, patience: Duration) -> Received {
        let stalled = || self.pulse.busy_for_us().is_some_and(|us| us > self.stalled_us);
        match self.ticks.as_ref().map(|ticks| ticks.recv_timeout(patience)) {
            Some(Ok(tick)) => Received::Tick(tick),
            Some(Err(RecvTimeoutError::Timeout)) => Received::Nothing { stalled: stalled() },
            // The thread is gone, which it never is by itself while somebody listens.
            Some(Err(RecvTimeoutError::Disconnected)) | None => Received::Nothing { stalled: true },
        }
    }
}

impl Drop for LiveReader {
    fn drop(&mut self) {
        (self.stays, self.ticks) = (None, None);
        if self.pulse.busy_for_us().is_none_or(|us| us <= self.stalled_us) {
            let _ = self.ended.recv_timeout(FAREWELL);
        }
    }
}

struct Schedule {
    clock: Clock,
    tick_us: u64,
    stalled_us: u64,
    pulse: Pulse,
}

fn run(mut machine: Machine, schedule: &Schedule, give: &Sender<Box<Tick>>, stop: &Receiver<()>) {
    let first_us = schedule.clock.now().mono_us;
    let mut due_us = first_us;
    let mut xids = Vec::new();
    loop {
        let now = schedule.clock.now();
        if now.mono_us >= due_us {
            let mut tick = machine.pass(now);
            xids.append(&mut tick.xids);
            // What was read partly at one time and partly long after is of no moment that could be told.
            if schedule.pulse.take_longest_us() <= schedule.stalled_us {
                tick.xids = std::mem::take(&mut xids);
                if give.send(Box::new(tick)).is_err() {
                    return;
                }
            }
            due_us = next(first_us, schedule.clock.now().mono_us, schedule.tick_us);
        }
        let wait = Duration::from_micros(due_us.saturating_sub(schedule.clock.now().mono_us));
        if stop.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// The first moment of the schedule after `now`: passes that were missed are not made up for.
fn next(first_us: u64, now_us: u64, tick_us: u64) -> u64 {
    let passed = now_us.saturating_sub(first_us) / tick_us;
    first_us.saturating_add(passed.saturating_add(1).saturating_mul(tick_us))
}

#[cfg(test)]
mod tests {
    use super::next;

    #[test]
    fn missed_passes_are_skipped_not_bunched() {
        assert_eq!(next(1_000, 1_000, 100), 1_100);
        assert_eq!(next(1_000, 1_099, 100), 1_100);
        assert_eq!(next(1_000, 1_100, 100), 1_200);
        assert_eq!(next(1_000, 1_951, 100), 2_000);
    }
}
