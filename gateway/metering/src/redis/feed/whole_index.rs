//! All values that an index of keys names, in chunks.

use redis::Value;

use super::line::{Line, Trouble};
use super::stream_id::bytes;

/// Walks through an index by `ZSCAN`: what is in it from beginning to end is seen at least once, whatever else comes and goes,
/// and no command takes long.
pub(super) struct Keys {
    index: String,
    /// How its keys begin: whatever else is in it is not asked for.
    prefix: String,
    chunk: usize,
    /// `None`: all has been seen.
    cursor: Option<Vec<u8>>,
    waiting: Vec<Vec<u8>>,
}

impl Keys {
    pub(super) fn new((index, prefix): (String, String), chunk: usize) -> Self {
        Self { index, prefix, chunk, cursor: Some(b"0".to_vec()), waiting: Vec::new() }
    }

    /// Values of the next keys, `Nil` or empty where there is none any more; at most one byte more of each than `most_bytes`,
    /// so that one that is larger is told by that, and takes no memory.
    pub(super) async fn next_values(
        &mut self,
        line: &mut Line,
        most_bytes: usize,
    ) -> Result<Option<Vec<Value>>, Trouble> {
        while self.waiting.len() < self.chunk
            && let Some(cursor) = self.cursor.take()
        {
            let mut pipeline = redis::pipe();
            pipeline.cmd("ZSCAN").arg(&self.index).arg(cursor).arg("COUNT").arg(self.chunk);
            let [answer] = line.ask(&pipeline).await?;
            let Value::Array(parts) = answer else { return Err(Trouble::Strange) };
            let mut parts = parts.into_iter();
            let next = parts.next().and_then(bytes).ok_or(Trouble::Strange)?;
            let Some(Value::Array(found)) = parts.next() else { return Err(Trouble::Strange) };
            // Keys and their scores in turn.
            let keys = found.into_iter().step_by(2).filter_map(bytes);
            self.waiting.extend(keys.filter(|key| key.starts_with(self.prefix.as_bytes())));
            self.cursor = (next != b"0").then_some(next);
        }
        if self.waiting.is_empty() {
            return Ok(None);
        }
        let rest = self.waiting.split_off(self.chunk.min(self.waiting.len()));
        let keys = std::mem::replace(&mut self.waiting, rest);
        let mut pipeline = redis::pipe();
        for key in keys {
            pipeline.cmd("GETRANGE").arg(key).arg(0).arg(most_bytes);
        }
        Ok(Some(line.ask_for_values(&pipeline).await?))
    }
}
