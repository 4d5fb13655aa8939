//! The clock behind deadlines: an OS thread, because a task on a busy runtime would be late exactly when it matters.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::Engine;

/// How often a deadline is looked at; deadlines are kept to within two of these.
const PERIOD: Duration = Duration::from_millis(10);

/// Advances the engine's epoch until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let engine = engine.clone();
        let thread = std::thread::Builder::new().name("sandbox-ticker".into()).spawn(move || {
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                engine.increment_epoch();
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Ticks that are at least `deadline` long: the tick under way may be nearly over.
    pub(crate) fn ticks(deadline: Duration) -> u64 {
        let ticks = deadline.as_nanos().div_ceil(PERIOD.as_nanos());
        u64::try_from(ticks).unwrap_or(u64::MAX / 2).saturating_add(1)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has nothing left to say here.
            let _ = thread.join();
        }
    }
}
