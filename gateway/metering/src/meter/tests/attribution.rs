//! Who held and used how much of which device.

use super::*;

const POD: &str = "8f0c1a2b-3d4e-5f60-7182-93a4b5c6d7e8";

/// (method, share) of each device of a tenant's snapshot.
fn devices(rig: &Rig, tenant: &str) -> Vec<(String, String)> {
    let devices = rig.wire.iter().filter(|snapshot| snapshot.tenant == tenant).flat_map(|snapshot| &snapshot.devices);
    devices.map(|device| (device.method.clone(), device.share.0.as_str().unwrap().to_owned())).collect()
}

#[test]
fn a_quarter_is_never_billed_as_a_whole() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", None, 250_000)], &["/acme"]));
    rig.run(100, &[with_energy(with(at("GPU-1", 20), &[process(1, "/acme", Some(20))]), 0)]);
    rig.run(1, &[with_energy(with(at("GPU-1", 20), &[process(1, "/acme", Some(20))]), 400_000)]);
    let snapshot = rig.of("acme").unwrap();
    assert_eq!(devices(&rig, "acme"), [("allotted".to_owned(), "0.25".to_owned())]);
    assert_eq!(devices(&rig, "_unattributed"), [("unattributed".to_owned(), "0.75".to_owned())]);
    assert_eq!(snapshot.counters.held_us, 101 * S / 4);
    assert_eq!(snapshot.counters.energy_mj, Some(100_000), "a quarter of the energy");
    assert_eq!(text(util(&snapshot, Window::M1).mean), "0.8", "20 % of the device are 80 % of the part");
    assert_eq!(snapshot.counters.busy_us, Some(100 * S / 5), "what processes did before the first pass has no span");
    assert_eq!(snapshot.metric(Window::M1, "mem_util"), None);
    assert_eq!(text(snapshot.metric(Window::M1, "mem_used_bytes").unwrap().mean), (1_u64 << 30).to_string());
    assert_eq!(rig.of("_unattributed").unwrap().counters.held_us, 100 * S * 3 / 4, "since the device was first seen");
}

#[test]
fn a_part_that_names_no_processes_has_no_utilisation() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", None, 500_000)], &[]));
    rig.run(
        30,
        &[with(gpu("GPU-1", &[(Metric::GpuUtil, 900_000), (Metric::PowerW, 300_000)]), &[process(1, "/x", Some(90))])],
    );
    let snapshot = rig.of("acme").unwrap();
    assert_eq!(snapshot.metric(Window::M1, "gpu_util"), None);
    assert_eq!(text(snapshot.metric(Window::M1, "power_w").unwrap().mean), "300");
    assert_eq!((snapshot.counters.held_us, snapshot.counters.busy_us), (15 * S, None));
    assert_eq!(rig.totals("acme").metered, 0);
}

#[test]
fn its_own_use_is_at_most_its_part() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", None, 250_000)], &["/acme"]));
    rig.run(30, &[with(at("GPU-1", 60), &[process(1, "/acme", Some(60))])]);
    let snapshot = rig.of("acme").unwrap();
    assert_eq!(text(util(&snapshot, Window::M1).mean), "1");
    assert_eq!(snapshot.counters.busy_us, Some(29 * S / 4));
}

#[test]
fn what_cannot_be_told_from_others_is_not_an_idle_tenant() {
    let hidden = |pid| Process { started: None, cgroup: None, ..process(pid, "/", Some(45)) };
    for (others, is_told) in [
        (vec![hidden(8), hidden(9)], false),
        (vec![process(8, "/strangers", Some(45))], false),
        (vec![process(8, "/strangers", Some(45)), process(9, "/acme", Some(0))], true),
        (vec![process(9, "/acme", Some(10)), hidden(8)], false),
        (vec![process(9, "/blue", Some(45))], true),
        (vec![], true),
    ] {
        let mut rig = Rig::new();
        rig.start(job("acme", &[("GPU-1", None, 500_000)], &["/acme"]));
        rig.start(job("blue", &[("GPU-1", None, 500_000)], &["/blue"]));
        let busy = if others.is_empty() { 0 } else { 90 };
        rig.run(30, &[with(at("GPU-1", busy), &others)]);
        let snapshot = rig.of("acme").unwrap();
        assert_eq!(snapshot.metric(Window::M1, "gpu_util").is_some(), is_told, "{others:?}");
        assert_eq!(rig.totals("acme").metered > 0, is_told, "{others:?}");
    }
}

