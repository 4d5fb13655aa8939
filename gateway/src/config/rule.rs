//! What a setting may be: one rule for the file and the environment alike.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

use crate::serving::Origins;

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
    Rule::text("an address with a port, like `127.0.0.1:8080`", |text| text.parse().ok())
}

pub(super) fn path() -> Rule<PathBuf> {
    Rule::text("a path", |text| (!text.is_empty()).then(|| PathBuf::from(text)))
}

pub(super) fn name() -> Rule<String> {
    Rule::text("1 to 200 printable characters", |text| {
        let fits = (1..=200).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        fits.then(|| text.to_owned())
    })
}

/// In front of keys in Redis: what can stand between braces and in the pattern of an ACL.
pub(super) fn key_prefix() -> Rule<String> {
    Rule::text("1 to 64 of a-z, A-Z, 0-9, `-`, `_`, `.` and `:`", |text| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        ((1..=64).contains(&text.len()) && text.bytes().all(is_plain)).then(|| text.to_owned())
    })
}

/// `*`, or origins as browsers write them, with commas between several: scheme, host, port where it is not the usual one.
pub(super) fn origins() -> Rule<Origins> {
    Rule::text("`*`, or origins like `https://shop.example` with commas between several", |text| {
        if text == "*" {
            return Some(Origins::Any);
        }
        let is_origin = |origin: &&str| {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            host.is_some_and(|host| {
                let is_plain =
                    |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:[]".contains(&byte);
                !host.is_empty() && host.bytes().all(is_plain)
            })
        };
        let origins = text.split(',').map(str::trim).map(|origin| Some(origin).filter(is_origin)?.parse().ok());
        origins.collect::<Option<Vec<_>>>().map(Origins::These)
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
    let expected = format!("a duration from `{}` to `{}`, like `10s`", written(range.start()), written(range.end()));
    Rule::text(expected, move |text| {
        let duration = text.parse::<SignedDuration>().ok().and_then(|signed| Duration::try_from(signed).ok())?;
        range.contains(&duration).then_some(duration)
    })
}
