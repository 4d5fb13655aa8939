//! Roll-ups, kept in Redis so that the next gateway goes on from them.

use std::sync::atomic::Ordering;

use jiff::Timestamp;

use super::Shared;
use super::line::{Line, Trouble};
use super::seal::MOST_VALUE_BYTES;
use super::stream_id::{StreamId, bytes, whole};
use super::whole_index::Keys;
use crate::mirror::KeptRollUp;
use crate::redis::keys;

/// Longer than the longest window, by the two days that nobody may look.
const KEEP_MS: u64 = 32 * 86_400_000;
/// Of one script, which nobody else's commands run beside.
const MOST_BATCH_BYTES: usize = 2 << 20;
const MOST_BATCH: usize = 64;
/// Read at once; 1 MiB each at most.
const CHUNK: usize = 32;
const SCRIPT: &str = include_str!("../keep.lua");

/// What of the mirror's roll-ups one shard has written.
#[derive(Debug)]
pub(super) struct Keeping {
    /// Of the mirror: what changed after this is not kept yet; `None`: nothing is.
    after: Option<u64>,
    /// What lies in Redis is of others, who would lose a month of it.
    is_barred: bool,
}

/// What was found at the start.
pub(super) struct Restored {
    /// Where in the stream the gateway stood that wrote last.
    pub(super) kept_at: Option<StreamId>,
    /// There was something, and none of it could be read: other token keys, or a later version's.
    pub(super) is_foreign: bool,
}

impl Keeping {
    pub(super) fn new() -> Self {
        Self { after: Some(0), is_barred: false }
    }

    /// Writes nothing from now on.
    pub(super) fn bar(&mut self) {
        self.is_barred = true;
    }

    /// Where Redis has lost what was kept, all of it is written again.
    pub(super) async fn find_out(&mut self, line: &mut Line, shared: &Shared, shard: u32) -> Result<(), Trouble> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("EXISTS").arg(shared.keyspace.roll_ups(shard));
        let [answer] = line.ask(&pipeline).await?;
        if whole(&answer) == Some(0) {
            self.after = None;
        }
        Ok(())
    }

    /// Writes what has changed. What cannot be written now is tried again the next time.
    pub(super) async fn keep(
        &mut self,
        line: &mut Line,
        shared: &Shared,
        (shard, at): (u32, StreamId),
    ) -> Result<(), Trouble> {
        if self.is_barred {
            return Ok(());
        }
        let order = keys::order(at.ms, at.seq);
        let (changed, next) = shared.mirror.pairs_changed(self.after);
        let mut batch = Batch::new(shared, shard, &order);
        for (tenant, gpu_model) in changed.iter().filter(|(tenant, _)| shared.keyspace.shard_of(tenant) == shard) {
            if batch.is_full() {
                batch.write(line).await?;
            }
            if let Some(kept) = shared.mirror.roll_up_bytes(tenant, gpu_model) {
                batch.add(&kept);
            }
            // Rendering takes time, and a stop must not wait for all of them.
            tokio::task::yield_now().await;
        }
        batch.write(line).await?;
        self.after = Some(next);
        Ok(())
    }
}

struct Batch<'a> {
    shared: &'a Shared,
    shard: u32,
    order: &'a str,
    entries: Vec<(String, Vec<u8>)>,
    bytes: usize,
}

impl<'a> Batch<'a> {
    fn new(shared: &'a Shared, shard: u32, order: &'a str) -> Self {
        Self { shared, shard, order, entries: Vec::new(), bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= MOST_BATCH || self.bytes >= MOST_BATCH_BYTES
    }

    fn add(&mut self, kept: &KeptRollUp) {
        let keyspace = &self.shared.keyspace;
        match self.shared.seal.seal(&keyspace.prefix, self.order, kept) {
            Some(sealed) => {
                self.bytes = self.bytes.saturating_add(sealed.len());
                self.entries.push((keyspace.roll_up(&kept.tenant, &kept.gpu_model), sealed));
            }
            None => {
                self.shared.counts.roll_ups_failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(tenant = ?kept.tenant, gpu_model = ?kept.gpu_model, "a roll-up is too large to be kept");
            }
        }
    }

    async fn write(&mut self, line: &mut Line) -> Result<(), Trouble> {
        let entries = std::mem::take(&mut self.entries);
        self.bytes = 0;
        if entries.is_empty() {
            return Ok(());
        }
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let mut pipeline = redis::pipe();
        let command = pipeline.cmd("EVAL").arg(SCRIPT).arg(count.saturating_add(1));
        command.arg(self.shared.keyspace.roll_ups(self.shard));
        for (key, _) in &entries {
            command.arg(key);
        }
        command.arg(KEEP_MS);
        for (_, sealed) in &entries {
            command.arg(self.order).arg(sealed.as_slice());
        }
        match line.ask::<1>(&pipeline).await {
            Ok(_) => {
                self.shared.counts.roll_ups_kept.fetch_add(count, Ordering::Relaxed);
                Ok(())
            }
            Err(trouble) => {
                self.shared.counts.roll_ups_failed.fetch_add(count, Ordering::Relaxed);
                Err(trouble)
            }
        }
    }
}

/// Gives the mirror all that was kept of a shard.
pub(super) async fn restore(line: &mut Line, shared: &Shared, shard: u32) -> Result<Restored, Trouble> {
    let now = (shared.now)();
    let mut found = Restored { kept_at: None, is_foreign: false };
    let mut index = Keys::new(shared.keyspace.index_of_roll_ups(shard), CHUNK);
    while let Some(values) = index.next_values(line, MOST_VALUE_BYTES).await? {
        for value in values.into_iter().filter_map(bytes).filter(|value| !value.is_empty()) {
            found.kept_at = found.kept_at.max(restore_one(shared, &value, now));
            found.is_foreign = true;
        }
    }
    found.is_foreign &= found.kept_at.is_none();
    Ok(found)
}

fn restore_one(shared: &Shared, value: &[u8], now: Timestamp) -> Option<StreamId> {
    let counts = &shared.counts;
    let opened = shared.seal.open(&shared.keyspace.prefix, value);
    let opened = opened.filter(|_| value.len() <= MOST_VALUE_BYTES);
    let restored = opened.as_ref().map(|(_, kept)| shared.mirror.restore_roll_up(kept, now));
    match restored {
        Some(Ok(is_taken)) => counts.roll_ups_restored.fetch_add(u64::from(is_taken), Ordering::Relaxed),
        None | Some(Err(_)) => counts.roll_ups_refused.fetch_add(1, Ordering::Relaxed),
    };
    let order = opened?.0;
    let (ms, seq) = order.split_at_checked(keys::ORDER_DIGITS / 2)?;
    Some(StreamId { ms: ms.parse().ok()?, seq: seq.parse().ok()? })
}
