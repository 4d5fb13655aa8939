//! Where this run's ticks come from: the one place that chooses between the machine's GPUs and a recording.

use std::path::PathBuf;
use std::time::Duration;

use super::exit::Exit;
use crate::clock::Clock;
use crate::reader::ReadTick;

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
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("this build has no reader for {0}")]
    NotBuilt(&'static str),
}

impl SourceError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::NotBuilt(_) => Exit::Unavailable,
        }
    }
}

/// # Errors
/// Where a recording cannot be read or made. GPUs that are not there are no error: ticks say so.
pub(crate) fn open(choice: &Choice, _node: &str, _clock: &Clock) -> Result<Source, SourceError> {
    Err(SourceError::NotBuilt(match choice {
        Choice::Live { .. } => "GPUs",
        Choice::Replay { .. } => "recordings",
    }))
}

impl std::fmt::Debug for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Source").field("is_recorded", &self.is_recorded).finish_non_exhaustive()
    }
}
