//! Room for roll-ups: limits, who makes room, and how much of it a pair takes; `metering.md` case 21.

use farebox_pricing::usage::Window;
use serde_json::json;

use super::rollup::{Additions, RollUp, Windows};
use super::rollup_tests::{HOUR, MINUTE, apply, window};
use super::shard::Book;
use super::*;
use crate::samples::{after_ms, bins, counted, key};
use crate::snapshot::Histogram;

fn of_model(gpu_model: &str, seq: u64, at_ms: i64) -> Snapshot {
    let snapshot = counted(seq, at_ms, MINUTE * seq, &[(40, 60_000 * seq as u32)]);
    Snapshot { gpu_model: gpu_model.to_owned(), ..snapshot }
}

fn of_job(job: &str, seq: u64, at_ms: i64) -> Snapshot {
    Snapshot { job: Some(job.to_owned()), ..of_model("A100", seq, at_ms) }
}

#[test]
fn the_pair_that_was_unused_for_longest_makes_room() {
    let mirror = Mirror::new(MirrorLimits { roll_ups: 2, ..MirrorLimits::default() });
    let minute = |minutes: i64| minutes * MINUTE as i64;
    apply(&mirror, of_model("A", 1, 0));
    apply(&mirror, of_model("B", 1, minute(1)));
    apply(&mirror, of_model("C", 1, minute(29)));
    let counters = mirror.counters();
    assert_eq!((counters.roll_ups, counters.entries, counters.roll_ups_skipped), (2, 3, 1), "both are in use");
    apply(&mirror, of_model("A", 2, minute(30)));
    apply(&mirror, of_model("C", 2, minute(31)));
    let counters = mirror.counters();
    assert_eq!((counters.roll_ups, counters.roll_ups_evicted, counters.holdings), (2, 1, 2));
    let held = |gpu_model| {
        let keys = [crate::samples::key("gpu_util", "mean", Window::D7)];
        let query = UsageQuery { gpu_model, ..crate::samples::query(&keys, after_ms(minute(31))) };
        Some(mirror.observe(&query)?.stats.first()?.held_us / 1_000)
    };
    assert_eq!((held("A"), held("C")), (Some(2 * MINUTE), Some(2 * MINUTE)), "`B` has made room");
    apply(&mirror, of_model("B", 2, minute(32)));
    assert_eq!(mirror.counters().roll_ups_skipped, 2);
}

#[test]
fn a_holding_that_is_remembered_no_longer_is_never_counted_twice() {
    let mirror = Mirror::new(MirrorLimits { snapshots: 2, ..MirrorLimits::default() });
    let retention = 31 * MINUTE as i64;
    apply(&mirror, of_job("a", 1, 0));
    apply(&mirror, of_job("b", 1, MINUTE as i64));
    apply(&mirror, of_job("c", 1, retention + MINUTE as i64));
    let counters = mirror.counters();
    assert_eq!((counters.holdings, counters.holdings_let_go), (2, 1));
    let held = |at_ms: i64| window(&mirror, Window::D7, after_ms(at_ms)).unwrap().0;
    let at = retention + 2 * MINUTE as i64;
    assert_eq!(held(at), 3 * MINUTE);
    // `a` again, as someone kept it: nobody knows what of it was counted.
    mirror.apply(of_job("a", 1, 0), after_ms(at)).unwrap();
    assert_eq!(held(at), 3 * MINUTE);
    // It made `b` go, which comes back over an hour old, and counts from there on.
    let later = 64 * MINUTE as i64;
    mirror.apply(of_job("b", 63, later), after_ms(later)).unwrap();
    assert_eq!(held(later), 3 * MINUTE);
    mirror.apply(of_job("b", 64, later + 1), after_ms(later + 1)).unwrap();
    assert_eq!(held(later + 1), 4 * MINUTE);
    // A job that began after the last of those that are forgotten is none of them.
    mirror.apply(of_job("d", 2, later + 2), after_ms(later + 2)).unwrap();
    assert_eq!(held(later + 2), 6 * MINUTE);
}

/// What a kind of jobs has held of the last week, in minutes.
fn kind_held(mirror: &Mirror, kind: &str, at_ms: i64) -> Option<u64> {
    let tenant = mirror.tenant("acme")?;
    let windows = tenant.roll_ups.get("A100")?.kind(kind)?;
    let held = windows.buckets("gpu_util", Window::D7, after_ms(at_ms)).map(|(_, bucket)| bucket.held_us).sum::<u64>();
    Some(held / 1_000 / MINUTE)
}