#[test]
fn a_job_without_parts_holds_what_its_processes_use() {
    let mut rig = Rig::new();
    let mut acme = job("acme", &[], &[]);
    acme.workloads = vec![Workload::Pod(POD.to_owned())];
    rig.start(acme);
    rig.start(job("blue", &[], &["/blue"]));
    let pod =
        format!("/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{}.scope", POD.replace('-', "_"), "a".repeat(64));
    let busy =
        with(at("GPU-1", 90), &[process(1, &pod, Some(40)), process(2, "/blue", Some(10)), process(3, "/x", Some(30))]);
    rig.pass(&[with(at("GPU-1", 90), &[])]);
    rig.pass(std::slice::from_ref(&busy));
    rig.pass(&[busy]);
    let snapshot = rig.of("acme").unwrap();
    assert_eq!(devices(&rig, "acme"), [("process".to_owned(), "0.4".to_owned())]);
    assert_eq!(devices(&rig, "blue"), [("process".to_owned(), "0.1".to_owned())]);
    assert_eq!(devices(&rig, "_unattributed"), [("unattributed".to_owned(), "0.5".to_owned())]);
    assert_eq!(snapshot.metric(Window::S10, "gpu_util"), None, "it would always be 100 %");
    assert_eq!((snapshot.counters.held_us, snapshot.counters.busy_us), (800_000, Some(800_000)));
    let totals = rig.totals("acme");
    assert_eq!((totals.metered, totals.unmetered), (gpu_time(2 * S, 400_000), 0));
}

#[test]
fn a_job_that_uses_nothing_now_is_silent_and_ends_with_a_tombstone() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[], &["/acme"]));
    rig.pass(&[at("GPU-1", 50)]);
    assert_eq!(rig.of("acme"), None, "it holds nothing yet");
    rig.pass(&[with(at("GPU-1", 50), &[process(1, "/acme", Some(50))])]);
    assert_eq!(rig.of("acme").unwrap().counters.held_us, 500_000);
    rig.pass(&[at("GPU-1", 0)]);
    assert_eq!(rig.of("acme"), None);
    rig.end("acme");
    let last = rig.of("acme").unwrap();
    assert_eq!((last.healthy, last.reasons, last.counters.held_us), (false, vec!["ended".to_owned()], 500_000));
    assert_eq!(devices(&rig, "acme"), [("process".to_owned(), "0.5".to_owned())], "the last that it had");
}

#[test]
fn shares_never_come_to_more_than_the_device() {
    let mut rig = Rig::new();
    rig.start(job("part", &[("GPU-1", None, 500_000)], &["/part"]));
    rig.start(job("acme", &[], &["/acme"]));
    rig.start(job("blue", &[], &["/blue"]));
    let over = [process(1, "/acme", Some(90)), process(2, "/blue", Some(30)), process(3, "/part", Some(80))];
    rig.pass(&[at("GPU-1", 0)]);
    rig.pass(&[with(at("GPU-1", 100), &over)]);
    let snapshot = rig.of("part").unwrap();
    // 200 % in all is halved: 45, 15 and 40; the first two have only 50 between them.
    assert_eq!(devices(&rig, "acme"), [("process".to_owned(), "0.375".to_owned())]);
    assert_eq!(devices(&rig, "blue"), [("process".to_owned(), "0.125".to_owned())]);
    assert_eq!(text(util(&snapshot, Window::S10).mean), "0.8", "40 of its 50 %");
    assert!(devices(&rig, "_unattributed").is_empty());
}

#[test]
fn a_process_that_a_job_runs_outside_its_parts_is_unattributed() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", None, 1_000_000)], &["/acme"]));
    let stray = with(at("GPU-2", 50), &[process(1, "/acme", Some(50))]);
    rig.pass(&[at("GPU-1", 0), stray.clone()]);
    rig.pass(&[at("GPU-1", 0), stray]);
    assert_eq!(rig.of("acme").unwrap().device_shares.to_string(), "1");
    assert_eq!(devices(&rig, "_unattributed"), [("unattributed".to_owned(), "1".to_owned())]);
}

