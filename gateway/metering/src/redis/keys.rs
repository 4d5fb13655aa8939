//! The names of keys, and what their values look like.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Where a tenant's keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    /// In front of all keys, so that an ACL can name them: `~{farebox:*`. As [`Self::is_prefix`] says.
    pub prefix: String,
    /// At least 1; the same for all agents and gateways.
    pub shards: u32,
}

/// Whose snapshot it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whose<'a> {
    pub tenant: &'a str,
    pub node: &'a str,
    pub gpu_model: &'a str,
    pub job: Option<&'a str>,
}

impl Default for Keyspace {
    fn default() -> Self {
        Self { prefix: "farebox".to_owned(), shards: 1 }
    }
}

impl Keyspace {
    /// 1 to 64 of letters, digits, `-`, `_`, `.` and `:`: no brace, which would end the hash tag, and nothing that a pattern of
    /// an ACL would take for more than itself.
    pub fn is_prefix(text: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
        (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
    }

    pub fn shard_of(&self, tenant: &str) -> u32 {
        let digest = Sha256::digest(tenant.as_bytes());
        let first = digest.first_chunk().copied().map_or(0, u32::from_be_bytes);
        first.checked_rem(self.shards).unwrap_or(0)
    }

    pub fn stream(&self, shard: u32) -> String {
        self.key(shard, "stream")
    }

    pub fn count(&self, shard: u32) -> String {
        self.key(shard, "count")
    }

    pub fn index(&self, shard: u32) -> String {
        self.key(shard, "index")
    }

    /// Sorted set of the keys of roll-ups, by when they expire.
    pub fn roll_ups(&self, shard: u32) -> String {
        self.key(shard, "roll-ups")
    }

    /// The index of snapshots, and how the keys that belong in it begin.
    pub(super) fn index_of_snapshots(&self, shard: u32) -> (String, String) {
        (self.index(shard), self.key(shard, "snapshot:"))
    }

    /// The index of roll-ups, and how the keys that belong in it begin.
    pub(super) fn index_of_roll_ups(&self, shard: u32) -> (String, String) {
        (self.roll_ups(shard), self.key(shard, "roll-up:"))
    }

    pub fn snapshot(&self, whose: Whose<'_>) -> String {
        let mut key = self.key(self.shard_of(whose.tenant), "snapshot");
        for part in [Some(whose.tenant), Some(whose.node), Some(whose.gpu_model), whose.job].into_iter().flatten() {
            append(&mut key, part);
        }
        key
    }

    pub fn roll_up(&self, tenant: &str, gpu_model: &str) -> String {
        let mut key = self.key(self.shard_of(tenant), "roll-up");
        append(&mut key, tenant);
        append(&mut key, gpu_model);
        key
    }

    fn key(&self, shard: u32, what: &str) -> String {
        format!("{{{}:{shard}}}:{what}", self.prefix)
    }
}

/// A part is never empty, so that no two lists of parts read alike.
fn append(key: &mut String, part: &str) {
    key.push(':');
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) {
            key.push(char::from(byte));
        } else {
            // Writing to a `String` does not fail.
            let _ = write!(key, "%{byte:02X}");
        }
    }
}

/// What makes a snapshot newer than another, as digits only, so that a script can compare it as text: Redis compares by the
/// server's locale, in which digits are always in order. The boot epoch (Unix µs) and the sequence, 20 digits each.
pub fn order(epoch_us: u64, seq: u64) -> String {
    format!("{epoch_us:020}{seq:020}")
}

/// Digits of an [`order`].
pub const ORDER_DIGITS: usize = 40;
/// Digits of when the server received it, Unix ms.
pub const RECEIVED_DIGITS: usize = 13;

/// The value of a snapshot's key: its order, when the server received it, and the snapshot with its MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// Unix ms, the server's clock.
    pub received_ms: i64,
    pub snapshot: &'a [u8],
}

impl<'a> Stored<'a> {
    /// `None` for what is no such value.
    pub fn read(value: &'a [u8]) -> Option<Self> {
        let (order, rest) = value.split_at_checked(ORDER_DIGITS)?;
        let (received, snapshot) = rest.split_at_checked(RECEIVED_DIGITS)?;
        let is_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
        let received_ms = std::str::from_utf8(received).ok().filter(|_| is_digits(order) && is_digits(received))?;
        Some(Self { received_ms: received_ms.parse().ok()?, snapshot })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyspace() -> Keyspace {
        Keyspace { prefix: "farebox".to_owned(), shards: 1 }
    }

    #[test]
    fn keys_are_readable_and_no_two_holdings_share_one() {
        let whose = Whose { tenant: "acme", node: "gpu-07", gpu_model: "A100", job: Some("job-9") };
        assert_eq!(keyspace().snapshot(whose), "{farebox:0}:snapshot:acme:gpu-07:A100:job-9");
        let odd = Whose { tenant: "a:b", node: "c}", gpu_model: "ü", job: None };
        assert_eq!(keyspace().snapshot(odd), "{farebox:0}:snapshot:a%3Ab:c%7D:%C3%BC");
        assert_eq!(keyspace().roll_up("acme", "A100 80GB"), "{farebox:0}:roll-up:acme:A100%2080GB");
    }

    #[test]
    fn tenants_spread_over_shards() {
        let keyspace = Keyspace { shards: 4, ..keyspace() };
        let mut of_shard = [0; 4];
        for tenant in 0..1_000 {
            of_shard[keyspace.shard_of(&format!("tenant-{tenant}")) as usize] += 1;
        }
        assert!(of_shard.iter().all(|count| (200..300).contains(count)), "{of_shard:?}");
    }

    #[test]
    fn orders_compare_as_text_as_they_do_as_numbers() {
        let orders = [(0, 1), (9, 0), (10, 0), (10, 9), (10, 10), (1_796_083_200_000_000, 0), (u64::MAX, u64::MAX)];
        let written: Vec<_> = orders.iter().map(|(epoch, seq)| order(*epoch, *seq)).collect();
        assert!(written.is_sorted() && written.iter().all(|order| order.len() == ORDER_DIGITS));
    }

    #[test]
    fn values_are_read_and_anything_else_is_none() {
        let value = format!("{}1796083200000{{}}", order(1, 2));
        let stored = Stored { received_ms: 1_796_083_200_000, snapshot: b"{}" };
        assert_eq!(Stored::read(value.as_bytes()), Some(stored));
        for other in ["", "{}", &"1".repeat(52), &"x".repeat(60)] {
            assert_eq!(Stored::read(other.as_bytes()), None, "{other}");
        }
    }
}
