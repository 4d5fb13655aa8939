//! How to reach Redis.

mod cause;
mod url;

use std::fmt;
use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo as _, ProtocolVersion, RedisConnectionInfo,
    TlsCertificates,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::keys::Keyspace;
pub use cause::describe;
pub use url::UrlError;

/// For a connection to be made, with TLS and log-in.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// For an answer.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

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

/// Why there is no client. No secret is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    #[error("the file of authorities holds no certificate; give PEM (`-----BEGIN CERTIFICATE-----`)")]
    NoCertificate,
    #[error("the file of authorities is no PEM: {0}")]
    Certificate(String),
    #[error("{0}")]
    Client(String),
}

impl RedisSettings {
    /// Reads `redis://[user[:password]@]host[:port][/database]`, or `rediss://…` for TLS; what is outside ASCII letters in user
    /// and password is percent-encoded. The keyspace and the authorities are the usual ones.
    ///
    /// # Errors
    /// [`UrlError`], which shows nothing of the URL.
    pub fn parse_url(text: &str) -> Result<Self, UrlError> {
        url::parse(text)
    }

    /// Connects to nothing yet. In RESP3, and without `CLIENT SETINFO`, which servers before 7.2 do not know.
    ///
    /// # Errors
    /// Where the authorities are no certificates.
    pub fn client(&self) -> Result<Client, LinkError> {
        let (host, port) = (self.host.clone(), self.port);
        let address = match &self.tls {
            None => ConnectionAddr::Tcp(host, port),
            Some(_) => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
        };
        let mut login = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_db(self.database);
        login = login.set_skip_set_lib_name();
        if let Some(username) = &self.username {
            login = login.set_username(username);
        }
        if let Some(password) = &self.password {
            login = login.set_password(password);
        }
        let failed = |error: redis::RedisError| LinkError::Client(describe(&error));
        let link = address.into_connection_info().map_err(failed)?.set_redis_settings(login);
        let link = link.set_tcp_settings(TcpSettings::default().set_nodelay(true));
        match &self.tls {
            None => Client::open(link).map_err(failed),
            Some(tls) => {
                choose_cryptography();
                tls.check()?;
                let certificates = TlsCertificates { client_tls: None, root_cert: tls.authorities.clone() };
                Client::build_with_tls(link, certificates).map_err(failed)
            }
        }
    }

    /// For connections of [`Self::client`]: nobody waits for ever.
    pub fn timeouts() -> AsyncConnectionConfig {
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
    }
}

impl Tls {
    /// Whether a client can be made with these.
    ///
    /// # Errors
    /// Where the authorities are no certificates.
    pub fn check(&self) -> Result<(), LinkError> {
        let Some(pem) = &self.authorities else { return Ok(()) };
        let mut count = 0_usize;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            certificate.map_err(|error| LinkError::Certificate(error.to_string()))?;
            count = count.saturating_add(1);
        }
        if count == 0 { Err(LinkError::NoCertificate) } else { Ok(()) }
    }
}

/// rustls panics where a build has two providers and none was chosen. That one was is not an error.
fn choose_cryptography() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

impl fmt::Debug for RedisSettings {
    /// As [`fmt::Display`].
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for RedisSettings {
    /// The URL, without user and password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(formatter, "{scheme}://{open}{}{close}:{}/{}", self.host, self.port, self.database)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tls")
    }
}

#[cfg(test)]
mod tests;
