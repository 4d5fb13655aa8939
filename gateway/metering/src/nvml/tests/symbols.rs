//! Libraries that lack functions, and ends that go wrong: no panic, and the rest is read.

use fake_nvml::{Behaviour, Device, Gpm, Scenario, Value, XidEvent};

use super::super::library::Library as Opened;
use super::{Folder, Rig, a100, one};
use crate::tick::{DeviceState, Library, Metric};

fn hopper() -> Device {
    let [sm_util, sm_occupancy, tensor, dram] = [70, 31, 12, 44].map(Value::Constant);
    Device { gpm: Some(Gpm { sm_util, sm_occupancy, tensor, dram }), ..a100(1) }
}

/// Shutting down returns this code.
fn failing(code: u32) -> Scenario {
    let functions = [("nvmlShutdown".to_owned(), Behaviour::returns(code))].into();
    Scenario { functions, ..one(hopper()) }
}

#[test]
fn a_library_without_most_of_its_functions_is_read_as_far_as_it_goes() {
    let missing = [
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlDeviceGetProcessUtilization",
        "nvmlGpmMetricsGet",
        "nvmlEventSetCreate",
        "nvmlSystemGetDriverVersion",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetFieldValues",
        "nvmlErrorString",
    ];
    let mut rig = Rig::without(&one(hopper()), &missing);
    rig.device_after(0);
    let device = rig.device_after(1_000);
    assert_eq!((device.state, device.throttle_mask), (DeviceState::Ok, Some(4)), "the mask has an older name");
    assert_eq!(device.readings.newest(Metric::PowerW), Some(250_000));
    for metric in [Metric::GpuUtil, Metric::MemUsedBytes, Metric::SmUtil] {
        assert_eq!(device.readings.newest(metric), None, "{metric:?}");
    }
    assert_eq!(device.processes, Some(vec![]));
}

#[test]
fn a_library_that_cannot_start_is_gone() {
    assert_eq!(Rig::without(&one(a100(1)), &["nvmlInit_v2"]).pass().library, Library::Gone);
    // Opened, but with nobody to ask for: every device is unknown, and nothing panics.
    let tick = Rig::without(&one(a100(1)), &["nvmlDeviceGetCount_v2"]).pass();
    assert_eq!((tick.library, tick.devices.len()), (Library::Present, 0));
}

#[test]
fn what_cannot_be_freed_is_not_taken() {
    let events = vec![XidEvent { device: Some(0), code: 79, instance: None }];
    let scenario = Scenario { events, log_calls: true, ..one(hopper()) };
    let mut rig = Rig::without(&scenario, &["nvmlGpmSampleFree", "nvmlEventSetFree"]);
    for _ in 0..3 {
        assert_eq!(rig.device_after(1_000).readings.newest(Metric::SmUtil), None);
    }
    let calls = fake_nvml::calls(&rig.library);
    assert!(!calls.iter().any(|call| call == "nvmlGpmSampleAlloc" || call == "nvmlEventSetCreate"), "{calls:?}");
}

#[test]
fn a_shutdown_that_fails_or_is_missing_ends_quietly() {
    // On this thread: a panic on the one that waits for Xids would be nobody's failure.
    for (scenario, missing) in [(failing(999), &[][..]), (failing(0), &["nvmlShutdown"][..])] {
        let folder = Folder::new();
        let library = fake_nvml::install_without(&folder.0, &scenario, missing).unwrap();
        drop(Opened::open(Some(&library)).unwrap());
    }

    for code in [1, 9, 999] {
        let mut rig = Rig::new(&failing(code));
        rig.device_after(0);
        rig.device_after(1_000);
        drop(rig);
    }
    let mut rig = Rig::without(&one(hopper()), &["nvmlShutdown"]);
    rig.device_after(0);
    drop(rig);
}

#[test]
fn a_library_without_shutdown_is_initialised_again_all_the_same() {
    let mut rig = Rig::without(&one(a100(1)), &["nvmlShutdown"]);
    rig.device_after(0);
    let functions = [("*".to_owned(), Behaviour::returns(9))].into();
    rig.change(&Scenario { functions, ..one(a100(1)) });
    assert_eq!(rig.pass_after(1_000).library, Library::Gone);
    rig.change(&one(a100(1)));
    rig.pass_after(1_000);
    assert_eq!(rig.pass_until("a new run", |tick| tick.library == Library::Present).library_run, 2);
}
