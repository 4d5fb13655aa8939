//! When an observation may move a price: every threshold just under, at and over it, alone and together (SPEC §6).

use proptest::prelude::*;

use crate::policy::Stat;
use crate::usage::{JudgedUsage, Observation, ObservedStat, StatQuality, UsageFinding, UsageRules, UsageScope, judge};

use super::stage::dec;

const HOUR_US: u64 = 3_600_000_000;

fn stat(metric: &str, coverage: &str, held_us: u64) -> ObservedStat {
    let stat = Stat {
        metric: metric.to_owned(),
        statistic: "mean".to_owned(),
        window_s: 604_800,
        value: dec("0.5"),
        coverage: dec(coverage),
    };
    ObservedStat { stat, held_us, quality: StatQuality::Ok }
}

fn healthy() -> Observation {
    Observation {
        scope: UsageScope::GpuModel,
        observed_at_ms: 0,
        age_ms: 0,
        healthy: true,
        reasons: Vec::new(),
        job_held_s: Some(86_400),
        mig_without_metric: false,
        stats: vec![stat("gpu_util", "1", 100 * HOUR_US)],
    }
}

fn judged(change: impl FnOnce(&mut Observation)) -> JudgedUsage {
    let mut observation = healthy();
    change(&mut observation);
    judge(Some(&observation), &UsageRules::default())
}

#[derive(Debug, PartialEq)]
enum Effect {
    Both,
    DiscountOnly,
    Neither,
}

/// What may happen to the price, and the codes that the quote shows.
fn effect(judged: &JudgedUsage) -> (Effect, Vec<&'static str>) {
    let codes = judged.findings.iter().map(|finding| finding.code()).collect();
    let effect = match &judged.admitted {
        None => Effect::Neither,
        Some(_) if judged.findings_on(|_| true).any(UsageFinding::bars_surcharge) => Effect::DiscountOnly,
        Some(_) => Effect::Both,
    };
    (effect, codes)
}

#[test]
fn what_is_missing_moves_nothing() {
    assert_eq!(effect(&judge(None, &UsageRules::default())), (Effect::Neither, vec!["no_snapshot"]));
    assert_eq!(effect(&judged(|it| it.stats.clear())), (Effect::Neither, vec!["no_snapshot"]));
    let mig = judged(|it| {
        it.stats.clear();
        it.mig_without_metric = true;
    });
    assert_eq!(effect(&mig), (Effect::Neither, vec!["mig_no_utilisation"]));
    assert_eq!(effect(&judged(|_| ())), (Effect::Both, vec![]));
}

#[test]
fn age_30_seconds_and_10_minutes() {
    for (age_ms, expected) in [
        (0, (Effect::Both, vec![])),
        (29_999, (Effect::Both, vec![])),
        (30_000, (Effect::Both, vec![])),
        (30_001, (Effect::DiscountOnly, vec!["stale"])),
        (599_999, (Effect::DiscountOnly, vec!["stale"])),
        (600_000, (Effect::DiscountOnly, vec!["stale"])),
        (600_001, (Effect::Neither, vec!["stale"])),
        (u64::MAX, (Effect::Neither, vec!["stale"])),
    ] {
        assert_eq!(effect(&judged(|it| it.age_ms = age_ms)), expected, "{age_ms} ms");
    }
}

