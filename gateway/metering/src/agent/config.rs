//! The agent's configuration: a TOML file, `FAREBOX_AGENT_…` variables above it, flags above both, defaults below. The only
//! file of the agent that reads the environment.
//!
//! It is complete and checked before any socket, library or state opens, and everything that is wrong with it is told at once.
//! `gateway/metering/farebox-agent.toml` documents every setting.

mod assignments;
mod error;
mod redis;
mod rule;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::level_filters::LevelFilter;

pub(crate) use error::ConfigErrors;
use error::{Place, Problem};

use super::log::{LogFormat, LogSettings};
use super::token::Token;
use crate::delivery::mac::MacKey;
use crate::delivery::{Destination, SpoolLimits};
use crate::meter::Job;
use rule::{address, duration, gateway, name, number, one_of, path};
use source::{Source, invalid, text_of};

const LOCALHOST: &str = "localhost";
const LONGEST_FILE_BYTES: u64 = 4 << 20;
const STATE_DIR: &str = "/var/lib/farebox-agent";
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
pub(crate) struct Config {
    /// Names the host in snapshots.
    pub(crate) node: String,
    /// False: it is the kernel's host name.
    pub(crate) node_was_named: bool,
    /// `None`: nothing is delivered.
    pub(crate) to: Option<Destination>,
    /// Between two passes.
    pub(crate) tick: Duration,
    /// `None`: where the loader finds it.
    pub(crate) library: Option<PathBuf>,
    pub(crate) state_dir: StateDir,
    /// Loopback.
    pub(crate) control_listen: SocketAddr,
    /// Of job calls. `None`: whoever may connect may start and end jobs.
    pub(crate) control_token: Option<Token>,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) key: Option<MacKey>,
    pub(crate) spool: SpoolLimits,
    /// The driver's device names to the price book's.
    pub(crate) models: BTreeMap<String, String>,
    pub(crate) assignments: Vec<Job>,
    pub(crate) log: LogSettings,
    /// What is allowed but hardly meant; for the log.
    pub(crate) warnings: Vec<String>,
}

/// Where jobs, the boot epoch and the spool are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateDir {
    pub(crate) path: PathBuf,
    /// False: it is the default, and may be absent.
    pub(crate) was_named: bool,
}

/// Where a configuration comes from.
#[derive(Debug)]
pub(crate) struct Inputs<'a, Environment> {
    pub(crate) file: Option<&'a Path>,
    /// All variables; those that do not begin with `FAREBOX_AGENT_` are ignored.
    pub(crate) environment: Environment,
    /// By the setting that they set: `spool.entries`.
    pub(crate) flags: BTreeMap<&'static str, String>,
    /// Of this machine.
    pub(crate) host_name: Option<String>,
}

impl Config {
    /// Reads and checks everything.
    ///
    /// # Errors
    /// Everything that is wrong, at once.
    pub(crate) fn load(inputs: Inputs<'_, impl Iterator<Item = (String, String)>>) -> Result<Self, ConfigErrors> {
        let read = inputs.file.map(|path| (path, small_file(path)));
        let (text, unreadable) = match &read {
            Some((path, Ok(text))) => (Some((*path, text.as_str())), None),
            Some((path, Err(error))) => (None, Some((path, error.kind()))),
            None => (None, None),
        };
        let mut source = Source::new(text, inputs.environment, inputs.flags);
        if let Some((path, kind)) = unreadable {
            source.report(Place::WholeFile(path.to_path_buf()), Problem::Unreadable(kind));
        }
        let config = Self::read(&mut source, inputs.host_name);
        match source.finish() {
            None => Ok(config),
            Some(errors) => Err(errors),
        }
    }

