//! A seeded generator of recordings: fleets as they are published, so that prices can be tried on what GPUs really do without
//! having any. The same options give the same bytes on every machine.

mod board;
mod facts;
mod phases;
mod random;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use jiff::{SignedDuration, Timestamp};

pub use board::Model;
pub use facts::Fleet;

use crate::recording::{Encoder, Header};
use crate::tick::{Library, Tick};
use board::Board;
use phases::{Phases, Rhythm};

const MAX_DEVICES: u32 = 64;
const MAX_INSTANCES: u32 = 7;
const MAX_TENANTS: usize = 64;
const MAX_NAME: usize = 64;
const MAX_DURATION: SignedDuration = SignedDuration::from_hours(31 * 24);

/// What to generate. As arguments of the command line: `--fleet seren --devices 8 --duration 24h --tick 1s --seed 1`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Whose utilisation
    #[arg(long, value_enum, default_value = "seren")]
    pub fleet: Fleet,
    /// What the devices are. Only those with GPM (h100, h200) have sm_util
    #[arg(long, value_enum, default_value = "h100")]
    pub model: Model,
    /// GPUs, 1 to 64
    #[arg(long, default_value_t = 8)]
    pub devices: u32,
    /// MIG instances on each GPU, at most 7; 0 is without MIG
    #[arg(long, default_value_t = 0)]
    pub mig: u32,
    /// Their names, by commas. GPUs or instances are shared out among them in order, one process on each, in the cgroup
    /// /tenants/NAME. None: nothing is said of processes
    #[arg(long, value_delimiter = ',')]
    pub tenants: Vec<String>,
    /// Of the recording, at most 744h (31 days): 10m, 24h
    #[arg(long, default_value = "24h")]
    pub duration: SignedDuration,
    /// Between two passes, whole milliseconds, 100ms to 60s
    #[arg(long, default_value = "1s")]
    pub tick: SignedDuration,
    /// The same seed gives the same recording
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// When it starts
    #[arg(long, default_value = "2026-12-01T00:00:00Z")]
    pub start: Timestamp,
    /// Which host, 0 to 9999: 7 is gpu-07, with UUIDs of its own
    #[arg(long, default_value_t = 7)]
    pub host: u32,
}

/// Why nothing is generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    #[error("`{option}` is {given}; it is from {least} to {most}")]
    OutOfRange { option: &'static str, given: String, least: String, most: String },
    #[error("`tick` is {0}; it is a whole number of milliseconds")]
    TickNotWhole(SignedDuration),
    #[error("`tenants` are more than {MAX_TENANTS}")]
    TooManyTenants,
    #[error("`{0}` is no tenant's name; use letters, digits, `-`, `_` and `.`, at most {MAX_NAME}")]
    TenantName(String),
    #[error("cannot write the recording")]
    Write(#[from] io::Error),
}

/// Writes the recording; returns the number of its ticks.
///
/// # Errors
/// [`GenerateError`]; before anything is written, except for [`GenerateError::Write`].
pub fn run(options: &Options, writer: &mut dyn Write) -> Result<u64, GenerateError> {
    let generator = Generator::new(options)?;
    let tick_ms = generator.tick_ms;
    let header = Header { node: format!("gpu-{:02}", options.host), started: options.start, tick_ms };
    writer.write_all(&header.to_line())?;
    let (mut encoder, mut line, mut count) = (Encoder::default(), Vec::new(), 0);
    for tick in generator {
        line.clear();
        encoder.encode(&tick, &mut line);
        writer.write_all(&line)?;
        count += 1;
    }
    writer.flush()?;
    Ok(count)
}

/// The ticks themselves, one after the other.
#[derive(Debug)]
pub struct Generator {
    fleet: Fleet,
    phases: Phases,
    boards: Vec<Board>,
    start_us: i64,
    tick_ms: u64,
    ticks: u64,
    given: u64,
}

impl Generator {
    /// # Errors
    /// [`GenerateError`] for options out of their bounds.
    pub fn new(options: &Options) -> Result<Self, GenerateError> {
        let tick_ms = check(options)?;
        let ticks = u64::try_from(options.duration.as_millis()).unwrap_or_default() / tick_ms;
        let in_ticks = |seconds: u64| (seconds * 1000 / tick_ms).max(1);
        let (shortest, longest, block) = options.fleet.rhythm();
        let rhythm = Rhythm { shortest: in_ticks(shortest), longest: in_ticks(longest), block: in_ticks(block) };
        let boards: Vec<_> = (0..options.devices).map(|index| Board::new(options, index)).collect();
        let rows = boards.iter().map(Board::rows).sum();
        Ok(Self {
            fleet: options.fleet,
            phases: Phases::new(options.seed, rows, rhythm, ticks),
            boards,
            start_us: options.start.as_microsecond(),
            tick_ms,
            ticks,
            given: 0,
        })
    }
}

impl Iterator for Generator {
    type Item = Tick;

    fn next(&mut self) -> Option<Tick> {
        if self.given >= self.ticks {
            return None;
        }
        let mono_us = self.given * self.tick_ms * 1000;
        self.given += 1;
        let ranks = self.phases.next();
        let mut ranks = ranks.as_slice();
        let mut devices = Vec::with_capacity(self.boards.len());
        for board in &mut self.boards {
            let (own, others) = ranks.split_at_checked(board.rows())?;
            ranks = others;
            devices.push(board.read(self.fleet, own, self.tick_ms));
        }
        let wall_us = self.start_us.saturating_add_unsigned(mono_us);
        Some(Tick { wall_us, mono_us, library_run: 1, library: Library::Present, devices, xids: Vec::new() })
    }
}

/// The tick in milliseconds.
fn check(options: &Options) -> Result<u64, GenerateError> {
    let out = |option, given: &dyn ToString, least: &dyn ToString, most: &dyn ToString| {
        let (given, least, most) = (given.to_string(), least.to_string(), most.to_string());
        Err(GenerateError::OutOfRange { option, given, least, most })
    };
    if !(1..=MAX_DEVICES).contains(&options.devices) {
        return out("devices", &options.devices, &1, &MAX_DEVICES);
    }
    if options.mig > MAX_INSTANCES {
        return out("mig", &options.mig, &0, &MAX_INSTANCES);
    }
    if options.host > 9999 {
        return out("host", &options.host, &0, &9999);
    }
    let (least, most) = (SignedDuration::from_millis(100), SignedDuration::from_secs(60));
    if !(least..=most).contains(&options.tick) {
        return out("tick", &options.tick, &least, &most);
    }
    if !(options.tick..=MAX_DURATION).contains(&options.duration) {
        return out("duration", &options.duration, &options.tick, &MAX_DURATION);
    }
    if options.tick.subsec_nanos() % 1_000_000 != 0 {
        return Err(GenerateError::TickNotWhole(options.tick));
    }
    if options.tenants.len() > MAX_TENANTS {
        return Err(GenerateError::TooManyTenants);
    }
    let is_name = |name: &str| {
        (1..=MAX_NAME).contains(&name.len())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
    };
    if let Some(other) = options.tenants.iter().find(|name| !is_name(name)) {
        return Err(GenerateError::TenantName(other.escape_debug().take(MAX_NAME).collect()));
    }
    Ok(u64::try_from(options.tick.as_millis()).unwrap_or_default())
}
