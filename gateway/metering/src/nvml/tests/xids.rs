//! Xid errors: whose they are, that none is lost, and why nobody waits for them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crossbeam_channel::bounded;
use fake_nvml::{Behaviour, Device, Scenario, XidEvent};

use super::super::library::Library;
use super::super::xids::{End, watch};
use super::{Folder, Rig, a100, one, returning, until};
use crate::clock::{Clock, Now};
use crate::nvml::Pulse;
use crate::tick::{InstanceId, Tick, Xid};

fn with_event(device: Device) -> Scenario {
    let events = vec![XidEvent { device: Some(0), code: 79, instance: None }];
    Scenario { events, log_calls: true, ..one(device) }
}

/// Passes until the thread that waits for Xids has told of so many.
fn xids(rig: &mut Rig, count: usize) -> Vec<Xid> {
    let mut found = Vec::new();
    for _ in 0..2_000 {
        let Tick { xids, .. } = rig.pass_after(10);
        found.extend(xids);
        if found.len() >= count {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{found:?} are not {count} Xids")
}

#[test]
fn an_xid_names_its_device_and_its_instance() {
    let events = vec![
        XidEvent { device: Some(0), code: 31, instance: Some((1, 0)) },
        XidEvent { device: Some(0), code: 79, instance: None },
        XidEvent { device: None, code: 94, instance: None },
    ];
    let mut rig = Rig::new(&Scenario { events, ..one(a100(1)) });
    let uuid = Some("GPU-00000001".to_owned());
    let expected = [
        Xid { uuid: uuid.clone(), instance: Some(InstanceId { gpu_instance: 1, compute_instance: 0 }), code: 31 },
        Xid { uuid, instance: None, code: 79 },
        Xid { uuid: None, instance: None, code: 94 },
    ];
    assert_eq!(xids(&mut rig, 3), expected);
}

#[test]
fn what_a_device_told_last_is_not_lost_when_the_library_is_closed() {
    let lost = returning(&a100(1), "nvmlDeviceGetPowerUsage", 15);
    let mut rig = Rig::new(&Scenario { log_calls: true, ..one(lost.clone()) });
    rig.pass();
    until("it waits", || rig.count("nvmlEventSetWait_v2") > 0);
    rig.change(&with_event(lost));
    let waits = rig.count("nvmlEventSetWait_v2");
    until("the event is taken", || rig.count("nvmlEventSetWait_v2") >= waits + 2);
    // The pass after which the library is closed.
    let tick = rig.pass_after(10_000);
    assert_eq!(tick.xids.iter().map(|xid| xid.code).collect::<Vec<_>>(), [79]);
    let tick = rig.pass_until("a new run", |tick| tick.library_run == 2);
    assert_eq!(tick.xids, []);
}

#[test]
fn a_device_that_cannot_be_registered_at_first_is_tried_again() {
    let mut rig = Rig::new(&with_event(returning(&a100(1), "nvmlDeviceRegisterEvents", 999)));
    rig.pass();
    until("it is refused", || rig.count("nvmlDeviceRegisterEvents") > 0);
    assert_eq!(rig.pass_after(10).xids, []);
    rig.change(&with_event(a100(1)));
    assert_eq!(xids(&mut rig, 1)[0].code, 79);
    rig.end();
}

/// Why nothing waits any more, on a library with this scenario that lacks these symbols.
fn ends(scenario: &Scenario, without: &[&str]) -> End {
    let folder = Folder::new();
    let place = fake_nvml::install_without(&folder.0, scenario, without).unwrap();
    let library = Arc::new(Library::open(Some(&place)).unwrap());
    let (give, _found) = bounded(1);
    let pulse = Pulse::new(Clock::from_fn(|| Now { wall_us: 0, mono_us: 0 }));
    let end = watch(&library, &give, &AtomicBool::new(false), &pulse);
    drop(library);
    assert_eq!((fake_nvml::initialised(&place), fake_nvml::misuses(&place)), (0, vec![]));
    end
}

#[test]
fn that_nobody_waits_for_xids_has_a_reason_that_is_told() {
    for missing in ["nvmlEventSetWait_v2", "nvmlEventSetFree"] {
        assert_eq!(ends(&one(a100(1)), &[missing]), End::Lacks(missing));
    }
    assert!(matches!(ends(&one(a100(1)), &["nvmlEventSetCreate"]), End::Refused(..)));
    assert_eq!(ends(&one(returning(&a100(1), "nvmlDeviceRegisterEvents", 3)), &[]), End::NoDeviceTells);
    let functions = [("nvmlEventSetWait_v2".to_owned(), Behaviour::returns(4))].into();
    let end = ends(&Scenario { functions, ..one(a100(1)) }, &[]);
    assert!(matches!(end, End::Refused(..)) && end.to_string().starts_with("the driver refuses: "), "{end}");
}
