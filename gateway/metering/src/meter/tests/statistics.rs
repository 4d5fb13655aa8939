//! Windows: what they hold, what they weigh by, and what they say of their quality.

use super::*;

#[test]
fn a_steady_tenant_has_its_statistics_in_all_windows() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.run(
        1_200,
        &[gpu("GPU-1", &[(Metric::GpuUtil, 824_000), (Metric::PowerW, 300_500), (Metric::MemUsedBytes, 40 << 30)])],
    );
    let snapshot = rig.of("acme").unwrap();
    for (window, seconds) in [(Window::S10, 10), (Window::M1, 60), (Window::M5, 300), (Window::M15, 900)] {
        let found = util(&snapshot, window);
        assert_eq!(text(found.mean), "0.824", "means are exact");
        let at_resolution = [found.p50, found.p95, found.min, found.max].map(text);
        assert_eq!(at_resolution, ["0.82"; 4]);
        assert_eq!((text(found.coverage), found.held_us), ("1".to_owned(), Some(seconds * S)));
        assert_eq!(text(snapshot.metric(window, "power_w").unwrap().mean), "300.5");
        assert_eq!(text(snapshot.metric(window, "mem_used_bytes").unwrap().max), (40_u64 << 30).to_string());
    }
    assert_eq!(snapshot.windows.len(), 4);
    assert_eq!(snapshot.metric(Window::M15, "sm_util"), None, "what is not reported is absent");
    assert_eq!((snapshot.healthy, snapshot.mig), (true, false));
    assert_eq!(rig.wire_of("acme").devices[0].method, "exclusive");
    assert_eq!(snapshot.counters.held_us, 1_200 * S);
    assert_eq!(snapshot.counters.busy_us, Some(1_200 * 824_000));
    assert_eq!(snapshot.counters.energy_mj, None, "there is no energy counter");
}

#[test]
fn readings_weigh_by_the_time_they_cover() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.run(1, &[at("GPU-1", 0)]);
    // 0.9 s of idling and 0.1 s of work: two rows of one buffer, whose plain average would be a half.
    let mut device = gpu("GPU-1", &[]);
    let rows = vec![Reading { ago_us: 100_000, value: 0 }, Reading { ago_us: 0, value: 1_000_000 }];
    device.readings.0.insert(Metric::GpuUtil, rows);
    rig.run(1, &[device]);
    let snapshot = rig.of("acme").unwrap();
    let found = util(&snapshot, Window::S10);
    assert_eq!(text(found.mean), "0.05", "0.1 of 2 s");
    assert_eq!([found.p50, found.p95, found.max].map(text), ["0", "0", "1"], "work is 5 % of the time");
    assert_eq!(snapshot.counters.busy_us, Some(100_000));
}

#[test]
fn a_gap_is_never_interpolated() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.run(20, &[at("GPU-1", 100)]);
    rig.run(20, &[gpu("GPU-1", &[])]);
    rig.run(20, &[at("GPU-1", 100)]);
    let snapshot = rig.of("acme").unwrap();
    let found = util(&snapshot, Window::M1);
    // The first reading after the gap covers two ticks, so that of the 20 s in between 19 are not observed.
    assert_eq!(text(found.coverage), "0.683333", "41 of 60");
    assert_eq!(text(found.mean), "1");
    let totals = rig.totals("acme");
    assert_eq!((totals.metered, totals.unmetered), (gpu_time(41 * S, 1_000_000), gpu_time(19 * S, 1_000_000)));
    assert_eq!(totals.busy_us, Some(41 * S));
}

#[test]
fn a_window_is_its_length_to_the_microsecond() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    // Passes that come 1.3 s apart fall on no window's edge.
    for pass in 0..40 {
        rig.wait(300_000);
        rig.run(1, &[at("GPU-1", if pass < 20 { 0 } else { 100 })]);
    }
    let snapshot = rig.of("acme").unwrap();
    assert_eq!(util(&snapshot, Window::S10).held_us, Some(10 * S));
    assert_eq!(text(util(&snapshot, Window::S10).mean), "1");
    let minute = util(&snapshot, Window::M1);
    assert_eq!((minute.held_us, text(minute.coverage)), (Some(52 * S), "1".to_owned()), "all that it was held");
    assert_eq!(text(minute.mean), "0.5");
    assert_eq!([minute.p50, minute.p95].map(text), ["0", "1"]);
}

