//! Tombstones: `metering.md` case 12.

use farebox_pricing::usage::UsageScope;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::samples::{after_ms, body_with, checked, node, query, weekly_mean};

/// The last word on a holding.
fn tombstone(of: Snapshot, seq: u64) -> Snapshot {
    let ended = checked(body_with(&[("/health", json!("ended"))])).unwrap();
    Snapshot { seq, health: ended.health, healthy: ended.healthy, ..of }
}

fn numbered(name: &str, seq: u64) -> Snapshot {
    Snapshot { seq, ..node(name, "0.5", "1", 1_000) }
}

fn is_observed(mirror: &Mirror) -> bool {
    mirror.observe(&query(&weekly_mean(), after_ms(10))).is_some()
}

#[test]
fn a_holding_that_ended_is_observed_no_longer_and_never_again_by_a_late_snapshot() {
    let mirror = Mirror::new(MirrorLimits::default());
    mirror.apply(numbered("a", 5), after_ms(0)).unwrap();
    assert!(is_observed(&mirror));
    assert_eq!(mirror.apply(tombstone(numbered("a", 5), 7), after_ms(1)), Ok(Applied::Stored));
    assert!(!is_observed(&mirror));
    assert_eq!(mirror.apply(numbered("a", 6), after_ms(2)), Ok(Applied::NotNewer));
    assert_eq!(mirror.apply(tombstone(numbered("a", 5), 7), after_ms(2)), Ok(Applied::NotNewer));
    assert!(!is_observed(&mirror));
    assert_eq!(mirror.counters().entries, 1, "kept until it expires, to know late ones by");
    assert_eq!(mirror.usage("acme", after_ms(10)), Some(Vec::new()));
    assert_eq!(mirror.sweep(after_ms(1 + 30 * 60 * 1_000)), 1);
}

#[test]
fn a_later_holding_of_the_same_key_is_a_live_one() {
    for (epoch, seq) in [("1", 8), ("2", 0)] {
        let mirror = Mirror::new(MirrorLimits::default());
        mirror.apply(tombstone(numbered("a", 5), 7), after_ms(0)).unwrap();
        let boot_epoch = checked(body_with(&[("/boot_epoch", json!(epoch))])).unwrap().boot_epoch;
        let again = Snapshot { boot_epoch, ..numbered("a", seq) };
        assert_eq!(mirror.apply(again, after_ms(1)), Ok(Applied::Stored));
        assert!(is_observed(&mirror), "{epoch} {seq}");
    }
}

#[test]
fn one_that_ended_leaves_the_others_as_if_it_were_not_there() {
    let observe = |snapshots: Vec<Snapshot>| {
        let mirror = Mirror::new(MirrorLimits::default());
        for snapshot in snapshots {
            mirror.apply(snapshot, after_ms(0)).unwrap();
        }
        mirror.observe(&query(&weekly_mean(), after_ms(10)))
    };
    let well = node("b", "0.9", "1", 1_000);
    let alone = observe(vec![well.clone()]);
    assert_eq!(observe(vec![numbered("a", 5), well, tombstone(numbered("a", 5), 6)]), alone);
    assert!(alone.unwrap().healthy, "an end is no ailment");
}

#[test]
fn a_tombstone_in_one_scope_opens_the_wider_one() {
    let mirror = Mirror::new(MirrorLimits::default());
    mirror.apply(tombstone(numbered("a", 5), 6), after_ms(0)).unwrap();
    let other = Snapshot { gpu_model: "V100".to_owned(), ..numbered("b", 1) };
    mirror.apply(other, after_ms(0)).unwrap();
    let observation = mirror.observe(&query(&weekly_mean(), after_ms(0))).unwrap();
    assert_eq!(observation.scope, UsageScope::Tenant);
}

proptest! {
    /// Delayed, repeated or in any order: what is left is the newest of each.
    #[test]
    fn the_same_deliveries_end_in_the_same_state(sent in prop::collection::vec((0_u64..6, 0_usize..2), 1..24)) {
        let ends_at = [3, 5];
        let snapshot = |(seq, which): (u64, usize)| {
            let live = numbered(["a", "b"][which], seq);
            if seq == ends_at[which] { tombstone(live, seq) } else { live }
        };
        let mirror = Mirror::new(MirrorLimits::default());
        for delivery in &sent {
            mirror.apply(snapshot(*delivery), after_ms(0)).unwrap();
        }
        let newest = |which| sent.iter().filter(|(_, node)| *node == which).map(|(seq, _)| *seq).max();
        let expects = (0..2).filter_map(|which| Some((which, newest(which)?))).any(|(which, seq)| seq != ends_at[which]);
        prop_assert_eq!(is_observed(&mirror), expects);
    }
}
