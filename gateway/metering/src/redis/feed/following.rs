//! One shard's feed: reads everything once, then goes on with the stream from there, and reads everything again where the stream
//! has a gap.

use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use redis::Client;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::counts::ShardState;
use super::keeping::{self, Keeping, Restored};
use super::line::{Line, Trouble};
use super::offset::Offset;
use super::stream_id::{self, Entry, StreamId, bytes, time_ms, whole};
use super::trust::{Dropped, MOST_SNAPSHOT_BYTES};
use super::whole_index::Keys;
use crate::backoff::Backoff;
use crate::mirror::Applied;
use crate::redis::keys::{ORDER_DIGITS, RECEIVED_DIGITS, Stored};

/// For how long Redis is left alone after it failed.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How long a round waits for an entry.
const WAIT_MS: u64 = 1_000;
const LEAST_WAIT_US: u64 = 100_000;
/// Entries of one answer, some kB each; what others put there may be as large as Redis takes.
const ENTRIES: usize = 200;
/// Values read at once: 50 MiB if each is as large as it may be.
const CHUNK: usize = 200;
const MOST_VALUE_BYTES: usize = ORDER_DIGITS + RECEIVED_DIGITS + MOST_SNAPSHOT_BYTES;
const KEEP_EVERY_US: u64 = 30_000_000;
/// The last write at a stop, with a connection of its own: the usual one may be waiting for entries.
const LAST_WRITE: Duration = Duration::from_millis(800);
/// Everything is not read again sooner than this, so that a stream that someone writes nonsense to is no load on Redis.
const BETWEEN_BOOTSTRAPS_US: u64 = 1_000_000;
/// How far before the place of the last write the stream is read again at a start: roll-ups are written one after another, so
/// some may be an interval older.
const REPLAYED_MS: u64 = 90_000;

/// Up to where the stream has been read.
#[derive(Clone, Copy, Debug)]
struct Position {
    id: StreamId,
    /// The number of that entry; `None`: there was none yet.
    number: Option<u64>,
    /// The last answer was empty, and the count another than ours: an entry may have come in between, or there is a gap.
    is_doubtful: bool,
}

/// The stream does not go on where it was read up to.
struct Gap;

pub(super) struct Following {
    shared: Arc<Shared>,
    shard: u32,
    client: Client,
    position: Option<Position>,
    offset: Offset,
    keeping: Keeping,
    is_restored: bool,
    backoff: Backoff,
    random: RandomState,
    kept_us: u64,
    bootstrapped_us: Option<u64>,
    /// What was logged last: told apart by text, so that a change is told and a repetition is not.
    told: Option<String>,
}

/// However it ends: whoever looks must not take a thread that is gone for one that follows.
impl Drop for Following {
    fn drop(&mut self) {
        self.state().is_connected.store(false, Ordering::Relaxed);
    }
}

impl Following {
    pub(super) fn new(shared: Arc<Shared>, shard: u32, client: Client) -> Self {
        let kept_us = shared.clock.now().mono_us;
        Self {
            shared,
            shard,
            client,
            position: None,
            offset: Offset::default(),
            keeping: Keeping::new(),
            is_restored: false,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            random: RandomState::new(),
            kept_us,
            bootstrapped_us: None,
            told: None,
        }
    }

