//! The configuration: a TOML file, `FAREBOX_…` variables above it, defaults below it. The only room that reads the
//! environment.
//!
//! It is complete and checked before any socket or data file opens, and everything that is wrong with it is told at
//! once, with file, line and column or the name of the variable. The variable of `http.max_connections` is
//! `FAREBOX_HTTP_MAX_CONNECTIONS`. `farebox.example.toml` documents every setting.

mod agents;
mod error;
mod keys;
mod redis;
mod rule;
mod source;

#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use farebox_metering::mirror::MirrorLimits;
use farebox_sandbox::MemoLimits;
use jiff::SignedDuration;
use tracing::level_filters::LevelFilter;

pub use error::{ConfigError, ConfigErrors, Place, Problem};
pub use redis::Redis;

use crate::serving::{self, Bounds, Origins};
use crate::telemetry::{LogFormat, LogSettings};
use crate::token::TokenKeys;
use rule::{address, duration, name, number, one_of, origins, path};
use source::Source;

/// Sandbox sessions beside the workers': trial quotes while a plan is being loaded.
const SPARE_SESSIONS: u32 = 4;
const LOG_FORMATS: &[(&str, LogFormat)] = &[("json", LogFormat::Json), ("text", LogFormat::Text)];
const LOG_LEVELS: &[(&str, LevelFilter)] = &[
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// Everything that an operator can set. Made by [`Config::load`] only, so all of it has been checked.
#[derive(Clone, Debug)]
pub struct Config {
    pub listen: SocketAddr,
    /// Where `/metrics` is; `None`: with everything else.
    pub metrics_listen: Option<SocketAddr>,
    /// Tenants, plans and price books. Relative paths start at the working directory.
    pub data_dir: PathBuf,
    pub policies_dir: PathBuf,
    pub tokens: Tokens,
    pub sandbox: farebox_sandbox::Limits,
    /// Where compiled policies are kept between starts; `None`: nowhere.
    pub code_cache: Option<PathBuf>,
    /// `None`: every evaluation runs in the sandbox.
    pub memo: Option<MemoLimits>,
    pub quotes: Quotes,
    pub http: Http,
    pub mirror: MirrorLimits,
    /// `None`: usage snapshots come over HTTP only.
    pub redis: Option<Redis>,
    pub log: LogSettings,
}

#[derive(Clone, Debug)]
pub struct Tokens {
    /// `iss` of every token.
    pub issuer: String,
    pub keys: TokenKeys,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotes {
    /// Most quotes kept in memory; the oldest are forgotten first.
    pub kept: usize,
    /// Threads that price.
    pub workers: usize,
    /// Requests that may wait for a worker; one more is answered 503.
    pub queue: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    pub body_limit_bytes: usize,
    pub bounds: Bounds,
    /// The web pages that may call.
    pub origins: Origins,
    pub serving: serving::Limits,
}

impl Config {
    /// Reads and checks everything. `environment` are all variables; those that do not begin with `FAREBOX_` are ignored.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigErrors> {
        let read = file.map(|path| (path, std::fs::read_to_string(path)));
        let (text, unreadable) = match &read {
            Some((path, Ok(text))) => (Some((*path, text.as_str())), None),
            Some((path, Err(error))) => (None, Some((path, error.kind()))),
            None => (None, None),
        };
        let mut source = Source::new(text, environment);
        if let Some((path, kind)) = unreadable {
            source.report(Place::WholeFile(path.to_path_buf()), Problem::Unreadable(kind));
        }
        let config = Self::read(&mut source);
        match (config, source.finish()) {
            (Some(config), None) => Ok(config),
            // INVARIANT: `read` has reported why it gave nothing.
            (_, errors) => Err(errors.unwrap_or(ConfigErrors(Vec::new()))),
        }
    }

    fn read(source: &mut Source<'_>) -> Option<Self> {
        let listen = source.setting("listen", &address(), SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)));
        let metrics_listen = source.optional("metrics.listen", &address());
        if metrics_listen == Some(listen) && listen.port() != 0 {
            source.report(Place::Whole, Problem::SameAddress(listen));
        }
        let data_dir = source.setting("data_dir", &path(), PathBuf::from("data"));
        let policies_dir = source.setting("policies_dir", &path(), data_dir.join("policies"));
        let issuer = source.setting("tokens.issuer", &name(), "farebox".to_owned());
        let keys = source.token_keys();
        let code_cache = source.optional("sandbox.cache_dir", &path());
        let quotes = quotes(source);
        let (sandbox, memo) = (sandbox(source, quotes.workers), memo(source));
        let (http, mirror, log) = (http(source), mirror(source), log(source));
        let redis = source.redis();
        let tokens = Tokens { issuer, keys: keys? };
        Some(Self {
            listen,
            metrics_listen,
            data_dir,
            policies_dir,
            tokens,
            sandbox,
            code_cache,
            memo,
            quotes,
            http,
            mirror,
            redis,
            log,
        })
    }
}

/// All variables of this process, for [`Config::load`]. What is not UTF-8 comes with replacement characters.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (lossy(name), lossy(value)))
}

/// Whether output is wanted without colour: `NO_COLOR` is set to anything but nothing (no-color.org).
pub fn no_color(mut environment: impl Iterator<Item = (String, String)>) -> bool {
    environment.any(|(name, value)| name == "NO_COLOR" && !value.is_empty())
}