#[test]
fn percentiles_come_from_all_devices_together() {
    let mut rig = Rig::new();
    let parts: Vec<(&str, Option<u32>, u32)> =
        ["GPU-1", "GPU-2", "GPU-3"].iter().map(|uuid| (*uuid, None, 1_000_000)).collect();
    rig.start(job("acme", &parts, &[]));
    rig.run(60, &[at("GPU-1", 0), at("GPU-2", 0), at("GPU-3", 90)]);
    let snapshot = rig.of("acme").unwrap();
    let found = util(&snapshot, Window::M1);
    assert_eq!(
        [found.mean, found.p50, found.p95].map(text),
        ["0.3", "0", "0.9"],
        "the average of medians would be 0.3"
    );
    assert_eq!(found.held_us, Some(180 * S), "GPU-time");
}

#[test]
fn coverage_at_and_just_under_the_threshold_are_told_apart() {
    for (ago_us, coverage) in [(0, "0.8"), (1, "0.799999")] {
        let mut rig = Rig::new();
        rig.start(whole("acme", "GPU-1"));
        rig.run(5, &[at("GPU-1", 50)]);
        let mut last_before = gpu("GPU-1", &[]);
        last_before.readings.0.insert(Metric::GpuUtil, vec![Reading { ago_us, value: 500_000 }]);
        rig.run(1, &[last_before]);
        rig.run(3, &[gpu("GPU-1", &[])]);
        rig.run(6, &[at("GPU-1", 50)]);
        // Of the last 10 s, the second to the fourth are not covered, and in the other case a microsecond more.
        assert_eq!(text(util(&rig.of("acme").unwrap(), Window::S10).coverage), coverage);
    }
}

#[test]
fn utilisation_at_and_just_under_a_tier_are_told_apart() {
    for (value, mean) in [(299_999, "0.299999"), (300_000, "0.3"), (700_000, "0.7"), (700_001, "0.700001")] {
        let mut rig = Rig::new();
        rig.start(whole("acme", "GPU-1"));
        rig.run(90, &[gpu("GPU-1", &[(Metric::GpuUtil, value)])]);
        assert_eq!(text(util(&rig.of("acme").unwrap(), Window::M1).mean), mean);
    }
}

#[test]
fn always_zero_under_load_is_suspect() {
    let quality = |util: u64, power_mw: u64, clock_mhz: u64| {
        let mut rig = Rig::new();
        rig.start(whole("acme", "GPU-1"));
        let readings = [(Metric::GpuUtil, util), (Metric::PowerW, power_mw), (Metric::SmClockMhz, clock_mhz)];
        rig.run(120, &[gpu("GPU-1", &readings)]);
        util_quality(&rig.of("acme").unwrap())
    };
    assert_eq!(quality(0, 120_000, 846), "suspect_zero", "30 % of 400 W and 60 % of 1,410 MHz");
    assert_eq!(quality(0, 119_999, 1_410), "ok");
    assert_eq!(quality(0, 400_000, 845), "ok");
    assert_eq!(quality(0, 45_000, 345), "ok", "idle");
    assert_eq!(quality(1, 400_000, 1_410), "ok");
}

fn util_quality(snapshot: &Snapshot) -> &'static str {
    let quality = util(snapshot, Window::M1).quality;
    assert_eq!(quality, util(snapshot, Window::S10).quality);
    if quality == farebox_pricing::usage::StatQuality::SuspectZero { "suspect_zero" } else { "ok" }
}

