//! What a setting may be: one rule for the file, the environment and the command line.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

use crate::agent::holding;
use crate::redis::keys::Keyspace;
use crate::redis::link::{RedisSettings, UrlError};

/// How a setting is read from text, and what to tell whoever wrote something else.
pub(super) struct Rule<T> {
    pub(super) expected: String,
    /// In the file it is an integer, else a string.
    pub(super) is_number: bool,
    pub(super) parse: Box<Parse<T>>,
}

type Parse<T> = dyn Fn(&str) -> Option<T>;

impl<T> Rule<T> {
    fn text(expected: impl Into<String>, parse: impl Fn(&str) -> Option<T> + 'static) -> Self {
        Self { expected: expected.into(), is_number: false, parse: Box::new(parse) }
    }
}

pub(super) fn address() -> Rule<SocketAddr> {
    Rule::text("an address with a port, like `127.0.0.1:9411`", |text| text.parse().ok())
}

pub(super) fn path() -> Rule<PathBuf> {
    Rule::text("a path", |text| (!text.is_empty()).then(|| PathBuf::from(text)))
}

/// As snapshots take it.
pub(super) fn name() -> Rule<String> {
    Rule::text("1 to 128 bytes without control characters", |text| holding::name(text).ok())
}

/// Without a path: the agent adds its own. Empty: none.
pub(super) fn gateway() -> Rule<Option<String>> {
    let expected = "an address like `http://127.0.0.1:8080` (TLS is a proxy's business), or nothing";
    Rule::text(expected, |text| {
        if text.is_empty() {
            return Some(None);
        }
        let authority = text.strip_prefix("http://")?.trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        let has_host = authority.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
        let address: hyper::Uri = format!("http://{authority}").parse().ok()?;
        // A port that is none is no port to `Uri`, only a text behind the host.
        let rest = authority.strip_prefix(address.host()?)?;
        let has_port = rest.is_empty() || address.port_u16().is_some_and(|port| port > 0);
        (has_host && has_port && authority.bytes().all(is_plain)).then(|| Some(format!("http://{authority}")))
    })
}

/// Empty: none. What is wrong is told by whoever asks: the text, in which a password may be, is not shown.
pub(super) fn database_url() -> Rule<Result<Option<RedisSettings>, UrlError>> {
    let expected = "a URL like \"redis://redis.internal:6379\", or nothing";
    Rule::text(expected, |text| Some((!text.is_empty()).then(|| RedisSettings::parse_url(text)).transpose()))
}

/// Of keys.
pub(super) fn prefix() -> Rule<String> {
    Rule::text("1 to 64 of a-z, A-Z, 0-9, `-`, `_`, `.` and `:`", |text| {
        Keyspace::is_prefix(text).then(|| text.to_owned())
    })
}

pub(super) fn one_of<T: Copy + 'static>(choices: &'static [(&'static str, T)]) -> Rule<T> {
    let names: Vec<_> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
    Rule::text(names.join(" or "), |text| choices.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice))
}

pub(super) fn number<T: FromStr + PartialOrd + Display + 'static>(range: RangeInclusive<T>) -> Rule<T> {
    let expected = format!("a whole number from {} to {}", range.start(), range.end());
    let parse = move |text: &str| {
        // `FromStr` takes a sign; a setting has none.
        let number = text.starts_with(|first: char| first.is_ascii_digit()).then(|| text.parse().ok()).flatten()?;
        range.contains(&number).then_some(number)
    };
    Rule { expected, is_number: true, parse: Box::new(parse) }
}

pub(super) fn duration(range: RangeInclusive<Duration>) -> Rule<Duration> {
    let written =
        |duration: &Duration| SignedDuration::try_from(*duration).map(|d| format!("{d:#}")).unwrap_or_default();
    let expected = format!("a duration from `{}` to `{}`, like `1s`", written(range.start()), written(range.end()));
    Rule::text(expected, move |text| {
        let duration = text.parse::<SignedDuration>().ok().and_then(|signed| Duration::try_from(signed).ok())?;
        range.contains(&duration).then_some(duration)
    })
}
