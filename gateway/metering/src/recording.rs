//! Recordings: ticks in a file of JSON lines, written on a machine with GPUs and replayed on any other.
//!
//! The first line is a [`Header`], every other a tick ([`line`] has its fields). What the devices *are* (identity, totals,
//! processes, MIG instances) is written only when it changed; what they *read* stands in columns, one value for each device,
//! then one for each instance. Eight GPUs with one reading of each metric take some 600 bytes a tick.

mod file;
mod line;
mod replay;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use file::{Recorder, Recording};
pub use line::Encoder;
pub use replay::{InvalidSpeed, Replay, Speed};

/// The format that is written and read.
const VERSION: u64 = 1;
/// Longest line read, bytes: some hundred GPUs with full sample buffers and thousands of processes.
pub const MAX_LINE: usize = 1 << 20;
/// Longest time between two passes that a recording may name, ms.
pub const MAX_TICK_MS: u64 = 3_600_000;

/// What a recording is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The host that was read.
    pub node: String,
    /// Wall clock at the start.
    pub started: Timestamp,
    /// Intended time between two passes, ms, from 1 to [`MAX_TICK_MS`].
    pub tick_ms: u64,
}

#[derive(Debug, Deserialize, Serialize)]
struct WireHeader {
    farebox_recording: u64,
    node: String,
    started: String,
    tick_ms: u64,
}

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("`{}` exists; choose another name or remove it, nothing is overwritten", path.display())]
    Exists { path: PathBuf },
    #[error("cannot create `{}`", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`; what was recorded before is whole", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("a tick of {bytes} bytes is not written to `{}`, where a line has at most {MAX_LINE}", path.display())]
    LongTick { path: PathBuf, bytes: usize },
    #[error("cannot open `{}`", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` is no recording: {reason}; `farebox-agent --record FILE` and `farebox-agent generate` write one", path.display())]
    NotARecording { path: PathBuf, reason: String },
    #[error("`{}` is a recording of format {version}, this version reads format {VERSION}", path.display())]
    Version { path: PathBuf, version: u64 },
    #[error("line {line} of `{}` is no tick: {reason}; `head -n {} {}` gives what is before it", path.display(), line - 1, path.display())]
    BadLine { path: PathBuf, line: u64, reason: String },
    #[error("line {line} of `{}` is over {MAX_LINE} bytes; `head -n {} {}` gives what is before it", path.display(), line - 1, path.display())]
    LongLine { path: PathBuf, line: u64 },
}

impl Header {
    /// The first line, with its end.
    pub fn to_line(&self) -> Vec<u8> {
        let wire = WireHeader {
            farebox_recording: VERSION,
            node: self.node.clone(),
            started: self.started.to_string(),
            tick_ms: self.tick_ms,
        };
        let mut line = serde_json::to_vec(&wire).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Of a whole line; the error says what is wrong with it.
    fn parse(line: &[u8]) -> Result<Self, HeaderFault> {
        // The version first: a later format may have other fields.
        #[derive(Deserialize)]
        struct Version {
            farebox_recording: u64,
        }
        let of_json = |error: serde_json::Error| HeaderFault::Reason(said(&error));
        let Version { farebox_recording } = serde_json::from_slice(line).map_err(of_json)?;
        if farebox_recording != VERSION {
            return Err(HeaderFault::Version(farebox_recording));
        }
        let wire: WireHeader = serde_json::from_slice(line).map_err(of_json)?;
        let started = wire.started.parse();
        let started = started.map_err(|_| HeaderFault::Reason("`started` in its first line is no instant".into()))?;
        if !(1..=MAX_TICK_MS).contains(&wire.tick_ms) {
            return Err(HeaderFault::Reason(format!("`tick_ms` in its first line is not from 1 to {MAX_TICK_MS}")));
        }
        Ok(Self { node: wire.node, started, tick_ms: wire.tick_ms })
    }
}

enum HeaderFault {
    Version(u64),
    Reason(String),
}

/// What the parser says, without its line number, which is of the line alone, and without what could move a terminal.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    let text: String = text.chars().take(200).map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    if error.column() > 0 { format!("{text} at column {}", error.column()) } else { text }
}
