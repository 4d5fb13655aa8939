//! `farebox demo`: the gateway over the fixtures, fed by an agent on a recording, asked for one quote over HTTP, left serving.

mod agent;
mod redis;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use super::client::Client;
use super::exit::Exit;
use super::json_file::JsonFile;
use super::terminal::Color;
use super::{Failure, quote_table, serve, tell};
use crate::app::{App, Listeners};
use crate::clock::Clock;
use crate::config::{Config, user_code_cache};
use crate::printable::printable;
use crate::serving::stop_signal;
use agent::{Agent, To};
use redis::Redis;

/// The tenant of the worked examples, to whom the recording's GPUs are assigned.
const TENANT: &str = "acme";
/// SPEC §2: under one held GPU-hour a window is thin.
const ONE_GPU_HOUR_US: u64 = 3_600_000_000;
/// Until the agent has told of so much, eight times what that takes.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(super) struct Options {
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Directory with tenants/, price-books/, plans/ and recordings/.
    #[arg(long, default_value = "fixtures")]
    data: PathBuf,
    /// Directory with the built policies.
    #[arg(long, default_value = "target/policies")]
    policies: PathBuf,
    /// The agent's binary [default: farebox-agent beside this one].
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Let the agent post to the gateway, also where there is a `redis-server`.
    #[arg(long)]
    no_redis: bool,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let redis = if options.no_redis { None } else { Redis::start()? };
    let config = config(options, redis.as_ref())?;
    let config = Config { code_cache: user_code_cache(), ..config };
    serve::start_logging(config.log)?;
    let request = JsonFile::read(&options.data.join("requests/w1.json"))?;
    let app = App::build(&config, Clock::system()).map_err(Failure::new)?;
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::new)?;
    runtime.block_on(async {
        let main = serve::listen(options.listen, "`--listen`").await?;
        let root = format!("http://{}", main.local_addr().map_err(Failure::new)?);
        let signalled = stop_signal().map_err(Failure::new)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stopping);
        let stop = async move {
            signalled.await;
            told.store(true, Ordering::Relaxed);
        };
        let serving = tokio::spawn(app.serve(Listeners { main, metrics: None }, stop));
        let binary = options.agent.clone().unwrap_or_else(agent::beside_this_binary);
        let to = redis.as_ref().map_or(To::Gateway(&root), To::Redis);
        let mut agent = Agent::start(&binary, &options.data, to)?;
        tell(&road(options, redis.as_ref()))?;
        let shown = tokio::task::spawn_blocking(move || {
            // Whoever stops the demo before it has shown anything did not want to see it.
            match show(&mut agent, &root, &request, &stopping) {
                Err(_) if stopping.load(Ordering::Relaxed) => Ok(agent),
                shown => shown.map(|()| agent),
            }
        });
        let agent = shown.await.map_err(Failure::new)??;
        let served = serving.await.map_err(Failure::new);
        drop(agent);
        drop(redis);
        served
    })
}

/// Defaults, the given places, readable logs, and a token key that lives as long as this process.
fn config(options: &Options, redis: Option<&Redis>) -> Result<Config, Failure> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(Failure::new)?;
    let settings = [
        ("FAREBOX_LISTEN", options.listen.to_string()),
        ("FAREBOX_DATA_DIR", options.data.display().to_string()),
        ("FAREBOX_POLICIES_DIR", options.policies.display().to_string()),
        ("FAREBOX_TOKENS_KEYS", format!("demo:{}", STANDARD.encode(secret))),
        ("FAREBOX_LOG_FORMAT", "text".to_owned()),
        ("FAREBOX_LOG_LEVEL", "warn".to_owned()),
    ];
    let through_redis =
        redis.map(|redis| [("FAREBOX_REDIS_URL", redis.url()), ("FAREBOX_AGENTS", format!("*:{}", redis.secret()))]);
    let settings = settings.into_iter().chain(through_redis.into_iter().flatten());
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    Config::load(None, settings).map_err(Failure::usage)
}

/// By which way usage gets to the gateway.
fn road(options: &Options, redis: Option<&Redis>) -> String {
    match redis {
        Some(redis) => {
            format!("Usage goes from the agent through a redis-server of this demo's own ({}).\n", redis.address())
        }
        None if options.no_redis => "Usage goes from the agent to the gateway by HTTP (--no-redis).\n".to_owned(),
        None => "Usage goes from the agent to the gateway by HTTP, as there is no redis-server here that starts.\n"
            .to_owned(),
    }
}

/// Plays the storefront, once the agent has told enough for a price to move by it. The agent goes on.
fn show(agent: &mut Agent, root: &str, request: &JsonFile, stopping: &AtomicBool) -> Result<(), Failure> {
    let gateway = Client::of(root)?;
    wait_for_usage(agent, &gateway, stopping)?;
    let quote = gateway.post_json("/v1/quotes", &request.bytes)?;
    let table = quote_table::render(&quote, Color::Auto.styles());
    let own = quote.pointer("/links/self").and_then(Value::as_str).unwrap_or_default();
    tell(&format!(
        "{table}\n\
         The gateway serves at {root} until Ctrl-C; `farebox-agent` plays a recording of eight GPUs to it. Ask it yourself:\n  \
         curl -s {root}/v1/quotes -H 'Content-Type: application/json' -d @{request}\n  \
         curl -s {root}{own}\n  \
         curl -s {root}/v1/tenants/{TENANT}/usage\n  \
         curl -s {root}/openapi.json\n",
        request = printable(&request.name),
    ))
}

/// Until the window that plans read by default is no longer thin.
fn wait_for_usage(agent: &mut Agent, gateway: &Client, stopping: &AtomicBool) -> Result<(), Failure> {
    let began = Instant::now();
    while !stopping.load(Ordering::Relaxed) {
        let usage = gateway.get_json(&format!("/v1/tenants/{TENANT}/usage"))?;
        let held_us = usage.pointer("/models/0/windows/7d/gpu_util/held_us").and_then(Value::as_str);
        if held_us.and_then(|held| held.parse().ok()).is_some_and(|held: u64| held >= ONE_GPU_HOUR_US) {
            return Ok(());
        }
        if let Some(status) = agent.ended() {
            return Err(Failure::saying(format!("the demo's agent has ended ({status}); its last words are above")));
        }
        if began.elapsed() > PATIENCE {
            return Err(Failure::saying("the demo's agent does not tell of a held GPU-hour".to_owned()));
        }
        thread::sleep(POLL);
    }
    Err(Failure::saying("the demo was stopped".to_owned()))
}
