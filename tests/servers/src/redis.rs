//! A `redis-server` of a test's own, on a free port of loopback, without anything on disk unless asked for.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::Certificates;

const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// Settings in the server's own words: `("maxmemory", "10mb")`.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions(pub Vec<(String, String)>);

impl RedisOptions {
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.0.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    options: RedisOptions,
    tls: Option<Tls>,
    child: Option<Child>,
}

#[derive(Debug)]
struct Tls {
    port: u16,
    certificates: Certificates,
}

impl RedisServer {
    pub fn start() -> Self {
        Self::start_with(RedisOptions::default())
    }

    pub fn start_with(options: RedisOptions) -> Self {
        Self::start_as(Self { port: 0, options, tls: None, child: None })
    }

    /// With a port for TLS beside the plain one.
    pub fn start_with_tls(options: RedisOptions) -> Self {
        let tls = Tls { port: 0, certificates: Certificates::make() };
        Self::start_as(Self { port: 0, options, tls: Some(tls), child: None })
    }

    fn start_as(mut server: Self) -> Self {
        // Between finding a free port and taking it somebody else may.
        for _ in 0..5 {
            server.port = free_port();
            if let Some(tls) = &mut server.tls {
                tls.port = free_port();
            }
            if server.run() {
                return server;
            }
        }
        panic!("no free port for redis-server");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn tls_port(&self) -> u16 {
        self.tls.as_ref().expect("started with TLS").port
    }

    /// PEM of the authority that signed the server's certificate.
    pub fn authority(&self) -> PathBuf {
        self.tls.as_ref().expect("started with TLS").certificates.authority()
    }

    /// Follows the other until [`Self::promote`]; returns once it has all that the other has.
    pub fn replica_of(&self, other: &Self) {
        assert_eq!(self.command(&["REPLICAOF", "127.0.0.1", &other.port.to_string()]), "OK");
        self.wait_for("a replica is in step", || {
            self.command(&["INFO", "replication"]).contains("master_link_status:up")
        });
    }

    /// `REPLICAOF NO ONE`: takes writes again.
    pub fn promote(&self) {
        assert_eq!(self.command(&["REPLICAOF", "NO", "ONE"]), "OK");
    }

    fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "{what}: not in time on port {}", self.port);
            thread::sleep(POLL);
        }
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// On the same port, with nothing in it but what `SAVE` left in a `dir` of its options.
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.run(), "redis-server does not start again on port {}", self.port);
    }

    /// `SIGSTOP`: connections stay, and nobody answers.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    /// Other options at the next [`Self::restart`].
    pub fn options(&mut self) -> &mut RedisOptions {
        &mut self.options
    }

    /// One command; its answer as `redis-cli` would show the raw text. Not for answers in lists of lists. With the
    /// password of the options, if there is one.
    pub fn command(&self, words: &[&str]) -> String {
        let mut stream = BufReader::new(TcpStream::connect(self.address()).expect("redis-server takes connections"));
        stream.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
        if let Some((_, password)) = self.options.0.iter().find(|(name, _)| name == "requirepass") {
            assert_eq!(asked(&mut stream, &["AUTH", password]), "OK");
        }
        asked(&mut stream, words)
    }

    fn run(&mut self) -> bool {
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        // What a full resynchronisation writes lies apart from other servers'.
        command.args(["--dir", &env::temp_dir().to_string_lossy()]);
        command.args(["--dbfilename", &format!("farebox-redis-{}.rdb", self.port)]);
        command.args(["--repl-diskless-sync-delay", "0", "--rdb-del-sync-files", "yes"]);
        if let Some(Tls { port, certificates }) = &self.tls {
            command.args(["--tls-port", &port.to_string(), "--tls-auth-clients", "no"]);
            command.arg("--tls-cert-file").arg(certificates.certificate());
            command.arg("--tls-key-file").arg(certificates.key());
            command.arg("--tls-ca-cert-file").arg(certificates.authority());
        }
        for (name, value) in &self.options.0 {
            command.arg(format!("--{name}")).arg(value);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("redis-server is needed: {error}; install it: apt-get install redis-server")
        });
        let began = Instant::now();
        let child = self.child.insert(child);
        while began.elapsed() < PATIENCE {
            if child.try_wait().unwrap().is_some() {
                self.child = None;
                return false;
            }
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            thread::sleep(POLL);
        }
        self.kill();
        panic!("redis-server does not come up on port {}", self.port);
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().expect("redis-server runs").id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn asked(stream: &mut BufReader<TcpStream>, words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    stream.get_ref().write_all(&request).unwrap();
    let mut lines = Vec::new();
    read_answer(stream, &mut lines);
    lines.join("\n")
}

/// RESP2, flattened.
fn read_answer(stream: &mut BufReader<TcpStream>, lines: &mut Vec<String>) {
    let mut head = String::new();
    stream.read_line(&mut head).expect("redis-server answers");
    let (kind, rest) = head.trim_end().split_at_checked(1).expect("an answer has a kind");
    match kind {
        "$" => match rest.parse::<usize>() {
            Ok(length) => {
                let mut text = vec![0; length + 2];
                stream.read_exact(&mut text).unwrap();
                text.truncate(length);
                lines.push(String::from_utf8_lossy(&text).into_owned());
            }
            // `-1`: there is no such value.
            Err(_) => lines.push(String::new()),
        },
        "*" => {
            for _ in 0..rest.parse().unwrap_or(0) {
                read_answer(stream, lines);
            }
        }
        "-" => lines.push(format!("error: {rest}")),
        _ => lines.push(rest.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_has_what_the_other_has_and_refuses_writes_until_it_is_promoted() {
        let (first, second) = (RedisServer::start(), RedisServer::start());
        assert_eq!(first.command(&["SET", "key", "value"]), "OK");
        second.replica_of(&first);
        assert_eq!(second.command(&["GET", "key"]), "value");
        assert!(second.command(&["SET", "key", "other"]).starts_with("error: READONLY"));
        second.promote();
        assert_eq!(second.command(&["SET", "key", "other"]), "OK");
    }

    #[test]
    fn servers_have_passwords_and_tls() {
        let server = RedisServer::start_with(RedisOptions::default().with("requirepass", "secret"));
        assert_eq!(server.command(&["PING"]), "PONG");
        let server = RedisServer::start_with_tls(RedisOptions::default());
        assert_eq!(server.command(&["PING"]), "PONG");
        let stream = TcpStream::connect(("127.0.0.1", server.tls_port()));
        assert!(stream.is_ok() && server.authority().exists());
    }
}
