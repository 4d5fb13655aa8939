//! Instances held by use, and boards that are cut into instances in part.

use super::*;

fn occupied(gpu_instance: u32, processes: &[Process]) -> InstanceTick {
    InstanceTick { processes: Some(processes.to_vec()), ..slice(gpu_instance, 42, &[(Metric::SmUtil, 500_000)]) }
}

fn board(instances: Vec<InstanceTick>) -> DeviceTick {
    partitioned("GPU-1", &[(Metric::PowerW, 280_000)], instances)
}

/// (tenant, instance, method, share) of all that is told.
fn told(rig: &Rig) -> Vec<(String, String, String, String)> {
    let of = |wire: &WireSnapshot| {
        let tenant = wire.tenant.clone();
        wire.devices.clone().into_iter().map(move |device| {
            let share = device.share.0.as_str().unwrap().to_owned();
            (tenant.clone(), device.instance.unwrap_or_default(), device.method, share)
        })
    };
    rig.wire.iter().flat_map(of).collect()
}

fn row(tenant: &str, instance: &str, method: &str) -> (String, String, String, String) {
    (tenant.to_owned(), instance.to_owned(), method.to_owned(), "1".to_owned())
}

#[test]
fn an_instance_is_the_jobs_whose_processes_alone_are_on_it() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[], &["/acme"]));
    rig.start(job("blue", &[], &["/blue"]));
    let ended = Process { started: None, cgroup: None, ..process(3, "/", None) };
    let devices = board(vec![
        occupied(1, &[process(1, "/acme", None), process(2, "/acme/x", None), ended.clone()]),
        occupied(2, &[process(4, "/acme", None), process(5, "/blue", None)]),
        occupied(3, &[process(6, "/blue", None), process(7, "/nobody", None)]),
        occupied(4, &[ended]),
        slice(5, 42, &[(Metric::SmUtil, 0)]),
    ]);
    rig.pass(std::slice::from_ref(&devices));
    rig.run(60, &[devices]);
    let acme = rig.of("acme").unwrap();
    let nobody = |instance: &str| row("_unattributed", instance, "unattributed");
    let expected =
        [row("acme", "1/0", "mig"), row("_idle", "5/0", "idle"), nobody("2/0"), nobody("3/0"), nobody("4/0")];
    assert_eq!(told(&rig), expected);
    assert!(acme.healthy && acme.mig);
    assert_eq!((acme.counters.held_us, acme.counters.busy_us), (61 * S, Some(61 * S / 2)));
    assert_eq!(acme.metric(Window::M1, "gpu_util"), None);
    assert_eq!(text(acme.metric(Window::M1, "sm_util").unwrap().mean), "0.5");
    assert_eq!(text(acme.metric(Window::M1, "power_w").unwrap().mean), "56", "a fifth of the board's");
    assert_eq!(rig.totals("acme").unmetered, 0);
}

#[test]
fn an_instance_goes_from_one_job_to_another_with_its_processes() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[], &["/acme"]));
    rig.start(job("blue", &[], &["/blue"]));
    rig.pass(&[board(vec![occupied(1, &[])])]);
    (0..10).for_each(|_| rig.pass(&[board(vec![occupied(1, &[process(1, "/acme", None)])])]));
    (0..10).for_each(|_| rig.pass(&[board(vec![occupied(1, &[process(2, "/blue", None)])])]));
    let blue = rig.of("blue").unwrap();
    assert_eq!(blue.counters.held_us, 10 * S);
    assert!(rig.wire.iter().all(|wire| wire.tenant == "blue"), "it is known who has it: {:?}", told(&rig));
    rig.end("acme");
    let acme = rig.of("acme").unwrap();
    assert_eq!((acme.counters.held_us, acme.counters.busy_us), (10 * S, Some(5 * S)));
}

#[test]
fn an_instance_that_was_assigned_in_part_is_nobody_elses() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", Some(1), 500_000)], &[]));
    rig.start(job("blue", &[], &["/blue"]));
    let devices = board(vec![occupied(1, &[process(1, "/blue", None)])]);
    rig.run(10, &[devices]);
    assert_eq!(rig.of("blue"), None);
    assert_eq!(rig.of("_unattributed").unwrap().counters.held_us, 9 * S / 2);
}

#[test]
fn what_is_cut_into_no_instance_has_its_part_of_the_energy() {
    let energy = |seconds: u64| seconds * 280_000;
    let cut = |instances: Vec<InstanceTick>, whole: Option<u32>, energy_mj: u64| {
        let mut device = with_energy(board(instances), energy_mj);
        device.info.multiprocessors = whole;
        device
    };
    let seventh = || vec![slice(1, 14, &[])];
    // As the driver says, and as its instances once came to.
    for (whole, before) in [(Some(98), seventh()), (None, vec![slice(1, 14, &[]), slice(2, 84, &[])])] {
        let mut rig = Rig::new();
        rig.start(job("acme", &[("GPU-1", Some(1), 1_000_000)], &[]));
        rig.run(1, &[cut(before, whole, 0)]);
        (1..=60).for_each(|second| rig.run(1, &[cut(seventh(), whole, energy(second))]));
        let acme = rig.of("acme").unwrap();
        assert_eq!(acme.counters.energy_mj, Some(60 * 40_000), "14 of 98");
        assert_eq!(text(acme.metric(Window::S10, "power_w").unwrap().mean), "40");
        assert_eq!(rig.totals("_idle").energy_mj, Some(60 * 240_000));
    }
}

#[test]
fn a_board_of_the_same_model_tells_how_many_multiprocessors_there_are() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[("GPU-1", Some(1), 1_000_000)], &[]));
    let full = partitioned("GPU-2", &[], vec![slice(1, 98, &[])]);
    (0..=10).for_each(|second| {
        rig.run(1, &[with_energy(board(vec![slice(1, 14, &[])]), second * 280_000), full.clone()]);
    });
    assert_eq!(rig.of("acme").unwrap().counters.energy_mj, Some(10 * 40_000));
}

#[test]
fn more_instances_than_any_device_has_are_not_taken_in() {
    let mut rig = Rig::new();
    rig.run(2, &[board((0..1_000).map(|number| slice(number, 1, &[])).collect())]);
    assert_eq!(rig.meter.devices["GPU-1"].instances.len(), crate::tick::MAX_INSTANCES);
    assert_eq!(rig.meter.counters().refused_readings, 2 * (1_000 - 64));
}