#[test]
fn each_kind_of_jobs_has_windows_of_its_own() {
    let mirror = Mirror::new(MirrorLimits::default());
    for (job, seq) in [("train-1", 2), ("train-2", 3), ("eval-1", 4)] {
        apply(&mirror, of_job(job, seq, 0));
    }
    apply(&mirror, Snapshot { job: None, ..of_model("A100", 5, 0) });
    assert_eq!([kind_held(&mirror, "train", 0), kind_held(&mirror, "eval", 0)], [Some(5), Some(4)]);
    assert_eq!(
        window(&mirror, Window::D7, after_ms(0)).unwrap().0,
        14 * MINUTE,
        "what has no job is in the total only"
    );
    let counters = mirror.counters();
    assert_eq!((counters.roll_ups, counters.kinds, counters.holdings), (1, 2, 4));
    // As the total: a kind moves on by its buckets, and what is past gives its place back.
    let day = 24 * HOUR;
    assert_eq!(kind_held(&mirror, "train", 6 * day), Some(5));
    assert_eq!(kind_held(&mirror, "train", 7 * day), Some(0));
    mirror.sweep(after_ms(30 * day));
    let counters = mirror.counters();
    assert_eq!((counters.roll_ups, counters.kinds, counters.holdings, counters.entries), (0, 0, 0, 0));
    assert_eq!(mirror.places.load(Ordering::SeqCst), 0);
}

#[test]
fn of_many_kinds_the_ones_observed_last_are_kept() {
    let mirror = Mirror::new(MirrorLimits::default());
    let name = |index: i64| format!("kind-{}", char::from(b'a' + index as u8));
    for index in 0..20 {
        apply(&mirror, of_job(&name(index), 1, index * 1_000));
    }
    let kept = |index| kind_held(&mirror, &name(index), 20_000).is_some();
    assert!((0..4).all(|index| !kept(index)) && (4..20).all(kept));
    // It waited in a spool: it is older than all that are kept.
    mirror.apply(of_job("kind-z", 1, 1_000), after_ms(20_000)).unwrap();
    assert_eq!(kind_held(&mirror, "kind-z", 20_000), None);
    apply(&mirror, of_job(&name(4), 2, 21_000));
    apply(&mirror, of_job("kind-z", 2, 22_000));
    assert!(kept(4) && !kept(5), "`e` was fed again, so `f` is the one that was fed longest ago");
    let counters = mirror.counters();
    assert_eq!((counters.kinds, counters.kinds_let_go, counters.kinds_skipped), (16, 5, 1));
    assert_eq!(window(&mirror, Window::D7, after_ms(22_000)).unwrap().0, 23 * MINUTE, "the total has them all");
}

#[test]
fn a_kind_takes_a_place_and_gives_it_to_a_pair() {
    let mirror = Mirror::new(MirrorLimits { roll_ups: 3, ..MirrorLimits::default() });
    let minute = |minutes: i64| minutes * MINUTE as i64;
    apply(&mirror, of_job("a", 1, 0));
    apply(&mirror, of_job("b", 1, minute(1)));
    apply(&mirror, of_job("c", 1, minute(2)));
    let counters = mirror.counters();
    assert_eq!((counters.roll_ups, counters.kinds, counters.kinds_skipped), (1, 2, 1), "all three are in use");
    // A pair moves prices.
    apply(&mirror, of_model("V100", 1, minute(3)));
    let counters = mirror.counters();
    assert_eq!((counters.roll_ups, counters.kinds, counters.kinds_let_go, counters.kinds_skipped), (2, 1, 1, 2));
    assert_eq!([kind_held(&mirror, "a", minute(3)), kind_held(&mirror, "b", minute(3))], [None, Some(1)]);
    // Unused for the retention: `b` makes room for `c`, but never a pair for its own kind.
    apply(&mirror, of_job("c", 2, minute(31)));
    assert_eq!([kind_held(&mirror, "b", minute(31)), kind_held(&mirror, "c", minute(31))], [None, Some(1)]);
    let counters = mirror.counters();
    assert_eq!((counters.roll_ups, counters.kinds, counters.roll_ups_evicted), (2, 1, 0));
    assert_eq!(mirror.places.load(Ordering::SeqCst), 3);
}

#[test]
fn the_newest_are_told_in_order() {
    let mirror = Mirror::new(MirrorLimits::default());
    for (tenant, job) in [("globex", "b"), ("acme", "b"), ("acme", "a")] {
        apply(&mirror, Snapshot { tenant: tenant.to_owned(), ..of_job(job, 1, 0) });
    }
    let ended = Snapshot { health: "ended".to_owned(), healthy: false, ..of_job("a", 2, 1_000) };
    apply(&mirror, ended);
    let newest = mirror.newest(after_ms(2_000));
    let told: Vec<_> = newest
        .iter()
        .map(|one| (one.tenant.as_str(), one.job.as_deref(), one.seq, one.age_ms, one.has_ended))
        .collect();
    let expected = [
        ("acme", Some("a"), 2, 1_000, true),
        ("acme", Some("b"), 1, 2_000, false),
        ("globex", Some("b"), 1, 2_000, false),
    ];
    assert_eq!(told, expected);
    assert_eq!(mirror.newest_of("acme", after_ms(2_000)), newest[..2]);
    assert_eq!(mirror.newest_of("initech", after_ms(2_000)), []);
    assert_eq!(mirror.newest(after_ms(30 * MINUTE as i64)).len(), 1, "the rest has expired");
}

