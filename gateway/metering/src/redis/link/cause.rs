//! What an error of Redis means, in a few words for a log.

use std::error::Error;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError};

/// Codes of the server's, and what each says. A server's own text is not passed on: it may repeat a command, with a password.
const CODES: &[(&str, &str)] = &[
    ("LOADING", "it is loading its data (LOADING)"),
    ("BUSY", "it is busy with a script (BUSY)"),
    ("OOM", "it is full: `maxmemory` is reached (OOM)"),
    ("READONLY", "it is a replica, which takes no writes (READONLY)"),
    ("MASTERDOWN", "it is a replica without its primary (MASTERDOWN)"),
    ("MISCONF", "it cannot write to its own disk (MISCONF)"),
    ("NOREPLICAS", "it has too few replicas to take writes (NOREPLICAS)"),
    ("NOPERM", NOT_PERMITTED),
    ("NOAUTH", "it wants a password (NOAUTH)"),
    ("WRONGPASS", "it does not know this user with this password (WRONGPASS)"),
    ("NOPROTO", "it does not speak RESP3: 6.2 or newer is needed (NOPROTO)"),
    ("NOSCRIPT", "it forgot the script at once (NOSCRIPT)"),
    ("MOVED", "it is one node of a cluster and has this shard elsewhere (MOVED)"),
    ("CLUSTERDOWN", "its cluster is down (CLUSTERDOWN)"),
    ("CROSSSLOT", "its cluster has these keys apart (CROSSSLOT)"),
];
const NOT_PERMITTED: &str = "this user may not do what is needed; the documentation has the ACL (NOPERM)";
/// In the text of an `ERR`.
const PHRASES: &[(&str, &str)] = &[
    ("The user executing the script can't", NOT_PERMITTED),
    ("max number of clients", "it has as many clients as it takes (`maxclients`)"),
    ("DB index is out of range", "it has no such database"),
    ("unknown command", "it does not know a command that is needed: 6.2 or newer is needed"),
];

/// A short cause. No secret is in it, and nothing of what was sent.
pub fn describe(error: &RedisError) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    match (error.code(), error.kind()) {
        (Some(code), _) => of_code(code, error.detail().unwrap_or_default()),
        (None, ErrorKind::Io) => of_io(error),
        (None, ErrorKind::AuthenticationFailed) => "it does not know this user with this password".to_owned(),
        (None, ErrorKind::RESP3NotSupported) => "it does not speak RESP3: 6.2 or newer is needed".to_owned(),
        (None, ErrorKind::Parse | ErrorKind::UnexpectedReturnType) => {
            "it answers what no Redis answers, or the answer was cut off".to_owned()
        }
        // TLS among them.
        (None, ErrorKind::Client | ErrorKind::InvalidClientConfig) => of_source(error),
        (None, _) => "it does not answer as expected".to_owned(),
    }
}

fn of_code(code: &str, detail: &str) -> String {
    let known = |wanted: &str| CODES.iter().find(|(code, _)| *code == wanted).map(|(_, meaning)| *meaning);
    // Before 7.0, what a command of a script was answered stands in the text.
    let inner = || detail.split(|letter: char| !letter.is_ascii_uppercase()).find_map(known);
    let phrase = || PHRASES.iter().find(|(phrase, _)| detail.contains(phrase)).map(|(_, meaning)| *meaning);
    if let Some(meaning) = known(code).or_else(phrase).or_else(inner) {
        return meaning.to_owned();
    }
    let code: String = code.chars().filter(char::is_ascii_uppercase).take(20).collect();
    format!("it answers {code}")
}

fn of_io(error: &RedisError) -> String {
    // The client hands its cause out as it shares it.
    let shared = error.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    match shared.and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(io::ErrorKind::ConnectionReset) => "connection reset".to_owned(),
        Some(io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionAborted) => {
            "the connection has ended".to_owned()
        }
        // Names that do not resolve, certificates that nobody trusts.
        _ => of_source(error),
    }
}

/// Not of the server's.
fn of_source(error: &RedisError) -> String {
    let text = error.source().map_or_else(|| error.category().to_owned(), ToString::to_string);
    text.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use redis::{ServerErrorKind, make_extension_error};

    use super::*;

    #[test]
    fn a_servers_text_is_not_passed_on() {
        let detail =
            Some("unknown command `HELLO`, with args beginning with: `3` `AUTH` `default` `secret`".to_owned());
        let unknown = describe(&make_extension_error("ERR".to_owned(), detail));
        assert!(unknown.contains("6.2 or newer"), "{unknown}");
        let odd = describe(&make_extension_error("secret\u{1b}[2JODD".to_owned(), Some("secret".to_owned())));
        assert_eq!(odd, "it answers JODD");
    }

    #[test]
    fn codes_are_found_also_inside_a_scripts_error() {
        let detail = "Error running script (call to f_5e1): @user_script:19: -OOM command not allowed when used memory";
        let of_6_2 = make_extension_error("ERR".to_owned(), Some(detail.to_owned()));
        let of_7 = make_extension_error("OOM".to_owned(), Some("command not allowed. script: 5e1".to_owned()));
        assert_eq!(describe(&of_6_2), describe(&of_7));
        let read_only = RedisError::from((ErrorKind::Server(ServerErrorKind::ReadOnly), "", "secret".to_owned()));
        assert_eq!(describe(&read_only), "it is a replica, which takes no writes (READONLY)");
    }

    #[test]
    fn faults_of_the_network_have_names() {
        let of = |kind: io::ErrorKind| describe(&RedisError::from(io::Error::from(kind)));
        assert_eq!(of(io::ErrorKind::TimedOut), "no answer in time");
        assert_eq!(of(io::ErrorKind::ConnectionRefused), "connection refused");
        assert_eq!(of(io::ErrorKind::UnexpectedEof), "the connection has ended");
    }
}
