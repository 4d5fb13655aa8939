//! Expectations: equal to prices, of the right basis, with their bands; and how far off they are said to have been.

use farebox_pricing::usage::{UsageRules, Window};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::super::{Applied, Mirror, MirrorLimits, UsageQuery};
use super::{Basis, BasisScope, Forecast, ForecastError, ForecastQuery};
use crate::samples::{after_ms, bins, body_with, checked, counted, decimal, node, query, weekly_mean};
use crate::snapshot::Snapshot;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

fn mirror() -> Mirror {
    Mirror::new(MirrorLimits::default())
}

fn apply(mirror: &Mirror, snapshot: Snapshot) {
    let at = snapshot.observed_at;
    assert_eq!(mirror.apply(snapshot, at), Ok(Applied::Stored));
}

fn asking(now: Timestamp) -> ForecastQuery<'static> {
    let UsageRules { min_coverage, thin_held_us, hard_stale_ms, .. } = UsageRules::default();
    let (tenant, gpu_model, job_kind) = ("acme", Some("A100"), None);
    ForecastQuery { tenant, gpu_model, job_kind, min_coverage, thin_held_us, hard_stale_ms, now }
}

fn tenant(window: Window) -> Basis {
    Basis { scope: BasisScope::Tenant, window }
}

/// One GPU, held from one hour before `began_ms` on, of which an hour at a time is reported at some per cent.
struct Gpu {
    began_ms: i64,
    seq: u64,
    held_ms: u64,
    observed: [u32; 101],
    node: &'static str,
    gpu_model: &'static str,
}

impl Gpu {
    fn new(node: &'static str, gpu_model: &'static str) -> Self {
        Self { began_ms: 0, seq: 0, held_ms: 0, observed: [0; 101], node, gpu_model }
    }

    /// So many hours that end at `at_ms`, half each at the two per cents.
    fn report(&mut self, mirror: &Mirror, at_ms: i64, hours: u64, percents: [usize; 2]) {
        for _ in 0..hours {
            self.seq += 1;
            self.held_ms += HOUR_MS as u64;
            percents.into_iter().for_each(|percent| self.observed[percent] += HOUR_MS as u32 / 2);
            let observed: Vec<_> = self.observed.iter().copied().enumerate().filter(|(_, ms)| *ms > 0).collect();
            let at_ms = at_ms + self.began_ms;
            let snapshot = counted(self.seq, at_ms, self.held_ms, &observed);
            let (node, gpu_model) = (self.node.to_owned(), self.gpu_model.to_owned());
            apply(mirror, Snapshot { node, gpu_model, ..snapshot });
        }
    }
}

#[test]
fn nothing_is_expected_of_whom_nothing_is_known() {
    let mirror = mirror();
    assert_eq!(mirror.forecast(&asking(after_ms(0))), None);
    Gpu::new("a", "A100").report(&mirror, 0, 1, [80, 80]);
    assert_eq!(mirror.forecast(&ForecastQuery { tenant: "globex", ..asking(after_ms(0)) }), None);
    assert_eq!(mirror.forecast(&ForecastQuery { thin_held_us: 3_600_000_001, ..asking(after_ms(0)) }), None, "thin");
}

#[test]
fn what_is_expected_is_what_a_price_reads() {
    let mirror = mirror();
    // One brings the week itself, the others are rolled up; the last is too old for a price beside them.
    apply(&mirror, node("brings", "0.82", "0.99", 4_838_400_000_000));
    let brought = Forecast { expected: decimal("0.82"), band: None, metric: "gpu_util", basis: tenant(Window::D7) };
    assert_eq!(mirror.forecast(&asking(after_ms(0))), Some(brought));
    Gpu::new("counts", "A100").report(&mirror, 60_000, 1, [20, 40]);
    for now in [after_ms(60_000), after_ms(700_000), after_ms(1_700_000)] {
        let keys = weekly_mean();
        let observed = mirror.observe(&query(&keys, now)).unwrap().stats[0].stat.value;
        let forecast = mirror.forecast(&asking(now)).unwrap();
        assert_eq!((forecast.expected, forecast.band), (observed, None), "{now}");
    }
    let keys = weekly_mean();
    let lax = UsageQuery { hard_stale_ms: 60_000, ..query(&keys, after_ms(100_000)) };
    let observed = mirror.observe(&lax).unwrap().stats[0].stat.value;
    let asked = ForecastQuery { hard_stale_ms: 60_000, ..asking(after_ms(100_000)) };
    assert_eq!(mirror.forecast(&asked).unwrap().expected, observed, "{observed}");
}

