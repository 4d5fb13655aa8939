//! A `redis-server` of a test's own, on a free port of loopback, without anything on disk unless asked for.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

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
    child: Option<Child>,
}

impl RedisServer {
    pub fn start() -> Self {
        Self::start_with(RedisOptions::default())
    }

    pub fn start_with(options: RedisOptions) -> Self {
        let mut server = Self { port: 0, options, child: None };
        // Between finding a free port and taking it somebody else may.
        for _ in 0..5 {
            server.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
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

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// On the same port, with nothing in it.
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

    /// One command; its answer as `redis-cli` would show the raw text. Not for answers in lists of lists.
    pub fn command(&self, words: &[&str]) -> String {
        let mut stream = TcpStream::connect(self.address()).expect("redis-server takes connections");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        stream.write_all(&request).unwrap();
        let mut lines = Vec::new();
        read_answer(&mut BufReader::new(stream), &mut lines);
        lines.join("\n")
    }

    fn run(&mut self) -> bool {
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        for (name, value) in &self.options.0 {
            command.arg(format!("--{name}")).arg(value);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.unwrap_or_else(|error| {
            panic!("redis-server is needed: {error}; install it: apt-get install redis-server")
        });
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            if TcpStream::connect(self.address()).is_ok() {
                self.child = Some(child);
                return true;
            }
            thread::sleep(POLL);
        }
        let _ = child.kill();
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
