//! The log on stderr: one event a line, JSON or text, through a thread of its own, so that a stderr that nobody reads stalls
//! that thread and nothing else. What does not fit its queue is dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer as _, registry};

/// Lines that may wait for stderr: some hundred bytes each.
const QUEUE: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Json,
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogSettings {
    pub(crate) format: LogFormat,
    /// Of our own crates; what others say is shown from `warn` up.
    pub(crate) level: LevelFilter,
}

/// Writes lines elsewhere. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    queue: Sender<Line>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Line {
    Text(Vec<u8>),
    /// Answered once all before it is written.
    Flush(Sender<()>),
}

impl Lines {
    /// Starts the thread that writes to `out`.
    pub(crate) fn to(mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, lines) = bounded(QUEUE);
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            for line in lines {
                match line {
                    // A stderr that is closed is nobody's to mend.
                    Line::Text(text) => drop(out.write_all(&text)),
                    Line::Flush(done) => drop((out.flush(), done.send(()))),
                }
            }
        })?;
        Ok(Self { queue, dropped: Arc::default() })
    }

    /// Lines that did not fit.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until all is written, at most so long.
    pub(crate) fn flush(&self, patience: Duration) {
        let (done, written) = bounded(1);
        if self.queue.send_timeout(Line::Flush(done), patience).is_ok() {
            let _ = written.recv_timeout(patience);
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Line::Text(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'writer> MakeWriter<'writer> for Lines {
    type Writer = Self;

    fn make_writer(&'writer self) -> Self {
        self.clone()
    }
}

pub(crate) fn subscriber(settings: LogSettings, lines: Lines) -> Box<dyn Subscriber + Send + Sync> {
    let others = settings.level.min(LevelFilter::WARN);
    let filter = Targets::new().with_default(others).with_target("farebox", settings.level);
    match settings.format {
        LogFormat::Json => {
            let layer = layer().json().flatten_event(true).with_span_list(false).with_writer(lines).with_filter(filter);
            Box::new(registry().with(layer))
        }
        LogFormat::Text => Box::new(registry().with(layer().with_ansi(false).with_writer(lines).with_filter(filter))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    /// Takes a line only when it is told to.
    struct Stalled(Receiver<()>);

    impl Write for Stalled {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stderr_that_nobody_reads_costs_lines_and_never_waits() {
        let (go_on, told) = channel();
        let lines = Lines::to(Stalled(told)).unwrap();
        let settings = LogSettings { format: LogFormat::Json, level: LevelFilter::INFO };
        tracing::subscriber::with_default(subscriber(settings, lines.clone()), || {
            for number in 0..QUEUE + 100 {
                tracing::info!(number, "again");
            }
        });
        // One may be in the thread's hand.
        assert!((99..=100).contains(&lines.dropped()), "{}", lines.dropped());
        drop(go_on);
        lines.flush(LONG);
    }

    #[test]
    fn an_event_is_one_line() {
        for (format, begin) in [(LogFormat::Json, "{\"timestamp\""), (LogFormat::Text, "2")] {
            let buffer = Buffer::default();
            let lines = Lines::to(buffer.clone()).unwrap();
            let settings = LogSettings { format, level: LevelFilter::INFO };
            tracing::subscriber::with_default(subscriber(settings, lines.clone()), || {
                tracing::info!(tenant = "a\nb", "said");
                tracing::debug!("not said");
            });
            lines.flush(LONG);
            let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.starts_with(begin) && text.ends_with('\n'), "{text}");
        }
    }
}
