//! Devices that are gone, drivers that are reloaded, libraries that are not there: said so, and tried again.

use fake_nvml::{Behaviour, Device, Scenario};

use super::{Folder, Rig, a100, one, readings, returning, until};
use crate::tick::{DeviceState, Library, Metric, Tick};

fn pair(first: Device, second: Device) -> Scenario {
    Scenario { devices: vec![first, second], ..Scenario::default() }
}

fn all_return(code: u32) -> Scenario {
    let functions = [("*".to_owned(), Behaviour::returns(code))].into();
    Scenario { functions, ..pair(a100(1), a100(2)) }
}

fn states(tick: &Tick) -> Vec<(&str, DeviceState)> {
    tick.devices.iter().map(|device| (device.info.uuid.as_str(), device.state)).collect()
}

#[test]
fn a_device_that_is_gone_keeps_its_name_while_the_others_are_read() {
    for (code, state) in [(15, DeviceState::Lost), (28, DeviceState::Lost), (16, DeviceState::ResetRequired)] {
        let mut rig = Rig::new(&pair(a100(1), a100(2)));
        rig.pass();
        rig.change(&pair(returning(&a100(1), "*", code), a100(2)));
        let tick = rig.pass_after(1_000);
        assert_eq!(states(&tick), [("GPU-00000001", state), ("GPU-00000002", DeviceState::Ok)], "code {code}");
        assert_eq!((tick.library, tick.library_run), (Library::Present, 1));
        assert!(tick.devices[0].readings.is_empty() && tick.devices[0].info.name.contains("A100"));
        assert_eq!(tick.devices[1].readings.newest(Metric::PowerW), Some(250_000));

        // The library is closed after 10 s, 20 s, … while it is gone, and initialised anew; a new boot epoch each time.
        for (run, wait) in [(1, 10), (2, 20)] {
            let told = (0..wait).map(|_| rig.pass_after(1_000)).all(|tick| tick.library == Library::Present);
            assert!(told, "the last pass before it is closed is told too");
            let tick = rig.pass_until("a new run", |tick| tick.library_run == run + 1);
            assert_eq!((tick.library, tick.devices.len()), (Library::Present, 2));
        }
        rig.change(&pair(a100(1), a100(2)));
        let tick = rig.pass_after(1_000);
        assert_eq!(states(&tick), [("GPU-00000001", DeviceState::Ok), ("GPU-00000002", DeviceState::Ok)]);
        assert!((0..100).all(|_| rig.pass_after(1_000).library_run == 3));
        rig.end();
    }
}

#[test]
fn a_device_that_is_gone_comes_back_because_nobody_holds_the_library_in_between() {
    let mut rig = Rig::new(&pair(a100(1), a100(2)));
    rig.pass();
    rig.change(&pair(Device { lost_until_shut_down: true, ..a100(1) }, a100(2)));
    assert_eq!(states(&rig.pass_after(1_000))[0], ("GPU-00000001", DeviceState::Lost));
    rig.pass_after(10_000);
    let tick = rig.pass_until("a new run", |tick| tick.library_run == 2);
    assert_eq!(states(&tick), [("GPU-00000001", DeviceState::Ok), ("GPU-00000002", DeviceState::Ok)]);
    assert!((0..100).all(|_| rig.pass_after(1_000).library_run == 2), "one new epoch is enough");
    assert_eq!(fake_nvml::initialised(&rig.library), 1);
    rig.end();
}

#[test]
fn while_a_wait_for_xids_hangs_the_library_is_gone_and_not_opened_again_and_again() {
    let hanging = |device: Device| {
        let functions = [("nvmlEventSetWait_v2".to_owned(), Behaviour::hangs(fake_nvml::Hang::UntilChanged))].into();
        Scenario { functions, log_calls: true, ..one(device) }
    };
    let mut rig = Rig::new(&hanging(a100(1)));
    rig.pass();
    until("it hangs", || rig.count("nvmlEventSetWait_v2") == 1);
    rig.change(&hanging(returning(&a100(1), "nvmlDeviceGetPowerUsage", 15)));
    rig.pass_after(1_000);
    rig.pass_after(10_000);
    for _ in 0..50 {
        let tick = rig.pass_after(60_000);
        assert_eq!((tick.library, tick.library_run), (Library::Gone, 1));
    }
    assert_eq!((rig.count("nvmlInit_v2"), fake_nvml::initialised(&rig.library)), (1, 1));
    rig.change(&one(a100(1)));
    let tick = rig.pass_until("a new run", |tick| tick.library == Library::Present);
    assert_eq!((tick.library_run, tick.devices[0].state), (2, DeviceState::Ok));
    rig.end();
}

