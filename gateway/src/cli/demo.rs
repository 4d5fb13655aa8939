//! `farebox demo`: the gateway over the fixtures, fed with a live snapshot, asked for one quote over HTTP, left serving.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::client::Client;
use super::json_file::JsonFile;
use super::terminal::Color;
use super::{Failure, quote_table, serve, snapshot_file, tell};
use crate::app::{App, Listeners};
use crate::clock::Clock;
use crate::config::{Config, user_code_cache};
use crate::printable::printable;
use crate::serving::stop_signal;

/// One snapshot a second, as an agent sends them, so that the demo's quotes never go stale.
const TICK: Duration = Duration::from_secs(1);

pub(super) fn run(listen: SocketAddr, data: PathBuf, policies: PathBuf) -> Result<(), Failure> {
    let config = Config { code_cache: user_code_cache(), ..config(listen, &data, &policies)? };
    serve::start_logging(config.log)?;
    let snapshot = JsonFile::read(&data.join("snapshots/steady-82.json"))?.value;
    let request = JsonFile::read(&data.join("requests/w1.json"))?;
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
            let gateway = Client::of(&format!("http://{address}"))?;
            let mut agent = Agent { gateway, snapshot, clock };
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
fn show(agent: &mut Agent, request: &JsonFile) -> Result<(), Failure> {
    agent.post()?;
    let quote = agent.gateway.post_json("/v1/quotes", &request.bytes)?;
    let root = &agent.gateway.root;
    let table = quote_table::render(&quote, Color::Auto.styles());
    let own = quote.pointer("/links/self").and_then(Value::as_str).unwrap_or_default();
    tell(&format!(
        "{table}\n\
         The gateway serves at {root} until Ctrl-C. Ask it yourself:\n  \
         curl -s {root}/v1/quotes -H 'Content-Type: application/json' -d @{request}\n  \
         curl -s {root}{own}\n  \
         curl -s {root}/openapi.json\n",
        request = printable(&request.name),
    ))
}

struct Agent {
    gateway: Client,
    snapshot: Value,
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
        let now = self.clock.now();
        snapshot_file::stamp(&mut self.snapshot, now, snapshot_file::sequence(now, 0));
        self.gateway.post("/v1/usage-snapshots", self.snapshot.to_string().as_bytes()).map(drop)
    }
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
        let gateway = Client::of(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let mut agent = Agent { gateway, snapshot: serde_json::json!({}), clock: Clock::system() };
        let (running, stopped) = mpsc::channel();
        let run = thread::spawn(move || {
            agent.run(&stopped);
        });
        drop(listener.accept().unwrap());
        for status in ["503 Service Unavailable", "202 Accepted"] {
            let (mut client, _) = listener.accept().unwrap();
            assert!(client.read(&mut [0; 4096]).unwrap() > 0);
            let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{{}}");
            client.write_all(answer.as_bytes()).unwrap();
        }
        drop(running);
        run.join().unwrap();
    }
}
