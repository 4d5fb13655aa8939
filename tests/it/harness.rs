//! Starts gateways over the fixtures and talks to them over HTTP.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
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
        ("FAREBOX_TOKENS_KEYS", "test:YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=".to_owned()),
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
        read(client().get(self.url(path)).call().unwrap())
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string())
    }

    pub fn post_text(&self, path: &str, body: &str) -> Answer {
        self.post_bytes(path, body.as_bytes())
    }

    pub fn post_bytes(&self, path: &str, body: &[u8]) -> Answer {
        read(client().post(self.url(path)).header("Content-Type", "application/json").send(body).unwrap())
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

pub fn client() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

fn read(mut answer: ureq::http::Response<ureq::Body>) -> Answer {
    let body = answer.body_mut().read_to_string().unwrap();
    Answer { status: answer.status().as_u16(), headers: answer.headers().clone(), body }
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
