//! GPM: pairs of samples, one pass apart.

use std::sync::Arc;

use fake_nvml::{Device, Gpm, Scenario, Value};

use super::super::gpm::Held;
use super::super::library::Library;
use super::{Folder, Rig, a100, one, readings, returning};
use crate::tick::{DeviceTick, Metric};

fn hopper(sm_util: Value) -> Device {
    let gpm = Gpm { sm_util, sm_occupancy: Value::Real(31.25), tensor: Value::Constant(12), dram: Value::Constant(44) };
    Device { gpm: Some(gpm), ..a100(1) }
}

fn told(device: &DeviceTick) -> Vec<Vec<(u32, u64)>> {
    let metrics = [Metric::SmUtil, Metric::SmOccupancy, Metric::TensorActive, Metric::DramActive];
    metrics.map(|metric| readings(&device.readings, metric)).to_vec()
}

fn none() -> Vec<Vec<(u32, u64)>> {
    vec![vec![]; 4]
}

#[test]
fn two_passes_make_a_pair() {
    let mut rig = Rig::new(&one(hopper(Value::Constant(70))));
    assert_eq!(told(&rig.device_after(0)), none());
    for _ in 0..3 {
        let expected = [[(0, 700_000)], [(0, 312_500)], [(0, 120_000)], [(0, 440_000)]].map(Vec::from).to_vec();
        assert_eq!(told(&rig.device_after(1_000)), expected);
    }
}

#[test]
fn what_is_no_share_is_refused_and_a_rounding_is_clamped() {
    let mut rig = Rig::new(&one(hopper(Value::Nan)));
    rig.device_after(0);
    let device = rig.device_after(1_000);
    assert_eq!((readings(&device.readings, Metric::SmUtil), device.refused_readings), (vec![], 1));
    assert_eq!(readings(&device.readings, Metric::DramActive), [(0, 440_000)]);
    rig.change(&one(hopper(Value::Real(100.7))));
    let device = rig.device_after(1_000);
    assert_eq!(readings(&device.readings, Metric::SmUtil), [(0, 1_000_000)]);
    assert_eq!((device.clamped_readings, device.refused_readings), (vec![1_007_000], 0));
    rig.change(&one(hopper(Value::Constant(u64::MAX))));
    assert_eq!(rig.device_after(1_000).refused_readings, 1);
}

#[test]
fn a_pass_without_a_sample_breaks_the_pair() {
    let device = hopper(Value::Constant(70));
    let mut rig = Rig::new(&one(device.clone()));
    rig.device_after(0);
    rig.change(&one(returning(&device, "nvmlGpmSampleGet", 27)));
    assert_eq!(told(&rig.device_after(1_000)), none());
    rig.change(&one(device));
    assert_eq!(told(&rig.device_after(1_000)), none());
    assert_eq!(readings(&rig.device_after(1_000).readings, Metric::SmUtil), [(0, 700_000)]);
}

#[test]
fn a_sample_of_another_library_is_freed_and_not_lost() {
    let folder = Folder::new();
    let place = fake_nvml::install(&folder.0, &one(hopper(Value::Constant(70)))).unwrap();
    let [first, second] = [(); 2].map(|()| Arc::new(Library::open(Some(&place)).unwrap()));
    let sample = first.nvml().device_by_index(0).and_then(|device| device.gpm_sample()).unwrap();
    assert!(Held::new(&first, sample).release(&second).is_none());
    drop((first, second));
    assert_eq!((fake_nvml::initialised(&place), fake_nvml::misuses(&place)), (0, vec![]));
}

#[test]
fn every_sample_taken_is_given_back() {
    let mut rig = Rig::new(&Scenario { log_calls: true, ..one(hopper(Value::Constant(70))) });
    for _ in 0..5 {
        rig.device_after(1_000);
    }
    let library = rig.library.clone();
    let count = |name: &str| fake_nvml::calls(&library).iter().filter(|call| *call == name).count();
    assert_eq!((count("nvmlGpmSampleAlloc"), count("nvmlGpmSampleFree")), (5, 4));
    // The last one with the library: a driver that is gone takes it back all the same.
    rig.change(&Scenario { log_calls: true, ..one(returning(&hopper(Value::Constant(70)), "*", 9)) });
    rig.pass_after(1_000);
    assert_eq!(count("nvmlGpmSampleFree"), 5);
}