#[test]
fn one_held_gpu_hour_and_four_fifths_of_coverage() {
    for (held_us, expected) in [
        (0, (Effect::Neither, vec!["thin"])),
        (HOUR_US - 1, (Effect::Neither, vec!["thin"])),
        (HOUR_US, (Effect::Both, vec![])),
        (HOUR_US + 1, (Effect::Both, vec![])),
    ] {
        assert_eq!(effect(&judged(|it| it.stats = vec![stat("gpu_util", "1", held_us)])), expected, "{held_us} µs");
    }
    for (coverage, expected) in [
        ("0", (Effect::Neither, vec!["low_coverage"])),
        ("0.7999999999999999999999999999", (Effect::Neither, vec!["low_coverage"])),
        ("0.8", (Effect::Both, vec![])),
        ("0.80", (Effect::Both, vec![])),
        ("0.8000000000000000000000000001", (Effect::Both, vec![])),
        ("1", (Effect::Both, vec![])),
    ] {
        assert_eq!(effect(&judged(|it| it.stats = vec![stat("gpu_util", coverage, HOUR_US)])), expected, "{coverage}");
    }
    // Thin and badly covered: one reason is enough, and it is the first.
    let both = judged(|it| it.stats = vec![stat("gpu_util", "0.1", HOUR_US - 1)]);
    assert_eq!(effect(&both), (Effect::Neither, vec!["thin"]));
}

#[test]
fn a_bad_statistic_does_not_take_a_good_one_with_it() {
    let mixed = judged(|it| {
        it.stats = vec![
            stat("thin", "1", 0),
            stat("holes", "0.5", HOUR_US),
            stat("good", "1", HOUR_US),
            stat("thin2", "1", 0),
        ];
    });
    assert_eq!(effect(&mixed), (Effect::Both, vec!["thin", "low_coverage"]));
    let admitted = mixed.admitted.unwrap();
    assert_eq!(admitted.stats.iter().map(|stat| stat.metric.as_str()).collect::<Vec<_>>(), ["good"]);
    // A suspect zero that is not used anyway bars nothing.
    let unused = judged(|it| {
        it.stats.push(ObservedStat { quality: StatQuality::SuspectZero, ..stat("suspect", "0.1", HOUR_US) });
    });
    assert_eq!(effect(&unused), (Effect::Both, vec!["low_coverage"]));
}

#[test]
fn a_finding_of_one_statistic_concerns_only_who_reads_it() {
    let mixed = judged(|it| {
        it.job_held_s = Some(1);
        it.stats.push(stat("thin", "1", 0));
        it.stats.push(ObservedStat { quality: StatQuality::SuspectZero, ..stat("suspect", "1", HOUR_US) });
    });
    let on = |metrics: &[&str]| -> Vec<&str> {
        let named = |stat: &Stat| metrics.contains(&stat.metric.as_str());
        mixed.findings_on(named).map(UsageFinding::code).collect()
    };
    assert_eq!(on(&["gpu_util"]), ["grace_period"]);
    assert_eq!(on(&["gpu_util", "thin"]), ["thin", "grace_period"]);
    assert_eq!(on(&["suspect"]), ["suspect_zero", "grace_period"]);
    assert_eq!(on(&["gpu_util", "thin", "suspect"]), ["thin", "suspect_zero", "grace_period"]);
}

#[test]
fn devices_in_trouble_allow_a_discount_only() {
    assert_eq!(effect(&judged(|it| it.healthy = false)), (Effect::DiscountOnly, vec!["device_unhealthy"]));
    for (reason, blames_provider) in [
        ("throttled_thermal", true),
        ("throttled_power_brake", true),
        ("xid_79", true),
        ("xid_48", true),
        ("xid_12", true),
        ("xid_14", true),
        ("xid_130", true),
        ("xid_13", false),
        ("xid_31", false),
        ("xid_43", false),
        ("xid_45", false),
        ("xid_68", false),
        ("xid_109", false),
        ("hw_slowdown", true),
        ("xid79", true),
        ("word_of_tomorrow", true),
    ] {
        let expected =
            if blames_provider { (Effect::DiscountOnly, vec!["device_unhealthy"]) } else { (Effect::Both, vec![]) };
        assert_eq!(effect(&judged(|it| it.reasons = vec![reason.to_owned()])), expected, "{reason}");
    }
    let mixed = judged(|it| it.reasons = vec!["xid_13".to_owned(), "xid_79".to_owned()]);
    assert_eq!(effect(&mixed), (Effect::DiscountOnly, vec!["device_unhealthy"]));
    let suspect = judged(|it| it.stats[0].quality = StatQuality::SuspectZero);
    assert_eq!(effect(&suspect), (Effect::DiscountOnly, vec!["suspect_zero"]));
}

