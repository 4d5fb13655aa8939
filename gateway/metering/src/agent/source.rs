//! Where this run's ticks come from: the one place that chooses between the machine's GPUs and a recording.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;

use super::exit::Exit;
use super::with_causes;
use crate::clock::Clock;
use crate::nvml::Options;
use crate::reader::{LiveReader, ReadTick, Received};
use crate::recording::{Header, InvalidSpeed, Recorder, Recording, RecordingError, Replay};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The machine's GPUs; `record`: and into this file as well.
    Live {
        library: Option<PathBuf>,
        tick: Duration,
        record: Option<PathBuf>,
    },
    Replay {
        recording: PathBuf,
        speed: String,
        looped: bool,
    },
}

pub(crate) struct Source {
    pub(crate) reader: Box<dyn ReadTick>,
    /// Ticks have times of their own, not this run's clock.
    pub(crate) is_recorded: bool,
    /// Between two passes: as configured, or as recorded.
    pub(crate) tick: Duration,
    /// Why it ended, unless that was its end.
    pub(crate) fault: Fault,
}

/// In one sentence.
pub(crate) type Fault = Arc<OnceLock<String>>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("no thread can be had to read on")]
    Thread(#[source] io::Error),
    #[error("`--speed` is wrong")]
    Speed(#[from] InvalidSpeed),
    #[error("the recording cannot be made")]
    Record(#[source] RecordingError),
    #[error("the recording cannot be replayed")]
    Replay(#[source] RecordingError),
}

/// Ticks that are written down on their way.
struct Recorded {
    reader: LiveReader,
    recorder: Recorder,
    has_failed: bool,
}

struct Replayed {
    replay: Replay,
    fault: Fault,
}

impl SourceError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Thread(_) => Exit::Failed,
            Self::Speed(_) => Exit::Usage,
            Self::Record(_) => Exit::CannotCreate,
            Self::Replay(_) => Exit::NoInput,
        }
    }
}

/// # Errors
/// Where a recording cannot be read or made. GPUs that are not there are no error: ticks say so.
pub(crate) fn open(choice: &Choice, node: &str, clock: &Clock) -> Result<Source, SourceError> {
    let fault = Fault::default();
    let (reader, is_recorded, tick): (Box<dyn ReadTick>, _, _) = match choice {
        Choice::Live { library, tick, record } => {
            let recorder = record.as_ref().map(|path| Recorder::create(path, &header(node, *tick, clock)));
            let recorder = recorder.transpose().map_err(SourceError::Record)?;
            let options = Options { lib_path: library.clone(), tick: *tick, ..Options::default() };
            let reader = LiveReader::start(options, clock.clone()).map_err(SourceError::Thread)?;
            match recorder {
                Some(recorder) => (Box::new(Recorded { reader, recorder, has_failed: false }), false, *tick),
                None => (Box::new(reader), false, *tick),
            }
        }
        Choice::Replay { recording, speed, looped } => {
            let speed = speed.parse()?;
            let recording = Recording::open(recording).map_err(SourceError::Replay)?;
            let tick = Duration::from_millis(recording.header().tick_ms);
            let replay = Replay::new(recording, speed, *looped, clock.clone());
            (Box::new(Replayed { replay, fault: Arc::clone(&fault) }), true, tick)
        }
    };
    Ok(Source { reader, is_recorded, tick, fault })
}

fn header(node: &str, tick: Duration, clock: &Clock) -> Header {
    let started = Timestamp::from_microsecond(clock.now().wall_us).unwrap_or(Timestamp::UNIX_EPOCH);
    Header { node: node.to_owned(), started, tick_ms: u64::try_from(tick.as_millis()).unwrap_or(u64::MAX) }
}

impl ReadTick for Recorded {
    fn read_tick(&mut self, patience: Duration) -> Received {
        let received = self.reader.read_tick(patience);
        if let Received::Tick(tick) = &received
            && let Err(error) = self.recorder.write(tick)
        {
            // Metering matters more; what was recorded before is whole.
            if !self.has_failed {
                tracing::error!(error = with_causes(&error), "a tick is not recorded; further ones are tried");
            }
            self.has_failed = true;
        }
        received
    }
}

impl ReadTick for Replayed {
    fn read_tick(&mut self, patience: Duration) -> Received {
        let received = self.replay.read_tick(patience);
        if matches!(received, Received::Ended)
            && let Some(fault) = self.replay.fault()
        {
            let _ = self.fault.set(with_causes(fault));
        }
        received
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { is_recorded, tick, .. } = self;
        let mut shown = formatter.debug_struct("Source");
        shown.field("is_recorded", is_recorded).field("tick", tick).finish_non_exhaustive()
    }
}