#[test]
fn the_band_is_of_the_observed_time() {
    let mirror = mirror();
    let mut gpu = Gpu::new("a", "A100");
    gpu.report(&mirror, 0, 1, [70, 78]);
    gpu.report(&mirror, 1, 1, [86, 90]);
    let forecast = mirror.forecast(&asking(after_ms(1))).unwrap();
    assert_eq!(forecast.expected, decimal("0.81"));
    assert_eq!(forecast.band, Some((decimal("0.7"), decimal("0.86"))));
    assert_eq!((forecast.metric, forecast.basis.name()), ("gpu_util", "tenant_7d".to_owned()));
}

#[test]
fn who_is_away_is_still_expected_and_older_time_is_asked_where_the_week_is_thin() {
    let mirror = mirror();
    Gpu::new("a", "A100").report(&mirror, 0, 2, [60, 60]);
    let at = |ms| mirror.forecast(&asking(after_ms(ms))).map(|forecast| forecast.basis.name());
    assert_eq!(at(12 * HOUR_MS).as_deref(), Some("tenant_7d"), "away over night");
    mirror.sweep(after_ms(12 * HOUR_MS));
    assert_eq!(at(12 * HOUR_MS).as_deref(), Some("tenant_7d"));
    assert_eq!(at(10 * DAY_MS).as_deref(), Some("tenant_30d"));
    assert_eq!(at(31 * DAY_MS), None);
}

#[test]
fn the_scope_is_the_model_where_any_of_it_is_held() {
    let mirror = mirror();
    Gpu::new("a", "A100").report(&mirror, 0, 1, [20, 20]);
    Gpu::new("b", "V100").report(&mirror, 0, 3, [60, 60]);
    let of = |gpu_model, at_ms| {
        let asked = ForecastQuery { gpu_model, ..asking(after_ms(at_ms)) };
        mirror.forecast(&asked).map(|forecast| forecast.expected.to_string())
    };
    let all = Some("0.5".to_owned());
    for at_ms in [0, 12 * HOUR_MS] {
        assert_eq!(of(Some("A100"), at_ms).as_deref(), Some("0.2"));
        assert_eq!(of(Some("V100"), at_ms).as_deref(), Some("0.6"));
        assert_eq!((of(Some("H100"), at_ms), of(None, at_ms)), (all.clone(), all.clone()));
    }
    // Only the V100 is held now: as a price does, the A100 goes by all of the tenant's.
    Gpu { seq: 9, ..Gpu::new("c", "V100") }.report(&mirror, 12 * HOUR_MS, 1, [60, 60]);
    assert_ne!(of(Some("A100"), 12 * HOUR_MS).as_deref(), Some("0.2"));
}

