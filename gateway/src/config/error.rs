//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// Everything that is wrong with a configuration, in the order of the file, then of the environment; never empty.
/// `Display` puts one on a line. Values of secrets are never shown.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub(super) Vec<ConfigError>);

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub place: Place,
    pub problem: Problem,
}

/// Where a problem is to be mended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Line and column count from 1, columns in characters.
    File {
        path: PathBuf,
        line: usize,
        column: usize,
    },
    WholeFile(PathBuf),
    Variable(String),
    /// In no one place: something is missing, or two settings do not fit.
    Whole,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("the configuration file cannot be read: {0}")]
    Unreadable(std::io::ErrorKind),
    #[error("{0}")]
    Syntax(String),
    /// `meant` is the setting that is nearest, if one is near.
    #[error("`{name}` is not a setting; {}", remedy(.meant.as_deref()))]
    Unknown { name: String, meant: Option<String> },
    #[error("`{setting}` is {found}; give {expected}")]
    Invalid { setting: String, found: String, expected: String },
    #[error(transparent)]
    Key(#[from] crate::token::KeyError),
    #[error(
        "`tokens.keys` has no key; add one under `[[tokens.keys]]`, or set `FAREBOX_TOKENS_KEYS` to `id:secret` (`openssl rand -base64 32` makes a secret)"
    )]
    NoKey,
    #[error("`redis.url`: {0}")]
    RedisUrl(farebox_metering::redis::link::UrlError),
    #[error("`redis.ca_file`: {0}")]
    RedisLink(farebox_metering::redis::link::LinkError),
    #[error("`{setting}` is of no use without `redis.url`; give that, or leave this out")]
    NoRedis { setting: &'static str },
    #[error(
        "with `redis.url` the keys that agents sign with are needed, or no snapshot counts; add them under `[[agents]]`, or set `FAREBOX_AGENTS` to `node:secret` (`openssl rand -base64 32` makes a secret)"
    )]
    NoAgentKey,
    #[error("the secret of agent `{node}`: {error}")]
    AgentKey { node: String, error: farebox_metering::delivery::mac::MacKeyError },
    #[error("the secret file `{path}` cannot be read: {kind}")]
    SecretFile { path: String, kind: std::io::ErrorKind },
    #[error("`{longer}` must be longer than `{shorter}`")]
    Order { longer: &'static str, shorter: &'static str },
    #[error("`listen` and `metrics.listen` are both `{0}`; give metrics a port of their own or leave it out")]
    SameAddress(std::net::SocketAddr),
}

impl ConfigErrors {
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

/// What to do about a setting that there is not.
fn remedy(meant: Option<&str>) -> String {
    match meant {
        Some(setting) => format!("did you mean `{setting}`?"),
        None => "`farebox.example.toml` lists them all".to_owned(),
    }
}

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let line_break = if index == 0 { "" } else { "\n" };
            write!(formatter, "{line_break}{error}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File { path, line, column } => write!(formatter, "{}:{line}:{column}: ", path.display())?,
            Place::WholeFile(path) => write!(formatter, "{}: ", path.display())?,
            Place::Variable(name) => write!(formatter, "{name}: ")?,
            Place::Whole => {}
        }
        write!(formatter, "{}", self.problem)
    }
}
