//! Metering with a source that these tests feed.

use crossbeam_channel::unbounded;

use super::super::config::StateDir;
use super::*;
use crate::clock::Now;
use crate::delivery::{DeliverySettings, Destination, SpoolLimits};
use crate::meter::{JobEnd, MeterSettings, Part};
use crate::samples::Directory;
use crate::tick::{DeviceInfo, DeviceState, DeviceTick, Library, Readings};

/// No test waits for it; it ends one that hangs.
const LONG: Duration = Duration::from_secs(30);

struct Fed(Receiver<Received>);

impl ReadTick for Fed {
    fn read_tick(&mut self, _patience: Duration) -> Received {
        self.0.recv().unwrap_or(Received::Ended)
    }
}

/// Metering on a thread of its own, and all its ends.
struct Running {
    ticks: Sender<Received>,
    commands: Sender<Command>,
    stop: Sender<()>,
    published: Arc<Published>,
    ended: thread::JoinHandle<Ended>,
}

fn job(name: &str) -> Job {
    let part = Part { gpu_uuid: "GPU-1".to_owned(), instance: None, share: 1_000_000 };
    Job { tenant: "acme".to_owned(), job: Some(name.to_owned()), parts: vec![part], workloads: Vec::new() }
}

fn running(is_recorded: bool, jobs: Vec<Job>) -> Running {
    running_with(is_recorded, jobs, None)
}

fn running_with(is_recorded: bool, jobs: Vec<Job>, delivery: Option<Arc<Delivery>>) -> Running {
    let (ticks, received) = unbounded();
    let (commands, obeyed) = bounded(1);
    let (stop, stopped) = bounded(1);
    let published = Arc::new(Published::default());
    let settings = MeterSettings {
        node: "gpu-07".to_owned(),
        tick: Duration::from_secs(1),
        models: std::collections::BTreeMap::new(),
        after_epoch_us: 0,
    };
    let metering = Metering {
        clock: Clock::from_fn(|| Now { wall_us: 1_796_083_200_000_000, mono_us: 7_000_000 }),
        meter: Meter::new(settings),
        jobs,
        ended: Vec::new(),
        state: Arc::new(State::nowhere()),
        delivery,
        published: Arc::clone(&published),
    };
    let source = Source {
        reader: Box::new(Fed(received)),
        is_recorded,
        tick: Duration::from_secs(1),
        fault: Default::default(),
    };
    let ended = thread::spawn(move || run(source, metering, &obeyed, &stopped));
    Running { ticks, commands, stop, published, ended }
}

fn tick(mono_us: u64) -> Received {
    tick_of(mono_us, Vec::new())
}

fn tick_of(mono_us: u64, devices: Vec<DeviceTick>) -> Received {
    let wall_us = i64::try_from(mono_us).unwrap();
    Received::Tick(Box::new(Tick {
        wall_us,
        mono_us,
        library_run: 1,
        library: Library::Present,
        devices,
        xids: Vec::new(),
    }))
}

