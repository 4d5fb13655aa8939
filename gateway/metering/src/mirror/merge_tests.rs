//! Merging: exact numbers, scopes, ages; `metering.md` cases 1, 3, 15 and 16.

use std::collections::BTreeMap;

use farebox_pricing::usage::{StatQuality, UsageRules, UsageScope, Window, judge};
use proptest::prelude::*;
use rust_decimal::Decimal;
use serde_json::json;

use super::*;
use crate::samples::{after_ms, body_with, checked, decimal, key, node, query, weekly_mean};

fn mirror_of(snapshots: impl IntoIterator<Item = Snapshot>) -> Mirror {
    let mirror = Mirror::new(MirrorLimits::default());
    for snapshot in snapshots {
        assert_eq!(mirror.apply(snapshot, after_ms(0)), Ok(Applied::Stored));
    }
    mirror
}

fn observe(snapshots: impl IntoIterator<Item = Snapshot>, keys: &[StatKey]) -> Observation {
    mirror_of(snapshots).observe(&query(keys, after_ms(0))).unwrap()
}

/// (value, coverage, held_us) of the 7-day mean.
fn weekly(snapshots: impl IntoIterator<Item = Snapshot>) -> (String, String, u64) {
    let observation = observe(snapshots, &weekly_mean());
    let observed = &observation.stats[0];
    (observed.stat.value.to_string(), observed.stat.coverage.to_string(), observed.held_us)
}

fn triple(value: &str, coverage: &str, held_us: u64) -> (String, String, u64) {
    (value.to_owned(), coverage.to_owned(), held_us)
}

#[test]
fn one_node_passes_through_with_all_its_digits() {
    let digits = "0.1234567890123456789012345678";
    assert_eq!(weekly([node("a", digits, "0.79999999999999999", 7)]), triple(digits, "0.79999999999999999", 7));
    let statistics =
        ["mean", "p50", "p95", "min", "max", "p99"].map(|statistic| key("gpu_util", statistic, Window::M15));
    let observation = observe([checked(crate::samples::body()).unwrap()], &statistics);
    let values: Vec<_> =
        observation.stats.iter().map(|observed| (observed.stat.statistic.as_str(), observed.stat.value)).collect();
    let expected = [("mean", "0.82"), ("p50", "0.85"), ("p95", "0.97"), ("min", "0.1"), ("max", "1")];
    assert_eq!(
        values,
        expected.map(|(statistic, value)| (statistic, decimal(value))),
        "an unknown statistic is absent"
    );
    assert_eq!(observation.stats[0].stat.window_s, 900);
    assert_eq!(observation.stats[0].held_us, 900_000_000, "the window's own");
}

#[test]
fn two_nodes_merge_by_observed_held_time() {
    // (0.9 × 3 h × 0.5 + 0.3 × 1 h × 1) ÷ (1.5 h + 1 h) = 1.65 ÷ 2.5; observed 2.5 h of 4 h.
    let hour = 3_600_000_000;
    assert_eq!(
        weekly([node("a", "0.9", "0.5", 3 * hour), node("b", "0.3", "1", hour)]),
        triple("0.66", "0.625", 4 * hour)
    );
    // 1/3 and 2/3: rounded to 12 decimals, coverage cut.
    assert_eq!(weekly([node("a", "1", "1", 1), node("b", "0", "1", 2)]), triple("0.333333333333", "1", 3));
    assert_eq!(weekly([node("a", "1", "1", 2), node("b", "0", "0", 1)]), triple("1", "0.666666666666", 3));
}

#[test]
fn the_merged_mean_rounds_half_to_even() {
    let pair = |low: &str, high: &str| weekly([node("a", low, "1", 1), node("b", high, "1", 1)]).0;
    assert_eq!(pair("0.000000000001", "0.000000000002"), "0.000000000002");
    assert_eq!(pair("0.000000000002", "0.000000000003"), "0.000000000002");
    assert_eq!(pair("0", "0.000000000001"), "0");
}

#[test]
fn the_largest_numbers_merge_exactly() {
    let most = |name: &str, watts: &str| {
        let windows = json!({"7d":{"power_w":{"mean":watts,"coverage":"1"}}});
        let counters = json!({"held_us":"1000000000000000000"});
        checked(body_with(&[("/node", json!(name)), ("/windows", windows), ("/counters", counters)])).unwrap()
    };
    let largest = "999999999999999.999999999999";
    let keys = [key("power_w", "mean", Window::D7)];
    let merged = observe((0..30).map(|index| most(&format!("n{index}"), largest)), &keys);
    assert_eq!(merged.stats[0].stat.value, decimal(largest));
    assert_eq!(merged.stats[0].held_us, u64::MAX, "saturates");
    assert_eq!(merged.stats[0].stat.coverage, Decimal::ONE, "never over 1");
    let merged = observe([most("a", largest), most("b", "0")], &keys);
    assert_eq!(merged.stats[0].stat.value, decimal("500000000000000"));
}

