//! Replaying a recording at its own pace or a multiple of it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Recording, RecordingError};
use crate::clock::Clock;
use crate::reader::{ReadTick, Received};
use crate::tick::Tick;

/// Devices whose energy counters are carried on from one round to the next; more than any host has.
const MAX_COUNTERS: usize = 4096;

/// How many seconds of a recording pass in one: above 0, at most 100,000.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed(f64);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no speed; write a number above 0 and at most 100000, such as 1, 60 or 0.5")]
pub struct InvalidSpeed(String);

impl Speed {
    pub const REAL_TIME: Self = Self(1.0);
    const MOST: f64 = 100_000.0;
}

impl FromStr for Speed {
    type Err = InvalidSpeed;

    fn from_str(text: &str) -> Result<Self, InvalidSpeed> {
        let speed = text.parse::<f64>().ok().filter(|speed| *speed > 0.0 && *speed <= Self::MOST);
        speed.map(Self).ok_or_else(|| InvalidSpeed(text.chars().take(40).collect()))
    }
}

/// A recording in the place of a machine. Ticks have the times that were recorded; what the clock is asked for is only when
/// each is due.
///
/// In a loop time goes on: the first tick of the next round follows the last one by the recording's own period, on both
/// clocks, and energy counters go on from where they stood. The library is not initialised anew at the turn, so there is no
/// new boot epoch but those that were recorded.
pub struct Replay {
    recording: Recording,
    speed: Speed,
    looped: bool,
    clock: Clock,
    sleep: Box<dyn FnMut(Duration) + Send>,
    round: Round,
    /// (When the first tick was given, its time), both monotonic.
    anchor: Option<(u64, u64)>,
    /// Read, and not due yet.
    next: Option<Tick>,
    fault: Option<RecordingError>,
}

/// What a round of a loop adds to what the file says.
#[derive(Debug, Default)]
struct Round {
    wall_us: i64,
    mono_us: u64,
    /// Of the file, in this round: (first, last).
    wall: Option<(i64, i64)>,
    mono: Option<(u64, u64)>,
    library: Option<LibraryRun>,
    energy: BTreeMap<String, Energy>,
}

/// Of the library: what was given last, and what to add to what the file says.
#[derive(Debug)]
struct LibraryRun {
    offset: u32,
    given: u32,
    /// Whether the offset is of this round.
    settled: bool,
}

#[derive(Debug)]
struct Energy {
    offset: i128,
    given: u64,
    /// Whether the offset is of this round.
    settled: bool,
}

impl Replay {
    /// From the recording's first tick on, which is due at once.
    pub fn new(recording: Recording, speed: Speed, looped: bool, clock: Clock) -> Self {
        Self {
            recording,
            speed,
            looped,
            clock,
            sleep: Box::new(std::thread::sleep),
            round: Round::default(),
            anchor: None,
            next: None,
            fault: None,
        }
    }

    /// With another way to wait, for a clock that does not run by itself.
    #[must_use]
    pub fn with_sleep(mut self, sleep: impl FnMut(Duration) + Send + 'static) -> Self {
        self.sleep = Box::new(sleep);
        self
    }

    /// Why it [ended](Received::Ended), unless it was the recording's end.
    pub fn fault(&self) -> Option<&RecordingError> {
        self.fault.as_ref()
    }

    fn following(&mut self) -> Result<Option<Tick>, RecordingError> {
        if let Some(tick) = self.recording.next_tick()? {
            return Ok(Some(self.round.moved(tick)));
        }
        // A recording without a tick would be opened for ever.
        if !self.looped || self.round.mono.is_none() {
            return Ok(None);
        }
        let period_us = self.recording.header().tick_ms.saturating_mul(1000);
        self.recording = Recording::open(self.recording.path())?;
        self.round.turn(period_us);
        Ok(self.recording.next_tick()?.map(|tick| self.round.moved(tick)))
    }

    /// When a tick of this time is due by the clock, µs.
    fn due(&self, mono_us: u64) -> Option<u64> {
        let (given, first) = self.anchor?;
        // Under 2^53 µs, which are 285 years, nothing is lost; beyond, the conversion saturates.
        let since = mono_us.saturating_sub(first) as f64 / self.speed.0;
        Some(given.saturating_add(since as u64))
    }
}

impl ReadTick for Replay {
    fn read_tick(&mut self, patience: Duration) -> Received {
        if self.fault.is_some() {
            return Received::Ended;
        }
        if self.next.is_none() {
            match self.following() {
                Ok(tick) => self.next = tick,
                Err(error) => {
                    tracing::error!(error = %error, "the replay ends here");
                    self.fault = Some(error);
                }
            }
        }
        let Some(tick) = self.next.take() else { return Received::Ended };
        let now = self.clock.now().mono_us;
        let due = self.due(tick.mono_us).unwrap_or(now);
        let wait = Duration::from_micros(due.saturating_sub(now));
        if wait > patience {
            self.next = Some(tick);
            (self.sleep)(patience);
            return Received::Nothing { stalled: false };
        }
        if !wait.is_zero() {
            (self.sleep)(wait);
        }
        self.anchor.get_or_insert((now, tick.mono_us));
        Received::Tick(Box::new(tick))
    }
}

impl Round {
    /// The tick as this round gives it.
    fn moved(&mut self, mut tick: Tick) -> Tick {
        self.wall = Some((self.wall.map_or(tick.wall_us, |(first, _)| first), tick.wall_us));
        self.mono = Some((self.mono.map_or(tick.mono_us, |(first, _)| first), tick.mono_us));
        tick.wall_us = tick.wall_us.saturating_add(self.wall_us);
        tick.mono_us = tick.mono_us.saturating_add(self.mono_us);
        // A run differs from the one before it; which number it has says nothing.
        let first = LibraryRun { offset: 0, given: tick.library_run, settled: true };
        let library = self.library.get_or_insert(first);
        if !library.settled {
            library.offset = library.given.wrapping_sub(tick.library_run);
            library.settled = true;
        }
        tick.library_run = tick.library_run.wrapping_add(library.offset);
        library.given = tick.library_run;
        for device in &mut tick.devices {
            let Some(counter) = &mut device.energy_mj else { continue };
            if let Some(energy) = self.energy.get_mut(&device.info.uuid) {
                if !energy.settled {
                    energy.offset = i128::from(energy.given) - i128::from(*counter);
                    energy.settled = true;
                }
                *counter = u64::try_from(i128::from(*counter) + energy.offset).unwrap_or_default();
                energy.given = *counter;
            } else if self.energy.len() < MAX_COUNTERS {
                let energy = Energy { offset: 0, given: *counter, settled: true };
                self.energy.insert(device.info.uuid.clone(), energy);
            }
        }
        tick
    }

    /// The next one follows this by one period.
    fn turn(&mut self, period_us: u64) {
        let mono = self.mono.take().map_or(0, |(first, last)| last.saturating_sub(first));
        let wall = self.wall.take().map_or(0, |(first, last)| last.saturating_sub(first));
        self.mono_us = self.mono_us.saturating_add(mono).saturating_add(period_us);
        self.wall_us = self.wall_us.saturating_add(wall).saturating_add_unsigned(period_us);
        if let Some(library) = &mut self.library {
            library.settled = false;
        }
        for energy in self.energy.values_mut() {
            energy.settled = false;
        }
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Replay").field("recording", &self.recording).field("speed", &self.speed).finish()
    }
}
