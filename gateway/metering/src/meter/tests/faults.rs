//! What goes wrong with devices, drivers, clocks and counters, and what is then told.

use super::*;

fn health(rig: &mut Rig) -> String {
    rig.snapshots();
    rig.wire_of("acme").health.clone()
}

#[test]
fn a_lost_device_ends_the_interval_at_its_last_reading_and_ages() {
    for (state, word) in [
        (DeviceState::Lost, "lost"),
        (DeviceState::ResetRequired, "reset_required"),
        (DeviceState::Unreadable, "degraded"),
    ] {
        let mut rig = Rig::new();
        rig.start(whole("acme", "GPU-1"));
        rig.run(10, &[at("GPU-1", 100)]);
        assert_eq!(health(&mut rig), "ok");
        let read_last = rig.of("acme").unwrap().observed_at;
        rig.run(30, &[failed("GPU-1", state)]);
        let snapshot = rig.of("acme").unwrap();
        assert_eq!(rig.wire_of("acme").health, word);
        assert_eq!(snapshot.observed_at, read_last, "so that it ages");
        assert_eq!(snapshot.counters.held_us, 40 * S, "held time goes on");
        assert_eq!(rig.totals("acme").unmetered, gpu_time(30 * S, 1_000_000));
        // Back again: nothing before is covered.
        rig.run(1, &[at("GPU-1", 100)]);
        let snapshot = rig.of("acme").unwrap();
        assert_eq!((snapshot.healthy, snapshot.counters.busy_us), (true, Some(11 * S)));
        assert!(snapshot.observed_at > read_last);
    }
}

#[test]
fn a_job_that_misses_some_devices_is_degraded() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", None, 1_000_000), ("GPU-2", None, 1_000_000)], &[]));
    rig.run(10, &[at("GPU-1", 100)]);
    let snapshot = rig.of("acme").unwrap();
    assert_eq!(rig.wire_of("acme").health, "degraded", "a device that nobody has seen");
    assert_eq!(snapshot.counters.held_us, 10 * S);
    rig.run(10, &[at("GPU-1", 100), at("GPU-2", 50)]);
    let snapshot = rig.of("acme").unwrap();
    assert_eq!((snapshot.healthy, snapshot.counters.held_us), (true, 40 * S), "held since the start, seen or not");
    assert_eq!(rig.totals("acme").metered, gpu_time(30 * S, 1_000_000));
    rig.run(1, &[at("GPU-1", 100)]);
    assert_eq!(health(&mut rig), "degraded", "not listed any more");
}

#[test]
fn a_library_that_is_gone_is_said_so_and_its_return_is_a_new_epoch() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    (0..10).for_each(|second| rig.run(1, &[with_energy(at("GPU-1", 100), 1_000_000 + second * 100_000)]));
    let before = rig.of("acme").unwrap();
    rig.wait(S);
    let mut gone = rig.tick_of(&[]);
    gone.library = Library::Gone;
    rig.meter.observe(&gone);
    assert_eq!(health(&mut rig), "library_gone");
    rig.library_run = 2;
    rig.run(1, &[with_energy(at("GPU-1", 100), 5)]);
    rig.run(1, &[with_energy(at("GPU-1", 100), 100_005)]);
    let after = rig.of("acme").unwrap();
    assert!(after.healthy && after.boot_epoch > before.boot_epoch);
    assert_eq!(after.counters.energy_mj, Some(100_000), "by difference, from the first reading of the new run");
    assert_eq!(after.counters.held_us, 2 * S, "counters restart");
    assert_eq!(after.counters.busy_us, Some(S), "nothing before the reload is covered");
    assert_eq!(rig.wire_of("acme").seq, 1);
    assert_eq!(text(util(&after, Window::M1).coverage), "0.846153", "11 of 13 s: windows know the gap");
}

#[test]
fn an_energy_counter_that_runs_backwards_is_a_new_epoch_and_no_delta() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    for energy_mj in [1_000_000, 1_300_000, 1_600_000] {
        rig.run(1, &[with_energy(at("GPU-1", 100), energy_mj)]);
    }
    let before = rig.of("acme").unwrap();
    assert_eq!(before.counters.energy_mj, Some(600_000));
    rig.run(1, &[with_energy(at("GPU-1", 100), 1_599_999)]);
    let after = rig.of("acme").unwrap();
    assert!(after.boot_epoch > before.boot_epoch);
    assert_eq!(after.counters.energy_mj, Some(0));
    rig.run(1, &[with_energy(at("GPU-1", 100), 1_899_999)]);
    let after = rig.of("acme").unwrap();
    assert_eq!((after.counters.energy_mj, after.seq), (Some(300_000), 2));
    assert_eq!(rig.histogram("acme", "gpu_util")[100], 1_000, "histograms restart with the counters");
}

