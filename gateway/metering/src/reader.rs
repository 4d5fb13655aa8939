//! Where ticks come from: the machine's GPUs, or a recording.

mod live;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::tick::Tick;

pub use live::LiveReader;

/// Gives one tick after the other.
pub trait ReadTick: Send {
    /// Waits for the next tick, at most this long. Never blocks longer, whatever the driver does.
    fn read_tick(&mut self, patience: Duration) -> Received;
}

#[derive(Debug)]
pub enum Received {
    Tick(Box<Tick>),
    /// Nothing yet. `stalled`: the reader has been busy with one pass for so long that the driver hangs.
    Nothing {
        stalled: bool,
    },
    /// The recording is at its end.
    Ended,
}
