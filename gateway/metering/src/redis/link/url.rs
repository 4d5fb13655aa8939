//! `redis://[user[:password]@]host[:port][/database]`.

use super::{RedisSettings, Tls};
use crate::redis::keys::Keyspace;

const PORT: u16 = 6379;
/// More than any server has.
const MOST_DATABASES: i64 = 1_000_000;

/// Why a text is no URL of a Redis. It never holds the text, in which a password may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("it does not begin with `redis://`, or `rediss://` for TLS")]
    Scheme,
    #[error("its host is none: give `redis://host:6379`, an IPv6 address in brackets")]
    Host,
    #[error("its port is none: give 1 to 65535 after the host")]
    Port,
    #[error("its database is none: give a number after `/`, or nothing")]
    Database,
    #[error(
        "what stands before `@` cannot be read: write `:`, `/`, `@` and `%` in user and password as %3A, %2F, %40 and %25"
    )]
    Login,
    #[error("it has a `?` or `#`; every other option is a setting of its own")]
    Options,
}

pub(super) fn parse(text: &str) -> Result<RedisSettings, UrlError> {
    let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
    let tls = match scheme {
        "redis" => None,
        "rediss" => Some(Tls { authorities: None }),
        _ => return Err(UrlError::Scheme),
    };
    // Of several `@` the last: one in a password that was not encoded is told as such.
    let (login, rest) = rest.rsplit_once('@').map_or((None, rest), |(login, rest)| (Some(login), rest));
    let (username, password) = login.map(parse_login).transpose()?.unwrap_or_default();
    if rest.contains(['?', '#']) {
        return Err(UrlError::Options);
    }
    let (address, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = parse_address(address)?;
    Ok(RedisSettings {
        host,
        port,
        database: parse_database(database)?,
        username,
        password,
        tls,
        keyspace: Keyspace::default(),
    })
}

fn parse_login(login: &str) -> Result<(Option<String>, Option<String>), UrlError> {
    let (username, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
    let read = |text: &str| {
        let is_plain = !text.contains([':', '/', '@', '?', '#']);
        percent_decoded(text).filter(|_| is_plain).ok_or(UrlError::Login)
    };
    let filled = |text: String| Some(text).filter(|text| !text.is_empty());
    Ok((filled(read(username)?), password.map(read).transpose()?.and_then(filled)))
}

fn parse_address(address: &str) -> Result<(String, u16), UrlError> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(UrlError::Host)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| UrlError::Host)?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(UrlError::Host),
            }
        }
        None => address.split_once(':').map_or((address, None), |(host, port)| (host, Some(port))),
    };
    let is_part_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if host.is_empty() || host.len() > 255 || !host.bytes().all(is_part_of_name) {
        return Err(UrlError::Host);
    }
    let port = port.map_or(Some(PORT), |port| digits(port)?.parse().ok()).filter(|port| *port > 0);
    Ok((host.to_owned(), port.ok_or(UrlError::Port)?))
}

fn parse_database(text: &str) -> Result<i64, UrlError> {
    if text.is_empty() {
        return Ok(0);
    }
    let database = digits(text).and_then(|text| text.parse().ok());
    database.filter(|database| *database < MOST_DATABASES).ok_or(UrlError::Database)
}

fn digits(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let (code, after) = rest.split_at_checked(2)?;
            let code =
                std::str::from_utf8(code).ok().filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
            bytes.push(u8::from_str_radix(code, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_in_all_their_parts() {
        let read = |text: &str| {
            let read = parse(text).unwrap();
            (read.to_string(), read.username.unwrap_or_default(), read.password.unwrap_or_default())
        };
        let whole = |shown: &str, user: &str, password: &str| (shown.to_owned(), user.to_owned(), password.to_owned());
        assert_eq!(read("redis://a"), whole("redis://a:6379/0", "", ""));
        assert_eq!(read("rediss://a.b-c_d:1/7"), whole("rediss://a.b-c_d:1/7", "", ""));
        assert_eq!(read("redis://[::1]:80/"), whole("redis://[::1]:80/0", "", ""));
        assert_eq!(read("redis://:p%40%3a%C3%BC@a"), whole("redis://a:6379/0", "", "p@:ü"));
        assert_eq!(read("redis://user@a"), whole("redis://a:6379/0", "user", ""));
        assert_eq!(read("redis://u:p@[fe80::1]"), whole("redis://[fe80::1]:6379/0", "u", "p"));
    }

    #[test]
    fn what_is_none_is_told_without_the_text() {
        for (text, error) in [
            ("", UrlError::Scheme),
            ("http://secret@a", UrlError::Scheme),
            ("redis://", UrlError::Host),
            ("redis://u:secret@", UrlError::Host),
            ("redis://a b", UrlError::Host),
            ("redis://[::1", UrlError::Host),
            ("redis://[secret]", UrlError::Host),
            ("redis://[::1]secret", UrlError::Host),
            ("redis://a:", UrlError::Port),
            ("redis://a:0", UrlError::Port),
            ("redis://a:+1", UrlError::Port),
            ("redis://a:65536", UrlError::Port),
            ("redis://a/x", UrlError::Database),
            ("redis://a/-1", UrlError::Database),
            ("redis://a/99999999999999999999", UrlError::Database),
            ("redis://u:sec@ret@a", UrlError::Login),
            ("redis://u:sec:ret@a", UrlError::Login),
            ("redis://u:sec/ret@a", UrlError::Login),
            ("redis://u:secret%2@a", UrlError::Login),
            ("redis://u:secret%+1@a", UrlError::Login),
            ("redis://u:secret%FF@a", UrlError::Login),
            ("redis://a?password=secret", UrlError::Options),
        ] {
            assert_eq!(parse(text).unwrap_err(), error, "{text}");
            assert!(!format!("{error} {error:?}").contains("secret"), "{text}");
        }
    }
}
