//! The newest snapshots themselves, for whoever compares two mirrors or looks for a node.

use jiff::Timestamp;

use super::Mirror;
use super::tenant::{Held, Tenant};
use crate::snapshot::BootEpoch;

/// The newest snapshot of its key, without what it says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Newest {
    pub tenant: String,
    pub node: String,
    pub job: Option<String>,
    pub gpu_model: String,
    pub boot_epoch: BootEpoch,
    pub seq: u64,
    pub observed_at: Timestamp,
    /// The larger of "since observed" and "since received", ms.
    pub age_ms: u64,
    pub health: String,
    /// Of a holding that has ended: kept until it expires.
    pub has_ended: bool,
}

impl Mirror {
    /// All that have not expired, by tenant, node, job and GPU model.
    pub fn newest(&self, now: Timestamp) -> Vec<Newest> {
        let mut newest = Vec::new();
        for shard in &self.shards {
            for tenant in shard.tenants().values() {
                newest.extend(self.newest_in(tenant, now));
            }
        }
        newest.sort();
        newest
    }

    /// The same of one tenant.
    pub fn newest_of(&self, tenant: &str, now: Timestamp) -> Vec<Newest> {
        self.tenant(tenant).map_or_else(Vec::new, |tenant| self.newest_in(&tenant, now).collect())
    }

    fn newest_in(&self, tenant: &Tenant, now: Timestamp) -> impl Iterator<Item = Newest> {
        let kept = tenant.snapshots.values().filter(move |held| !self.is_expired(held, now));
        kept.map(move |held| Newest::of(held, now))
    }
}

impl Newest {
    fn of(held: &Held, now: Timestamp) -> Self {
        let snapshot = &held.snapshot;
        Self {
            tenant: snapshot.tenant.clone(),
            node: snapshot.node.clone(),
            job: snapshot.job.clone(),
            gpu_model: snapshot.gpu_model.clone(),
            boot_epoch: snapshot.boot_epoch.clone(),
            seq: snapshot.seq,
            observed_at: snapshot.observed_at,
            age_ms: held.age_ms(now),
            health: snapshot.health.clone(),
            has_ended: snapshot.has_ended(),
        }
    }
}
