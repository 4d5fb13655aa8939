//! The mirror: forward only, expiry, limits, quarantine; `metering.md` cases 13, 14 and 21.

use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::json;

use super::*;
use crate::samples::{after_ms, body_with, checked, node, query, weekly_mean};
use crate::snapshot::BootEpoch;

fn mirror() -> Mirror {
    Mirror::new(MirrorLimits::default())
}

fn mean_at(mirror: &Mirror, now: Timestamp) -> Option<String> {
    let observation = mirror.observe(&query(&weekly_mean(), now))?;
    observation.stats.first().map(|observed| observed.stat.value.to_string())
}

/// Snapshot `seq` of an epoch, with a mean that tells it apart.
fn numbered(epoch: &str, seq: u64, mean: &str) -> Snapshot {
    let windows = json!({"7d":{"gpu_util":{"mean":mean,"coverage":"1"}}});
    checked(body_with(&[("/boot_epoch", json!(epoch)), ("/seq", json!(seq)), ("/windows", windows)])).unwrap()
}

#[test]
fn snapshots_apply_only_forward() {
    let mirror = mirror();
    let now = after_ms(0);
    assert_eq!(mirror.apply(numbered("9", 5, "0.5"), now), Ok(Applied::Stored));
    for (epoch, seq) in [("9", 5), ("9", 4), ("8", 99), ("009", 5)] {
        assert_eq!(mirror.apply(numbered(epoch, seq, "0.1"), now), Ok(Applied::NotNewer), "{epoch} {seq}");
        assert_eq!(mean_at(&mirror, now).as_deref(), Some("0.5"));
    }
    assert_eq!(mirror.apply(numbered("9", 6, "0.6"), now), Ok(Applied::Stored));
    assert_eq!(mirror.apply(numbered("10", 1, "0.7"), now), Ok(Applied::Stored), "10 follows 9");
    assert_eq!(mean_at(&mirror, now).as_deref(), Some("0.7"));
    let counters =
        MirrorCounters { applied: 3, not_newer: 4, entries: 1, roll_ups: 1, holdings: 1, ..MirrorCounters::default() };
    assert_eq!(mirror.counters(), counters);
}

#[test]
fn a_replay_does_not_make_a_snapshot_younger() {
    let mirror = mirror();
    mirror.apply(numbered("9", 5, "0.5"), after_ms(0)).unwrap();
    assert_eq!(mirror.apply(numbered("9", 5, "0.5"), after_ms(40_000)), Ok(Applied::NotNewer));
    let observation = mirror.observe(&query(&weekly_mean(), after_ms(50_000))).unwrap();
    assert_eq!(observation.age_ms, 50_000);
}

#[test]
fn a_snapshot_expires_by_receipt_to_the_millisecond() {
    let mirror = mirror();
    mirror.apply(numbered("9", 5, "0.5"), after_ms(1_000)).unwrap();
    let retention_ms = 30 * 60 * 1_000;
    assert!(mean_at(&mirror, after_ms(1_000 + retention_ms - 1)).is_some());
    assert!(mirror.observe(&query(&weekly_mean(), after_ms(1_000 + retention_ms))).is_none());
    assert_eq!(mirror.counters().entries, 1, "not swept yet");
    assert_eq!(mirror.sweep(after_ms(1_000 + retention_ms)), 1);
    assert_eq!(mirror.counters().entries, 0);
    assert_eq!(mirror.sweep(after_ms(1_000 + retention_ms)), 0);
}

#[test]
fn an_expired_snapshot_gives_its_place_even_to_an_older_epoch() {
    let mirror = mirror();
    mirror.apply(numbered("99999999999999", 5, "0.5"), after_ms(0)).unwrap();
    assert_eq!(mirror.apply(numbered("9", 1, "0.9"), after_ms(30 * 60 * 1_000)), Ok(Applied::Stored));
    assert_eq!(mirror.counters().entries, 1);
}

#[test]
fn a_snapshot_from_the_future_keeps_its_counters_only() {
    let mirror = mirror();
    assert_eq!(
        mirror.apply(numbered("9", 1, "0.5"), after_ms(-2_000)),
        Ok(Applied::Stored),
        "2 s ahead is not over 2 s"
    );
    let ahead = mirror.apply(numbered("9", 2, "0.9"), after_ms(-2_001));
    assert_eq!(ahead, Ok(Applied::Quarantined(Quarantine::FromTheFuture)));
    let observation = mirror.observe(&query(&weekly_mean(), after_ms(10))).unwrap();
    assert!(observation.stats.is_empty());
    assert_eq!(observation.job_held_s, Some(7_200), "from the counters");
    assert_eq!(observation.age_ms, 2_011, "since receipt, as that is longer");
    let counters = mirror.counters();
    assert_eq!((counters.applied, counters.quarantined), (2, 1));
    assert_eq!(mirror.apply(numbered("9", 3, "0.6"), after_ms(0)), Ok(Applied::Stored));
    assert_eq!(mean_at(&mirror, after_ms(0)).as_deref(), Some("0.6"));
}