fn until(running: &Running, is_so: impl Fn(&Seen) -> bool) {
    for _ in 0..3_000 {
        if is_so(&running.published.get()) {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("not seen: {:?}", running.published.get());
}

#[test]
fn ticks_are_published_and_a_stall_is_said_until_the_next() {
    let running = running(false, vec![job("standing")]);
    running.ticks.send(tick(1_000_000)).unwrap();
    until(&running, |seen| seen.tick.as_ref().is_some_and(|tick| tick.mono_us == 1_000_000) && seen.at_us == 7_000_000);
    running.ticks.send(Received::Nothing { stalled: true }).unwrap();
    until(&running, |seen| seen.is_stalled);
    running.ticks.send(tick(9_000_000)).unwrap();
    until(&running, |seen| !seen.is_stalled && seen.tick.as_ref().is_some_and(|tick| tick.mono_us == 9_000_000));
    running.stop.send(()).unwrap();
    assert_eq!(running.ended.join().unwrap(), Ended::Stopped);
}

#[test]
fn commands_are_answered_while_no_tick_comes() {
    let running = running(false, Vec::new());
    let (answer, answered) = bounded(1);
    running.commands.send(Command::Start { job: job("a"), answer }).unwrap();
    assert_eq!(answered.recv_timeout(LONG).unwrap(), Ok(()));
    // One that asked and went away stops nothing.
    let (answer, gone) = bounded(1);
    drop(gone);
    running.commands.send(Command::Start { job: job("b"), answer }).unwrap();
    let (answer, answered) = bounded(1);
    let (tenant, job, why) = ("acme".to_owned(), "nobody's".to_owned(), JobEnd::Preempted);
    running.commands.send(Command::End { tenant, job, why, answer }).unwrap();
    assert!(!answered.recv_timeout(LONG).unwrap());
    running.stop.send(()).unwrap();
    assert_eq!(running.ended.join().unwrap(), Ended::Stopped);
}

#[test]
fn in_a_recording_nothing_starts_before_its_first_tick() {
    let running = running(true, Vec::new());
    let (answer, answered) = bounded(1);
    running.commands.send(Command::Start { job: job("a"), answer }).unwrap();
    assert!(answered.try_recv().is_err());
    running.ticks.send(tick(1_000_000)).unwrap();
    assert_eq!(answered.recv_timeout(LONG).unwrap(), Ok(()));
    running.ticks.send(Received::Ended).unwrap();
    assert_eq!(running.ended.join().unwrap(), Ended::Source);
}

#[test]
fn a_recording_is_metered_to_its_end_and_every_microsecond_is_accounted_for() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/demo.jsonl").into();
    let choice = super::super::source::Choice::Replay { recording, speed: "100000".to_owned(), looped: false };
    let clock = Clock::system();
    let source = super::super::source::open(&choice, "gpu-07", &clock).unwrap();
    let tick = source.tick;
    let part =
        Part { gpu_uuid: "GPU-00000000-0000-0000-0000-000000000700".to_owned(), instance: None, share: 1_000_000 };
    let job = Job { parts: vec![part], ..job("whole") };
    let directory = Directory::new();
    let state = StateDir { path: directory.path().to_owned(), was_named: true };
    let published = Arc::new(Published::default());
    let (state, published) = (Arc::new(State::open(&state).unwrap()), published);
    let (node, models) = ("gpu-07".to_owned(), std::collections::BTreeMap::new());
    let meter = Meter::new(MeterSettings { node, tick, models, after_epoch_us: 0 });
    let (delivery, jobs) = (None, vec![job]);
    let metering = Metering {
        clock,
        meter,
        jobs,
        ended: Vec::new(),
        state: Arc::clone(&state),
        delivery,
        published: Arc::clone(&published),
    };
    let (_commands, obeyed) = bounded(0);
    let (_stop, stopped) = bounded(1);
    assert_eq!(run(source, metering, &obeyed, &stopped), Ended::Source);

    let seen = published.get();
    let last = seen.tick.as_ref().unwrap();
    assert_eq!(seen.meter.ticks, last.mono_us / 1_000_000 + 1, "one a second, from 0");
    let totals = seen.totals.iter().find(|totals| totals.job.as_deref() == Some("whole")).unwrap();
    let held = totals.metered + totals.unmetered;
    assert_eq!((held, totals.gpu_model.as_deref()), (u128::from(last.mono_us) * 1_000_000, Some("A100")));
    assert!(totals.metered > 0);
    assert_eq!(state.last_epoch_us(), 1_796_083_200_000_000, "that of the recording, for the next run to be later");
}

/// To a gateway that is not there.
fn delivery(directory: &Directory) -> Arc<Delivery> {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (gateway, state_dir) = (format!("http://{nobody}"), Some(directory.path().to_owned()));
    let settings =
        DeliverySettings { to: Destination::Gateway(gateway), key: None, limits: SpoolLimits::standard(), state_dir };
    Arc::new(Delivery::start(settings, Clock::system()).unwrap())
}

/// Jobs whose tombstones lie in the spool, with why they ended and what they held.
fn tombstones(directory: &Directory) -> Vec<(String, String, String)> {
    let spool = std::fs::read_to_string(directory.path().join("spool.jsonl")).unwrap();
    let snapshots = spool.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ended = snapshots.filter(|snapshot| snapshot["health"] == "ended");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let told = |snapshot: serde_json::Value| {
        (text(&snapshot["job"]), text(&snapshot["reasons"][0]), text(&snapshot["counters"]["held_us"]))
    };
    ended.map(told).collect()
}

#[test]
fn a_job_that_ended_just_before_the_stop_has_its_tombstone() {
    let directory = Directory::new();
    let delivery = delivery(&directory);
    let running = running_with(false, vec![job("a")], Some(Arc::clone(&delivery)));
    let device = DeviceTick {
        info: DeviceInfo { uuid: "GPU-1".to_owned(), name: "NVIDIA A100".to_owned(), ..DeviceInfo::default() },
        state: DeviceState::Ok,
        readings: Readings::default(),
        energy_mj: None,
        throttle_mask: None,
        processes: None,
        instances: Vec::new(),
        refused_readings: 0,
        clamped_readings: Vec::new(),
    };
    running.ticks.send(tick_of(8_000_000, vec![device])).unwrap();
    until(&running, |seen| seen.tells == 1);
    let (answer, answered) = bounded(1);
    let (tenant, job, why) = ("acme".to_owned(), "a".to_owned(), JobEnd::Preempted);
    running.commands.send(Command::End { tenant, job, why, answer }).unwrap();
    assert!(answered.recv_timeout(LONG).unwrap());
    running.stop.send(()).unwrap();
    assert_eq!(running.ended.join().unwrap(), Ended::Stopped);
    delivery.stop(LONG);
    assert_eq!(tombstones(&directory), [("a".to_owned(), "preempted".to_owned(), "1000000".to_owned())]);
}

#[test]
fn a_job_that_ended_before_a_crash_has_its_tombstone_after_it_and_its_device_is_free() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/demo.jsonl").into();
    let choice = super::super::source::Choice::Replay { recording, speed: "100000".to_owned(), looped: false };
    let clock = Clock::system();
    let source = super::super::source::open(&choice, "gpu-07", &clock).unwrap();
    let gpu_uuid = "GPU-00000000-0000-0000-0000-000000000700".to_owned();
    let on_device = |name: &str| {
        let part = Part { gpu_uuid: gpu_uuid.clone(), instance: None, share: 1_000_000 };
        Job { parts: vec![part], ..job(name) }
    };
    let directory = Directory::new();
    let (delivery, published) = (delivery(&directory), Arc::new(Published::default()));
    let (node, models) = ("gpu-07".to_owned(), std::collections::BTreeMap::new());
    let metering = Metering {
        clock,
        meter: Meter::new(MeterSettings { node, tick: source.tick, models, after_epoch_us: 0 }),
        jobs: vec![on_device("runs")],
        ended: vec![EndedJob { job: on_device("over"), why: JobEnd::Ended }],
        state: Arc::new(State::nowhere()),
        delivery: Some(Arc::clone(&delivery)),
        published: Arc::clone(&published),
    };
    let (_commands, obeyed) = bounded(0);
    let (_stop, stopped) = bounded(1);
    assert_eq!(run(source, metering, &obeyed, &stopped), Ended::Source);
    delivery.stop(LONG);
    assert_eq!(tombstones(&directory), [("over".to_owned(), "ended".to_owned(), "0".to_owned())]);
    assert!(published.get().totals.iter().any(|totals| totals.job.as_deref() == Some("runs")));
}