#[test]
fn percentiles_of_several_nodes_are_left_out_and_extremes_merge() {
    let keys = ["p50", "p95", "min", "max"].map(|statistic| key("gpu_util", statistic, Window::D7));
    let merged = observe([node("a", "0.9", "1", 1), node("b", "0.3", "1", 1)], &keys);
    let values: Vec<_> =
        merged.stats.iter().map(|observed| (observed.stat.statistic.as_str(), observed.stat.value)).collect();
    assert_eq!(values, [("min", decimal("0.3")), ("max", decimal("0.9"))]);
}

#[test]
fn a_node_without_the_metric_counts_as_held_and_not_observed() {
    let silent = Snapshot { windows: BTreeMap::new(), ..node("b", "0", "0", 1_000) };
    assert_eq!(weekly([node("a", "0.9", "1", 3_000), silent]), triple("0.9", "0.75", 4_000));
}

#[test]
fn nothing_observed_by_several_has_no_mean() {
    assert!(observe([node("a", "0.9", "0", 5), node("b", "0.3", "0", 5)], &weekly_mean()).stats.is_empty());
    assert!(observe([node("a", "0.9", "1", 0), node("b", "0.3", "1", 0)], &weekly_mean()).stats.is_empty());
}

#[test]
fn unknown_coverage_counts_as_none() {
    let snapshot = checked(body_with(&[("/windows/15m/gpu_util/coverage", json!("NaN"))])).unwrap();
    let observation = observe([snapshot], &[key("gpu_util", "mean", Window::M15)]);
    assert_eq!(observation.stats[0].stat.coverage, Decimal::ZERO);
}

#[test]
fn the_scope_is_the_model_else_the_tenant() {
    let v100 = Snapshot { gpu_model: "V100".to_owned(), ..node("v", "0.1", "1", 10) };
    let mirror = mirror_of([node("a", "0.9", "1", 30), v100]);
    let keys = weekly_mean();
    let ask = |gpu_model| {
        let observation = mirror.observe(&UsageQuery { gpu_model, ..query(&keys, after_ms(0)) }).unwrap();
        (observation.scope, observation.stats[0].stat.value.to_string())
    };
    assert_eq!(ask("A100"), (UsageScope::GpuModel, "0.9".to_owned()));
    assert_eq!(ask("V100"), (UsageScope::GpuModel, "0.1".to_owned()));
    assert_eq!(ask("H100"), (UsageScope::Tenant, "0.7".to_owned()));
}

#[test]
fn age_is_the_larger_of_observed_and_received_of_the_oldest() {
    let mirror = Mirror::new(MirrorLimits::default());
    mirror.apply(node("a", "0.9", "1", 1), after_ms(500)).unwrap();
    mirror.apply(Snapshot { observed_at: after_ms(2_400), ..node("b", "0.3", "1", 1) }, after_ms(400)).unwrap();
    let at = |now| {
        let observation = mirror.observe(&query(&weekly_mean(), now)).unwrap();
        (observation.age_ms, observation.observed_at_ms)
    };
    assert_eq!(at(after_ms(1_000)), (1_000, after_ms(0).as_millisecond()));
    assert_eq!(at(after_ms(-5)).0, 0, "a clock that ran back");
    let ahead = Mirror::new(MirrorLimits::default());
    ahead.apply(Snapshot { observed_at: after_ms(2_000), ..node("b", "0.3", "1", 1) }, after_ms(0)).unwrap();
    assert_eq!(ahead.observe(&query(&weekly_mean(), after_ms(1_500))).unwrap().age_ms, 1_500, "since receipt");
}

#[test]
fn hard_stale_snapshots_are_left_out_while_a_fresher_one_remains() {
    let mirror = Mirror::new(MirrorLimits::default());
    mirror.apply(node("a", "0.9", "1", 1), after_ms(0)).unwrap();
    mirror.apply(Snapshot { observed_at: after_ms(1), ..node("b", "0.3", "1", 1) }, after_ms(1)).unwrap();
    let at = |now| {
        let observation = mirror.observe(&query(&weekly_mean(), now)).unwrap();
        (observation.stats[0].stat.value.to_string(), observation.age_ms)
    };
    assert_eq!(at(after_ms(600_000)), ("0.6".to_owned(), 600_000), "exactly hard-stale is not over it");
    assert_eq!(at(after_ms(600_001)), ("0.3".to_owned(), 600_000));
    assert_eq!(at(after_ms(600_002)), ("0.6".to_owned(), 600_002), "all are stale: all count, and the age tells");
}

#[test]
fn health_reasons_and_quality_merge_to_the_worst() {
    let mut suspect = checked(body_with(&[
        ("/node", json!("b")),
        ("/health", json!("stalled")),
        ("/reasons", json!(["xid_79", "ecc"])),
    ]))
    .unwrap();
    suspect.windows = node("b", "0", "1", 1).windows;
    suspect.windows.get_mut(&Window::D7).unwrap().get_mut("gpu_util").unwrap().quality = StatQuality::SuspectZero;
    let well =
        Snapshot { reasons: vec!["throttled_thermal".to_owned(), "xid_79".to_owned()], ..node("a", "0.5", "1", 1) };
    let alone = observe([well.clone()], &weekly_mean());
    assert!(alone.healthy);
    assert_eq!(alone.stats[0].quality, StatQuality::Ok);
    let merged = observe([well, suspect], &weekly_mean());
    assert!(!merged.healthy);
    assert_eq!(merged.reasons, ["ecc", "throttled_thermal", "xid_79"]);
    assert_eq!(merged.stats[0].quality, StatQuality::SuspectZero);
}

