//! What is counted of a holding: over absences, restarts and replays, and only once; `metering.md` cases 13, 15 and 20.

use farebox_pricing::usage::Window;
use proptest::prelude::*;
use serde_json::json;

use super::rollup_tests::{HOUR, MINUTE, apply, expected, mirror, window};
use super::*;
use crate::samples::{after_ms, bins, body_with, checked, counted, decimal, node};
use crate::snapshot::{BootEpoch, Histogram};

const RETENTION: i64 = 30 * 60_000;

/// Minutes of wall time after the start, as many counted, at 80 % as long as `observed`.
fn job(seq: u64, minutes: u64, observed: u64) -> Snapshot {
    counted(seq, (minutes * MINUTE) as i64, minutes * MINUTE, &[(80, (observed * MINUTE) as u32)])
}

fn held_and_coverage(mirror: &Mirror, at_ms: i64) -> Option<(u64, String)> {
    window(mirror, Window::D7, after_ms(at_ms)).map(|(held_ms, coverage, _)| (held_ms / MINUTE, coverage))
}

#[test]
fn a_job_that_was_away_longer_than_the_retention_is_counted_once() {
    for swept in [false, true] {
        let mirror = mirror();
        apply(&mirror, job(1, 20, 20));
        if swept {
            mirror.sweep(after_ms(20 * 60_000 + RETENTION));
            assert_eq!(mirror.counters().entries, 0);
        }
        apply(&mirror, job(2, 51, 51));
        assert_eq!(held_and_coverage(&mirror, 51 * 60_000), Some((51, "1".to_owned())), "{swept}");
    }
}

#[test]
fn an_absence_of_an_old_job_is_counted_and_lowers_coverage() {
    let mirror = mirror();
    apply(&mirror, job(1, 120, 120));
    mirror.sweep(after_ms(120 * 60_000 + RETENTION));
    apply(&mirror, job(2, 160, 130));
    assert_eq!(held_and_coverage(&mirror, 160 * 60_000), Some((40, "0.25".to_owned())));
    // Another run of the agent, that began after all that was counted, over an hour before it was heard of.
    let anew = Snapshot { boot_epoch: BootEpoch::Number(2), ..counted(1, 300 * 60_000, 120 * MINUTE, &[(80, 0)]) };
    apply(&mirror, anew);
    assert_eq!(held_and_coverage(&mirror, 300 * 60_000), Some((160, "0.0625".to_owned())));
}

#[test]
fn a_snapshot_that_was_kept_adds_nothing_however_often_it_is_replayed() {
    let mirror = mirror();
    let kept = job(1, 20, 20);
    apply(&mirror, kept.clone());
    apply(&mirror, job(2, 30, 30));
    // The agent lost its state, and counts in a lower epoch.
    let lower = |seq, minutes: u64| {
        let at_ms = (minutes * MINUTE) as i64;
        let snapshot = counted(seq, at_ms, (minutes - 90) * MINUTE, &[(80, ((minutes - 90) * MINUTE) as u32)]);
        Snapshot { boot_epoch: BootEpoch::Number(0), ..snapshot }
    };
    apply(&mirror, lower(1, 95));
    assert_eq!(held_and_coverage(&mirror, 95 * 60_000), Some((35, "1".to_owned())));
    for half_hour in 5..20 {
        let now = after_ms(half_hour * RETENTION);
        assert_eq!(mirror.apply(kept.clone(), now), Ok(Applied::Stored), "the one before it has expired");
        assert_eq!(held_and_coverage(&mirror, half_hour * RETENTION), Some((35, "1".to_owned())), "{half_hour}");
    }
    let at = 20 * RETENTION;
    mirror.apply(lower(2, 100), after_ms(at)).unwrap();
    assert_eq!(held_and_coverage(&mirror, at), Some((40, "1".to_owned())), "and it does not stand in the way");
}

#[test]
fn bins_that_are_ahead_of_the_held_time_are_counted_with_it() {
    let held = [60_000, 60_000, 61_000, 61_000, 63_000_u64];
    let mirror = mirror();
    for (seq, held_ms) in (0..).zip(held) {
        let ahead = 60_000 + 1_000 * (seq as u32 + 1).min(3);
        let sm = Snapshot { device_shares: decimal("1"), ..counted(seq, 0, held_ms, &[]) };
        let histogram =
            checked(body_with(&[("/histograms", json!({"sm_util":{"bins":bins(&[(40, ahead)])}}))])).unwrap();
        apply(&mirror, Snapshot { histograms: histogram.histograms, ..sm });
    }
    let keys = [crate::samples::key("sm_util", "mean", Window::D7)];
    let observation = mirror.observe(&crate::samples::query(&keys, after_ms(0))).unwrap();
    let stat = &observation.stats[0];
    assert_eq!((stat.held_us, stat.stat.coverage), (63_000_000, decimal("1")));
    assert_eq!(mirror.counters().histograms_refused, 0);
}

#[test]
fn a_tick_and_a_share_say_how_far_ahead_bins_may_be() {
    let refused = |tick_ms, shares: &str, ahead: u32| {
        let mirror = mirror();
        let first = counted(1, 0, MINUTE, &[(80, 60_000 + ahead)]);
        apply(&mirror, Snapshot { tick_ms, device_shares: decimal(shares), ..first });
        mirror.counters().histograms_refused
    };
    assert_eq!((refused(1_000, "1", 2_101), refused(1_000, "1", 2_102)), (0, 1));
    assert_eq!((refused(100, "8", 1_701), refused(100, "8", 1_702)), (0, 1));
    assert_eq!((refused(1_000, "0.25", 601), refused(1_000, "0.25", 602)), (0, 1));
}