/// Case 21; prints how fast with `--nocapture`.
#[test]
fn ten_thousand_tenants_are_rolled_up_on_one_thread() {
    let mirror = Mirror::new(MirrorLimits::default());
    let rounds = 1..=3_u64;
    let mut took = std::time::Duration::ZERO;
    for seq in rounds.clone() {
        let mut snapshot = of_model("A100", seq, seq as i64 * 1_000);
        let histogram = snapshot.histograms["gpu_util"].clone();
        snapshot.histograms.insert("sm_util".to_owned(), histogram);
        let named = |tenant| Snapshot { tenant: format!("t{tenant}"), ..snapshot.clone() };
        let all: Vec<_> = (0..10_000).map(named).collect();
        let began = std::time::Instant::now();
        for snapshot in all {
            apply(&mirror, snapshot);
        }
        took += began.elapsed();
    }
    let applied = mirror.counters().applied;
    println!("{applied} applies, {:.0} a second", applied as f64 / took.as_secs_f64());
    let keys = [key("gpu_util", "mean", Window::D7)];
    let began = std::time::Instant::now();
    let observed = (0..10_000).filter(|tenant| {
        let query = UsageQuery { tenant: &format!("t{tenant}"), ..crate::samples::query(&keys, after_ms(3_000)) };
        mirror.observe(&query).is_some()
    });
    println!("{} observations, {:.2} µs each", observed.count(), began.elapsed().as_secs_f64() * 100.0);
    let expected = MirrorCounters {
        applied: 30_000,
        entries: 10_000,
        roll_ups: 10_000,
        kinds: 10_000,
        holdings: 10_000,
        ..MirrorCounters::default()
    };
    assert_eq!(mirror.counters(), expected);
}

/// The same of one tenant's nodes: what is held of the others is not copied for each.
#[test]
fn ten_thousand_nodes_of_one_tenant_are_taken_in_on_one_thread() {
    let mirror = Mirror::new(MirrorLimits::default());
    let mut took = std::time::Duration::ZERO;
    for seq in 1..=3_u64 {
        let snapshot = of_model("A100", seq, seq as i64 * 1_000);
        let all: Vec<_> = (0..10_000).map(|node| Snapshot { node: format!("n{node}"), ..snapshot.clone() }).collect();
        let began = std::time::Instant::now();
        for snapshot in all {
            apply(&mirror, snapshot);
        }
        took += began.elapsed();
    }
    println!("one tenant: {:.0} applies a second", 30_000.0 / took.as_secs_f64());
    let counters = mirror.counters();
    assert_eq!((counters.entries, counters.holdings, counters.roll_ups), (10_000, 10_000, 1));
    assert_eq!(window(&mirror, Window::D7, after_ms(3_000)).unwrap().0, 30_000 * MINUTE);
}

/// A month of hours in which these bins were used.
fn month(metrics: &[&str], used: impl Fn(usize) -> bool) -> Windows {
    let (mut roll_up, mut book) = (RollUp::default(), Book::default());
    let mut counted_ms = [0_u32; crate::snapshot::BINS];
    for hour in 0..31 * 24 {
        for (bin, ms) in counted_ms.iter_mut().enumerate().filter(|(bin, _)| used(*bin)) {
            *ms += 1_000 + bin as u32;
        }
        let histograms = metrics.iter().map(|metric| ((*metric).to_owned(), Histogram(Box::new(counted_ms)))).collect();
        let held_ms = MINUTE * 60 * (hour as u64 + 1);
        let snapshot = Snapshot { histograms, ..counted(hour as u64, hour * HOUR, held_ms, &[]) };
        let now = after_ms(hour * HOUR);
        let difference = book.count(&snapshot, now).unwrap();
        roll_up.add(&Additions::of(&difference, &snapshot, now), now);
    }
    roll_up.total().clone()
}

#[test]
fn a_pair_takes_little_and_only_for_what_agents_have_histograms_of() {
    let bytes = month(&["gpu_util", "sm_util", "tensor_active", "dram_active"], |_| true).bytes();
    assert!((240_000..350_000).contains(&bytes), "the most that a place can take: {bytes}");
    // As real loads do: 30 bins, one metric.
    let bytes = month(&["gpu_util"], |bin| bin % 10 < 3).bytes();
    assert!((20_000..45_000).contains(&bytes), "{bytes}");
    let named: Vec<_> = (0..20).map(|metric| format!("m{metric}_util")).collect();
    let named: Vec<_> = named.iter().map(String::as_str).chain(["gpu_util"]).collect();
    assert!(month(&named, |bin| bin % 10 < 3).bytes() == bytes, "what nobody measures takes no memory");
}

#[test]
fn a_holding_without_a_histogram_takes_no_room() {
    let mirror = Mirror::new(MirrorLimits::default());
    for histograms in [json!({}), json!({"sm_occupancy":{"bins":bins(&[(1, 5)])}})] {
        let changes = [("/histograms", histograms), ("/windows", json!({}))];
        apply(&mirror, crate::samples::checked(crate::samples::body_with(&changes)).unwrap());
        mirror.sweep(after_ms(30 * 60_000));
    }
    let counters = mirror.counters();
    assert_eq!((counters.applied, counters.roll_ups, counters.holdings), (2, 0, 0));
}
