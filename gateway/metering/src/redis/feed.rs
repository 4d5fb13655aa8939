//! A gateway's side: the stream into the mirror, and roll-ups out of it.
//!
//! Each shard has a thread with a connection of its own. It reads all snapshots once (`index`, then their values), then the
//! stream from the place it had before that; entries are numbered, so that what was missed is noticed, and then everything is
//! read once more. The mirror goes forward only: reading twice changes nothing. Quotes and connections are on other threads and
//! never wait for any of it.

mod counts;
mod following;
mod keeping;
mod line;
mod offset;
mod seal;
mod stream_id;
#[cfg(test)]
mod tests;
mod trust;
mod whole_index;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use jiff::Timestamp;
use tokio::sync::watch;

use super::keys::Keyspace;
use super::link::RedisSettings;
use crate::clock::Clock;
use crate::mirror::Mirror;
use counts::{Counts, ShardState};
use following::Following;

pub use counts::{FeedObserved, Lag};
pub use seal::SealKeys;
pub use trust::{AgentKey, AgentKeys, Dropped, MOST_SNAPSHOT_BYTES};

/// What a feed needs to know.
#[derive(Clone, Debug)]
pub struct FeedSettings {
    pub redis: RedisSettings,
    pub agents: AgentKeys,
    pub seal: SealKeys,
}

/// The gateway's clock: when a snapshot was received, and so how old it is, is told by it.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What all shards' threads share.
struct Shared {
    server: RedisSettings,
    keyspace: Keyspace,
    agents: AgentKeys,
    seal: SealKeys,
    mirror: Arc<Mirror>,
    now: Now,
    clock: Clock,
    counts: Counts,
    lag: Lag,
    /// One for each shard.
    states: Vec<ShardState>,
    no_state: ShardState,
}

/// Runs until it is stopped or dropped.
pub struct Feed {
    watch: FeedWatch,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

/// Looks at a feed, for as long as anybody wants to.
#[derive(Clone)]
pub struct FeedWatch(Arc<Shared>);

#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error("the connection to Redis cannot be set up: {0}")]
    Client(String),
    #[error("a thread for usage from Redis cannot be started")]
    Thread(#[source] io::Error),
}

impl Feed {
    /// Starts a thread for each shard. Redis need not be there: it is tried until it is.
    ///
    /// # Errors
    /// Where the settings are of no use, or a thread cannot be started.
    pub fn start(settings: FeedSettings, mirror: Arc<Mirror>, now: Now) -> Result<Self, FeedError> {
        let FeedSettings { redis, agents, seal } = settings;
        let client = redis.client().map_err(|error| FeedError::Client(error.to_string()))?;
        let shards = redis.keyspace.shards;
        let shared = Arc::new(Shared {
            keyspace: redis.keyspace.clone(),
            server: redis,
            agents,
            seal,
            mirror,
            now,
            clock: Clock::system(),
            counts: Counts::default(),
            lag: Lag::default(),
            states: (0..shards).map(|_| ShardState::new()).collect(),
            no_state: ShardState::new(),
        });
        let (stop, stopped) = watch::channel(false);
        let mut feed = Self { watch: FeedWatch(Arc::clone(&shared)), stop, threads: Vec::new() };
        for shard in 0..shards {
            let following = Following::new(Arc::clone(&shared), shard, client.clone());
            feed.threads.push(start_thread(following, shard, stopped.clone()).map_err(FeedError::Thread)?);
        }
        Ok(feed)
    }

    pub fn watch(&self) -> FeedWatch {
        self.watch.clone()
    }

    /// Ends it, within a second: what is rolled up is written for the last time.
    pub fn stop(mut self) {
        let _ = self.stop.send(true);
        for thread in self.threads.drain(..) {
            // A panic has been told by the thread itself.
            let _ = thread.join();
        }
    }
}

fn start_thread(following: Following, shard: u32, stopped: watch::Receiver<bool>) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let named = thread::Builder::new().name(format!("usage-feed-{shard}"));
    named.spawn(move || runtime.block_on(following.run(stopped)))
}

impl FeedWatch {
    pub fn observed(&self) -> FeedObserved {
        self.0.counts.observed(&self.0.states, self.0.clock.now().mono_us)
    }

    pub fn lag(&self) -> &Lag {
        &self.0.lag
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Feed").field("redis", &self.watch.0.server).finish_non_exhaustive()
    }
}

impl fmt::Debug for FeedWatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("FeedWatch").field(&self.observed()).finish()
    }
}
