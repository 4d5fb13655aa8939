//! What a device says of itself: info, power, energy, clocks, memory, throttling.

use std::collections::BTreeMap;

use fake_nvml::{Clocks, Device, Fields, Scenario, Value};

use super::{GIB, Rig, a100, one, readings, returning};
use crate::tick::{DeviceInfo, DeviceState, Library, Metric};

#[test]
fn a_pass_tells_everything_that_the_device_reports() {
    let mut rig = Rig::new(&one(a100(1)));
    let tick = rig.pass();
    assert_eq!((tick.wall_us, tick.mono_us, tick.library_run), (super::START, 5_000_000, 1));
    assert_eq!((tick.library, tick.devices.len()), (Library::Present, 1));
    let device = &tick.devices[0];
    let info = DeviceInfo {
        uuid: "GPU-00000001".to_owned(),
        name: "NVIDIA A100-SXM4-80GB".to_owned(),
        memory_total_bytes: Some(80 * GIB),
        power_limit_mw: Some(400_000),
        max_sm_clock_mhz: Some(1_410),
        mig: false,
        multiprocessors: None,
    };
    assert_eq!((&device.info, device.state), (&info, DeviceState::Ok));
    let told: Vec<_> = Metric::ALL.into_iter().map(|metric| (metric, readings(&device.readings, metric))).collect();
    let expected = vec![
        (Metric::GpuUtil, vec![(500_000, 800_000)]),
        (Metric::MemUtil, vec![(500_000, 350_000)]),
        (Metric::SmUtil, vec![]),
        (Metric::SmOccupancy, vec![]),
        (Metric::TensorActive, vec![]),
        (Metric::DramActive, vec![]),
        (Metric::MemUsedBytes, vec![(0, 20 * GIB)]),
        (Metric::PowerW, vec![(0, 250_000)]),
        (Metric::SmClockMhz, vec![(0, 1_275)]),
        (Metric::MemClockMhz, vec![(0, 1_512)]),
    ];
    assert_eq!(told, expected);
    assert_eq!((device.energy_mj, device.throttle_mask), (Some(123_456_789), Some(4)));
    assert_eq!((&device.processes, device.instances.len()), (&Some(vec![]), 0));
    assert_eq!((device.refused_readings, device.clamped_readings.len()), (0, 0));
}

#[test]
fn what_the_driver_reserves_is_not_used() {
    let device = Device { memory_reserved: 3 * GIB, memory_used: Some(Value::Constant(GIB)), ..a100(1) };
    let told = Rig::new(&one(device)).device_after(0);
    assert_eq!(told.readings.newest(Metric::MemUsedBytes), Some(GIB));
}

#[test]
fn what_a_device_does_not_support_is_absent_and_not_asked_for_ever() {
    let bare = Device { uuid: "GPU-bare".to_owned(), name: "Old".to_owned(), ..Device::default() };
    let mut rig = Rig::new(&Scenario { log_calls: true, ..one(bare.clone()) });
    for ms in [0, 1_000, 1_000, 1_000, 1_000] {
        let device = rig.device_after(ms);
        assert!(device.readings.is_empty() && device.energy_mj.is_none() && device.throttle_mask.is_none());
        assert_eq!((device.state, device.info.power_limit_mw, device.refused_readings), (DeviceState::Ok, None, 0));
    }
    let calls = fake_nvml::calls(&rig.library);
    let count = |name: &str| calls.iter().filter(|call| *call == name).count();
    for name in [
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetTotalEnergyConsumption",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetProcessUtilization",
    ] {
        assert_eq!(count(name), 3, "{name}: until it is believed");
    }
    assert_eq!((count("nvmlGpmQueryDeviceSupport"), count("nvmlGpmSampleAlloc")), (1, 0));
    assert_eq!(count("nvmlDeviceGetUUID"), 5, "who it is, is asked each time");

    // Initialised anew, the library is asked anew.
    rig.change(&Scenario { log_calls: true, ..one(returning(&bare, "*", 9)) });
    assert_eq!(rig.pass_after(1_000).library, Library::Gone);
    rig.change(&Scenario { log_calls: true, ..one(Device { uuid: bare.uuid, ..a100(1) }) });
    rig.pass_after(1_000);
    let tick = rig.pass_until("a new run", |tick| !tick.devices.is_empty());
    assert_eq!(tick.devices[0].energy_mj, Some(123_456_789));
}