#[test]
fn a_device_lost_in_the_middle_of_a_pass_is_lost() {
    let mut rig = Rig::new(&one(returning(&a100(1), "nvmlDeviceGetPowerUsage", 15)));
    let device = rig.device_after(0);
    assert_eq!((device.state, device.processes), (DeviceState::Lost, None));
    assert_eq!(device.readings.newest(Metric::PowerW), None);
}

#[test]
fn a_device_that_the_driver_no_longer_lists_is_lost() {
    let mut rig = Rig::new(&pair(a100(1), a100(2)));
    rig.pass();
    rig.change(&one(a100(2)));
    let tick = rig.pass_after(1_000);
    assert_eq!(states(&tick), [("GPU-00000002", DeviceState::Ok), ("GPU-00000001", DeviceState::Lost)]);
    let tick = rig.pass_after(1_000);
    assert_eq!(states(&tick), [("GPU-00000002", DeviceState::Ok), ("GPU-00000001", DeviceState::Lost)]);
}

#[test]
fn a_device_that_is_not_counted_for_a_quarter_of_an_hour_is_forgotten_and_forces_nothing() {
    let mut rig = Rig::new(&pair(a100(1), a100(2)));
    rig.pass();
    rig.change(&one(a100(2)));
    let gone = [("GPU-00000002", DeviceState::Ok), ("GPU-00000001", DeviceState::Lost)];
    assert_eq!(states(&rig.pass_after(1_000)), gone);
    // Comes back for a moment: the time begins anew.
    rig.pass_after(600_000);
    rig.change(&pair(a100(1), a100(2)));
    rig.pass_until("both", |tick| tick.devices.iter().filter(|device| device.state == DeviceState::Ok).count() == 2);
    rig.change(&one(a100(2)));
    rig.pass_after(1_000);
    let run = rig.pass_until("still told", |tick| tick.library == Library::Present).library_run;
    rig.pass_after(899_000);
    rig.pass_until("still told", |tick| states(tick) == gone);
    rig.pass_after(2_000);
    let tick = rig.pass_until("forgotten", |tick| states(tick) == [("GPU-00000002", DeviceState::Ok)]);
    assert!(tick.library_run > run, "it was tried to get it back");
    assert!((0..100).all(|_| rig.pass_after(60_000).library_run == tick.library_run));
    rig.change(&pair(a100(1), a100(2)));
    assert_eq!(rig.pass_after(1_000).devices.len(), 2, "and found again");
}

#[test]
fn a_driver_that_counts_more_devices_than_there_can_be_is_not_believed() {
    let mut rig = Rig::new(&Scenario { device_count: Some(20_000), log_calls: true, ..one(a100(1)) });
    assert_eq!(states(&rig.pass()), [("GPU-00000001", DeviceState::Ok)]);
    assert!(rig.count("nvmlDeviceGetHandleByIndex_v2") <= 2 * 256, "those of the pass, and of the wait for Xids");
}

#[test]
fn a_device_that_was_never_seen_has_no_identity_to_tell() {
    let mut rig = Rig::new(&pair(returning(&a100(1), "*", 15), a100(2)));
    assert_eq!(states(&rig.pass()), [("GPU-00000002", DeviceState::Ok)]);
}

#[test]
fn a_driver_that_goes_takes_all_devices_along_and_comes_back_as_a_new_run() {
    for code in [1, 9, 12, 18] {
        let mut rig = Rig::new(&pair(a100(1), a100(2)));
        assert_eq!((rig.pass().devices.len(), rig.pass_after(1_000).library_run), (2, 1));
        rig.change(&all_return(code));
        let tick = rig.pass_after(1_000);
        assert_eq!((tick.library, tick.devices.len(), tick.library_run), (Library::Gone, 0, 1), "code {code}");
        rig.change(&pair(a100(1), a100(2)));
        assert_eq!(rig.pass_after(999).library, Library::Gone, "not before a second has passed");
        let tick = rig.pass_until("a new run", |tick| tick.library == Library::Present);
        assert_eq!((tick.devices.len(), tick.library_run), (2, 2), "code {code}");
        assert!(tick.devices.iter().all(|device| device.state == DeviceState::Ok));
    }
}

#[test]
fn a_library_gone_in_the_middle_of_a_pass_is_gone() {
    for function in ["nvmlDeviceGetCount_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetTotalEnergyConsumption"] {
        let mut rig = Rig::new(&pair(a100(1), returning(&a100(2), function, 9)));
        if function == "nvmlDeviceGetCount_v2" {
            let functions = [(function.to_owned(), Behaviour::returns(18))].into();
            rig.change(&Scenario { functions, ..pair(a100(1), a100(2)) });
        }
        let tick = rig.pass();
        assert_eq!((tick.library, tick.devices.len(), tick.library_run), (Library::Gone, 0, 1), "{function}");
    }
}