#[test]
fn what_nobody_holds_is_idle_or_unattributed() {
    let mut rig = Rig::new();
    let silent = with(at("GPU-2", 70), &[process(1, "/acme", None)]);
    rig.start(job("acme", &[], &["/acme"]));
    let devices_now = [at("GPU-1", 0), silent, at("GPU-3", 5), with(at("GPU-4", 0), &[process(9, "/x", None)])];
    rig.run(31, &devices_now);
    assert_eq!(rig.of("acme"), None, "nobody said that the process used it");
    let idle = rig.of("_idle").unwrap();
    assert_eq!((idle.counters.held_us, text(util(&idle, Window::S10).mean)), (30 * S, "0".to_owned()));
    assert_eq!(rig.wire_of("_idle").devices[0].gpu_uuid, "GPU-1");
    let unattributed = rig.of("_unattributed").unwrap();
    let uuids: Vec<&str> = rig.wire_of("_unattributed").devices.iter().map(|device| device.gpu_uuid.as_str()).collect();
    assert_eq!(uuids, ["GPU-2", "GPU-3", "GPU-4"], "an empty answer, no answer, a process that does nothing");
    assert_eq!(unattributed.counters.held_us, 90 * S);
    assert_eq!(text(util(&unattributed, Window::S10).mean), "0.25");
}

#[test]
fn under_mig_instances_have_their_own_metrics_and_the_device_none() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", Some(1), 1_000_000)], &[]));
    rig.start(job("blue", &[("GPU-1", Some(2), 1_000_000)], &[]));
    let board = [(Metric::PowerW, 280_000), (Metric::SmClockMhz, 1_400), (Metric::GpuUtil, 0)];
    let at_energy = |energy_mj| {
        let slices =
            vec![slice(1, 42, &[(Metric::SmUtil, 500_000)]), slice(2, 14, &[]), slice(3, 42, &[(Metric::SmUtil, 0)])];
        with_energy(partitioned("GPU-1", &board, slices), energy_mj)
    };
    rig.run(1, &[at_energy(0)]);
    (1..=60).for_each(|second| rig.run(1, &[at_energy(second * 280_000)]));
    let acme = rig.of("acme").unwrap();
    assert!(acme.mig);
    assert_eq!(acme.metric(Window::M1, "gpu_util"), None, "not supported, so absent, never 0");
    assert_eq!(text(acme.metric(Window::M1, "sm_util").unwrap().mean), "0.5");
    assert_eq!(text(acme.metric(Window::M1, "power_w").unwrap().mean), "120", "42 of 98 multiprocessors");
    assert_eq!(acme.counters.energy_mj, Some(60 * 120_000));
    assert_eq!(acme.counters.busy_us, Some(61 * S / 2));
    let blue = rig.of("blue").unwrap();
    assert_eq!((blue.counters.energy_mj, blue.counters.busy_us), (Some(60 * 40_000), None));
    assert!(blue.windows.values().all(|metrics| !metrics.contains_key("sm_util") && !metrics.contains_key("gpu_util")));
    assert_eq!(rig.of("_idle").unwrap().counters.energy_mj, Some(60 * 120_000), "board energy is split once");
    let named: Vec<_> =
        rig.wire.iter().map(|wire| (wire.tenant.as_str(), wire.devices[0].instance.as_deref().unwrap())).collect();
    assert_eq!(named, [("acme", "1/0"), ("blue", "2/0"), ("_idle", "3/0")]);
    assert_eq!(devices(&rig, "acme")[0].0, "mig");
}

#[test]
fn a_whole_device_under_mig_is_held_and_not_metered() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    let slices = vec![slice(1, 42, &[(Metric::SmUtil, 500_000)])];
    rig.run(60, &[partitioned("GPU-1", &[(Metric::GpuUtil, 0), (Metric::SmUtil, 400_000)], slices)]);
    let snapshot = rig.of("acme").unwrap();
    assert!(snapshot.windows.is_empty(), "{:?}", snapshot.windows);
    assert_eq!((rig.totals("acme").metered, snapshot.counters.busy_us), (0, None));
    assert!(rig.wire.iter().all(|wire| wire.tenant == "acme"), "nothing of it is left for nobody");
}