#[test]
fn blank_quantities_are_refused_and_counted() {
    let blank = Device {
        memory_used: Some(Value::Constant(u64::MAX)),
        power_mw: Some(Value::Constant(u32::MAX.into())),
        energy_mj: Some(Value::Constant((1 << 63) - 1)),
        clocks: Some(Clocks { sm: Value::Constant(u32::MAX.into()), memory: Value::Constant(1_512), max_sm: 1_410 }),
        throttle_mask: Some(u64::MAX),
        ..a100(1)
    };
    let device = Rig::new(&one(blank)).device_after(0);
    for metric in [Metric::MemUsedBytes, Metric::PowerW, Metric::SmClockMhz] {
        assert_eq!(device.readings.newest(metric), None, "{metric:?}");
    }
    assert_eq!((device.energy_mj, device.throttle_mask, device.refused_readings), (None, None, 5));
    assert_eq!((device.readings.newest(Metric::MemClockMhz), device.state), (Some(1_512), DeviceState::Ok));
}

#[test]
fn the_energy_counter_is_told_as_it_is_backwards_too() {
    let at = |energy_mj| one(Device { energy_mj: Some(Value::Constant(energy_mj)), ..a100(1) });
    let mut rig = Rig::new(&at(9_000));
    assert_eq!(rig.device_after(0).energy_mj, Some(9_000));
    rig.change(&at(12));
    assert_eq!(rig.device_after(1_000).energy_mj, Some(12));
    rig.change(&at(0));
    assert_eq!(rig.device_after(1_000).energy_mj, Some(0));
}

#[test]
fn throttle_reasons_without_a_name_are_kept_and_the_old_name_is_understood() {
    let mask = 0x8000_0000_0001_0204 ^ 1 << 63;
    for throttle_by_its_old_name in [false, true] {
        let device = Device { throttle_mask: Some(mask), throttle_by_its_old_name, ..a100(1) };
        assert_eq!(Rig::new(&one(device)).device_after(0).throttle_mask, Some(mask));
    }
}

#[test]
fn field_values_are_matched_by_position_whatever_their_ids_and_types() {
    let values = BTreeMap::from([(186, (6, 0xffff_0000 | 312)), (83, (5, 0xdead_beef_0000_2711))]);
    for other_ids in [false, true] {
        let fields = Some(Fields { values: values.clone(), other_ids });
        let device = Device { power_mw: None, energy_mj: None, fields, ..a100(1) };
        let scenario = Scenario { driver_version: "580.95.05".to_owned(), ..one(device) };
        let told = Rig::new(&scenario).device_after(0);
        assert_eq!(told.readings.newest(Metric::PowerW), Some(312));
        assert_eq!(told.energy_mj, Some(10_001));
    }
}

#[test]
fn a_field_value_that_cannot_be_read_fails_only_itself() {
    // The average is of a type that no header knows, the counter negative.
    let values = BTreeMap::from([(185, (99, 5)), (186, (1, 400)), (83, (4, u64::MAX))]);
    let device =
        Device { power_mw: None, energy_mj: None, fields: Some(Fields { values, other_ids: true }), ..a100(1) };
    let told = Rig::new(&one(device)).device_after(0);
    assert_eq!((told.readings.newest(Metric::PowerW), told.energy_mj), (Some(400), None));
    assert_eq!(told.readings.newest(Metric::MemUsedBytes), Some(20 * GIB));
}

#[test]
fn a_device_is_who_its_uuid_says_whatever_its_index() {
    let mut rig = Rig::new(&Scenario { devices: vec![a100(1), a100(2)], ..Scenario::default() });
    let uuids =
        |tick: &crate::tick::Tick| tick.devices.iter().map(|device| device.info.uuid.clone()).collect::<Vec<_>>();
    assert_eq!(uuids(&rig.pass()), ["GPU-00000001", "GPU-00000002"]);
    rig.change(&Scenario { devices: vec![a100(2), a100(1)], ..Scenario::default() });
    let tick = rig.pass_after(1_000);
    assert_eq!(uuids(&tick), ["GPU-00000002", "GPU-00000001"]);
    assert!(tick.devices.iter().all(|device| device.state == DeviceState::Ok));
}