/// `FAREBOX_DATA_DIR` and `FAREBOX_POLICIES_DIR`, for commands that need no more of the configuration.
pub fn directories(environment: impl Iterator<Item = (String, String)>) -> (Option<PathBuf>, Option<PathBuf>) {
    let settings: std::collections::BTreeMap<_, _> = environment.filter(|(_, value)| !value.is_empty()).collect();
    let directory = |name: &str| settings.get(name).map(PathBuf::from);
    (directory("FAREBOX_DATA_DIR"), directory("FAREBOX_POLICIES_DIR"))
}

/// Where Cargo keeps the sources of dependencies: `CARGO_HOME`, else `.cargo` in the home directory.
#[expect(clippy::disallowed_methods, reason = "this room reads the environment")]
pub fn cargo_home() -> PathBuf {
    let home = || std::env::home_dir().unwrap_or_default().join(".cargo");
    std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from)
}

/// Where this user's commands keep compiled policies: `farebox/compiled` in `XDG_CACHE_HOME`, else in `.cache` in the home
/// directory. `None`: this user has neither.
#[expect(clippy::disallowed_methods, reason = "this room reads the environment")]
pub fn user_code_cache() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = named.or_else(|| Some(std::env::home_dir()?.join(".cache")))?;
    Some(caches.join("farebox/compiled"))
}

fn quotes(source: &mut Source<'_>) -> Quotes {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(256);
    Quotes {
        kept: source.setting("quotes.kept", &number(1..=10_000_000), 10_000),
        workers: source.setting("quotes.workers", &number(1..=256), cores),
        queue: source.setting("quotes.queue", &number(1..=100_000), 256),
    }
}

fn sandbox(source: &mut Source<'_>, workers: usize) -> farebox_sandbox::Limits {
    let standard = farebox_sandbox::Limits::standard();
    farebox_sandbox::Limits {
        evaluate_fuel: source.setting(
            "sandbox.evaluate_fuel",
            &number(100_000..=1_000_000_000),
            standard.evaluate_fuel,
        ),
        memory_bytes: source.setting("sandbox.memory_bytes", &number(1 << 20..=256 << 20), standard.memory_bytes),
        sessions: u32::try_from(workers).unwrap_or(u32::MAX).saturating_add(SPARE_SESSIONS),
        ..standard
    }
}

fn memo(source: &mut Source<'_>) -> Option<MemoLimits> {
    let standard = MemoLimits::standard();
    let limits = MemoLimits {
        bytes: source.setting("memo.bytes", &number(0..=1 << 40), standard.bytes),
        recompute_one_in: source.setting(
            "memo.recompute_one_in",
            &number(1..=1_000_000_000),
            standard.recompute_one_in,
        ),
    };
    (limits.bytes > 0).then_some(limits)
}

fn http(source: &mut Source<'_>) -> Http {
    let seconds = Duration::from_secs;
    let short = duration(Duration::from_millis(100)..=seconds(60));
    let long = duration(Duration::from_millis(100)..=seconds(600));
    let standard = serving::Limits::standard();
    let serving = serving::Limits {
        header_read_timeout: source.setting("http.header_read_timeout", &short, standard.header_read_timeout),
        keep_alive_timeout: source.setting("http.keep_alive_timeout", &long, standard.keep_alive_timeout),
        body_read_timeout: source.setting("http.body_read_timeout", &short, standard.body_read_timeout),
        write_timeout: source.setting("http.write_timeout", &short, standard.write_timeout),
        max_connections: source.setting("http.max_connections", &number(1..=1_000_000), standard.max_connections),
        drain_timeout: source.setting("http.drain_timeout", &long, standard.drain_timeout),
    };
    let usual = Bounds::standard();
    let bounds = Bounds {
        requests: source.setting("http.max_requests", &number(1..=1_000_000), usual.requests),
        request_timeout: source.setting("http.request_timeout", &long, usual.request_timeout),
        streams: source.setting("http.max_streams", &number(1..=1_000_000), usual.streams),
    };
    // Else a body that never ends would be answered as our slowness, not as its sender's.
    if bounds.request_timeout <= serving.body_read_timeout {
        let problem = Problem::Order { longer: "http.request_timeout", shorter: "http.body_read_timeout" };
        source.report(Place::Whole, problem);
    }
    // Else a stop would cut off requests that still have time.
    if serving.drain_timeout <= bounds.request_timeout {
        let problem = Problem::Order { longer: "http.drain_timeout", shorter: "http.request_timeout" };
        source.report(Place::Whole, problem);
    }
    Http {
        body_limit_bytes: source.setting("http.body_limit_bytes", &number(1 << 10..=64 << 20), 1 << 20),
        bounds,
        origins: source.setting("http.cors_origins", &origins(), Origins::None),
        serving,
    }
}

fn mirror(source: &mut Source<'_>) -> MirrorLimits {
    let standard = MirrorLimits::default();
    let retention = duration(Duration::from_secs(60)..=Duration::from_secs(86_400));
    MirrorLimits {
        snapshots: source.setting("mirror.snapshots", &number(1..=10_000_000), standard.snapshots),
        retention: source
            .optional("mirror.retention", &retention)
            .and_then(|retention| SignedDuration::try_from(retention).ok())
            .unwrap_or(standard.retention),
        roll_ups: source.setting("mirror.roll_ups", &number(0..=1_000_000), standard.roll_ups),
    }
}

fn log(source: &mut Source<'_>) -> LogSettings {
    LogSettings {
        format: source.setting("log.format", &one_of(LOG_FORMATS), LogFormat::Json),
        level: source.setting("log.level", &one_of(LOG_LEVELS), LevelFilter::INFO),
    }
}
