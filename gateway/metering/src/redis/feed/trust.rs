//! Which agents a gateway believes, and about whom.

use std::collections::{BTreeMap, BTreeSet};

use crate::delivery::mac::{self, MacError, MacKey};
use crate::snapshot::{Snapshot, WireSnapshot};

/// A snapshot is some kB, and with 128 devices and all windows under this; what is larger is not read.
pub const MOST_SNAPSHOT_BYTES: usize = 256 << 10;

/// A key that agents sign with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentKey {
    pub key: MacKey,
    /// Whose snapshots it may sign; `None`: anybody's.
    pub tenants: Option<BTreeSet<String>>,
}

/// The keys of all agents. A node may have several, so that one can be replaced while both are in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentKeys {
    by_node: BTreeMap<String, Vec<AgentKey>>,
    /// Of nodes that have no key of their own.
    of_others: Vec<AgentKey>,
}

/// Why a snapshot that came through Redis does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    MacAbsent,
    MacWrong,
    /// There is no key for the node that it names.
    UnknownNode,
    /// The key may not sign for this tenant.
    ForeignTenant,
    /// Not a snapshot in JSON, or an entry without one.
    Unreadable,
    /// It has values that cannot be.
    Invalid,
    TooLarge,
    MirrorFull,
}

impl Dropped {
    pub const ALL: [Self; 8] = [
        Self::MacAbsent,
        Self::MacWrong,
        Self::UnknownNode,
        Self::ForeignTenant,
        Self::Unreadable,
        Self::Invalid,
        Self::TooLarge,
        Self::MirrorFull,
    ];

    /// In metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::MacAbsent => "mac_absent",
            Self::MacWrong => "mac_wrong",
            Self::UnknownNode => "unknown_node",
            Self::ForeignTenant => "foreign_tenant",
            Self::Unreadable => "unreadable",
            Self::Invalid => "invalid",
            Self::TooLarge => "too_large",
            Self::MirrorFull => "mirror_full",
        }
    }
}

impl AgentKeys {
    /// `node` is `*` for the key of all nodes that have none of their own.
    pub fn add(&mut self, node: &str, key: AgentKey) {
        match node {
            "*" => self.of_others.push(key),
            node => self.by_node.entry(node.to_owned()).or_default().push(key),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty() && self.of_others.is_empty()
    }

    fn of_node(&self, node: &str) -> &[AgentKey] {
        self.by_node.get(node).unwrap_or(&self.of_others)
    }

    /// A snapshot that one of the node's keys signed, checked; else why not, and the node that it names if it names one.
    pub(super) fn admit(&self, body: &[u8]) -> Result<Snapshot, (Dropped, Option<String>)> {
        if body.len() > MOST_SNAPSHOT_BYTES {
            return Err((Dropped::TooLarge, None));
        }
        let wire: WireSnapshot = serde_json::from_slice(body).map_err(|_| (Dropped::Unreadable, None))?;
        match self.vouch(&wire, body) {
            Ok(()) => {}
            Err(dropped) => return Err((dropped, Some(wire.node))),
        }
        let node = wire.node.clone();
        Snapshot::try_from(wire).map_err(|_| (Dropped::Invalid, Some(node)))
    }

    fn vouch(&self, wire: &WireSnapshot, body: &[u8]) -> Result<(), Dropped> {
        let mut reason = Dropped::UnknownNode;
        for candidate in self.of_node(&wire.node) {
            match mac::verify(&candidate.key, body) {
                Ok(()) if candidate.tenants.as_ref().is_none_or(|tenants| tenants.contains(&wire.tenant)) => {
                    return Ok(());
                }
                Ok(()) => reason = Dropped::ForeignTenant,
                Err(MacError::Absent) => return Err(Dropped::MacAbsent),
                Err(MacError::Wrong) if reason == Dropped::UnknownNode => reason = Dropped::MacWrong,
                Err(MacError::Wrong) => {}
            }
        }
        Err(reason)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(letter: u8) -> MacKey {
        use base64::Engine as _;
        MacKey::parse(&base64::engine::general_purpose::STANDARD.encode([letter; 32])).unwrap()
    }

    fn signed(letter: u8, node: &str, tenant: &str) -> Vec<u8> {
        let snapshot = json!({
            "schema": 1, "node": node, "boot_epoch": "1", "seq": 1, "observed_at": "2026-12-01T00:00:00Z",
            "tick_ms": 1000, "health": "ok", "reasons": [], "tenant": tenant, "gpu_model": "A100",
            "devices": [{"gpu_uuid": "GPU-1", "share": "1", "method": "exclusive"}], "windows": {},
            "counters": {"held_us": "1"},
        });
        mac::sign(&key(letter), snapshot.to_string().as_bytes()).unwrap()
    }

    fn keys() -> AgentKeys {
        let mut keys = AgentKeys::default();
        keys.add("gpu-01", AgentKey { key: key(b'a'), tenants: None });
        keys.add("gpu-01", AgentKey { key: key(b'b'), tenants: Some(["acme".to_owned()].into()) });
        keys
    }

    fn reason(keys: &AgentKeys, body: &[u8]) -> Option<&'static str> {
        keys.admit(body).err().map(|(dropped, _)| dropped.name())
    }

    #[test]
    fn any_key_of_the_node_will_do_within_its_tenants() {
        assert_eq!(reason(&keys(), &signed(b'a', "gpu-01", "globex")), None);
        assert_eq!(reason(&keys(), &signed(b'b', "gpu-01", "acme")), None);
        assert_eq!(reason(&keys(), &signed(b'b', "gpu-01", "globex")), Some("foreign_tenant"));
        assert_eq!(reason(&keys(), &signed(b'c', "gpu-01", "acme")), Some("mac_wrong"));
        assert_eq!(reason(&keys(), &signed(b'a', "gpu-02", "acme")), Some("unknown_node"));
    }

    #[test]
    fn the_key_of_all_is_for_those_without_one() {
        let mut keys = keys();
        keys.add("*", AgentKey { key: key(b'z'), tenants: None });
        assert_eq!(reason(&keys, &signed(b'z', "gpu-02", "acme")), None);
        assert_eq!(reason(&keys, &signed(b'z', "gpu-01", "acme")), Some("mac_wrong"));
    }

    #[test]
    fn what_is_no_signed_snapshot_is_told_apart() {
        let good = signed(b'a', "gpu-01", "acme");
        let unsigned = {
            let mut parsed: serde_json::Value = serde_json::from_slice(&good).unwrap();
            parsed.as_object_mut().unwrap().remove("mac");
            parsed.to_string().into_bytes()
        };
        assert_eq!(reason(&keys(), &unsigned), Some("mac_absent"));
        assert_eq!(reason(&keys(), b"[1]"), Some("unreadable"));
        assert_eq!(reason(&keys(), b""), Some("unreadable"));
        let deep = "[".repeat(100_000);
        assert_eq!(reason(&keys(), deep.as_bytes()), Some("unreadable"));
        assert_eq!(reason(&keys(), &vec![b' '; MOST_SNAPSHOT_BYTES + 1]), Some("too_large"));
        let text = String::from_utf8(good).unwrap();
        let (body, _) = text.split_once(",\"mac\"").unwrap();
        let impossible = format!("{body}}}").replace("\"schema\":1", "\"schema\":2");
        let impossible = mac::sign(&key(b'a'), impossible.as_bytes()).unwrap();
        assert_eq!(reason(&keys(), &impossible), Some("invalid"));
    }
}