#[test]
fn a_full_mirror_refuses_new_keys_and_updates_old_ones() {
    let mirror =
        Mirror::new(MirrorLimits { snapshots: 2, retention: SignedDuration::from_secs(60), ..MirrorLimits::default() });
    let named = |name: &str, seq: u64| Snapshot { seq, ..node(name, "0.5", "1", 1) };
    mirror.apply(named("a", 1), after_ms(0)).unwrap();
    mirror.apply(named("b", 1), after_ms(10_000)).unwrap();
    let full = mirror.apply(named("c", 1), after_ms(20_000)).unwrap_err();
    assert_eq!(full.to_string(), "the usage mirror is full with 2 snapshots; raise its limit or shorten its retention");
    assert_eq!(mirror.apply(named("b", 2), after_ms(20_000)), Ok(Applied::Stored));
    assert_eq!(mirror.apply(named("c", 1), after_ms(59_999)), Err(MirrorFull { limit: 2 }));
    assert_eq!(mirror.apply(named("c", 1), after_ms(60_000)), Ok(Applied::Stored), "`a` has expired and was swept");
    assert_eq!(mirror.apply(named("d", 1), after_ms(60_000)), Err(MirrorFull { limit: 2 }));
    assert_eq!(
        mirror.apply(named("d", 1), after_ms(80_000)),
        Ok(Applied::Stored),
        "`b` has expired, though it was updated"
    );
    let counters = mirror.counters();
    assert_eq!((counters.entries, counters.refused_full, counters.applied), (2, 3, 5));
}

#[test]
fn dropped_readings_are_counted_once_per_applied_snapshot() {
    let mirror = mirror();
    let blank = checked(body_with(&[("/windows/15m/gpu_util/mean", json!("NaN"))])).unwrap();
    mirror.apply(blank.clone(), after_ms(0)).unwrap();
    mirror.apply(blank, after_ms(0)).unwrap();
    assert_eq!(mirror.counters().dropped_readings, 1);
}

#[test]
fn tenants_do_not_see_each_other() {
    let mirror = mirror();
    mirror.apply(numbered("9", 1, "0.5"), after_ms(0)).unwrap();
    let keys = weekly_mean();
    assert!(mirror.observe(&UsageQuery { tenant: "globex", ..query(&keys, after_ms(0)) }).is_none());
}

#[test]
fn readers_and_writers_do_not_stop_each_other() {
    let mirror = mirror();
    std::thread::scope(|threads| {
        for writer in 0..4_u64 {
            let mirror = &mirror;
            threads.spawn(move || {
                for seq in 0..200 {
                    let name = format!("node-{writer}");
                    mirror.apply(Snapshot { seq, ..node(&name, "0.5", "1", 1_000) }, after_ms(0)).unwrap();
                }
            });
        }
        for _ in 0..2 {
            threads.spawn(|| {
                for _ in 0..500 {
                    if let Some(mean) = mean_at(&mirror, after_ms(0)) {
                        assert_eq!(mean, "0.5");
                    }
                }
            });
        }
    });
    assert_eq!(
        mirror.counters(),
        MirrorCounters { applied: 800, entries: 4, roll_ups: 1, kinds: 1, holdings: 4, ..MirrorCounters::default() }
    );
}

/// Every (key, epoch, seq) at most once, each with a mean of its own.
fn deliveries() -> impl Strategy<Value = Vec<Snapshot>> {
    let mut all = Vec::new();
    for (index, name) in ["n1", "n2"].into_iter().enumerate() {
        for job in [None, Some("j1".to_owned())] {
            for gpu_model in ["A100", "V100"] {
                for epoch in [BootEpoch::Number(9), BootEpoch::Number(10), BootEpoch::Text("1x".to_owned())] {
                    for seq in 0..3 {
                        let mean = format!("0.{}", 100 + all.len());
                        let base = node(name, &mean, "0.9", 1_000 + index as u64);
                        let (job, gpu_model, boot_epoch) = (job.clone(), gpu_model.to_owned(), epoch.clone());
                        all.push(Snapshot { job, gpu_model, boot_epoch, seq, ..base });
                    }
                }
            }
        }
    }
    let most = all.len();
    subsequence(all, 1..=most)
}

fn answers(mirror: &Mirror) -> Vec<Option<Observation>> {
    let keys = weekly_mean();
    let ask = |gpu_model| mirror.observe(&UsageQuery { gpu_model, ..query(&keys, after_ms(5)) });
    ["A100", "V100", "H100"].into_iter().map(ask).collect()
}

proptest! {
    #[test]
    fn the_order_of_application_is_irrelevant((sent, shuffled) in deliveries().prop_flat_map(|sent| (Just(sent.clone()), Just(sent).prop_shuffle()))) {
        let (one, other) = (mirror(), mirror());
        for snapshot in sent {
            one.apply(snapshot, after_ms(0)).unwrap();
        }
        for snapshot in shuffled {
            other.apply(snapshot, after_ms(0)).unwrap();
        }
        prop_assert_eq!(answers(&one), answers(&other));
        prop_assert_eq!(one.counters().entries, other.counters().entries);
    }

    #[test]
    fn replays_never_change_anything((sent, replayed) in deliveries().prop_flat_map(|sent| (Just(sent.clone()), Just(sent).prop_shuffle()))) {
        let mirror = mirror();
        for snapshot in sent {
            mirror.apply(snapshot, after_ms(0)).unwrap();
        }
        let before = (answers(&mirror), mirror.counters().applied);
        for snapshot in replayed {
            prop_assert_eq!(mirror.apply(snapshot, after_ms(3)), Ok(Applied::NotNewer));
        }
        prop_assert_eq!((answers(&mirror), mirror.counters().applied), before);
    }
}
