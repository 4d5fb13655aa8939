//! An agent's side: one script per tick and shard, which takes newer snapshots only.
//!
//! Whatever is sent twice is taken once, so a call of which the end is unknown is simply made again.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, RedisError, RedisResult, Script, ScriptInvocation};
use tokio::runtime::{Builder, Runtime};

use super::keys::{Keyspace, Whose};
use super::link::{RedisSettings, describe};
use crate::clock::Clock;

const SCRIPT: &str = include_str!("write.lua");

/// How long and how much Redis keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteLimits {
    /// From its last write, a snapshot; the stream as well.
    pub keep: Duration,
    /// Entries of a shard's stream, about.
    pub stream_entries: u64,
}

impl WriteLimits {
    /// Kept as long as a gateway's mirror does; the stream holds two seconds of 10,000 holdings.
    pub const fn standard() -> Self {
        Self { keep: Duration::from_secs(30 * 60), stream_entries: 20_000 }
    }
}

/// A snapshot as Redis takes it.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    pub whose: Whose<'a>,
    /// [`super::keys::order`].
    pub order: &'a str,
    /// With its MAC.
    pub body: &'a [u8],
}

/// What became of a call of [`Writer::write`].
#[derive(Debug, Default)]
pub struct Outcome {
    /// Of each snapshot: whether it was taken, or one at least as new is there. `None`: not known, nobody answered.
    pub taken: Vec<Option<bool>>,
    /// Why, if somebody did not answer. No secret is in it.
    pub away: Option<String>,
    /// Of the last answer.
    pub time: Option<ServerTime>,
}

/// The server's clock, and this host's around it. Unix µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTime {
    pub sent_us: i64,
    pub received_us: i64,
    pub server_us: i64,
}

/// Keeps one connection, and makes it anew after every fault: so it follows a name that points elsewhere after a failover.
pub struct Writer {
    client: Client,
    keyspace: Keyspace,
    limits: WriteLimits,
    script: Script,
    connection: Option<MultiplexedConnection>,
    /// Drives the connection on the thread that writes, and only while it does.
    runtime: Runtime,
    clock: Clock,
}

impl Writer {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// Where the authorities are no certificates, or the system gives no event queue.
    pub fn new(settings: &RedisSettings, limits: WriteLimits, clock: Clock) -> io::Result<Self> {
        let client = settings.client().map_err(io::Error::other)?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (keyspace, script) = (settings.keyspace.clone(), Script::new(SCRIPT));
        Ok(Self { client, keyspace, limits, script, connection: None, runtime, clock })
    }

    /// Shard by shard, those of one in their order; stops where nobody answers.
    pub fn write(&mut self, snapshots: &[Signed<'_>]) -> Outcome {
        let mut shards: BTreeMap<u32, Vec<(usize, &Signed<'_>)>> = BTreeMap::new();
        for (position, snapshot) in snapshots.iter().enumerate() {
            shards.entry(self.keyspace.shard_of(snapshot.whose.tenant)).or_default().push((position, snapshot));
        }
        let mut outcome = Outcome { taken: vec![None; snapshots.len()], ..Outcome::default() };
        for (shard, snapshots) in shards {
            match self.write_shard(shard, &snapshots) {
                Ok((time, taken)) => {
                    outcome.time = Some(time);
                    for ((position, _), taken) in snapshots.iter().zip(taken) {
                        if let Some(place) = outcome.taken.get_mut(*position) {
                            *place = Some(taken);
                        }
                    }
                }
                Err(reason) => {
                    outcome.away = Some(reason);
                    break;
                }
            }
        }
        outcome
    }

    fn write_shard(
        &mut self,
        shard: u32,
        snapshots: &[(usize, &Signed<'_>)],
    ) -> Result<(ServerTime, Vec<bool>), String> {
        let script = self.script.clone();
        let mut call = script.prepare_invoke();
        for key in [self.keyspace.stream(shard), self.keyspace.count(shard), self.keyspace.index(shard)] {
            call.key(key);
        }
        let keep_ms = u64::try_from(self.limits.keep.as_millis()).unwrap_or(u64::MAX);
        call.arg(keep_ms).arg(keep_ms).arg(self.limits.stream_entries);
        for (_, snapshot) in snapshots {
            call.key(self.keyspace.snapshot(snapshot.whose)).arg(snapshot.order).arg(snapshot.body);
        }
        let was_connected = self.connection.is_some();
        let answer = match self.call(&call) {
            // Closed between two ticks, by a restart or for being idle; whether it was just then is all the same.
            Err(error) if was_connected && error.is_connection_dropped() => self.call(&call),
            answer => answer,
        };
        let (time, taken) = answer.map_err(|error| describe(&error))?;
        if taken.len() != snapshots.len() {
            self.connection = None;
            return Err("it answers what the script does not".to_owned());
        }
        Ok((time, taken))
    }

    fn call(&mut self, call: &ScriptInvocation<'_>) -> RedisResult<(ServerTime, Vec<bool>)> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let timeouts = RedisSettings::timeouts();
                self.runtime.block_on(self.client.get_multiplexed_async_connection_with_config(&timeouts))?
            }
        };
        let sent_us = self.clock.now().wall_us;
        let answer: Vec<i64> = self.runtime.block_on(call.invoke_async(&mut connection))?;
        let received_us = self.clock.now().wall_us;
        let [seconds, micros, taken @ ..] = answer.as_slice() else {
            return Err(RedisError::from((redis::ErrorKind::UnexpectedReturnType, "no time")));
        };
        self.connection = Some(connection);
        let server_us = seconds.saturating_mul(1_000_000).saturating_add(*micros);
        let taken = taken.iter().map(|taken| *taken == 1).collect();
        Ok((ServerTime { sent_us, received_us, server_us }, taken))
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Writer").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