#[test]
fn the_first_quarter_of_an_hour_of_a_job() {
    for (held_s, expected) in [
        (Some(0), (Effect::DiscountOnly, vec!["grace_period"])),
        (Some(899), (Effect::DiscountOnly, vec!["grace_period"])),
        (Some(900), (Effect::Both, vec![])),
        (Some(901), (Effect::Both, vec![])),
        (None, (Effect::Both, vec![])),
    ] {
        assert_eq!(effect(&judged(|it| it.job_held_s = held_s)), expected, "{held_s:?}");
    }
}

#[test]
fn every_reason_is_told_and_no_code_twice() {
    let all = judged(|it| {
        it.age_ms = 30_001;
        it.healthy = false;
        it.reasons = vec!["throttled_thermal".to_owned()];
        it.job_held_s = Some(1);
        it.stats[0].quality = StatQuality::SuspectZero;
        it.stats.push(stat("thin", "1", 0));
        it.stats.push(stat("holes", "0", HOUR_US));
    });
    let codes = ["thin", "low_coverage", "stale", "device_unhealthy", "suspect_zero", "grace_period"];
    assert_eq!(effect(&all), (Effect::DiscountOnly, codes.to_vec()));
    let bars_all = |finding: &UsageFinding| finding.text().contains("does not move the price");
    let bars_surcharge = |finding: &UsageFinding| finding.text().contains("a surcharge does not");
    assert_eq!(all.findings.iter().filter(|finding| bars_all(finding)).count(), 2);
    assert_eq!(all.findings.iter().filter(|finding| bars_surcharge(finding)).count(), 4);
    assert_eq!(UsageFinding::HardStale.code(), UsageFinding::SoftStale.code());
}

#[test]
fn thresholds_are_the_plans() {
    let rules =
        UsageRules { soft_stale_ms: 10, hard_stale_ms: 20, min_coverage: dec("0.5"), thin_held_us: 5, grace_s: 3 };
    let mut observation = healthy();
    observation.stats = vec![stat("gpu_util", "0.5", 5)];
    observation.job_held_s = Some(3);
    observation.age_ms = 10;
    assert_eq!(effect(&judge(Some(&observation), &rules)), (Effect::Both, vec![]));
    assert_eq!(effect(&judge(Some(&observation), &UsageRules::default())).0, Effect::Neither);
    observation.age_ms = 21;
    assert_eq!(effect(&judge(Some(&observation), &rules)).0, Effect::Neither);
}

proptest! {
    /// A worse observation never allows more: what bars a price move alone bars it in company.
    #[test]
    fn reasons_only_ever_take_away(
        age_ms in 0u64..700_000, healthy_devices in any::<bool>(), held_us in 0..2 * HOUR_US,
        coverage in 0i64..=100, job_held_s in prop::option::of(0u64..2000), suspect in any::<bool>(),
    ) {
        let judged = judged(|it| {
            it.age_ms = age_ms;
            it.healthy = healthy_devices;
            it.job_held_s = job_held_s;
            it.stats[0].held_us = held_us;
            it.stats[0].stat.coverage = rust_decimal::Decimal::new(coverage, 2);
            it.stats[0].quality = if suspect { StatQuality::SuspectZero } else { StatQuality::Ok };
        });
        let neither = age_ms > 600_000 || held_us < HOUR_US || coverage < 80;
        let discount_only = age_ms > 30_000 || !healthy_devices || suspect || job_held_s.is_some_and(|held_s| held_s < 900);
        let expected = match (neither, discount_only) {
            (true, _) => Effect::Neither,
            (false, true) => Effect::DiscountOnly,
            (false, false) => Effect::Both,
        };
        prop_assert_eq!(judged.findings.is_empty(), expected == Effect::Both);
        prop_assert_eq!(effect(&judged).0, expected);
    }
}
