//! An agent's side: one script per tick and shard, which takes newer snapshots only.