#[test]
fn a_huge_energy_delta_is_refused() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    // Four times 400 W for a second and a tick's grace are 3,200 J.
    for energy_mj in [0, 3_200_000, 6_400_001, 6_700_001] {
        rig.run(1, &[with_energy(at("GPU-1", 100), energy_mj)]);
    }
    assert_eq!(rig.of("acme").unwrap().counters.energy_mj, Some(3_200_000 + 300_000));
    assert_eq!(rig.meter.counters().refused_readings, 1);
    let mut nameless = at("GPU-1", 100);
    nameless.info.power_limit_mw = None;
    rig.run(1, &[with_energy(nameless.clone(), 12_700_001)]);
    rig.run(1, &[with_energy(nameless, 18_700_002)]);
    assert_eq!(rig.of("acme").unwrap().counters.energy_mj, Some(9_500_000), "3 kW where no limit is known");
}

#[test]
fn energy_missed_in_a_gap_comes_with_the_next_difference() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.run(1, &[with_energy(at("GPU-1", 100), 0)]);
    rig.run(9, &[failed("GPU-1", DeviceState::Unreadable)]);
    rig.run(1, &[with_energy(at("GPU-1", 100), 3_000_000)]);
    assert_eq!(rig.of("acme").unwrap().counters.energy_mj, Some(3_000_000));
}

#[test]
fn a_set_clock_opens_a_gap() {
    for (step_us, is_gap) in [(50_500, false), (-50_500, false), (50_501, true), (-50_501, true), (3_600_000_000, true)]
    {
        let mut rig = Rig::new();
        rig.start(whole("acme", "GPU-1"));
        rig.run(10, &[at("GPU-1", 100)]);
        rig.wall_us += step_us;
        rig.run(1, &[at("GPU-1", 100)]);
        rig.run(9, &[at("GPU-1", 100)]);
        let unmetered = if is_gap { S } else { 0 };
        assert_eq!(rig.totals("acme").unmetered, gpu_time(unmetered, 1_000_000), "{step_us}");
        assert_eq!(rig.meter.counters().gaps, u64::from(is_gap));
        let first = rig.of("acme").unwrap();
        assert_eq!(first.counters.held_us, 20 * S, "durations are of the monotonic clock");
    }
}

#[test]
fn a_reader_that_hangs_is_stalled_and_held_time_goes_on() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.run(10, &[at("GPU-1", 100)]);
    let read_last = rig.of("acme").unwrap().observed_at;
    for _ in 0..20 {
        rig.wait(S);
        rig.meter.stalled(rig.mono_us);
        assert_eq!(rig.of("acme").unwrap().observed_at, read_last);
    }
    let snapshot = rig.of("acme").unwrap();
    assert_eq!(rig.wire_of("acme").health, "stalled");
    assert_eq!(snapshot.counters.held_us, 28 * S, "a reading still to come may cover the last two ticks");
    // The pass that hung comes at last, dated when it began.
    let mut late = rig.tick_of(&[at("GPU-1", 100)]);
    late.mono_us -= 15 * S;
    late.wall_us -= 15_000_000;
    rig.meter.observe(&late);
    assert_eq!(rig.totals("acme").metered, gpu_time(10 * S, 1_000_000), "what was told as unmetered stays so");
    rig.run(1, &[at("GPU-1", 100)]);
    assert_eq!(health(&mut rig), "ok");
    let totals = rig.totals("acme");
    assert_eq!((totals.metered, totals.unmetered), (gpu_time(12 * S, 1_000_000), gpu_time(19 * S, 1_000_000)));
    assert_eq!(rig.meter.counters().gaps, 1);
}

#[test]
fn passes_that_are_not_later_are_dropped() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.run(5, &[at("GPU-1", 100)]);
    let again = rig.tick_of(&[at("GPU-1", 0)]);
    rig.meter.observe(&again);
    let mut earlier = again;
    earlier.mono_us -= 3 * S;
    rig.meter.observe(&earlier);
    let snapshot = rig.of("acme").unwrap();
    assert_eq!((snapshot.counters.held_us, snapshot.counters.busy_us), (5 * S, Some(5 * S)));
    assert_eq!(text(util(&snapshot, Window::S10).min), "1");
}