    /// Until the value is true, or nobody can set it any more.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let trouble = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                trouble = self.session() => match trouble { Err(trouble) => trouble, Ok(never) => match never {} },
            };
            self.state().is_connected.store(false, Ordering::Relaxed);
            self.tell_away(&trouble);
            let pause = self.backoff.failed(None, self.random.hash_one(self.shared.clock.now().mono_us));
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                () = sleep(pause) => {}
            }
        }
        self.state().is_connected.store(false, Ordering::Relaxed);
        if timeout(LAST_WRITE, self.keep_at_last()).await.is_err() {
            tracing::warn!(shard = self.shard, "there was no time to keep the last roll-ups in Redis");
        }
    }

    async fn keep_at_last(&mut self) {
        let Some(position) = self.position else { return };
        if let Ok(mut line) = Line::open(&self.client).await {
            self.keep(&mut line, position.id).await.unwrap_or_else(|trouble| self.tell_away(&trouble));
        }
    }

    /// One connection, for as long as it lasts.
    async fn session(&mut self) -> Result<Infallible, Trouble> {
        let mut line = Line::open(&self.client).await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME");
        let asked = (self.shared.now)();
        let [time] = line.ask(&pipeline).await?;
        self.heard(asked, &time)?;
        if !self.goes_on(&mut line).await? {
            self.bootstrap(&mut line).await?;
        }
        self.state().is_connected.store(true, Ordering::Relaxed);
        self.tell_connected();
        loop {
            match self.round(&mut line).await? {
                Ok(()) => self.backoff.succeeded(),
                Err(Gap) => {
                    self.shared.counts.gaps.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(shard = self.shard, "the stream of snapshots has a gap; all of them are read again");
                    self.bootstrap(&mut line).await?;
                }
            }
            let now_us = self.shared.clock.now().mono_us;
            if now_us.saturating_sub(self.kept_us) >= KEEP_EVERY_US
                && let Some(position) = self.position
            {
                self.kept_us = now_us;
                self.keep(&mut line, position.id).await?;
            }
        }
    }

    /// True where the stream still has the entry that was read last: then it can be read on from there.
    async fn goes_on(&self, line: &mut Line) -> Result<bool, Trouble> {
        let Some(Position { id, number: Some(number), .. }) = self.position else { return Ok(false) };
        let mut pipeline = redis::pipe();
        pipeline.cmd("XRANGE").arg(self.stream()).arg(id.to_string()).arg(id.to_string());
        let [answer] = line.ask(&pipeline).await?;
        let entries = stream_id::entries(answer).ok_or(Trouble::Strange)?;
        let is_there = entries.iter().any(|entry| entry.number == Some(number));
        if !is_there {
            self.shared.counts.gaps.fetch_add(1, Ordering::Relaxed);
        }
        Ok(is_there)
    }

    async fn bootstrap(&mut self, line: &mut Line) -> Result<(), Trouble> {
        let since = self.bootstrapped_us.map(|then| self.shared.clock.now().mono_us.saturating_sub(then));
        if let Some(early_us) = since.and_then(|since| BETWEEN_BOOTSTRAPS_US.checked_sub(since)) {
            sleep(Duration::from_micros(early_us)).await;
        }
        self.bootstrapped_us = Some(self.shared.clock.now().mono_us);
        self.shared.counts.bootstraps.fetch_add(1, Ordering::Relaxed);
        self.position = None;
        let mut pipeline = redis::pipe();
        pipeline.cmd("GET").arg(self.count());
        pipeline.cmd("XREVRANGE").arg(self.stream()).arg("+").arg("-").arg("COUNT").arg(1);
        let [count, last] = line.ask(&pipeline).await?;
        let last = stream_id::entries(last).ok_or(Trouble::Strange)?.pop();
        let head = Position {
            id: last.as_ref().map_or_else(StreamId::default, |last| last.id),
            number: last.and_then(|last| last.number).or(whole(&count)),
            is_doubtful: false,
        };
        if self.is_restored {
            self.keeping.find_out(line, &self.shared, self.shard).await?;
        } else {
            self.restore(line, head.id).await?;
        }
        let mut index = Keys::new(self.shared.keyspace.index_of_snapshots(self.shard), CHUNK);
        while let Some(values) = index.next_values(line, MOST_VALUE_BYTES).await? {
            self.answered();
            for value in values.into_iter().filter_map(bytes).filter(|value| !value.is_empty()) {
                // How old they are is no lag.
                let _ = match Stored::read(&value) {
                    Some(stored) => self.take(stored.snapshot, stored.received_ms),
                    None => self.refuse(Dropped::Unreadable, None),
                };
            }
            tokio::task::yield_now().await;
        }
        self.position = Some(head);
        Ok(())
    }

    async fn restore(&mut self, line: &mut Line, head: StreamId) -> Result<(), Trouble> {
        let Restored { kept_at, is_foreign } = keeping::restore(line, &self.shared, self.shard).await?;
        self.is_restored = true;
        if is_foreign {
            self.keeping.bar();
            tracing::error!(
                shard = self.shard,
                "none of the roll-ups in Redis can be read, and this gateway does not write over them: give all gateways the same \
                 `tokens.keys`, or delete the roll-ups"
            );
        }
        match kept_at {
            Some(kept_at) => self.replay(line, kept_at, head).await,
            None => Ok(()),
        }
    }

    /// What the gateway that kept the roll-ups would have read next, in its order, so that the same goes into the same buckets.
    async fn replay(&self, line: &mut Line, kept_at: StreamId, head: StreamId) -> Result<(), Trouble> {
        let mut from = StreamId { ms: kept_at.ms.saturating_sub(REPLAYED_MS), seq: 0 };
        while from < head {
            let mut pipeline = redis::pipe();
            let command = pipeline.cmd("XRANGE").arg(self.stream());
            command.arg(format!("({from}")).arg(head.to_string()).arg("COUNT").arg(ENTRIES);
            let [answer] = line.ask(&pipeline).await?;
            let entries = stream_id::entries(answer).ok_or(Trouble::Strange)?;
            let Some(last) = entries.last() else { break };
            from = last.id;
            self.answered();
            for entry in entries {
                self.take_entry(entry);
            }
        }
        Ok(())
    }

    async fn round(&mut self, line: &mut Line) -> Result<Result<(), Gap>, Trouble> {
        let Some(mut position) = self.position else { return Ok(Err(Gap)) };
        let mut pipeline = redis::pipe();
        let command = pipeline.cmd("XREAD").arg("COUNT").arg(ENTRIES);
        if !position.is_doubtful {
            command.arg("BLOCK").arg(WAIT_MS);
        }
        command.arg("STREAMS").arg(self.stream()).arg(position.id.to_string());
        pipeline.cmd("TIME");
        pipeline.cmd("GET").arg(self.count());
        let (asked, asked_us) = ((self.shared.now)(), self.shared.clock.now().mono_us);
        let [answer, time, count] = line.ask(&pipeline).await?;
        self.heard(asked, &time)?;
        let entries = stream_id::read_answer(answer).ok_or(Trouble::Strange)?;
        let waited_us = self.shared.clock.now().mono_us.saturating_sub(asked_us);
        if entries.is_empty() && !position.is_doubtful && waited_us < LEAST_WAIT_US {
            // A server that does not wait, as some proxies before one: never as fast as it can answer.
            sleep(Duration::from_micros(LEAST_WAIT_US)).await;
        }
        let is_behind = entries.is_empty() && whole(&count) != position.number;
        if is_behind && position.is_doubtful {
            return Ok(Err(Gap));
        }
        position.is_doubtful = is_behind;
        for entry in entries {
            position.id = entry.id;
            if let Some(number) = entry.number {
                // Where there was nothing, the first is the first.
                if position.number.map_or(Some(1), |before| before.checked_add(1)) != Some(number) {
                    return Ok(Err(Gap));
                }
                position.number = Some(number);
            }
            if let Some(lag) = self.take_entry(entry) {
                self.shared.lag.0.observe(lag.as_secs_f64());
            }
            self.position = Some(position);
        }
        self.position = Some(position);
        Ok(Ok(()))
    }

    fn take_entry(&self, entry: Entry) -> Option<Duration> {
        self.shared.counts.entries.fetch_add(1, Ordering::Relaxed);
        match entry.snapshot {
            Some(snapshot) => self.take(&snapshot, i64::try_from(entry.id.ms).unwrap_or(i64::MAX)),
            None => self.refuse(Dropped::Unreadable, None),
        }
    }

    /// How long ago the server received it, where it is the newest now. `received_ms` is by the server's clock.
    fn take(&self, body: &[u8], received_ms: i64) -> Option<Duration> {
        let shared = &self.shared;
        let snapshot = match shared.agents.admit(body) {
            Ok(snapshot) => snapshot,
            Err((dropped, node)) => return self.refuse(dropped, node.as_deref()),
        };
        let now_ms = (shared.now)().as_millisecond();
        let received_ms = self.offset.ours(received_ms, now_ms);
        let Ok(received_at) = Timestamp::from_millisecond(received_ms) else {
            return self.refuse(Dropped::Unreadable, None);
        };
        let node = snapshot.node.clone();
        match shared.mirror.apply(snapshot, received_at) {
            Ok(Applied::NotNewer) => None,
            Ok(Applied::Stored | Applied::Quarantined(_)) => {
                Some(Duration::from_millis(u64::try_from(now_ms.saturating_sub(received_ms)).unwrap_or(0)))
            }
            Err(_) => self.refuse(Dropped::MirrorFull, Some(&node)),
        }
    }

    fn refuse(&self, dropped: Dropped, node: Option<&str>) -> Option<Duration> {
        let now_us = self.shared.clock.now().mono_us;
        if self.shared.counts.drop_for(dropped, now_us) {
            let reason = dropped.name();
            tracing::warn!(reason, ?node, shard = self.shard, "a snapshot from Redis does not count");
        }
        None
    }

    async fn keep(&mut self, line: &mut Line, at: StreamId) -> Result<(), Trouble> {
        match self.keeping.keep(line, &self.shared, (self.shard, at)).await {
            // Reading goes on: a full server, or a replica, still has the stream.
            Err(trouble) if trouble.is_refusal() => {
                tracing::warn!(shard = self.shard, %trouble, "roll-ups cannot be kept in Redis; it is tried again");
                Ok(())
            }
            kept => kept,
        }
    }

    fn heard(&mut self, asked: Timestamp, time: &redis::Value) -> Result<(), Trouble> {
        let server_ms = time_ms(time).ok_or(Trouble::Strange)?;
        let heard_ms = (self.shared.now)().as_millisecond();
        self.offset.measure(asked.as_millisecond(), server_ms, heard_ms);
        self.answered();
        Ok(())
    }

    fn answered(&self) {
        self.state().answered(self.shared.clock.now().mono_us);
    }

    fn state(&self) -> &ShardState {
        let at = usize::try_from(self.shard).unwrap_or(usize::MAX);
        self.shared.states.get(at).unwrap_or(&self.shared.no_state)
    }

    fn tell_away(&mut self, trouble: &Trouble) {
        let told = trouble.to_string();
        if self.told.as_ref() != Some(&told) {
            tracing::warn!(
                shard = self.shard,
                redis = ?self.shared.server,
                %trouble,
                "usage does not come from Redis; quotes go on with what is known, and say how old it is"
            );
            self.told = Some(told);
        }
    }

    fn tell_connected(&mut self) {
        if self.told.as_deref() != Some("") {
            let snapshots = self.shared.mirror.counters().entries;
            tracing::info!(shard = self.shard, redis = ?self.shared.server, snapshots, "usage comes from Redis");
            self.told = Some(String::new());
        }
    }

    fn stream(&self) -> String {
        self.shared.keyspace.stream(self.shard)
    }

    fn count(&self) -> String {
        self.shared.keyspace.count(self.shard)
    }
}
