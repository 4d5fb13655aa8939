//! Redis: where usage snapshots come from. The URL may hold a password, so what was written is never told back.

use std::ops::Range;
use std::path::PathBuf;

use farebox_metering::redis::feed::AgentKeys;
use farebox_metering::redis::keys::Keyspace;
use farebox_metering::redis::link::RedisSettings;

use super::error::{Place, Problem};
use super::rule::{key_prefix, name, number, path};
use super::source::{Source, invalid};

const URL: &str = "redis.url";
/// Each has a connection and a thread.
const MOST_SHARDS: u32 = 256;

/// Where usage snapshots come from, and whom to believe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redis {
    pub settings: RedisSettings,
    pub agents: AgentKeys,
}

impl Source<'_> {
    /// `None`: there is no Redis, or it was reported why it is of no use.
    pub(super) fn redis(&mut self) -> Option<Redis> {
        let url = self.redis_url();
        let username = self.optional("redis.username", &name());
        let password = self.optional("redis.password_file", &path()).map(|file| self.contents(file));
        let authorities = self.optional("redis.ca_file", &path()).map(|file| self.contents(file));
        let usual = Keyspace::default();
        let keyspace = Keyspace {
            prefix: self.setting("redis.prefix", &key_prefix(), usual.prefix),
            shards: self.setting("redis.shards", &number(1..=MOST_SHARDS), usual.shards),
        };
        let agents = self.agent_keys();
        let given = [
            ("redis.username", username.is_some()),
            ("redis.password_file", password.is_some()),
            ("redis.ca_file", authorities.is_some()),
        ];
        let Some(url) = url else {
            for (setting, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
                self.report(Place::Whole, Problem::NoRedis { setting });
            }
            return None;
        };
        let agents = agents.unwrap_or_else(|| Some(AgentKeys::default()));
        if agents.as_ref().is_some_and(AgentKeys::is_empty) {
            self.report(Place::Whole, Problem::NoAgentKey);
        }
        let mut settings = RedisSettings { keyspace, username: username.or(url.username.clone()), ..url };
        if let Some(password) = password {
            settings.password = Some(password?.trim().to_owned());
        }
        if let Some(authorities) = authorities {
            match &mut settings.tls {
                Some(tls) => tls.authorities = Some(authorities?.into_bytes()),
                None => {
                    let expected = "an URL that begins with `rediss://`, or no `redis.ca_file`";
                    self.report(Place::Whole, invalid(URL, "without TLS", expected));
                }
            }
        }
        settings.client().map_err(|error| self.report(Place::Whole, Problem::RedisLink(error))).ok()?;
        Some(Redis { settings, agents: agents? })
    }

    /// From the environment, else from the file; both are checked.
    fn redis_url(&mut self) -> Option<RedisSettings> {
        let in_file = self.take_leaf(URL).and_then(|leaf| match leaf.value.as_str() {
            Some(text) => self.url(text, Err(leaf.span)),
            None => {
                let found = format!("of type {}", leaf.value.type_str());
                self.report_at(leaf.span, invalid(URL, found, "a URL like `redis://127.0.0.1:6379`"));
                None
            }
        });
        let in_environment =
            self.take_variable(URL).and_then(|(variable, text)| self.url(&text, Ok(Place::Variable(variable))));
        in_environment.or(in_file)
    }

    fn url(&mut self, text: &str, place: Result<Place, Range<usize>>) -> Option<RedisSettings> {
        match (RedisSettings::parse_url(text), place) {
            (Ok(settings), _) => return Some(settings),
            (Err(error), Ok(place)) => self.report(place, Problem::RedisUrl(error)),
            (Err(error), Err(span)) => self.report_at(span, Problem::RedisUrl(error)),
        }
        None
    }

    /// `None`: reported.
    fn contents(&mut self, file: PathBuf) -> Option<String> {
        let read = std::fs::read_to_string(&file);
        read.map_err(|error| {
            let problem = Problem::SecretFile { path: file.display().to_string(), kind: error.kind() };
            self.report(Place::Whole, problem);
        })
        .ok()
    }
}