#[test]
fn without_limits_nothing_is_suspect_and_half_the_time_is_enough() {
    let load = [(Metric::GpuUtil, 0), (Metric::PowerW, 400_000), (Metric::SmClockMhz, 1_410)];
    let idle = [(Metric::GpuUtil, 0), (Metric::PowerW, 60_000), (Metric::SmClockMhz, 300)];
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    let mut device = gpu("GPU-1", &load);
    device.info.power_limit_mw = None;
    rig.run(120, &[device]);
    assert_eq!(util_quality(&rig.of("acme").unwrap()), "ok");
    rig.run(30, &[gpu("GPU-1", &idle)]);
    rig.run(30, &[gpu("GPU-1", &load)]);
    assert_eq!(format!("{:?}", util(&rig.of("acme").unwrap(), Window::M1).quality), "SuspectZero");
    rig.run(30, &[gpu("GPU-1", &idle)]);
    assert_eq!(format!("{:?}", util(&rig.of("acme").unwrap(), Window::M1).quality), "SuspectZero", "30 of 60 s");
    rig.run(1, &[gpu("GPU-1", &idle)]);
    assert_eq!(format!("{:?}", util(&rig.of("acme").unwrap(), Window::M1).quality), "Ok", "29 of 60 s");
}

#[test]
fn one_blind_device_of_several_is_suspect() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", None, 1_000_000), ("GPU-2", None, 1_000_000)], &[]));
    let load = |util| [(Metric::GpuUtil, util), (Metric::PowerW, 390_000), (Metric::SmClockMhz, 1_400)];
    rig.run(60, &[gpu("GPU-1", &load(0)), gpu("GPU-2", &load(900_000))]);
    assert_eq!(util_quality(&rig.of("acme").unwrap()), "suspect_zero");
}

#[test]
fn histograms_count_gpu_time_at_each_per_cent() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", None, 1_000_000), ("GPU-2", None, 250_000)], &["/a"]));
    let mut second = with(at("GPU-2", 20), &[process(1, "/a", Some(20))]);
    second.readings.push(Metric::SmUtil, 5_000);
    rig.run(100, &[at("GPU-1", 50), second]);
    rig.snapshots();
    let bins = rig.histogram("acme", "gpu_util");
    assert_eq!((bins.len(), bins[50], bins[80]), (101, 100_000, 24_750), "a quarter of a GPU counts a quarter");
    assert_eq!(bins.iter().sum::<u32>(), 124_750);
    assert!(!rig.wire_of("acme").histograms.as_ref().unwrap().contains_key("sm_util"), "of the device, not its own");
}

#[test]
fn what_gpm_measures_has_histograms_of_devices_and_of_instances() {
    let gpm = [(Metric::SmUtil, 500_000), (Metric::TensorActive, 250_000), (Metric::DramActive, 400_000)];
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.start(job("blue", &[("GPU-2", Some(1), 1_000_000)], &[]));
    rig.run(
        10,
        &[
            gpu("GPU-1", &[&gpm[..], &[(Metric::SmOccupancy, 300_000)]].concat()),
            partitioned("GPU-2", &[], vec![slice(1, 42, &gpm)]),
        ],
    );
    rig.snapshots();
    for tenant in ["acme", "blue"] {
        let histograms = rig.wire_of(tenant).histograms.clone().unwrap();
        assert_eq!(histograms.keys().collect::<Vec<_>>(), ["dram_active", "sm_util", "tensor_active"], "{tenant}");
        let bins = [("sm_util", 50), ("tensor_active", 25), ("dram_active", 40)];
        for (metric, percent) in bins {
            assert_eq!(rig.histogram(tenant, metric)[percent], 10_000, "{tenant} {metric}");
        }
    }
}

#[test]
fn the_rounding_of_a_histograms_bin_never_adds_up() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", None, 333_333)], &["/a"]));
    // A third of a GPU held for passes of 1.0005 s: no pass alone is a whole number of ms.
    for _ in 0..1_000 {
        rig.wait(500);
        rig.run(1, &[with(at("GPU-1", 10), &[process(1, "/a", Some(10))])]);
    }
    rig.snapshots();
    let bins = rig.histogram("acme", "gpu_util");
    assert_eq!(bins.iter().sum::<u32>(), 333_166, "999 × 1.0005 s × 0.333333, cut once");
}

