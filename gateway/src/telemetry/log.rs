//! The log: one event a line, JSON for machines or text for people.

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer as _, registry};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    pub format: LogFormat,
    /// Of our own crates; what others say is shown from `warn` up.
    pub level: LevelFilter,
}

/// What `main` installs with `std::io::stderr`, and a test reads with a buffer.
pub fn log_subscriber<Writer>(settings: LogSettings, writer: Writer) -> Box<dyn Subscriber + Send + Sync>
where
    Writer: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let others = settings.level.min(LevelFilter::WARN);
    let filter = Targets::new().with_default(others).with_target("farebox", settings.level);
    match settings.format {
        LogFormat::Json => {
            let layer =
                layer().json().flatten_event(true).with_span_list(false).with_writer(writer).with_filter(filter);
            Box::new(registry().with(layer))
        }
        LogFormat::Text => Box::new(registry().with(layer().with_ansi(false).with_writer(writer).with_filter(filter))),
    }
}
