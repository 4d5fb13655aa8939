//! How to reach Redis.

use std::fmt;

use super::keys::Keyspace;

/// All that a connection needs; agents and gateways have the same settings.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisSettings {
    pub host: String,
    pub port: u16,
    /// The number of a database; 0 on a cluster.
    pub database: i64,
    pub username: Option<String>,
    pub password: Option<String>,
    /// `None`: without TLS.
    pub tls: Option<Tls>,
    pub keyspace: Keyspace,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Tls {
    /// PEM. `None`: the certificates that the machine trusts.
    pub authorities: Option<Vec<u8>>,
}

impl fmt::Debug for RedisSettings {
    /// Without the password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        write!(formatter, "{scheme}://{}:{}/{}", self.host, self.port, self.database)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tls")
    }
}