#[test]
fn jobs_that_cannot_be_are_refused_and_change_nothing() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", None, 600_000), ("GPU-2", Some(1), 1_000_000)], &[]));
    let before = rig.meter.jobs();
    let mut refused = |job: Job| rig.meter.start(job, T0).unwrap_err();
    let running = JobRefused::Running { tenant: "acme".to_owned(), job: "job-9".to_owned() };
    assert_eq!(refused(whole("acme", "GPU-7")), running);
    let over = refused(job("blue", &[("GPU-1", None, 400_001)], &[]));
    assert_eq!(over, JobRefused::OverDevice { part: "GPU-1".to_owned(), percent: 101 });
    let twice = refused(job("blue", &[("GPU-7", Some(1), 1_000_000), ("GPU-7", Some(1), 1)], &[]));
    assert!(matches!(twice, JobRefused::Invalid { .. }), "{twice}");
    let halves = refused(job("blue", &[("GPU-7", None, 250_000), ("GPU-7", None, 250_000)], &["/blue"]));
    assert!(matches!(halves, JobRefused::Invalid { .. }), "each would be told all of the job's use: {halves}");
    let mixed = |uuid: &str| JobRefused::WholeAndInstance { gpu_uuid: uuid.to_owned() };
    assert_eq!(refused(whole("blue", "GPU-2")), mixed("GPU-2"));
    assert_eq!(refused(job("blue", &[("GPU-1", Some(3), 1)], &[])), mixed("GPU-1"));
    assert_eq!(refused(job("blue", &[("GPU-8", Some(3), 1), ("GPU-8", None, 1)], &[])), mixed("GPU-8"));
    for invalid in [
        job("", &[("GPU-3", None, 1)], &[]),
        job("_idle", &[("GPU-3", None, 1)], &[]),
        job("a\u{7}", &[("GPU-3", None, 1)], &[]),
        job("blue", &[], &[]),
        job("blue", &[("GPU-3", None, 0)], &[]),
        job("blue", &[("", None, 1)], &[]),
        job("blue", &[], &["/"]),
        job("blue", &[], &["kubepods"]),
        job("blue", &[("GPU-3", None, 1); 129], &[]),
    ] {
        assert!(matches!(refused(invalid), JobRefused::Invalid { .. }));
    }
    assert_eq!(rig.meter.jobs(), before);
    rig.start(job("blue", &[("GPU-1", None, 400_000), ("GPU-2", Some(2), 1_000_000)], &[]));
    assert!(!rig.meter.end("nobody", None, JobEnd::Ended, T0));
}

#[test]
fn a_device_goes_from_one_job_to_the_next_at_the_instant() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.pass(&[at("GPU-1", 0)]);
    rig.pass(&[at("GPU-1", 50)]);
    rig.wait(250_000);
    rig.end("acme");
    rig.start(whole("blue", "GPU-1"));
    rig.wait(750_000);
    // Taken after the change, it says what was before it as well.
    rig.pass(&[at("GPU-1", 50)]);
    let acme = rig.of("acme").unwrap();
    assert_eq!((acme.counters.held_us, acme.counters.busy_us), (2 * S + 250_000, Some(S + 125_000)));
    assert_eq!(acme.reasons, ["ended"]);
    rig.pass(&[at("GPU-1", 50)]);
    let blue = rig.of("blue").unwrap();
    assert_eq!((blue.counters.held_us, blue.counters.busy_us), (1_750_000, Some(875_000)));
    assert!(rig.wire.iter().all(|wire| wire.tenant == "blue"), "the tombstone is told once, and nothing was nobody's");
}

#[test]
fn a_successor_has_its_processes_from_its_start_on() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[], &["/same"]));
    let busy = || with(at("GPU-1", 50), &[process(1, "/same", Some(50))]);
    rig.pass(&[at("GPU-1", 0)]);
    rig.pass(&[busy()]);
    rig.end("acme");
    rig.start(job("blue", &[], &["/same"]));
    // No snapshot since: the tombstone is not out yet.
    rig.wait(S);
    rig.pass(&[busy()]);
    rig.snapshots();
    assert_eq!(devices(&rig, "blue"), [("process".to_owned(), "0.5".to_owned())]);
    assert_eq!(rig.totals("blue").metered, gpu_time(S, 500_000));
    assert_eq!(rig.wire_of("acme").health, "ended");
}