#[test]
fn reasons_are_those_of_the_holders_devices_while_it_holds_them() {
    let mut rig = Rig::new();
    let xid = |uuid: Option<&str>, code| Xid { uuid: uuid.map(str::to_owned), instance: None, code };
    rig.start(whole("acme", "GPU-1"));
    rig.wait(S);
    let mut throttled = at("GPU-1", 100);
    throttled.throttle_mask = Some(0x40 | 0x4);
    let mut tick = rig.tick_of(&[throttled, at("GPU-2", 0)]);
    tick.xids = vec![xid(Some("GPU-1"), 79), xid(Some("GPU-2"), 48), xid(None, 119)];
    rig.meter.observe(&tick);
    let reasons = ["throttled_thermal", "xid_119", "xid_79"];
    assert_eq!(rig.of("acme").unwrap().reasons, reasons);
    rig.run(899, &[at("GPU-1", 100), at("GPU-2", 0)]);
    assert_eq!(rig.of("acme").unwrap().reasons, reasons, "for as long as a window has readings from then");
    rig.end("acme");
    rig.start(whole("blue", "GPU-1"));
    rig.later(&[at("GPU-1", 100), at("GPU-2", 0)]);
    assert!(rig.of("blue").unwrap().reasons.is_empty(), "of its predecessor");
}

#[test]
fn a_preempted_job_leaves_a_tombstone_once() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.run(10, &[at("GPU-1", 100)]);
    rig.wait(500_000);
    assert!(rig.meter.end("acme", Some("job-9"), JobEnd::Preempted, rig.mono_us));
    assert!(!rig.meter.end("acme", Some("job-9"), JobEnd::Ended, rig.mono_us), "it has ended");
    // No pass since: the last half second was held, and not observed.
    let last = rig.of("acme").unwrap();
    assert_eq!(rig.wire_of("acme").health, "ended");
    assert_eq!((last.reasons.as_slice(), last.windows.len()), (["preempted".to_owned()].as_slice(), 0));
    assert_eq!((last.counters.held_us, last.counters.busy_us), (10 * S + 500_000, Some(10 * S)));
    assert_eq!(rig.histogram("acme", "gpu_util")[100], 10_000);
    rig.run(1, &[at("GPU-1", 100)]);
    assert_eq!(rig.of("acme"), None);
    assert!(rig.meter.jobs().is_empty());
}

#[test]
fn one_job_may_end_and_start_again_between_two_passes() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.run(10, &[at("GPU-1", 100)]);
    rig.end("acme");
    rig.start(whole("acme", "GPU-1"));
    rig.run(1, &[at("GPU-1", 100)]);
    let found: Vec<(u64, u64, bool)> =
        rig.snapshots().iter().map(|one| (one.seq, one.counters.held_us, one.healthy)).collect();
    assert_eq!(found, [(1, 10 * S, false), (2, S, true)], "the tombstone first");
}

#[test]
fn epochs_follow_the_last_run_though_the_clock_was_set_back() {
    let mut rig = Rig::new();
    rig.meter = Meter::new(MeterSettings { after_epoch_us: rig.wall_us + 5_000_000, ..rig.meter.settings });
    rig.start(whole("acme", "GPU-1"));
    rig.run(2, &[at("GPU-1", 100)]);
    let epoch = rig.of("acme").unwrap().boot_epoch;
    assert_eq!(epoch, crate::snapshot::BootEpoch::Instant("2026-12-01T00:00:05.000001Z".parse().unwrap()));
    assert_eq!(rig.meter.epoch_us(), Some(1_796_083_205_000_001));
}

#[test]
fn refused_and_clamped_readings_are_counted() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    let mut device = gpu("GPU-1", &[(Metric::GpuUtil, 1_000_001), (Metric::PowerW, u64::MAX)]);
    (device.refused_readings, device.clamped_readings) = (3, vec![1_004_000]);
    rig.run(2, &[device, at("", 5)]);
    let counters = rig.meter.counters();
    assert_eq!((counters.ticks, counters.refused_readings, counters.clamped_readings), (2, 12, 2));
    assert!(rig.of("acme").unwrap().windows.is_empty());
}

#[test]
fn a_job_between_two_passes_has_its_tombstone_and_nobody_has_its_time() {
    let mut rig = Rig::new();
    rig.pass(&[at("GPU-1", 0)]);
    rig.start(whole("acme", "GPU-1"));
    assert_eq!(rig.of("acme"), None, "it has held nothing yet");
    rig.meter.stalled(rig.mono_us);
    rig.wait(250_000);
    rig.end("acme");
    let last = rig.of("acme").unwrap();
    assert_eq!((last.counters.held_us, last.counters.busy_us), (250_000, None));
    rig.wait(750_000);
    rig.meter.observe(&rig.tick_of(&[failed("GPU-1", DeviceState::Lost)]));
    let nobody = rig.of("_unattributed").unwrap();
    assert_eq!(nobody.counters.held_us, S + 750_000, "of 2 s since it was first seen");
    assert_eq!(rig.wire_of("_unattributed").health, "lost", "never told idle unless it was seen to be");
}

