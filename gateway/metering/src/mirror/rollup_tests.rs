//! Roll-ups: differences, buckets, statistics, limits; `metering.md` cases 3, 14 and 15.

use farebox_pricing::usage::{StatQuality, UsageScope, Window};
use proptest::prelude::*;
use rust_decimal::Decimal;
use serde_json::json;

use super::*;
use crate::samples::{after_ms, bins, body_with, checked, counted, decimal, key, query};

pub(super) const HOUR: i64 = 3_600_000;
pub(super) const MINUTE: u64 = 60_000;
const STATISTICS: [&str; 5] = ["mean", "p50", "p95", "min", "max"];

pub(super) fn mirror() -> Mirror {
    Mirror::new(MirrorLimits::default())
}

/// Applied when it was observed.
pub(super) fn apply(mirror: &Mirror, snapshot: Snapshot) {
    let at = snapshot.observed_at;
    assert_eq!(mirror.apply(snapshot, at), Ok(Applied::Stored));
}

/// Held ms, coverage and the five statistics of `gpu_util` in a window.
pub(super) fn window(mirror: &Mirror, window: Window, now: Timestamp) -> Option<(u64, String, Vec<String>)> {
    let keys = STATISTICS.map(|statistic| key("gpu_util", statistic, window));
    let stats = mirror.observe(&query(&keys, now))?.stats;
    let first = stats.first()?;
    let values = stats.iter().map(|observed| observed.stat.value.to_string()).collect();
    Some((first.held_us / 1_000, first.stat.coverage.to_string(), values))
}

pub(super) fn expected(held_ms: u64, coverage: &str, values: [&str; 5]) -> Option<(u64, String, Vec<String>)> {
    Some((held_ms, coverage.to_owned(), values.map(str::to_owned).to_vec()))
}

#[test]
fn a_week_is_made_of_what_each_snapshot_adds() {
    let mirror = mirror();
    apply(&mirror, counted(1, 0, 10 * MINUTE, &[(80, 600_000)]));
    let first = expected(600_000, "1", ["0.8"; 5]);
    assert_eq!(window(&mirror, Window::D7, after_ms(0)), first, "it began within the hour: from its beginning");
    // Ten more minutes, of which two were not observed.
    apply(&mirror, counted(2, 600_000, 20 * MINUTE, &[(20, 120_000), (80, 600_000), (90, 360_000)]));
    let both = expected(1_200_000, "0.9", ["0.766666666667", "0.8", "0.9", "0.2", "0.9"]);
    for window_of in [Window::H24, Window::D7, Window::D30] {
        assert_eq!(window(&mirror, window_of, after_ms(600_000)), both, "{}", window_of.as_str());
    }
    assert_eq!(window(&mirror, Window::M15, after_ms(600_000)), None, "short windows are the agent's");
    let observation = mirror.observe(&query(&[key("gpu_util", "mean", Window::D7)], after_ms(601_000))).unwrap();
    assert_eq!((observation.age_ms, observation.stats[0].quality), (1_000, StatQuality::Ok));
    assert!(mirror.observe(&query(&[], after_ms(40 * HOUR))).is_none(), "without a live snapshot there is nothing");
}

#[test]
fn ranks_are_the_nearest_and_the_mean_rounds_half_even_once() {
    let of = |observed: &[(usize, u32)]| {
        let mirror = mirror();
        apply(&mirror, counted(1, 0, 3_000_000, observed));
        window(&mirror, Window::D7, after_ms(0)).unwrap().2
    };
    assert_eq!(of(&[(0, 50), (100, 50)]), ["0.5", "0", "1", "0", "1"], "rank 50 of 100 is the last of the lower half");
    assert_eq!(of(&[(0, 49), (100, 51)]), ["0.51", "1", "1", "0", "1"]);
    assert_eq!(of(&[(10, 95), (60, 5)]), ["0.125", "0.1", "0.1", "0.1", "0.6"]);
    assert_eq!(of(&[(10, 94), (60, 6)]), ["0.13", "0.1", "0.6", "0.1", "0.6"]);
    assert_eq!(of(&[(0, 2), (1, 1)])[0], "0.003333333333");
    assert_eq!(of(&[(33, 1)]), ["0.33"; 5]);
}

