//! The demo's Redis: a `redis-server` of its own on loopback, without anything on disk, and the key that its agent signs with.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Failure;

/// For what takes a tenth of a second on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// The server has no way of its own to end with another process: standard input of this shell closes with the demo's process,
/// however that ends, and then the shell ends the server.
const GUARD: &str = "redis-server \"$@\" & server=$!\ncat >/dev/null\nkill $server\nwait $server\n";

/// Ends with this value, or with the demo.
#[derive(Debug)]
pub(super) struct Redis {
    guard: Child,
    address: SocketAddr,
    secret: String,
    key_file: PathBuf,
}

impl Redis {
    /// `None`: there is no `redis-server` here, or none that comes up.
    ///
    /// # Errors
    /// Where there is no chance, or no place for the agent's key.
    pub(super) fn start() -> Result<Option<Self>, Failure> {
        let version = Command::new("redis-server").arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).status();
        if !version.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(Failure::new)?;
        let secret = STANDARD.encode(secret);
        // Somebody else may take the port before the server does: then it does not come up, and the demo goes without.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let address = free.map_err(Failure::new)?;
        let key_file = std::env::temp_dir().join(format!("farebox-demo-{}-{}.key", std::process::id(), address.port()));
        write_secret(&key_file, &secret).map_err(|error| Failure::because("the demo's key cannot be kept", error))?;
        let mut command = Command::new("sh");
        command.args(["-c", GUARD, "sh", "--port", &address.port().to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--appendonly", "no", "--maxmemory", "64mb", "--dir"]).arg(std::env::temp_dir());
        // A group of its own: Ctrl-C is for the demo, which ends this when it has drained.
        let guard = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let redis = Self { guard: guard.map_err(Failure::new)?, address, secret, key_file };
        Ok(redis.is_up().then_some(redis))
    }

    fn is_up(&self) -> bool {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if answers_ping(self.address).unwrap_or(false) {
                return true;
            }
            thread::sleep(POLL);
        }
        false
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Base64.
    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    /// Holds the secret, for the agent.
    pub(super) fn key_file(&self) -> &Path {
        &self.key_file
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let began = Instant::now();
        while matches!(self.guard.try_wait(), Ok(None)) && began.elapsed() < PATIENCE {
            thread::sleep(POLL);
        }
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        let _ = std::fs::remove_file(&self.key_file);
    }
}

/// Whoever else took the port does not answer as Redis does.
fn answers_ping(address: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    Ok(&answer == b"+PONG")
}

/// For this user only.
fn write_secret(file: &Path, secret: &str) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(secret.as_bytes())
}
