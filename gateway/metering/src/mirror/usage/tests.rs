//! A tenant's usage as a whole: its past, what to expect, where it comes from, and that it stays bounded.

use farebox_pricing::usage::Window;
use serde_json::json;

use super::super::{Applied, Mirror, MirrorLimits};
use super::{MOST_LISTED, Series, UsageSource};
use crate::samples::{after_ms, body_with, checked, counted, decimal};

const HOUR_MS: i64 = 3_600_000;

fn mirror() -> Mirror {
    Mirror::new(MirrorLimits::default())
}

#[test]
fn the_past_is_a_value_for_each_bucket_and_a_gap_is_one() {
    let mirror = mirror();
    // Two hours, one that is not observed, and now; the sample's first moment is a midnight.
    for (seq, at_ms, held_ms, observed) in [
        (1, 0, 3_600_000, vec![(80, 3_600_000)]),
        (2, HOUR_MS, 7_200_000, vec![(80, 3_600_000), (40, 1_800_000)]),
        (3, 3 * HOUR_MS, 14_400_000, vec![(80, 3_600_000), (40, 1_800_000), (10, 3_600_000)]),
    ] {
        assert_eq!(mirror.apply(counted(seq, at_ms, held_ms, &observed), after_ms(at_ms)), Ok(Applied::Stored));
    }
    let usage = mirror.usage("acme", after_ms(3 * HOUR_MS + 60_000)).unwrap().remove(0);
    let day = &usage.series[&Window::H24]["gpu_util"];
    let mut values = vec![None; 24];
    values[20] = Some(decimal("0.8"));
    values[21] = Some(decimal("0.4"));
    values[23] = Some(decimal("0.1"));
    assert_eq!(day, &Series { start: after_ms(-20 * HOUR_MS), step_s: 3_600, values });
    let ends = |window: Window| {
        let Series { start, step_s, values } = usage.series[&window]["gpu_util"].clone();
        (start, step_s, values.len(), values.last().copied().flatten().is_some())
    };
    assert_eq!(ends(Window::D7), (after_ms(-27 * 6 * HOUR_MS), 21_600, 28, true));
    assert_eq!(ends(Window::D30), (after_ms(-29 * 24 * HOUR_MS), 86_400, 30, true));
    assert_eq!(usage.series.len(), 3, "short windows have no past");
    assert_eq!(usage.series[&Window::H24].len(), 1, "nor have metrics that were never observed");
    assert_eq!(usage.effective, None, "a gap of one hour in four: not covered");
}

#[test]
fn it_says_what_to_expect_and_where_it_comes_from() {
    let mirror = mirror();
    let snapshot = counted(7, 0, 3_600_000, &[(80, 3_600_000)]);
    mirror.apply(snapshot, after_ms(400)).unwrap();
    let usage = mirror.usage("acme", after_ms(900)).unwrap().remove(0);
    let effective = usage.effective.clone().unwrap();
    assert_eq!((effective.expected, effective.basis.name().as_str()), (decimal("0.8"), "tenant_7d"));
    assert_eq!(usage.forecasts[0].forecast, effective);
    assert_eq!((usage.forecasts[0].job_kind.as_deref(), usage.forecasts[0].error), (None, None));
    let of_kind = &usage.forecasts[1];
    assert_eq!((of_kind.job_kind.as_deref(), of_kind.forecast.basis.name().as_str()), (Some("job"), "job_kind_7d"));
    assert_eq!(usage.job_kinds.keys().collect::<Vec<_>>(), ["job"]);
    assert_eq!(usage.job_kinds["job"].keys().copied().collect::<Vec<_>>(), [Window::H24, Window::D7, Window::D30]);
    assert_eq!(usage.job_kinds["job"][&Window::D7], usage.windows[&Window::D7], "all jobs are of this kind");
    let source = UsageSource {
        node: "gpu-07".to_owned(),
        job: Some("job-9".to_owned()),
        boot_epoch: "1".to_owned(),
        seq: 7,
        observed_at: after_ms(0),
        age_ms: 900,
        health: "ok".to_owned(),
    };
    assert_eq!((usage.sources, usage.source_count, usage.device_count), (vec![source], 1, 1));
}

#[test]
fn what_is_listed_is_bounded_and_what_is_summed_is_not() {
    let mirror = mirror();
    let count = MOST_LISTED + 1;
    for index in 0..count {
        let body =
            body_with(&[("/node", json!(format!("node-{index:05}"))), ("/job", json!(format!("kind{index:05}")))]);
        mirror.apply(checked(body).unwrap(), after_ms(0)).unwrap();
    }
    let usage = mirror.usage("acme", after_ms(0)).unwrap().remove(0);
    assert_eq!((usage.devices.len(), usage.sources.len()), (MOST_LISTED, MOST_LISTED));
    assert_eq!((usage.device_count, usage.source_count), (count, count));
    assert_eq!(usage.counters.held_us, 7_200_000_000 * count as u64);
    assert!(usage.forecasts.len() <= 33, "{}", usage.forecasts.len());
}