#[test]
fn the_longest_job_tells_how_long_gpus_are_held() {
    let held = |name: &str, shares: &str, held_us| Snapshot {
        device_shares: decimal(shares),
        ..node(name, "0.5", "1", held_us)
    };
    assert_eq!(observe([held("a", "8", 8 * 900_000_000)], &weekly_mean()).job_held_s, Some(900));
    assert_eq!(observe([held("a", "8", 8 * 900_000_000 - 1)], &weekly_mean()).job_held_s, Some(899));
    let quarter = held("b", "0.25", 1_000_000_000);
    assert_eq!(observe([held("a", "8", 8_000_000), quarter.clone()], &weekly_mean()).job_held_s, Some(4_000));
    let unbound = Snapshot { job: None, ..held("c", "1", 1) };
    assert_eq!(observe([quarter, unbound], &weekly_mean()).job_held_s, None);
}

#[test]
fn mig_without_the_asked_metric_is_told_and_gives_no_statistic() {
    let device = json!([{"gpu_uuid":"GPU-1","instance":"1/0","share":"1","method":"mig"}]);
    let windows = json!({"7d":{"sm_active":{"mean":"0.4","coverage":"1"},"gpu_util":{}}});
    let mig = checked(body_with(&[("/devices", device), ("/windows", windows), ("/node", json!("m"))])).unwrap();
    let alone = observe([mig.clone()], &weekly_mean());
    assert!(alone.mig_without_metric && alone.stats.is_empty(), "absent, never 0");
    assert!(!observe([mig.clone()], &[key("sm_active", "mean", Window::D7)]).mig_without_metric);
    assert!(observe([node("a", "0.5", "1", 1), mig], &weekly_mean()).mig_without_metric);
    let judged = judge(Some(&alone), &UsageRules::default());
    assert_eq!(judged.findings.iter().map(|finding| finding.code()).collect::<Vec<_>>(), ["mig_no_utilisation"]);
}

#[test]
fn coverage_and_utilisation_keep_their_edges_through_a_merge() {
    let hour = 3_600_000_000;
    let admits = |coverage_a: &str, coverage_b: &str| {
        let merged = observe([node("a", "0.7", coverage_a, hour), node("b", "0.7", coverage_b, hour)], &weekly_mean());
        assert_eq!(merged.stats[0].stat.value, decimal("0.7"), "exactly 0.7, whatever the weights");
        judge(Some(&merged), &UsageRules::default()).admitted.is_some()
    };
    assert!(admits("0.7", "0.9"));
    assert!(!admits("0.7", "0.899999999999"));
    assert!(!admits("0.799999999999", "0.8"), "0.7999999999995 is not lifted to 0.8");
    for edge in ["0.299999999999", "0.3", "0.300000000001", "0.699999999999", "0.700000000001"] {
        assert_eq!(weekly([node("a", edge, "0.9", 3), node("b", edge, "0.81", 7)]).0, edge);
    }
}

prop_compose! {
    fn contribution()(units in 0_u64..=1_000_000_000_000, coverage in 0_u64..=1_000_000_000_000, held_us in 0_u64..=1_000_000_000_000_000_000) -> (Decimal, Decimal, u64) {
        let share = |units: u64| Decimal::from_i128_with_scale(i128::from(units), 12);
        (share(units), share(coverage), held_us)
    }
}

proptest! {
    #[test]
    fn a_merge_is_the_same_in_any_order_and_lies_within(
        (parts, shuffled) in prop::collection::vec(contribution(), 2..8).prop_flat_map(|parts| {
            let named: Vec<_> = parts.into_iter().enumerate().collect();
            (Just(named.clone()), Just(named).prop_shuffle())
        }),
    ) {
        let snapshots = |parts: &[(usize, (Decimal, Decimal, u64))]| {
            parts.iter().map(|(index, (value, coverage, held_us))| node(&format!("n{index}"), &value.to_string(), &coverage.to_string(), *held_us)).collect::<Vec<_>>()
        };
        let keys = ["mean", "min", "max"].map(|statistic| key("gpu_util", statistic, Window::D7));
        let merged = observe(snapshots(&parts), &keys);
        prop_assert_eq!(&merged, &observe(snapshots(&shuffled), &keys));
        let least = parts.iter().map(|(_, part)| part.0).min().unwrap();
        let most = parts.iter().map(|(_, part)| part.0).max().unwrap();
        for observed in &merged.stats {
            prop_assert!(observed.stat.value >= least && observed.stat.value <= most);
            prop_assert!(observed.stat.coverage >= Decimal::ZERO && observed.stat.coverage <= Decimal::ONE);
            prop_assert_eq!(observed.held_us, parts.iter().fold(0, |sum: u64, (_, part)| sum.saturating_add(part.2)));
        }
    }
}