#[test]
fn models_that_a_job_holds_have_a_snapshot_each() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", None, 1_000_000), ("GPU-2", None, 1_000_000)], &[]));
    let mut other = at("GPU-2", 10);
    other.info.name = "NVIDIA H100 80GB HBM3".to_owned();
    rig.run(20, &[at("GPU-1", 90), other]);
    let found: Vec<(String, String)> =
        rig.snapshots().iter().map(|one| (one.gpu_model.clone(), text(util(one, Window::S10).mean))).collect();
    assert_eq!(found, [("A100".to_owned(), "0.9".to_owned()), ("H100".to_owned(), "0.1".to_owned())]);
}

#[test]
fn with_ticks_longer_than_a_window_its_load_is_of_that_window() {
    let mut rig = Rig::new();
    rig.meter.settings.tick = Duration::from_secs(20);
    rig.start(whole("acme", "GPU-1"));
    let readings = |power_mw| [(Metric::GpuUtil, 0), (Metric::PowerW, power_mw), (Metric::SmClockMhz, 1_410)];
    let pass = |rig: &mut Rig, power_mw| {
        rig.wait(20 * S);
        rig.meter.observe(&rig.tick_of(&[gpu("GPU-1", &readings(power_mw))]));
    };
    // Every other pass tells no power: the next reading reaches back over it, behind the shortest window.
    let silent = |rig: &mut Rig| {
        rig.wait(20 * S);
        rig.meter.observe(&rig.tick_of(&[gpu("GPU-1", &[(Metric::GpuUtil, 0)])]));
    };
    for _ in 0..50 {
        silent(&mut rig);
        pass(&mut rig, 400_000);
    }
    let load = |rig: &Rig| rig.meter.holdings[0].parts[0].load.series.sums().map(|sums| sums.covered / 1_000_000);
    assert_eq!(load(&rig), [10 * S, 60 * S, 300 * S, 900 * S].map(u128::from));
    // A while without load later, the shortest window has forgotten it.
    (0..2).for_each(|_| pass(&mut rig, 60_000));
    assert_eq!(util_quality_10s(&rig.of("acme").unwrap()), "Ok");
}

fn util_quality_10s(snapshot: &Snapshot) -> String {
    format!("{:?}", util(snapshot, Window::S10).quality)
}

/// What arrives of ten minutes may be one snapshot: that it was suspect then, nobody can say of it later.
#[test]
fn zeros_under_load_are_in_no_histogram_unless_they_are_few() {
    let under_load = |percent: u64| {
        gpu("GPU-1", &[(Metric::GpuUtil, percent * 10_000), (Metric::PowerW, 350_000), (Metric::SmClockMhz, 1_400)])
    };
    let idle = || gpu("GPU-1", &[(Metric::GpuUtil, 0), (Metric::PowerW, 60_000), (Metric::SmClockMhz, 210)]);
    let seconds_at = |rig: &mut Rig, bin: usize| {
        let snapshot = rig.of("acme").unwrap();
        u64::from(snapshot.histograms.get("gpu_util").map_or(0, |histogram| histogram.0[bin])) / 1_000
    };
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", None, 1_000_000)], &[]));
    rig.run(61, &[under_load(50)]);
    rig.run(600, &[under_load(0)]);
    rig.run(10, &[under_load(50)]);
    assert_eq!((seconds_at(&mut rig, 0), seconds_at(&mut rig, 50)), (0, 71));
    rig.run(5, &[under_load(0)]);
    rig.run(5, &[under_load(50)]);
    assert_eq!((seconds_at(&mut rig, 0), seconds_at(&mut rig, 50)), (5, 76), "few are true");
    rig.run(30, &[idle()]);
    assert_eq!(seconds_at(&mut rig, 0), 35, "an idle device is idle");
}