#[test]
fn a_job_whose_devices_were_never_seen_ends_without_a_word() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-9"));
    rig.run(10, &[at("GPU-1", 0)]);
    assert_eq!(rig.of("acme"), None, "of no known model");
    let totals = rig.totals("acme");
    assert_eq!((totals.gpu_model.as_deref(), totals.metered, totals.unmetered), (None, 0, gpu_time(10 * S, 1_000_000)));
    rig.end("acme");
    assert_eq!(rig.of("acme"), None);
}

#[test]
fn what_defines_metered_time_may_change_once_and_counts_nothing_twice() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.run(10, &[gpu("GPU-1", &[(Metric::SmUtil, 400_000)])]);
    assert_eq!(
        rig.of("acme").unwrap().counters.busy_us,
        Some(4 * S),
        "the multiprocessors, where the device tells no more"
    );
    // Its sample buffer appears, with rows of the time before.
    let mut device = gpu("GPU-1", &[(Metric::SmUtil, 400_000)]);
    let rows = (0..10).rev().map(|row| Reading { ago_us: row * 1_000_000, value: 1_000_000 });
    device.readings.0.insert(Metric::GpuUtil, rows.collect());
    rig.run(1, &[device]);
    let snapshot = rig.of("acme").unwrap();
    assert_eq!((snapshot.counters.held_us, snapshot.counters.busy_us), (11 * S, Some(5 * S)));
    assert_eq!(rig.totals("acme").unmetered, 0);
}

#[test]
fn a_counter_that_runs_backwards_is_a_gap_of_its_own_device_only() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.start(whole("blue", "GPU-2"));
    let devices = |energy_mj| [with_energy(at("GPU-1", 100), energy_mj), with_energy(at("GPU-2", 100), 7)];
    rig.run(10, &devices(1_000));
    rig.run(1, &devices(999));
    assert_eq!(rig.totals("acme").unmetered, gpu_time(S, 1_000_000), "the driver may have been loaded anew");
    assert_eq!(rig.totals("blue").unmetered, 0);
}

#[test]
fn a_counter_that_trembles_is_refused_and_ends_no_more_epochs() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.start(whole("blue", "GPU-2"));
    let mut epochs = std::collections::BTreeSet::new();
    for second in 0..100_u64 {
        let trembling = with_energy(at("GPU-1", 100), 1_000_000 - second);
        rig.run(1, &[trembling, with_energy(at("GPU-2", 100), second * 100_000)]);
        epochs.insert(rig.meter.epoch_us());
    }
    assert_eq!(epochs.len(), 4, "three, and the one that it began in");
    assert_eq!(rig.meter.counters().refused_readings, 97);
    assert_eq!(rig.of("acme").unwrap().counters.energy_mj, Some(0));
    assert_eq!(
        rig.of("blue").unwrap().counters.energy_mj,
        Some(97 * 100_000),
        "from the pass on that began the last epoch"
    );
    // Ten quiet minutes later it is believed again.
    rig.run(600, &[with_energy(at("GPU-1", 100), 999_901), with_energy(at("GPU-2", 100), 9_900_000)]);
    rig.run(1, &[with_energy(at("GPU-1", 100), 1_099_901), with_energy(at("GPU-2", 100), 9_900_000)]);
    assert_eq!(rig.of("acme").unwrap().counters.energy_mj, Some(100_000));
}

#[test]
fn a_power_limit_of_nothing_is_none_that_is_known() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    for energy_mj in [0, 300_000] {
        let mut device = with_energy(at("GPU-1", 100), energy_mj);
        device.info.power_limit_mw = Some(0);
        rig.run(1, &[device]);
    }
    assert_eq!(rig.of("acme").unwrap().counters.energy_mj, Some(300_000));
}

#[test]
fn a_clock_that_is_slewed_over_a_long_tick_was_not_set() {
    for (late_us, gaps) in [(350_000, 0), (350_001, 1)] {
        let mut rig = Rig::new();
        rig.meter.settings.tick = Duration::from_secs(600);
        rig.pass(&[at("GPU-1", 100)]);
        rig.wait(599 * S);
        rig.wall_us += late_us;
        rig.pass(&[at("GPU-1", 100)]);
        assert_eq!(rig.meter.counters().gaps, gaps, "50 ms and 500 ppm of 600 s are 350 ms");
    }
}