#[test]
fn quartiles_are_of_histograms_only() {
    let mirror = mirror();
    apply(&mirror, counted(1, 0, MINUTE, &[(10, 25), (20, 50), (80, 25)]));
    let quartiles = |of| {
        let keys = ["p25", "p50", "p75"].map(|statistic| key("gpu_util", statistic, of));
        let stats = mirror.observe(&query(&keys, after_ms(0))).unwrap().stats;
        stats.iter().map(|observed| observed.stat.value.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(quartiles(Window::D7), ["0.1", "0.2", "0.2"], "rank 25 of 100 is the last of the lowest quarter");
    let brought = json!({"15m":{"gpu_util":{"mean":"0.5","p50":"0.5","coverage":"1"}}});
    let windows = checked(body_with(&[("/windows", brought)])).unwrap().windows;
    apply(&mirror, Snapshot { windows, ..counted(2, 1_000, 2 * MINUTE, &[(10, 25), (20, 50), (80, 51)]) });
    assert_eq!(quartiles(Window::D7), ["0.2", "0.2", "0.8"]);
    assert_eq!(quartiles(Window::M15), ["0.5"]);
}

#[test]
fn repeated_late_and_skipped_deliveries_sum_to_the_same() {
    let all = |seq: u64| counted(seq, 60_000 * seq as i64, MINUTE * (10 + seq), &[(50, 60_000 * seq as u32), (7, 3)]);
    let state = |order: &[u64]| {
        let mirror = mirror();
        for seq in order {
            mirror.apply(all(*seq), after_ms(600_000)).unwrap();
        }
        window(&mirror, Window::D7, after_ms(600_000))
    };
    let whole = state(&[0, 1, 2, 3, 4]);
    assert_eq!(whole.as_ref().map(|(held_ms, ..)| *held_ms), Some(14 * MINUTE));
    for order in [&[0, 4][..], &[0, 2, 1, 1, 4, 3, 0], &[4], &[1, 4, 4]] {
        assert_eq!(state(order), whole, "{order:?}");
    }
}

#[test]
fn what_began_long_ago_is_only_a_baseline() {
    let mirror = mirror();
    apply(&mirror, counted(1, 0, 60 * MINUTE + 1, &[(80, 3_600_000)]));
    assert_eq!(window(&mirror, Window::D7, after_ms(0)), None);
    apply(&mirror, counted(2, 60_000, 61 * MINUTE + 1, &[(80, 3_600_000), (10, 30_000)]));
    assert_eq!(window(&mirror, Window::D7, after_ms(60_000)), expected(60_000, "0.5", ["0.1"; 5]));
    // Eight GPUs come to eight hours of GPU-time in one.
    let mirror = self::mirror();
    let eight = Snapshot { device_shares: decimal("8"), ..counted(1, 0, 8 * 60 * MINUTE, &[(80, 1_000)]) };
    apply(&mirror, eight);
    assert_eq!(window(&mirror, Window::D7, after_ms(0)).unwrap().0, 8 * 60 * MINUTE);
}

#[test]
fn counters_that_began_anew_are_counted_from_their_beginning() {
    let before = counted(5, 0, 50 * MINUTE, &[(80, 3_000_000)]);
    let anew = |change: &dyn Fn(Snapshot) -> Snapshot, first: Snapshot| {
        let mirror = mirror();
        apply(&mirror, first);
        apply(&mirror, change(counted(6, 60_000, 2 * MINUTE, &[(10, 120_000)])));
        window(&mirror, Window::D7, after_ms(60_000)).unwrap()
    };
    let epoch = checked(body_with(&[("/boot_epoch", json!("2"))])).unwrap().boot_epoch;
    let sum = (52 * MINUTE, "1".to_owned());
    let rebooted = anew(&|snapshot| Snapshot { boot_epoch: epoch.clone(), ..snapshot }, before.clone());
    let restarted = anew(&|snapshot| snapshot, before.clone());
    let ended = Snapshot { health: "ended".to_owned(), healthy: false, ..before };
    for found in [rebooted, restarted, anew(&|snapshot| snapshot, ended.clone())] {
        assert_eq!((found.0, found.1), sum);
    }
    // A later job that has already held more than the one before it.
    let mirror = mirror();
    apply(&mirror, ended);
    apply(&mirror, counted(6, 60_000, 51 * MINUTE, &[(10, 3_060_000)]));
    assert_eq!(window(&mirror, Window::D7, after_ms(60_000)).unwrap().0, 101 * MINUTE);
}

#[test]
fn bins_go_round() {
    let mirror = mirror();
    let week_ms = 7 * 24 * 60 * MINUTE;
    apply(&mirror, counted(1, 0, week_ms, &[(80, u32::MAX - 999)]));
    apply(&mirror, counted(2, 60_000, week_ms + MINUTE, &[(80, 59_000)]));
    assert_eq!(window(&mirror, Window::D7, after_ms(60_000)), expected(MINUTE, "1", ["0.8"; 5]));
    // Over 2³² ms of GPU-time between two: nobody knows how often, so only the held time counts.
    let round = 1_u64 << 32;
    apply(&mirror, counted(3, 120_000, week_ms + MINUTE + round, &[(80, 60_000)]));
    assert_eq!(window(&mirror, Window::D7, after_ms(120_000)).unwrap().0, MINUTE + round);
    assert_eq!(mirror.counters().histograms_refused, 0);
    apply(&mirror, counted(4, 180_000, week_ms + 2 * MINUTE + round, &[(80, 120_000)]));
    assert_eq!(window(&mirror, Window::D7, after_ms(180_000)).unwrap().0, 2 * MINUTE + round);
}

#[test]
fn bins_that_say_more_than_was_held_are_refused_and_counted() {
    let mirror = mirror();
    apply(&mirror, counted(1, 0, MINUTE, &[(80, 62_101)]));
    assert_eq!(window(&mirror, Window::D7, after_ms(0)).unwrap().1, "1", "two readings ahead, each bin rounded");
    apply(&mirror, counted(2, 60_000, 2 * MINUTE, &[(80, 124_203)]));
    assert_eq!(mirror.counters().histograms_refused, 1);
    assert_eq!(window(&mirror, Window::D7, after_ms(60_000)).unwrap().1, "0.517508333333", "held, not observed");
    // A bin that fell is one that rose by almost 2³².
    apply(&mirror, counted(3, 120_000, 3 * MINUTE, &[(80, 1)]));
    assert_eq!(mirror.counters().histograms_refused, 2);
    apply(&mirror, counted(4, 180_000, 4 * MINUTE, &[(80, 60_001)]));
    assert_eq!(window(&mirror, Window::D7, after_ms(180_000)).unwrap().0, 4 * MINUTE);
}

#[test]
fn a_quarantined_snapshot_is_counted_by_the_next_good_one() {
    let mirror = mirror();
    apply(&mirror, counted(1, 0, MINUTE, &[(80, 60_000)]));
    let ahead = counted(2, 600_000, 2 * MINUTE, &[(80, 120_000)]);
    assert!(matches!(mirror.apply(ahead, after_ms(60_000)), Ok(Applied::Quarantined(_))));
    assert_eq!(window(&mirror, Window::D7, after_ms(60_000)), expected(MINUTE, "1", ["0.8"; 5]));
    apply(&mirror, counted(3, 120_000, 3 * MINUTE, &[(80, 180_000)]));
    assert_eq!(window(&mirror, Window::D7, after_ms(120_000)), expected(3 * MINUTE, "1", ["0.8"; 5]));
}

#[test]
fn a_spooled_snapshot_counts_where_it_was_observed() {
    let mirror = mirror();
    let days = |days: i64| days * 24 * HOUR;
    for (seq, ago) in [(1, days(30)), (2, days(29)), (3, days(8)), (4, days(6)), (5, HOUR * 23), (6, 0)] {
        let snapshot = counted(seq, -ago, MINUTE * seq, &[(80, 60_000 * seq as u32)]);
        mirror.apply(snapshot, after_ms(0)).unwrap();
    }
    let held = |of| window(&mirror, of, after_ms(0)).unwrap().0 / MINUTE;
    assert_eq!([held(Window::H24), held(Window::D7), held(Window::D30)], [2, 3, 5], "older than 30 d is dropped");
}

#[test]
fn windows_move_on_by_their_buckets() {
    let mirror = mirror();
    apply(&mirror, counted(1, 0, MINUTE, &[(80, 60_000)]));
    let held_at = |of, hours: i64| {
        let now = after_ms(hours * HOUR);
        // A live snapshot that adds nothing.
        mirror
            .apply(
                Snapshot { node: "other".to_owned(), seq: hours as u64, observed_at: now, ..counted(0, 0, 0, &[]) },
                now,
            )
            .unwrap();
        window(&mirror, of, now).map(|(held_ms, ..)| held_ms)
    };
    assert_eq!(held_at(Window::H24, 23), Some(MINUTE));
    assert_eq!(held_at(Window::H24, 24), None);
    assert_eq!(held_at(Window::D7, 27 * 6), Some(MINUTE));
    assert_eq!(held_at(Window::D7, 28 * 6), None);
    assert_eq!(held_at(Window::D30, 30 * 24 - 1), Some(MINUTE));
    assert_eq!(held_at(Window::D30, 30 * 24), None);
    assert_eq!(mirror.counters().roll_ups, 1);
    mirror.sweep(after_ms(60 * 24 * HOUR));
    let counters = mirror.counters();
    assert_eq!((counters.roll_ups, counters.holdings), (0, 0), "its memory is given back");
    assert!(mirror.usage("acme", after_ms(60 * 24 * HOUR)).is_none());
}

#[test]
fn what_a_window_leaves_behind_goes_out_of_its_sum() {
    let hourly = MirrorLimits { retention: SignedDuration::from_hours(48), ..MirrorLimits::default() };
    let mirror = Mirror::new(hourly);
    let (mut low, mut held) = (Vec::new(), 0);
    for (seq, hour) in [(1, 0), (2, 5), (3, 24), (4, 30)] {
        low.push((seq as usize * 10, 60_000));
        held += MINUTE;
        let asked_before = seq == 3;
        let now = after_ms(hour * HOUR);
        if asked_before {
            let quiet = Snapshot { node: "other".to_owned(), observed_at: now, ..counted(0, 0, 0, &[]) };
            mirror.apply(quiet, now).unwrap();
            assert_eq!(window(&mirror, Window::H24, now), expected(MINUTE, "1", ["0.2"; 5]), "before it is swept");
        }
        apply(&mirror, counted(seq, hour * HOUR, held, &low));
    }
    let day = expected(2 * MINUTE, "1", ["0.35", "0.3", "0.4", "0.3", "0.4"]);
    assert_eq!(window(&mirror, Window::H24, after_ms(30 * HOUR)), day);
    assert_eq!(window(&mirror, Window::D7, after_ms(30 * HOUR)).unwrap().2[0], "0.25");
}

#[test]
fn a_model_without_live_snapshots_takes_all_of_the_tenant() {
    let mirror = mirror();
    apply(&mirror, counted(1, 0, MINUTE, &[(20, 60_000)]));
    let v100 = Snapshot { gpu_model: "V100".to_owned(), ..counted(1, 0, MINUTE, &[(40, 60_000)]) };
    apply(&mirror, v100);
    let keys = [key("gpu_util", "mean", Window::D7)];
    let mean = |gpu_model| {
        let observation = mirror.observe(&UsageQuery { gpu_model, ..query(&keys, after_ms(0)) }).unwrap();
        (observation.scope, observation.stats[0].stat.value.to_string())
    };
    assert_eq!(mean("A100"), (UsageScope::GpuModel, "0.2".to_owned()));
    assert_eq!(mean("H100"), (UsageScope::Tenant, "0.3".to_owned()));
}

#[test]
fn what_is_suspect_now_casts_doubt_on_the_week_and_takes_nothing_from_it() {
    let mirror = mirror();
    apply(&mirror, counted(1, 0, MINUTE, &[(80, 60_000)]));
    let suspect = json!({"10s":{"gpu_util":{"mean":"0","coverage":"0","quality":"suspect_zero"}}});
    let windows = checked(body_with(&[("/windows", suspect)])).unwrap().windows;
    // Half of the second minute was zeros that power contradicts: the agent counts those in no bin.
    apply(&mirror, Snapshot { windows, ..counted(2, 60_000, 2 * MINUTE, &[(40, 30_000), (80, 60_000)]) });
    let quality =
        || mirror.observe(&query(&[key("gpu_util", "mean", Window::D7)], after_ms(0))).unwrap().stats[0].quality;
    let half = |held_ms, coverage| expected(held_ms, coverage, ["0.666666666667", "0.8", "0.8", "0.4", "0.8"]);
    assert_eq!(window(&mirror, Window::D7, after_ms(60_000)), half(2 * MINUTE, "0.75"));
    assert_eq!(quality(), StatQuality::SuspectZero);
    apply(&mirror, counted(3, 120_000, 3 * MINUTE, &[(40, 30_000), (80, 60_000)]));
    assert_eq!((quality(), window(&mirror, Window::D7, after_ms(120_000))), (StatQuality::Ok, half(3 * MINUTE, "0.5")));
}

#[test]
fn under_mig_only_what_the_instance_has_is_rolled_up() {
    let devices = json!([{"gpu_uuid":"GPU-1","instance":"1/0","share":"1","method":"mig"}]);
    let histograms = json!({"gpu_util":{"bins":bins(&[(0, 60_000)])},"sm_util":{"bins":bins(&[(40, 60_000)])}});
    let changes = [
        ("/devices", devices),
        ("/windows", json!({})),
        ("/histograms", histograms),
        ("/counters", json!({"held_us":60_000_000})),
    ];
    let mirror = mirror();
    apply(&mirror, checked(body_with(&changes)).unwrap());
    let observe = |metric| mirror.observe(&query(&[key(metric, "mean", Window::D7)], after_ms(0))).unwrap();
    assert!(observe("gpu_util").stats.is_empty() && observe("gpu_util").mig_without_metric);
    assert_eq!(observe("sm_util").stats[0].stat.value, decimal("0.4"));
    assert!(!observe("sm_util").mig_without_metric);
}

#[test]
fn usage_tells_every_model_with_all_that_is_known() {
    let mirror = mirror();
    let full = checked(crate::samples::body()).unwrap();
    mirror.apply(Snapshot { node: "a".to_owned(), ..full.clone() }, after_ms(0)).unwrap();
    let mut ailing = Snapshot { node: "b".to_owned(), health: "lost".to_owned(), healthy: false, ..full };
    ailing.counters.energy_mj = None;
    ailing.reasons = vec!["xid_79".to_owned()];
    mirror.apply(ailing, after_ms(500)).unwrap();
    apply(&mirror, Snapshot { gpu_model: "V100".to_owned(), ..counted(1, 0, MINUTE, &[(40, 60_000)]) });
    let usage = mirror.usage("acme", after_ms(1_000)).unwrap();
    let [a100, v100] = usage.as_slice() else { panic!("{usage:?}") };
    assert_eq!((a100.gpu_model.as_str(), a100.health.as_str(), a100.age_ms), ("A100", "lost", 1_000));
    assert_eq!(a100.reasons, ["xid_79"]);
    let counters =
        crate::snapshot::Counters { held_us: 14_400_000_000, busy_us: Some(11_808_000_000), energy_mj: None };
    assert_eq!(a100.counters, counters, "a part of the energy is not the energy");
    assert_eq!(a100.devices.iter().map(|held| held.node.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(a100.devices[0].device.share, Decimal::ONE);
    let quarter = &a100.windows[&Window::M15]["gpu_util"];
    assert_eq!((quarter.mean, quarter.p95, quarter.held_us), (Some(decimal("0.82")), None, 1_800_000_000));
    let week = &v100.windows[&Window::D7]["gpu_util"];
    assert_eq!((week.mean, week.p95, week.coverage), (Some(decimal("0.4")), Some(decimal("0.4")), Decimal::ONE));
    assert!(mirror.usage("globex", after_ms(0)).is_none());
}

proptest! {
    /// Whatever a sender says, coverage stays a share and statistics stay in order.
    #[test]
    fn no_histogram_makes_a_statistic_that_cannot_be(
        steps in prop::collection::vec((0_u64..200_000, prop::collection::vec((0_usize..101, any::<u32>()), 0..6)), 1..6),
    ) {
        let mirror = mirror();
        let mut held_ms = 0;
        for (seq, (held, observed)) in (0..).zip(&steps) {
            held_ms += held;
            apply(&mirror, counted(seq, 1_000 * seq as i64, held_ms, observed));
        }
        if let Some((held, coverage, values)) = window(&mirror, Window::D7, after_ms(10_000)) {
            prop_assert!(held <= held_ms);
            prop_assert!(decimal(&coverage) <= Decimal::ONE);
            let values: Vec<_> = values.iter().map(|value| decimal(value)).collect();
            let [mean, p50, p95, min, max] = values[..] else { panic!("{values:?}") };
            prop_assert!(min <= p50 && p50 <= p95 && p95 <= max && min <= mean && mean <= max && max <= Decimal::ONE);
        }
    }

    /// Nodes report in any order, each in its own.
    #[test]
    fn the_order_of_nodes_is_irrelevant(order in prop::collection::vec(0_usize..3, 30)) {
        let deliver = |order: &[usize]| {
            let mirror = mirror();
            let mut sent = [0_u64; 3];
            for which in order.iter().copied().chain((0..3).flat_map(|which| [which; 8])).filter(|which| *which < 3) {
                let seq = &mut sent[which];
                if *seq == 8 {
                    continue;
                }
                let ms = 60_000 * *seq as u32;
                let snapshot = counted(*seq, HOUR * *seq as i64, MINUTE * *seq, &[(which * 10, ms / 2), (90, ms / 3)]);
                mirror.apply(Snapshot { node: format!("n{which}"), ..snapshot }, after_ms(8 * HOUR)).unwrap();
                *seq += 1;
            }
            [Window::H24, Window::D7, Window::D30].map(|of| window(&mirror, of, after_ms(8 * HOUR)))
        };
        prop_assert_eq!(deliver(&order), deliver(&[]));
    }
}
