//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

/// Everything that is wrong, in the order of the file, then of the environment, then of the flags; never empty. `Display`
/// puts one on a line. Values of secrets are never shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigErrors(pub(super) Vec<ConfigError>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    pub(crate) place: Place,
    pub(crate) problem: Problem,
}

/// Where a problem is to be mended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Line and column count from 1, columns in characters.
    File {
        path: PathBuf,
        line: usize,
        column: usize,
    },
    WholeFile(PathBuf),
    Variable(String),
    Flag(String),
    /// In no one place: two settings do not fit.
    Whole,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("the configuration file cannot be read: {0}")]
    Unreadable(std::io::ErrorKind),
    #[error("{0}")]
    Syntax(String),
    #[error("`{name}` is not a setting; {}", remedy(.known))]
    Unknown { name: String, known: Vec<String> },
    #[error("`{setting}` is {found}; give {expected}")]
    Invalid { setting: String, found: String, expected: String },
    #[error("`{setting}` `{path}` cannot be read: {kind}")]
    SecretFile { setting: &'static str, path: PathBuf, kind: std::io::ErrorKind },
    #[error("`control_token_file` `{path}`: {error}")]
    Token { path: PathBuf, error: crate::agent::token::NoToken },
    #[error("`node` is not set and this host has no name but `localhost`, as others have; set it")]
    NoNode,
    #[error("`mac.key_file` `{path}`: {error}")]
    Key { path: PathBuf, error: crate::delivery::mac::MacKeyError },
    #[error(
        "`control_listen` is `{0}`; job calls are for this host only: give a loopback address such as `127.0.0.1:9411`"
    )]
    NotLoopback(std::net::SocketAddr),
    #[error("`control_listen` and `metrics_listen` are both `{0}`; give metrics a port of their own or leave it out")]
    SameAddress(std::net::SocketAddr),
    #[error("`gateway` and `redis.url` are both set; snapshots go to one of them")]
    TwoDestinations,
    #[error(
        "`redis.url` is set and `mac.key_file` is not: gateways take no snapshot out of Redis without a MAC; set it \
         (`openssl rand -base64 32`)"
    )]
    RedisWithoutKey,
    #[error("`redis.url` cannot be used: {0}")]
    RedisUrl(crate::redis::link::UrlError),
    #[error("`{0}` is set, and `redis.url` has one as well; leave out one of them")]
    AlsoInUrl(&'static str),
    #[error("`redis.password_file` `{0}` does not hold one line with a password")]
    Password(PathBuf),
    #[error("there is a user for Redis and no password; set `redis.password_file`")]
    UserWithoutPassword,
    #[error("`redis.ca_file` `{path}`: {error}")]
    Authorities { path: PathBuf, error: crate::redis::link::LinkError },
    #[error("`redis.ca_file` is set and `redis.url` is without TLS; give `rediss://…`, or leave it out")]
    AuthoritiesWithoutTls,
    #[error("`assignments`: {0}")]
    Assignment(String),
}

impl ConfigErrors {
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

/// What could have been meant.
fn remedy(known: &[String]) -> String {
    let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
    match known.as_slice() {
        [] => "there is none like it".to_owned(),
        known => format!("there is {}", known.join(", ")),
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
            Place::Flag(name) => write!(formatter, "{name}: ")?,
            Place::Whole => {}
        }
        write!(formatter, "{}", self.problem)
    }
}