#[test]
fn a_job_kind_is_asked_before_all_of_the_tenants() {
    let mirror = mirror();
    // `job-9` is of the kind `job`.
    Gpu::new("a", "A100").report(&mirror, 0, 1, [20, 20]);
    let other = |seq, at_ms: i64, held_ms, observed: &[(usize, u32)]| {
        let snapshot = counted(seq, at_ms, held_ms, observed);
        apply(&mirror, Snapshot { node: "b".to_owned(), job: Some("eval-1".to_owned()), ..snapshot });
    };
    other(1, 0, 1_800_000, &[(60, 1_800_000)]);
    let of = |job_kind, at_ms| {
        let forecast = mirror.forecast(&ForecastQuery { job_kind, ..asking(after_ms(at_ms)) }).unwrap();
        (forecast.expected.to_string(), forecast.basis.name())
    };
    let expected = |share: &str, basis: &str| (share.to_owned(), basis.to_owned());
    assert_eq!(of(Some("job"), 0), expected("0.2", "job_kind_7d"));
    assert_eq!(of(Some("eval"), 0), expected("0.333333333333", "tenant_7d"), "half an hour is too little");
    assert_eq!(of(Some("train"), 0), expected("0.333333333333", "tenant_7d"));
    other(2, 1_800_000, 3_600_000, &[(60, 3_600_000)]);
    assert_eq!(of(Some("eval"), 1_800_000), expected("0.6", "job_kind_7d"));
    assert_eq!(of(None, 1_800_000), expected("0.4", "tenant_7d"));
    assert_eq!(of(Some("eval"), 10 * DAY_MS), expected("0.6", "job_kind_30d"), "away for over a week");
    assert_eq!(mirror.forecast_error("acme", None, Some("train"), after_ms(DAY_MS)), None);
    let mut gpu = Gpu { began_ms: DAY_MS, ..Gpu::new("a", "A100") };
    gpu.seq = 1;
    gpu.held_ms = 3_600_000;
    gpu.observed[20] = 3_600_000;
    gpu.report(&mirror, 0, 1, [30, 30]);
    let of_kind = mirror.forecast_error("acme", None, Some("job"), after_ms(2 * DAY_MS)).unwrap();
    assert_eq!((of_kind.days, of_kind.mean_absolute.to_string().as_str()), (1, "0.1"));
    let of_all = mirror.forecast_error("acme", None, None, after_ms(2 * DAY_MS)).unwrap();
    assert_eq!(of_all.mean_absolute, decimal("0.1"), "0.4 was expected of both, and the one came to 0.3");
}

#[test]
fn a_zero_that_power_contradicts_is_no_expectation() {
    let mirror = mirror();
    let zero = json!({"7d":{"gpu_util":{"mean":"0","coverage":"1","quality":"suspect_zero"}}});
    let held = json!({"held_us":"7200000000"});
    apply(&mirror, checked(body_with(&[("/windows", zero), ("/counters", held)])).unwrap());
    assert_eq!(mirror.forecast(&asking(after_ms(0))), None);
}

#[test]
fn where_gpm_measures_the_limiting_metric_is_told() {
    let mirror = mirror();
    let windows = json!({"7d":{
        "gpu_util":{"mean":"0.99","coverage":"1"},"sm_util":{"mean":"0.5","coverage":"1"},
        "dram_active":{"mean":"0.6","coverage":"1"},"tensor_active":{"mean":"0.1","coverage":"1"}}});
    apply(&mirror, checked(body_with(&[("/windows", windows)])).unwrap());
    let forecast = mirror.forecast(&asking(after_ms(0))).unwrap();
    assert_eq!((forecast.expected, forecast.metric, forecast.band), (decimal("0.75"), "dram_active", None));
}

/// Days are UTC; the sample's first moment is a midnight.
fn error(mirror: &Mirror, now_ms: i64) -> Option<ForecastError> {
    mirror.forecast_error("acme", Some("A100"), None, after_ms(now_ms))
}

