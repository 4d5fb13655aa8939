//! Room for roll-ups: limits, who makes room, and how much of it a pair takes; `metering.md` case 21.

use farebox_pricing::usage::Window;
use serde_json::json;

use super::rollup::RollUp;
use super::rollup_tests::{HOUR, MINUTE, apply, window};
use super::*;
use crate::samples::{after_ms, bins, counted};
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
    let expected = MirrorCounters {
        applied: 30_000,
        entries: 10_000,
        roll_ups: 10_000,
        holdings: 10_000,
        ..MirrorCounters::default()
    };
    assert_eq!(mirror.counters(), expected);
}

/// A month of hours in which these bins were used.
fn month(metrics: &[&str], used: impl Fn(usize) -> bool) -> RollUp {
    let mut roll_up = RollUp::default();
    let mut counted_ms = [0_u32; crate::snapshot::BINS];
    for hour in 0..31 * 24 {
        for (bin, ms) in counted_ms.iter_mut().enumerate().filter(|(bin, _)| used(*bin)) {
            *ms += 1_000 + bin as u32;
        }
        let histograms = metrics.iter().map(|metric| ((*metric).to_owned(), Histogram(Box::new(counted_ms)))).collect();
        let held_ms = MINUTE * 60 * (hour as u64 + 1);
        let snapshot = Snapshot { histograms, ..counted(hour as u64, hour * HOUR, held_ms, &[]) };
        roll_up.add(&snapshot, after_ms(hour * HOUR));
    }
    roll_up
}

#[test]
fn a_pair_takes_little_and_only_for_what_agents_have_histograms_of() {
    let bytes = month(&["gpu_util", "sm_util"], |_| true).bytes();
    assert!((100_000..190_000).contains(&bytes), "the most that a pair can take: {bytes}");
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
    for histograms in [json!({}), json!({"dram_active":{"bins":bins(&[(1, 5)])}})] {
        let changes = [("/histograms", histograms), ("/windows", json!({}))];
        apply(&mirror, crate::samples::checked(crate::samples::body_with(&changes)).unwrap());
        mirror.sweep(after_ms(30 * 60_000));
    }
    let counters = mirror.counters();
    assert_eq!((counters.applied, counters.roll_ups, counters.holdings), (2, 0, 0));
}
