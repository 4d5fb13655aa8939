//! `[redis]`: Redis in the place of the gateway.

use std::path::Path;
use std::time::Duration;

use super::error::{Place, Problem};
use super::rule::{database_url, duration, name, number, path, prefix};
use super::source::Source;
use super::{secret, small_file};
use crate::redis::keys::Keyspace;
use crate::redis::link::{RedisSettings, Tls};
use crate::redis::writer::WriteLimits;

/// `None`: `redis.url` is not set. Everything else is checked all the same.
pub(super) fn read(source: &mut Source<'_>, warnings: &mut Vec<String>) -> Option<(RedisSettings, WriteLimits)> {
    let url = source.setting("redis.url", &database_url(), Ok(None));
    let url = url.map_err(|error| source.report(Place::Whole, Problem::RedisUrl(error))).ok().flatten();
    let username = source.optional("redis.username", &name());
    let password_file = source.optional("redis.password_file", &path());
    let password = password_file.and_then(|file| password(source, &file, warnings));
    let ca_file = source.optional("redis.ca_file", &path());
    let authorities = ca_file.as_ref().and_then(|file| certificates(source, file));
    let usual = Keyspace::default();
    let keyspace = Keyspace {
        prefix: source.setting("redis.prefix", &prefix(), usual.prefix),
        shards: source.setting("redis.shards", &number(1..=256), usual.shards),
    };
    let usual = WriteLimits::standard();
    let (shortest, longest) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));
    let limits = WriteLimits {
        keep: source.setting("redis.keep", &duration(shortest..=longest), usual.keep),
        stream_entries: source.setting("redis.stream_entries", &number(1_000..=10_000_000), usual.stream_entries),
    };
    let mut settings = url?;
    for (setting, is_in_both) in [
        ("redis.password_file", settings.password.is_some() && password.is_some()),
        ("redis.username", settings.username.is_some() && username.is_some()),
    ] {
        if is_in_both {
            source.report(Place::Whole, Problem::AlsoInUrl(setting));
        }
    }
    if settings.password.is_some() {
        warnings.push("`redis.url` holds a password; give it by `redis.password_file`".to_owned());
    }
    match &mut settings.tls {
        Some(tls) => *tls = Tls { authorities },
        None if ca_file.is_some() => source.report(Place::Whole, Problem::AuthoritiesWithoutTls),
        None => {}
    }
    settings.username = settings.username.or(username);
    settings.password = settings.password.or(password);
    // A user without a password would go in as nobody.
    if settings.username.is_some() && settings.password.is_none() {
        source.report(Place::Whole, Problem::UserWithoutPassword);
    }
    settings.keyspace = keyspace;
    Some((settings, limits))
}

fn password(source: &mut Source<'_>, file: &Path, warnings: &mut Vec<String>) -> Option<String> {
    let text = secret(source, ("redis.password_file", file), "the password of Redis", warnings)?;
    let password = text.trim_end_matches(['\r', '\n']);
    if password.is_empty() || password.chars().any(char::is_control) {
        source.report(Place::Whole, Problem::Password(file.to_owned()));
        return None;
    }
    Some(password.to_owned())
}

fn certificates(source: &mut Source<'_>, file: &Path) -> Option<Vec<u8>> {
    let read = small_file(file).map(String::into_bytes);
    let pem = read.map_err(|error| {
        let (path, kind) = (file.to_owned(), error.kind());
        source.report(Place::Whole, Problem::SecretFile { setting: "redis.ca_file", path, kind });
    });
    let pem = pem.ok()?;
    match (Tls { authorities: Some(pem.clone()) }).check() {
        Ok(()) => Some(pem),
        Err(error) => {
            source.report(Place::Whole, Problem::Authorities { path: file.to_owned(), error });
            None
        }
    }
}
