//! Redis (or Valkey) between agents and gateways. No quote ever waits for it: agents write, each gateway reads a stream into its
//! mirror, and quotes read the mirror.
//!
//! What lies where, for shard 0 and the prefix `farebox` ([`keys`]); every key has an expiry:
//!
//! | key | what | by |
//! |---|---|---|
//! | `{farebox:0}:snapshot:…` | the newest snapshot of a tenant, node, GPU model and job: [`keys::Stored`] | agents |
//! | `{farebox:0}:stream` | every snapshot that became the newest: `n` its number, `s` the snapshot with its MAC | agents |
//! | `{farebox:0}:count` | how many were ever appended to the stream: the last entry's `n` | agents |
//! | `{farebox:0}:index` | sorted set of snapshot keys, by when they expire (ms, the server's clock) | agents |
//! | `{farebox:0}:roll-up:…` | what is rolled up of a tenant and GPU model, with the gateways' MAC | gateways |
//! | `{farebox:0}:roll-ups` | sorted set of roll-up keys, by when they expire (ms, the server's clock) | gateways |
//!
//! A shard is a hash tag, so that all that one script touches is in one slot. A tenant is in one shard.
//!
//! - [`link`]: how to reach it
//! - [`writer`]: an agent's side: one script per tick and shard
//! - [`feed`]: a gateway's side: the stream into the mirror, and roll-ups out of it

pub mod feed;
pub mod keys;
pub mod link;
pub mod writer;
