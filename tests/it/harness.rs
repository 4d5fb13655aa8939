//! Starts gateways over the fixtures and talks to them over HTTP. Every answer is held against the OpenAPI document.

mod content;
mod folder;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use farebox::app::{App, Listeners};
use farebox::catalog::Catalog;
use farebox::cli::policy_build;
use farebox::clock::Clock;
use farebox::config::Config;
use farebox_sandbox::{Limits, Sandbox};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::conformance::{Document, Exchange};
use crate::log_of_run;

pub use content::{lasting, unnamed};
pub use folder::Folder;

/// Base64 of the token key: 32 times `a`.
pub const SECRET: &str = "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=";

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Whether recorded answers are to be written anew: `UPDATE_CASES=1`, as for policies.
pub fn updates_cases() -> bool {
    std::env::var_os("UPDATE_CASES").is_some_and(|value| value == "1")
}

/// The policies, built from source once a run.
pub fn policies() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let out = root().join("target/policies-of-tests");
        let _ = std::fs::remove_dir_all(&out);
        let crates: Vec<PathBuf> =
            std::fs::read_dir(root().join("policies")).unwrap().map(|entry| entry.unwrap().path()).collect();
        let cargo_home = farebox::config::cargo_home();
        let toolchain = policy_build::Toolchain { cargo_home: &cargo_home, target_dir: None };
        policy_build::build(toolchain, &crates, &out)
            .unwrap_or_else(|error| panic!("the policies do not build: {error}"));
        out
    })
}

/// The fixtures' catalogue, loaded once a run: compiling is what a start costs.
pub fn catalog() -> Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    let load = || {
        let sandbox = Sandbox::new(Limits::standard()).unwrap();
        let catalog = Catalog::load(&root().join("fixtures"), policies(), &sandbox);
        assert_eq!(catalog.problems, []);
        catalog
    };
    CATALOG.get_or_init(load).clone()
}

/// Defaults over the fixtures, with a token key.
pub fn config() -> Config {
    let settings = [
        ("FAREBOX_DATA_DIR", root().join("fixtures").display().to_string()),
        ("FAREBOX_POLICIES_DIR", policies().display().to_string()),
        ("FAREBOX_TOKENS_KEYS", format!("test:{SECRET}")),
    ];
    Config::load(None, settings.into_iter().map(|(name, value)| (name.to_owned(), value))).unwrap()
}

/// A gateway on a port of its own. Dropping it stops it, and waits until it has.
pub struct TestGateway {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    runtime: Runtime,
    serving: Option<tokio::task::JoinHandle<()>>,
}

/// An answer, its body read.
pub struct Answer {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub body: String,
    /// As it came, encoded or not.
    pub bytes: Vec<u8>,
}

impl TestGateway {
    /// Over the fixtures, with the real clock.
    pub fn start() -> Self {
        Self::start_with(Clock::system(), |_| {})
    }

    pub fn start_with(clock: Clock, change: impl FnOnce(&mut Config)) -> Self {
        Self::over(catalog(), clock, change)
    }

