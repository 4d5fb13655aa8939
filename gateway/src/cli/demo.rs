//! `farebox demo`: the gateway over the fixtures, fed with a live snapshot, asked for one quote over HTTP, left serving.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Failure, quote_table, serve};
use crate::app::{App, Listeners};
use crate::clock::Clock;
use crate::config::{Config, user_code_cache};
use crate::serving::stop_signal;

/// One snapshot a second, as an agent sends them, so that the demo's quotes never go stale.
const TICK: Duration = Duration::from_secs(1);
/// For one answer.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn run(listen: SocketAddr, data: PathBuf, policies: PathBuf) -> Result<(), Failure> {
    let config = Config { code_cache: user_code_cache(), ..config(listen, &data, &policies)? };
    serve::start_logging(config.log)?;
    let snapshot = read_json(&data.join("snapshots/steady-82.json"))?;
    let request = read_json(&data.join("requests/w1.json"))?;
    let clock = Clock::system();
    let app = App::build(&config, clock.clone()).map_err(Failure::new)?;
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::new)?;
    runtime.block_on(async {
        let main = serve::listen(listen, "`--listen`").await?;
        let address = main.local_addr().map_err(Failure::new)?;
        let stop = stop_signal().map_err(Failure::new)?;
        let (running, stopped) = mpsc::channel::<()>();
        let serving = tokio::spawn(app.serve(Listeners { main, metrics: None }, async move {
            stop.await;
            drop(running);
        }));
        let shown = tokio::task::spawn_blocking(move || {
            let mut agent = Agent { gateway: Client::of(address), snapshot, seq: 0, clock };
            show(&mut agent, &request)?;
            thread::Builder::new()
                .name("demo-agent".to_owned())
                .spawn(move || agent.run(&stopped))
                .map_err(Failure::new)
        });
        shown.await.map_err(Failure::new)??;
        serving.await.map_err(Failure::new)
    })
}

/// Defaults, the given places, readable logs, and a token key that lives as long as this process.
fn config(listen: SocketAddr, data: &Path, policies: &Path) -> Result<Config, Failure> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(Failure::new)?;
    let settings = [
        ("FAREBOX_LISTEN", listen.to_string()),
        ("FAREBOX_DATA_DIR", data.display().to_string()),
        ("FAREBOX_POLICIES_DIR", policies.display().to_string()),
        ("FAREBOX_TOKENS_KEYS", format!("demo:{}", STANDARD.encode(secret))),
        ("FAREBOX_LOG_FORMAT", "text".to_owned()),
        ("FAREBOX_LOG_LEVEL", "warn".to_owned()),
    ];
    let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value));
    Config::load(None, settings).map_err(Failure::usage)
}

/// Plays the agent once and then the storefront, over HTTP like they do.
fn show(agent: &mut Agent, request: &Value) -> Result<(), Failure> {
    agent.post()?;
    let quote = agent.gateway.post("/v1/quotes", request)?;
    let root = &agent.gateway.root;
    println!("{}", quote_table::render(&quote));
    println!("The gateway serves at {root} until Ctrl-C. Ask it yourself:");
    println!("  curl -s {root}/v1/quotes -H 'Content-Type: application/json' -d @fixtures/requests/w1.json");
    println!("  curl -s {root}{}", quote.pointer("/links/self").and_then(Value::as_str).unwrap_or_default());
    println!("  curl -s {root}/openapi.json");
    Ok(())
}

struct Agent {
    gateway: Client,
    snapshot: Value,
    seq: u64,
    clock: Clock,
}

impl Agent {
    /// Sends a snapshot at every tick until the other end of `stopped` is gone. One that does not arrive is not missed:
    /// the next says more.
    fn run(&mut self, stopped: &Receiver<()>) {
        while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
            if let Err(Failure { sentence, .. }) = self.post() {
                tracing::warn!("the demo's snapshot was not taken: {sentence}");
            }
        }
    }

    /// Sends the snapshot as observed now.
    fn post(&mut self) -> Result<(), Failure> {
        self.seq += 1;
        if let Some(members) = self.snapshot.as_object_mut() {
            members.insert("seq".to_owned(), self.seq.into());
            members.insert("observed_at".to_owned(), self.clock.now().to_string().into());
        }
        self.gateway.post("/v1/usage-snapshots", &self.snapshot).map(drop)
    }
}

/// Talks to the gateway over connections that it keeps.
struct Client {
    http: ureq::Agent,
    /// `http://127.0.0.1:8080`
    root: String,
}

impl Client {
    fn of(address: SocketAddr) -> Self {
        let http = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE)).build();
        Self { http: http.into(), root: format!("http://{address}") }
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let url = format!("{}{path}", self.root);
        let sent = self.http.post(&url).header("Content-Type", "application/json").send(body.to_string());
        let mut answer = sent.map_err(|error| Failure::because(&format!("{url} does not answer"), error))?;
        let status = answer.status();
        let text = answer.body_mut().read_to_string().map_err(Failure::new)?;
        if !status.is_success() {
            return Err(Failure::saying(format!("{url} answers {status}: {text}")));
        }
        serde_json::from_str(&text).map_err(Failure::new)
    }
}

fn read_json(path: &Path) -> Result<Value, Failure> {
    let cannot = format!("cannot read {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| Failure::because(&cannot, error))?;
    serde_json::from_str(&text).map_err(|error| Failure::because(&cannot, error))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_agent_survives_a_hiccup_and_ends_when_stopped() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gateway = Client::of(listener.local_addr().unwrap());
        let mut agent = Agent { gateway, snapshot: serde_json::json!({}), seq: 0, clock: Clock::system() };
        let (running, stopped) = mpsc::channel();
        let run = thread::spawn(move || {
            agent.run(&stopped);
            agent.seq
        });
        drop(listener.accept().unwrap());
        for status in ["503 Service Unavailable", "202 Accepted"] {
            let (mut client, _) = listener.accept().unwrap();
            assert!(client.read(&mut [0; 4096]).unwrap() > 0);
            let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}");
            client.write_all(answer.as_bytes()).unwrap();
        }
        drop(running);
        assert_eq!(run.join().unwrap(), 3);
    }
}