    fn read(source: &mut Source<'_>, host_name: Option<String>) -> Self {
        let mut warnings = Vec::new();
        let host_name = host_name.filter(|found| (rule::name().parse)(found).is_some());
        let named = source.optional("node", &name());
        let node_was_named = named.is_some();
        let node = named.or(host_name).unwrap_or_else(|| LOCALHOST.to_owned());
        let gateway = source.setting("gateway", &gateway(), None);
        let redis = redis::read(source, &mut warnings);
        if gateway.is_some() && redis.is_some() {
            source.report(Place::Whole, Problem::TwoDestinations);
        }
        let to = redis.map(|(settings, limits)| Destination::Redis(settings, limits));
        let to = to.or(gateway.map(Destination::Gateway));
        // Two hosts of one name would overwrite each other.
        if to.is_some() && !node_was_named && node == LOCALHOST {
            source.report(Place::Whole, Problem::NoNode);
        }
        let second = Duration::from_secs;
        let tick = source.setting("tick", &duration(Duration::from_millis(100)..=second(60)), second(1));
        let library = source.optional("library", &path());
        let named = source.optional("state_dir", &path());
        let was_named = named.is_some();
        let state_dir = StateDir { path: named.unwrap_or_else(|| PathBuf::from(STATE_DIR)), was_named };
        let control_listen =
            source.setting("control_listen", &address(), SocketAddr::from((Ipv4Addr::LOCALHOST, 9411)));
        if !control_listen.ip().is_loopback() {
            source.report(Place::Whole, Problem::NotLoopback(control_listen));
        }
        let token_file = source.optional("control_token_file", &path());
        let control_token = token_file.and_then(|file| control_token(source, &file, &mut warnings));
        let metrics_listen = source.optional("metrics_listen", &address());
        if metrics_listen == Some(control_listen) && control_listen.port() != 0 {
            source.report(Place::Whole, Problem::SameAddress(control_listen));
        }
        let key_file = source.optional("mac.key_file", &path());
        if key_file.is_none() && matches!(to, Some(Destination::Redis(..))) {
            source.report(Place::Whole, Problem::RedisWithoutKey);
        }
        let key = key_file.and_then(|file| mac_key(source, &file, &mut warnings));
        let usual = SpoolLimits::standard();
        let spool = SpoolLimits {
            entries: source.setting("spool.entries", &number(1..=1_000_000), usual.entries),
            bytes: source.setting("spool.bytes", &number(64 << 10..=1 << 30), usual.bytes),
        };
        let (models, assignments) = (models(source), source.assignments());
        let log = LogSettings {
            format: source.setting("log.format", &one_of(LOG_FORMATS), LogFormat::Json),
            level: source.setting("log.level", &one_of(LOG_LEVELS), LevelFilter::INFO),
        };
        Self {
            node,
            node_was_named,
            to,
            tick,
            library,
            state_dir,
            control_listen,
            control_token,
            metrics_listen,
            key,
            spool,
            models,
            assignments,
            log,
            warnings,
        }
    }
}

/// All variables of this process, for [`Config::load`]. What is not UTF-8 comes with replacement characters.
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (lossy(name), lossy(value)))
}

/// As the kernel has it.
pub(crate) fn host_name() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned())
}

/// Nothing that never ends: no pipe, no device, and no more than a configuration can be.
fn small_file(path: &Path) -> std::io::Result<String> {
    let found = std::fs::metadata(path)?;
    match (found.is_file(), found.len()) {
        (false, _) => Err(std::io::Error::from(std::io::ErrorKind::InvalidInput)),
        (true, LONGEST_FILE_BYTES..) => Err(std::io::Error::from(std::io::ErrorKind::FileTooLarge)),
        (true, _) => std::fs::read_to_string(path),
    }
}

/// The text of a file that only this user may read; that others may is a warning.
fn secret(
    source: &mut Source<'_>,
    (setting, path): (&'static str, &Path),
    what: &str,
    warnings: &mut Vec<String>,
) -> Option<String> {
    let text = small_file(path).map_err(|error| {
        source.report(Place::Whole, Problem::SecretFile { setting, path: path.to_owned(), kind: error.kind() });
    });
    if std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0) {
        warnings.push(format!("others may read `{}`, {what}; `chmod 600` it", path.display()));
    }
    text.ok()
}

fn control_token(source: &mut Source<'_>, file: &Path, warnings: &mut Vec<String>) -> Option<Token> {
    let text = secret(source, ("control_token_file", file), "the token of job calls", warnings)?;
    let path = file.to_owned();
    Token::parse(&text).map_err(|error| source.report(Place::Whole, Problem::Token { path, error })).ok()
}

fn mac_key(source: &mut Source<'_>, file: &Path, warnings: &mut Vec<String>) -> Option<MacKey> {
    let text = secret(source, ("mac.key_file", file), "the key of this agent's snapshots", warnings)?;
    let path = file.to_owned();
    MacKey::parse(&text).map_err(|error| source.report(Place::Whole, Problem::Key { path, error })).ok()
}

fn models(source: &mut Source<'_>) -> BTreeMap<String, String> {
    let mut models = BTreeMap::new();
    for (driver_name, leaf) in source.take_table("models") {
        let setting = format!("models.\"{driver_name}\"");
        match text_of(&leaf.value, false).map(|text| (name().parse)(&text).ok_or(format!("`{text}`"))) {
            Ok(Ok(model)) => {
                models.insert(driver_name, model);
            }
            Ok(Err(found)) | Err(found) => {
                source.report_at(leaf.span, invalid(&setting, found, "a model of the price book, like \"A100\""));
            }
        }
    }
    models
}