    /// Over a catalogue of the test's own.
    pub fn over(catalog: Catalog, clock: Clock, change: impl FnOnce(&mut Config)) -> Self {
        log_of_run::keep();
        let any_port: SocketAddr = ([127, 0, 0, 1], 0).into();
        let mut config = config();
        change(&mut config);
        let app = App::over(catalog, &config, clock);
        let app = app.unwrap_or_else(|error| panic!("the gateway does not start: {error}"));
        let runtime = Runtime::new().unwrap();
        let main = runtime.block_on(TcpListener::bind(any_port)).unwrap();
        let address = main.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = runtime.spawn(app.serve(Listeners { main, metrics: None }, async {
            let _ = stopped.await;
        }));
        Self { address, stop: Some(stop), runtime, serving: Some(serving) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], &[])
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string())
    }

    pub fn post_text(&self, path: &str, body: &str) -> Answer {
        self.post_bytes(path, body.as_bytes())
    }

    pub fn post_bytes(&self, path: &str, body: &[u8]) -> Answer {
        self.send("POST", path, &[("Content-Type", "application/json")], body)
    }

    /// Any request with these headers.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        const KNOWN: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
        if !KNOWN.contains(&method) {
            // The client sends no method that it does not know.
            return self.send_raw(&format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        }
        let mut request = ureq::http::Request::builder().method(method).uri(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = match body {
            [] if method != "POST" => client().run(request.body(()).unwrap()),
            body => client().run(request.body(body).unwrap()),
        };
        let mut answer = answer.unwrap();
        let bytes = answer.body_mut().read_to_vec().unwrap();
        self.checked((method, path), answer.status().as_u16(), answer.headers().clone(), bytes)
    }

    /// A request as bytes, on a connection that ends with its answer.
    pub fn send_raw(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        self.read_raw(&mut stream, request)
    }

    /// The rest of a connection as the answer to `request`.
    pub fn read_raw(&self, stream: &mut TcpStream, request: &str) -> Answer {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let (status, lines) = head.split_once("\r\n").unwrap();
        let headers = lines.split("\r\n").map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            let name: ureq::http::HeaderName = name.parse().unwrap();
            (name, value.trim().parse::<ureq::http::HeaderValue>().unwrap())
        });
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut words = request.split(' ');
        let asked = (words.next().unwrap(), words.next().unwrap());
        self.checked(asked, status, headers.collect(), bytes[end + 4..].to_vec())
    }

    fn checked(
        &self,
        (method, path): (&str, &str),
        status: u16,
        headers: ureq::http::HeaderMap,
        bytes: Vec<u8>,
    ) -> Answer {
        let document = Document::of_run(|| {
            let mut answer = client().get(self.url("/openapi.json")).call().unwrap();
            serde_json::from_slice(&answer.body_mut().read_to_vec().unwrap()).unwrap()
        });
        let body = String::from_utf8_lossy(&bytes).into_owned();
        let exchange = Exchange { method, path, status, headers: &headers, body: &bytes };
        if let Err(wrong) = document.check(&exchange) {
            panic!("{method} {path} is answered {status}, {wrong}\n{headers:?}\n{body}");
        }
        Answer { status, headers, body, bytes }
    }

    /// A snapshot of the fixtures, its instants set to now.
    pub fn observe(&self, name: &str) {
        let answer = self.post("/v1/usage-snapshots", &snapshot(name));
        assert_eq!(answer.status, 202, "{}", answer.body);
    }

    /// Stops accepting, and returns once everything that was accepted is answered.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(serving) = self.serving.take() {
            self.runtime.block_on(serving).unwrap();
        }
    }
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        self.stop();
        if !std::thread::panicking() {
            assert_eq!(log_of_run::leak(), None, "a secret is in the log");
        }
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// `total` of a quote.
    pub fn total(&self) -> String {
        text(&self.json(), "/totals/total")
    }

    /// The last part of a problem's `type`.
    pub fn problem(&self) -> String {
        text(&self.json(), "/type").trim_start_matches("/problems/").to_owned()
    }

    /// Pointers of a problem's errors.
    pub fn pointers(&self) -> Vec<String> {
        let json = self.json();
        let errors = json["errors"].as_array().map_or(&[][..], Vec::as_slice);
        errors.iter().map(|error| text(error, "/pointer")).collect()
    }
}

pub fn text(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).unwrap_or_else(|| panic!("nothing at {pointer} in {value}"));
    found.as_str().unwrap_or_else(|| panic!("no text at {pointer} in {value}")).to_owned()
}

fn client() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

pub fn fixture(path: &str) -> Value {
    let path = root().join("fixtures").join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A snapshot of the fixtures as observed now (`@now`, `@now-45s`, `@now-11m`), newer than any before it.
pub fn snapshot(name: &str) -> Value {
    static SEQ: AtomicU64 = AtomicU64::new(1);
    let mut snapshot = fixture(&format!("snapshots/{name}.json"));
    let observed_at = text(&snapshot, "/observed_at");
    snapshot["observed_at"] = instant(&observed_at).to_string().into();
    snapshot["seq"] = SEQ.fetch_add(1, Ordering::Relaxed).into();
    snapshot
}

fn instant(placeholder: &str) -> Timestamp {
    let ago = placeholder.strip_prefix("@now").unwrap_or_else(|| panic!("`{placeholder}` is no `@now…`"));
    let ago = ago.strip_prefix('-').map_or(SignedDuration::ZERO, |ago| ago.parse().unwrap());
    Clock::system().now() - ago
}