#[test]
fn waits_between_attempts_double_up_to_a_minute() {
    let scenario = Scenario { log_calls: true, ..all_return(9) };
    let mut rig = Rig::new(&scenario);
    let mut attempts = Vec::new();
    let mut seen = 0;
    for second in 0..200 {
        assert_eq!(rig.pass_after(if second == 0 { 0 } else { 1_000 }).library_run, 0);
        let now = fake_nvml::calls(&rig.library).iter().filter(|call| *call == "nvmlInit_v2").count();
        if now > seen {
            attempts.push(second);
        }
        seen = now;
    }
    assert_eq!(attempts, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
}

#[test]
fn a_machine_without_the_library_is_told_as_such_until_there_is_one() {
    let folder = Folder::new();
    let library = folder.0.join("libnvidia-ml.so.1");
    let mut rig = Rig::in_folder(folder, library);
    for _ in 0..3 {
        let tick = rig.pass_after(1_000);
        assert_eq!((tick.library, tick.devices.len(), tick.library_run), (Library::Gone, 0, 0));
    }
    fake_nvml::install(rig.folder(), &one(a100(1))).unwrap();
    let tick = rig.pass_after(4_000);
    assert_eq!((tick.library, tick.devices.len(), tick.library_run), (Library::Present, 1, 1));
}

#[test]
fn a_file_that_is_no_library_is_no_library() {
    let folder = Folder::new();
    let library = folder.0.join("libnvidia-ml.so.1");
    std::fs::write(&library, "no library").unwrap();
    assert_eq!(Rig::in_folder(folder, library).pass().library, Library::Gone);
}

#[test]
fn codes_without_a_name_fail_one_field_and_nothing_else() {
    for code in 23..=30 {
        let mut rig = Rig::new(&one(returning(&a100(1), "nvmlDeviceGetPowerUsage", code)));
        let device = rig.device_after(0);
        let state = if code == 28 { DeviceState::Lost } else { DeviceState::Ok };
        assert_eq!((device.state, device.readings.newest(Metric::PowerW)), (state, None), "code {code}");
        let others = if code == 28 { vec![] } else { vec![(500_000, 800_000)] };
        assert_eq!(readings(&device.readings, Metric::GpuUtil), others, "code {code}");
        // What may pass is asked again, what the device cannot say for three passes is not.
        rig.device_after(1_000);
        rig.device_after(1_000);
        rig.change(&one(a100(1)));
        let asked_again = [23, 27, 28, 29].contains(&code);
        assert_eq!(rig.device_after(1_000).readings.newest(Metric::PowerW).is_some(), asked_again, "code {code}");
    }
}

#[test]
fn what_is_called_unsupported_once_or_twice_is_asked_again() {
    let refusing = one(returning(&a100(1), "nvmlDeviceGetPowerUsage", 3));
    let mut rig = Rig::new(&refusing);
    for _ in 0..3 {
        rig.device_after(1_000);
        rig.device_after(1_000);
        rig.change(&one(a100(1)));
        assert_eq!(rig.device_after(1_000).readings.newest(Metric::PowerW), Some(250_000));
        rig.change(&refusing);
    }
    (0..3).for_each(|_| drop(rig.device_after(1_000)));
    rig.change(&one(a100(1)));
    assert_eq!(rig.device_after(1_000).readings.newest(Metric::PowerW), None);
}

#[test]
fn a_device_that_answers_nothing_for_now_is_unreadable_and_then_well_again() {
    for code in [4, 10, 17, 19, 999] {
        let mut rig = Rig::new(&one(a100(1)));
        assert_eq!(rig.device_after(0).state, DeviceState::Ok);
        rig.change(&one(returning(&a100(1), "*", code)));
        let tick = rig.pass_after(1_000);
        assert_eq!(states(&tick), [("GPU-00000001", DeviceState::Unreadable)], "code {code}");
        let functions = [("nvmlDeviceGetCount_v2".to_owned(), Behaviour::returns(code))].into();
        rig.change(&Scenario { functions, ..one(a100(1)) });
        assert_eq!(states(&rig.pass_after(1_000)), [("GPU-00000001", DeviceState::Unreadable)], "code {code}");
        rig.change(&one(a100(1)));
        assert_eq!(rig.device_after(1_000).state, DeviceState::Ok, "code {code}");
    }
}