#[test]
fn a_job_without_a_histogram_is_no_part_of_the_week() {
    let mirror = mirror();
    apply(&mirror, job(1, 20, 20));
    let by_workload = Snapshot { job: Some("shared".to_owned()), histograms: Default::default(), ..job(1, 20, 0) };
    apply(&mirror, by_workload);
    assert_eq!(held_and_coverage(&mirror, 20 * 60_000), Some((20, "1".to_owned())));
    // One that has a histogram, and in it nothing, was held and not observed.
    apply(&mirror, Snapshot { job: Some("blind".to_owned()), ..job(1, 20, 0) });
    assert_eq!(held_and_coverage(&mirror, 20 * 60_000), Some((40, "0.5".to_owned())));
}

#[test]
fn a_metric_counts_from_where_it_began_to_be_read() {
    let mirror = mirror();
    apply(&mirror, job(1, 10, 10));
    let sm = |of: Snapshot, minutes: u64| {
        let mut of = of;
        let bins = [0_u32; 101].map(|_| 0);
        let mut bins = Histogram(Box::new(bins));
        bins.0[50] = (minutes * MINUTE) as u32;
        of.histograms.insert("sm_util".to_owned(), bins);
        of
    };
    apply(&mirror, sm(job(2, 20, 20), 5));
    apply(&mirror, job(3, 30, 30));
    apply(&mirror, sm(job(4, 40, 40), 15));
    let keys = [crate::samples::key("sm_util", "mean", Window::D7)];
    let stat = mirror.observe(&crate::samples::query(&keys, after_ms(40 * 60_000))).unwrap().stats.remove(0);
    assert_eq!((stat.held_us / 60_000_000, stat.stat.coverage), (30, decimal("0.5")));
    assert_eq!(held_and_coverage(&mirror, 40 * 60_000), Some((40, "1".to_owned())));
}

#[test]
fn what_is_brought_and_what_is_rolled_up_are_one_week() {
    let mirror = mirror();
    apply(&mirror, counted(1, 0, 3 * MINUTE, &[(20, 180_000)]));
    apply(&mirror, node("b", "0.9", "1", 60_000_000));
    let mean = expected(4 * MINUTE, "1", ["0.375", "0.2", "0.9", "", ""]);
    let (held_ms, coverage, values) = window(&mirror, Window::D7, after_ms(0)).unwrap();
    let (mean_held_ms, mean_coverage, expected_values) = mean.unwrap();
    assert_eq!((held_ms, coverage), (mean_held_ms, mean_coverage));
    assert_eq!(values, expected_values[..3], "mean, min and max; percentiles are never averaged");
    // `b` has a histogram as well: in the windows that it does not bring.
    assert_eq!(window(&mirror, Window::D30, after_ms(0)).unwrap().0, 4 * MINUTE);
    // It has held its GPUs for months: the counter says nothing of a window that it does not bring and has no histogram of.
    let silent =
        Snapshot { histograms: Default::default(), windows: Default::default(), ..node("c", "0", "0", 1 << 59) };
    apply(&mirror, silent);
    assert_eq!(window(&mirror, Window::D7, after_ms(0)).unwrap().0, 4 * MINUTE + 7 * 24 * 60 * MINUTE);
}

#[test]
fn a_counter_stands_for_no_more_than_a_window_can_hold() {
    let month_us = 30 * 24 * HOUR as u64 * 1_000;
    let without =
        Snapshot { device_shares: decimal("2.5"), windows: Default::default(), ..node("a", "1", "1", month_us) };
    assert_eq!(without.held_us(Window::S10, "gpu_util"), 25_000_000);
    assert_eq!(without.held_us(Window::D7, "gpu_util"), 7 * 24 * 3_600_000_000 * 5 / 2);
    assert_eq!(Snapshot { device_shares: decimal("0.000001"), ..without }.held_us(Window::S10, "gpu_util"), 10);
    let brought = node("a", "1", "1", month_us);
    assert_eq!(brought.held_us(Window::D7, "gpu_util"), month_us, "as the shape of a snapshot has it");
    let short = checked(body_with(&[("/windows/15m/gpu_util", json!({"mean":"1"}))])).unwrap();
    assert_eq!(short.held_us(Window::M15, "gpu_util"), 900_000_000);
}

proptest! {
    /// However snapshots are lost, repeated and late, and whatever expires between them: the week is what the newest says.
    #[test]
    fn no_held_time_is_counted_twice_or_lost(sent in prop::collection::vec((1_u64..40, 0_i64..3, any::<bool>()), 1..30)) {
        let mirror = mirror();
        let mut now_ms = 0;
        let mut newest = 0;
        for (seq, wait, sweeps) in sent {
            now_ms = (now_ms + wait * 20 * 60_000).max((seq * MINUTE) as i64);
            mirror.apply(job(seq, seq, seq), after_ms(now_ms)).unwrap();
            newest = newest.max(seq);
            if sweeps {
                mirror.sweep(after_ms(now_ms));
            }
        }
        prop_assert_eq!(held_and_coverage(&mirror, now_ms), Some((newest, "1".to_owned())));
    }
}
