//! Processes: each once, with its start time, and its part of the device as far as the driver tells.

use fake_nvml::{Device, Process, UtilisationRow, Value};

use super::{GIB, Rig, START, a100, one, returning};
use crate::tick::{DeviceState, ProcessKinds};

fn compute(pid: u32) -> Process {
    Process { pid, compute: true, memory: Some(GIB), ..Process::default() }
}

fn with(processes: Vec<Process>) -> Device {
    Device { processes, ..a100(1) }
}

fn row(pid: u32, at_us: i64, sm: u64) -> UtilisationRow {
    UtilisationRow { pid, at_us: Some(at_us), sm: Value::Constant(sm) }
}

#[test]
fn a_process_in_several_lists_counts_once() {
    let both = Process { graphics: true, mps: true, ..compute(41) };
    let drawing = Process { pid: 7, graphics: true, ..Process::default() };
    let mut rig = Rig::new(&one(with(vec![both, compute(41), drawing])));
    let processes = rig.device_after(0).processes.unwrap();
    let told: Vec<_> = processes.iter().map(|process| (process.pid, process.kinds, process.memory_bytes)).collect();
    let all = ProcessKinds { compute: true, graphics: true, mps: true };
    let drawn = ProcessKinds { graphics: true, ..ProcessKinds::default() };
    assert_eq!(told, [(7, drawn, None), (41, all, Some(GIB))]);
}

#[test]
fn a_process_is_its_pid_and_its_start_and_a_reused_pid_is_another() {
    let mut rig = Rig::new(&one(with(vec![compute(41), compute(42)])));
    rig.kernel_process(41, 1_000, "/kubepods/pod-a/c1");
    let who = |rig: &mut Rig| {
        let processes = rig.device_after(1_000).processes.unwrap();
        processes.into_iter().map(|process| (process.pid, process.started, process.cgroup)).collect::<Vec<_>>()
    };
    let ended = (42, None, None);
    assert_eq!(who(&mut rig), [(41, Some(1_000), Some("/kubepods/pod-a/c1".to_owned())), ended.clone()]);
    rig.kernel_process(41, 9_999, "/kubepods/pod-b/c2");
    assert_eq!(who(&mut rig), [(41, Some(9_999), Some("/kubepods/pod-b/c2".to_owned())), ended]);
}

#[test]
fn processes_come_and_go() {
    let mut rig = Rig::new(&one(with((1..=150).map(compute).collect())));
    assert_eq!(rig.device_after(0).processes.unwrap().len(), 150);
    rig.change(&one(with(vec![])));
    assert_eq!(rig.device_after(1_000).processes, Some(vec![]));
    rig.change(&one(with(vec![Process { pid: 0, ..compute(0) }, compute(3)])));
    let pids: Vec<u32> = rig.device_after(1_000).processes.unwrap().iter().map(|process| process.pid).collect();
    assert_eq!(pids, [3], "zeros are padding");
}

#[test]
fn a_list_that_may_not_be_asked_is_not_an_empty_list() {
    let denied = returning(&with(vec![compute(41)]), "nvmlDeviceGetComputeRunningProcesses_v3", 4);
    let device = Rig::new(&one(denied)).device_after(0);
    assert_eq!((device.processes, device.state), (None, DeviceState::Ok));
    let without_graphics = returning(&with(vec![compute(41)]), "nvmlDeviceGetGraphicsRunningProcesses_v3", 3);
    assert_eq!(Rig::new(&one(without_graphics)).device_after(0).processes.unwrap().len(), 1);
}

#[test]
fn a_driver_that_tells_of_more_than_it_wrote_is_not_believed() {
    let listed = Process { graphics: true, mps: true, ..compute(41) };
    for told in [0, 100, 100_000, u32::MAX] {
        let device =
            Rig::new(&one(Device { told_processes: Some(told), ..with(vec![listed.clone()]) })).device_after(0);
        let pids: Vec<u32> = device.processes.unwrap().iter().map(|process| process.pid).collect();
        assert_eq!(pids, if told == 0 { vec![] } else { vec![41] }, "{told} told");
    }
    let many =
        Rig::new(&one(with((1..=1_000).map(|pid| Process { mps: true, ..compute(pid) }).collect()))).device_after(0);
    assert_eq!(many.processes.unwrap().len(), 1_000);
}

fn shares(device: Device) -> (Vec<Option<u64>>, u32) {
    let device = Rig::new(&one(device)).device_after(0);
    (device.processes.unwrap().iter().map(|process| process.sm_util).collect(), device.refused_readings)
}

#[test]
fn parts_of_the_device_are_told_per_process() {
    let device = |rows| Device { process_utilisation: Some(rows), ..with(vec![compute(1), compute(2), compute(3)]) };
    // The driver leaves out who did nothing, and tells of processes that have ended.
    let rows =
        vec![row(1, START - 900_000, 40), row(1, START - 100_000, 60), row(3, START - 100_000, 25), row(77, START, 9)];
    assert_eq!(shares(device(rows)), (vec![Some(500_000), Some(0), Some(250_000)], 0));
    // Nothing at all says nothing of anybody, and neither do rows from long ago or for PID 0.
    assert_eq!(shares(device(vec![])), (vec![None; 3], 0));
    assert_eq!(shares(device(vec![row(1, START - 60_000_000, 90), row(0, START, 90)])), (vec![None; 3], 0));
    // A blank is no share of the process that it was told of.
    let blank = vec![row(1, START, u32::MAX.into()), row(2, START, 30)];
    assert_eq!(shares(device(blank)), (vec![None, Some(300_000), Some(0)], 1));
    let unsupported = Device { process_utilisation: None, ..device(vec![]) };
    assert_eq!(shares(unsupported), (vec![None; 3], 0));
}

#[test]
fn a_row_of_utilisation_counts_in_one_pass_only() {
    let device = Device { process_utilisation: Some(vec![row(1, START, 40)]), ..with(vec![compute(1)]) };
    let mut rig = Rig::new(&one(device));
    assert_eq!(rig.device_after(0).processes.unwrap()[0].sm_util, Some(400_000));
    assert_eq!(rig.device_after(1_000).processes.unwrap()[0].sm_util, None);
}
