//! What is told while nobody can say: of jobs whose devices are silent, of devices without a name, of Xid events from nowhere.

use super::*;

/// `acme` has used 40 % of GPU-1 for 10 s.
fn used() -> Rig {
    let mut rig = Rig::new();
    rig.start(job("acme", &[], &["/acme"]));
    rig.pass(&[at("GPU-1", 0)]);
    (0..10).for_each(|_| rig.pass(&[with(at("GPU-1", 40), &[process(1, "/acme", Some(40))])]));
    assert!(rig.of("acme").unwrap().healthy);
    rig
}

/// A second in which something goes wrong.
type Cause<'a> = &'a dyn Fn(&mut Rig);

/// Health, share, and what was held, of `acme`.
fn told(rig: &mut Rig) -> Option<(String, String, u64)> {
    let snapshot = rig.of("acme")?;
    Some((rig.wire_of("acme").health.clone(), snapshot.device_shares.to_string(), snapshot.counters.held_us))
}

#[test]
fn a_job_without_parts_is_told_with_what_ails_while_nobody_can_say_what_it_uses() {
    let silent = |rig: &mut Rig| rig.pass(&[with(at("GPU-1", 40), &[process(1, "/acme", None)])]);
    let lost = |rig: &mut Rig| rig.pass(&[failed("GPU-1", DeviceState::Lost)]);
    let missing = |rig: &mut Rig| rig.pass(&[]);
    let hangs = |rig: &mut Rig| {
        rig.meter.stalled(rig.mono_us);
        rig.wait(S);
    };
    let gone = |rig: &mut Rig| {
        let mut tick = rig.tick_of(&[]);
        tick.library = Library::Gone;
        rig.meter.observe(&tick);
        rig.wait(S);
    };
    let causes: [(&str, Cause<'_>); 5] =
        [("degraded", &silent), ("lost", &lost), ("degraded", &missing), ("stalled", &hangs), ("library_gone", &gone)];
    for (word, cause) in causes {
        let mut rig = used();
        let last = rig.of("acme").unwrap().observed_at;
        for _ in 0..30 {
            cause(&mut rig);
            let expected = (word.to_owned(), "0.4".to_owned(), 4 * S);
            assert_eq!(told(&mut rig), Some(expected), "it counts nothing and goes on being told");
        }
        assert!(word != "stalled" || rig.of("acme").unwrap().observed_at == last);
        // Used again, by another part; then known to be used no more.
        rig.pass(&[with(at("GPU-1", 25), &[process(1, "/acme", Some(25))])]);
        let (health, share, _) = told(&mut rig).unwrap();
        assert_eq!((health.as_str(), share.as_str()), ("ok", "0.25"));
        rig.pass(&[at("GPU-1", 0)]);
        assert_eq!(told(&mut rig), None, "it is known to use nothing");
    }
}

#[test]
fn what_was_held_longer_ago_than_any_window_is_told_no_more() {
    let mut rig = used();
    (0..899).for_each(|_| rig.pass(&[failed("GPU-1", DeviceState::Lost)]));
    assert!(told(&mut rig).is_some());
    rig.pass(&[failed("GPU-1", DeviceState::Lost)]);
    assert_eq!(told(&mut rig), None);
}

#[test]
fn an_instance_whose_processes_cannot_be_asked_is_told_on() {
    let mut rig = Rig::new();
    rig.start(job("acme", &[], &["/acme"]));
    let board = |processes: Option<Vec<Process>>| {
        let instance = InstanceTick { processes, ..slice(1, 14, &[(Metric::SmUtil, 500_000)]) };
        partitioned("GPU-1", &[], vec![instance])
    };
    rig.pass(&[board(Some(Vec::new()))]);
    (0..10).for_each(|_| rig.pass(&[board(Some(vec![process(1, "/acme", None)]))]));
    let known = told(&mut rig).unwrap();
    assert_eq!(known, ("ok".to_owned(), "1".to_owned(), 10 * S));
    for processes in [None, Some(vec![process(1, "/acme", None), process(2, "/stranger", None)])] {
        rig.pass(&[board(processes)]);
        assert_eq!(told(&mut rig), Some(("degraded".to_owned(), "1".to_owned(), 10 * S)));
    }
    rig.pass(&[partitioned("GPU-1", &[], Vec::new())]);
    assert_eq!(told(&mut rig), None, "the instance is no more");
}

#[test]
fn a_name_that_failed_at_first_is_learnt_and_none_is_unknown_at_last() {
    let nameless = || {
        let mut device = at("GPU-1", 50);
        device.info.name = String::new();
        device
    };
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.run(9, &[nameless()]);
    assert_eq!(rig.of("acme"), None, "of no known model yet");
    rig.run(1, &[at("GPU-1", 50)]);
    let snapshot = rig.of("acme").unwrap();
    assert_eq!((snapshot.gpu_model.as_str(), snapshot.counters.held_us), ("A100", 10 * S), "nothing is lost");
    assert_eq!(snapshot.counters.busy_us, Some(5 * S));
    rig.run(20, &[nameless()]);
    assert_eq!(rig.of("acme").unwrap().gpu_model, "A100");

    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.run(10, &[nameless()]);
    assert_eq!(rig.of("acme").unwrap().gpu_model, "unknown", "its driver tells none");
}

#[test]
fn an_xid_of_a_device_that_is_not_known_is_told_of_all() {
    let mut rig = Rig::new();
    rig.start(whole("acme", "GPU-1"));
    rig.wait(S);
    let mut tick = rig.tick_of(&[at("GPU-1", 50)]);
    let instance = Some(InstanceId { gpu_instance: 1, compute_instance: 0 });
    tick.xids = vec![Xid { uuid: Some("GPU-9".to_owned()), instance, code: 79 }];
    rig.meter.observe(&tick);
    assert_eq!(rig.of("acme").unwrap().reasons, ["xid_79"]);
    assert_eq!(rig.meter.counters().unplaced_xids, 1);
}

#[test]
fn more_devices_than_any_host_has_are_not_taken_in() {
    let mut rig = Rig::new();
    let many: Vec<DeviceTick> = (0..300).map(|number| at(&format!("GPU-{number}"), 5)).collect();
    rig.run(2, &many);
    assert_eq!(rig.meter.devices.len(), crate::tick::MAX_DEVICES);
    assert_eq!(rig.meter.counters().refused_readings, 2 * (300 - 256));
}
