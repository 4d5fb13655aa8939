//! MIG: instances read for themselves, nothing of the device that it cannot say under MIG, and the switch between both.

use fake_nvml::{Device, Gpm, Instance, Process, Scenario, Value};

use super::{GIB, Rig, a100, one, readings, returning};
use crate::tick::{DeviceState, Metric};

fn gpm(sm_util: u64) -> Option<Gpm> {
    let [sm_occupancy, tensor, dram] = [10, 20, 30].map(Value::Constant);
    Some(Gpm { sm_util: Value::Constant(sm_util), sm_occupancy, tensor, dram })
}

fn instance(gpu_instance: u32, compute_instance: u32) -> Instance {
    Instance {
        uuid: format!("MIG-{gpu_instance}-{compute_instance}"),
        gpu_instance,
        compute_instance,
        multiprocessors: 14,
        memory_mb: 9_856,
        memory_used: Some(Value::Constant(u64::from(gpu_instance) * GIB)),
        processes: vec![Process { pid: 100 + gpu_instance, compute: true, ..Process::default() }],
        gpm: gpm(u64::from(gpu_instance) * 10),
    }
}

fn divided(instances: Vec<Option<Instance>>) -> Device {
    // A driver may go on answering for the whole device with figures of nobody; they must not be asked for.
    Device { mig: Some(true), instances, rates: Some((Value::Constant(0), Value::Constant(0))), ..a100(1) }
}

#[test]
fn under_mig_the_device_has_no_utilisation_and_its_instances_have_their_own() {
    let mut rig = Rig::new(&one(divided(vec![Some(instance(1, 0)), None, Some(instance(5, 0))])));
    rig.kernel_process(105, 77, "/kubepods/pod-z");
    rig.device_after(0);
    let device = rig.device_after(1_000);
    assert!(device.info.mig && device.state == DeviceState::Ok);
    for metric in [Metric::GpuUtil, Metric::MemUtil, Metric::SmUtil, Metric::MemUsedBytes] {
        assert_eq!(readings(&device.readings, metric), [], "{metric:?}");
    }
    assert_eq!(device.processes, None);
    // The board is one.
    assert_eq!((device.readings.newest(Metric::PowerW), device.energy_mj), (Some(250_000), Some(123_456_789)));
    let ids: Vec<_> =
        device.instances.iter().map(|instance| (instance.id.to_string(), instance.uuid.as_str())).collect();
    assert_eq!(ids, [("1/0".to_owned(), "MIG-1-0"), ("5/0".to_owned(), "MIG-5-0")]);
    let last = &device.instances[1];
    assert_eq!((last.multiprocessors, last.memory_total_bytes), (Some(14), Some(9_856 << 20)));
    assert_eq!(last.readings.newest(Metric::MemUsedBytes), Some(5 * GIB));
    assert_eq!(last.readings.newest(Metric::SmUtil), Some(500_000));
    assert_eq!(last.readings.newest(Metric::GpuUtil), None);
    let processes = last.processes.as_ref().unwrap();
    assert_eq!(processes.iter().map(|process| (process.pid, process.started)).collect::<Vec<_>>(), [(105, Some(77))]);
    assert_eq!(processes[0].sm_util, None);
}

#[test]
fn what_a_gpu_instance_shares_is_no_compute_instances_own() {
    let mut rig = Rig::new(&one(divided(vec![Some(instance(2, 0)), Some(instance(2, 1)), Some(instance(3, 0))])));
    rig.device_after(0);
    let device = rig.device_after(1_000);
    let told: Vec<_> = device.instances.iter().map(|instance| instance.readings.newest(Metric::SmUtil)).collect();
    assert_eq!(told, [None, None, Some(300_000)]);
    let used: Vec<_> = device.instances.iter().map(|instance| instance.readings.newest(Metric::MemUsedBytes)).collect();
    assert_eq!(used, [None, None, Some(3 * GIB)]);
    assert!(device.instances.iter().all(|instance| instance.multiprocessors == Some(14)));
}

#[test]
fn mig_goes_on_and_off() {
    let whole = Device { gpm: gpm(70), ..a100(1) };
    let mut rig = Rig::new(&one(whole.clone()));
    rig.device_after(0);
    assert_eq!(rig.device_after(1_000).readings.newest(Metric::SmUtil), Some(700_000));
    rig.change(&one(divided(vec![Some(instance(1, 0))])));
    let device = rig.device_after(1_000);
    assert!(device.info.mig && device.instances.len() == 1 && device.readings.newest(Metric::SmUtil).is_none());
    // Another division, without the pair of samples of the one before.
    rig.change(&one(divided(vec![Some(instance(4, 0))])));
    assert_eq!(rig.device_after(1_000).instances[0].readings.newest(Metric::SmUtil), None);
    assert_eq!(rig.device_after(1_000).instances[0].readings.newest(Metric::SmUtil), Some(400_000));
    rig.change(&one(divided(vec![])));
    assert_eq!(rig.device_after(1_000).instances, []);
    rig.change(&one(whole));
    let device = rig.device_after(1_000);
    assert!(!device.info.mig && device.instances.is_empty() && device.processes == Some(vec![]));
    assert_eq!(rig.device_after(1_000).readings.newest(Metric::SmUtil), Some(700_000));
}

#[test]
fn a_hole_is_no_refusal_however_the_driver_says_it() {
    for hole in [2, 3, 6] {
        let holes = (0..5).map(|_| None).chain([Some(instance(1, 0)), None, Some(instance(5, 0))]);
        let device = Device { hole: Some(hole), ..divided(holes.collect()) };
        let mut rig = Rig::new(&one(device));
        for _ in 0..5 {
            assert_eq!(rig.device_after(1_000).instances.len(), 2, "code {hole}");
        }
    }
}

#[test]
fn an_instance_that_does_not_say_who_it_is_leaves_the_others_to_be_read() {
    let device = divided(vec![Some(instance(1, 0)), Some(instance(5, 0))]);
    let mut rig = Rig::new(&one(returning(&device, "nvmlDeviceGetGpuInstanceId", 3)));
    assert_eq!(rig.device_after(0).instances, []);
    rig.change(&one(device));
    assert_eq!(rig.device_after(1_000).instances.len(), 2, "asked again");
}

#[test]
fn a_driver_that_counts_more_instances_than_there_can_be_is_not_believed() {
    let device = Device { instance_count: Some(20_000), ..divided(vec![Some(instance(1, 0))]) };
    let mut rig = Rig::new(&Scenario { log_calls: true, ..one(device) });
    assert_eq!(rig.device_after(0).instances.len(), 1);
    assert_eq!(rig.count("nvmlDeviceGetMigDeviceHandleByIndex"), 64);
}