#[test]
fn past_days_are_held_against_the_days_before_them() {
    let mirror = mirror();
    let mut gpu = Gpu::new("a", "A100");
    let noon = |day: i64| day * DAY_MS + DAY_MS / 2;
    gpu.report(&mirror, noon(0), 1, [70, 90]);
    assert_eq!(error(&mirror, noon(0)), None, "today is not over");
    assert_eq!(error(&mirror, noon(1)), None, "nothing is before the first");
    // Day 1 is 0.6, 0.8 was expected, and 0.7 to 0.9 would have been in the band.
    gpu.report(&mirror, noon(1), 1, [60, 60]);
    let one = ForecastError { days: 1, mean_absolute: decimal("0.2"), bias: decimal("0.2"), in_band: decimal("0") };
    assert_eq!(error(&mirror, noon(2)), Some(one));
    // Day 2 is 0.8; 0.7 was expected of the two before, with 0.6 to 0.7 of the time: their quartiles.
    gpu.report(&mirror, noon(2), 1, [80, 80]);
    let found = error(&mirror, noon(3)).unwrap();
    assert_eq!((found.days, found.mean_absolute, found.bias), (2, decimal("0.15"), decimal("0.05")));
    assert_eq!(found.in_band, decimal("0"));
    // Day 3 is 0.7, and was expected to be; the day of now counts for nothing yet.
    gpu.report(&mirror, noon(3), 1, [70, 70]);
    gpu.report(&mirror, noon(4), 1, [0, 0]);
    let found = error(&mirror, noon(4)).unwrap();
    assert_eq!(
        (found.days, found.mean_absolute, found.in_band),
        (3, decimal("0.111111111111"), decimal("0.333333333333"))
    );
    assert_eq!(mirror.forecast_error_of_all(after_ms(noon(4))), Some(decimal("0.111111111111")), "hours alike");
    assert_eq!(mirror.forecast_error("acme", None, None, after_ms(noon(4))), Some(found));
    assert_eq!(mirror.forecast_error("globex", None, None, after_ms(noon(4))), None);
}

#[test]
fn a_day_is_told_by_the_seven_before_it_and_only_where_enough_was_held() {
    let mirror = mirror();
    let mut gpu = Gpu::new("a", "A100");
    gpu.report(&mirror, 0, 1, [50, 50]);
    gpu.report(&mirror, 8 * DAY_MS, 1, [50, 50]);
    assert_eq!(error(&mirror, 9 * DAY_MS), None, "day 0 is the eighth before");
    let mut gpu = Gpu::new("b", "A100");
    gpu.report(&mirror, 15 * DAY_MS, 1, [60, 60]);
    assert_eq!(error(&mirror, 16 * DAY_MS).unwrap().days, 1, "day 8 is the seventh before");
    // Half an hour is no day.
    let snapshot = counted(2, 16 * DAY_MS, 5_400_000, &[(60, 3_600_000), (0, 1_800_000)]);
    apply(&mirror, Snapshot { node: "b".to_owned(), ..snapshot });
    assert_eq!(error(&mirror, 17 * DAY_MS).unwrap().days, 1);
    assert_eq!(error(&mirror, 60 * DAY_MS), None, "and all of it is forgotten");
    assert_eq!(mirror.forecast_error_of_all(after_ms(60 * DAY_MS)), None);
}

/// The same histograms under another metric, as an H100 brings them.
#[test]
fn days_are_compared_by_one_source() {
    let mirror = mirror();
    let day = |seq: u64, day: i64, hours: u64, metrics: &[(&str, Vec<(usize, u32)>)]| {
        let histograms: serde_json::Map<_, _> =
            metrics.iter().map(|(metric, observed)| ((*metric).to_owned(), json!({"bins": bins(observed)}))).collect();
        let at = (after_ms(0) + SignedDuration::from_millis(day * DAY_MS)).to_string();
        let held = json!({"held_us": hours * 3_600_000_000});
        let changes = [
            ("/seq", json!(seq)),
            ("/observed_at", json!(at)),
            ("/windows", json!({})),
            ("/counters", held),
            ("/histograms", histograms.into()),
        ];
        apply(&mirror, checked(body_with(&changes)).unwrap());
    };
    let hour = HOUR_MS as u32;
    day(1, 0, 1, &[("gpu_util", vec![(90, hour)]), ("sm_util", vec![(40, hour)])]);
    // GPM is away on the second day: the driver's own is compared with the driver's own.
    day(2, 1, 2, &[("gpu_util", vec![(90, 2 * hour)])]);
    assert_eq!(error(&mirror, 2 * DAY_MS).unwrap().mean_absolute, decimal("0"));
    assert_eq!(mirror.forecast(&asking(after_ms(2 * DAY_MS))).unwrap().metric, "gpu_util", "GPM saw half of it");
}
