//! The reading thread: ticks while the driver answers, and a caller that never hangs with it.

use std::path::PathBuf;
use std::time::Duration;

use fake_nvml::{Behaviour, Device, Hang, Process, Samples, Scenario, UtilisationRow, Value};

use super::{LiveReader, ReadTick, Received};
use crate::clock::Clock;
use crate::nvml::Options;
use crate::nvml::tests::{Folder, a100, one, until};
use crate::tick::{Library, Metric, Tick};

const PATIENCE: Duration = Duration::from_millis(20);
/// A test that waits longer than so many patiences fails.
const MOST_TRIES: u32 = 1_500;

fn options(lib_path: PathBuf) -> Options {
    Options { lib_path: Some(lib_path), tick: Duration::from_millis(10), ..Options::default() }
}

fn start(lib_path: PathBuf) -> LiveReader {
    LiveReader::start(options(lib_path), Clock::system()).unwrap()
}

fn hanging(function: &str) -> Scenario {
    let mut scenario = one(a100(1));
    scenario.functions.insert(function.to_owned(), Behaviour::hangs(Hang::UntilChanged));
    scenario
}

/// What the first answer of this kind is.
fn wait_for<T>(reader: &mut LiveReader, what: &str, mut find: impl FnMut(Received) -> Option<T>) -> T {
    let found = (0..MOST_TRIES).find_map(|_| find(reader.read_tick(PATIENCE)));
    found.unwrap_or_else(|| panic!("no {what}"))
}

fn a_tick(received: Received) -> Option<Tick> {
    match received {
        Received::Tick(tick) => Some(*tick),
        Received::Nothing { .. } => None,
        Received::Ended => panic!("a machine has no end"),
    }
}

fn a_stall(received: Received) -> Option<()> {
    matches!(received, Received::Nothing { stalled: true }).then_some(())
}

#[test]
fn ticks_come_in_the_order_of_time() {
    let folder = Folder::new();
    let mut reader = start(fake_nvml::install(&folder.0, &one(a100(1))).unwrap());
    let mut last = None;
    for _ in 0..10 {
        let tick = wait_for(&mut reader, "tick", a_tick);
        assert_eq!((tick.library, tick.devices.len(), tick.library_run), (Library::Present, 1, 1));
        assert!(last.is_none_or(|last| last < tick.mono_us));
        last = Some(tick.mono_us);
    }
}

#[test]
fn a_driver_that_hangs_is_said_to_and_read_again_when_it_goes_on() {
    for function in ["nvmlDeviceGetPowerUsage", "nvmlDeviceGetCount_v2"] {
        let folder = Folder::new();
        let library = fake_nvml::install(&folder.0, &one(a100(1))).unwrap();
        let clock = Clock::system();
        let mut reader = LiveReader::start(options(library.clone()), clock.clone()).unwrap();
        wait_for(&mut reader, "tick", a_tick);
        fake_nvml::change(&library, &hanging(function)).unwrap();
        wait_for(&mut reader, "stall", a_stall);
        assert!(matches!(reader.read_tick(PATIENCE), Received::Nothing { stalled: true }), "it hangs on");
        let during = clock.now().mono_us;
        fake_nvml::change(&library, &one(a100(1))).unwrap();
        let tick = wait_for(&mut reader, "tick after the hang", a_tick);
        assert_eq!(tick.library_run, 1);
        assert!(tick.mono_us > during, "the pass that hung is not told");
        wait_for(&mut reader, "next tick", a_tick);
    }
}

#[test]
fn a_driver_that_is_slow_in_every_call_stalls_too() {
    let folder = Folder::new();
    let library = fake_nvml::install(&folder.0, &one(a100(1))).unwrap();
    let clock = Clock::system();
    let tick = Duration::from_millis(40);
    let mut reader = LiveReader::start(Options { tick, ..options(library.clone()) }, clock.clone()).unwrap();
    wait_for(&mut reader, "tick", a_tick);
    // Each call is far from five ticks, and all together are more.
    let mut slow = one(a100(1));
    slow.functions.insert("*".to_owned(), Behaviour::hangs(Hang::Ms(50)));
    fake_nvml::change(&library, &slow).unwrap();
    wait_for(&mut reader, "stall", a_stall);
    let during = clock.now().mono_us;
    fake_nvml::change(&library, &one(a100(1))).unwrap();
    assert!(wait_for(&mut reader, "tick", a_tick).mono_us > during, "the slow pass is not told");
}

#[test]
fn an_initialisation_that_hangs_stalls_too() {
    let folder = Folder::new();
    let library = fake_nvml::install(&folder.0, &hanging("nvmlInit_v2")).unwrap();
    let mut reader = start(library.clone());
    wait_for(&mut reader, "stall", a_stall);
    fake_nvml::change(&library, &one(a100(1))).unwrap();
    assert_eq!(wait_for(&mut reader, "tick", a_tick).library, Library::Present);
}

#[test]
fn a_reader_that_hangs_can_be_dropped() {
    let folder = Folder::new();
    let library = fake_nvml::install(&folder.0, &hanging("nvmlDeviceGetPowerUsage")).unwrap();
    let mut reader = start(library.clone());
    wait_for(&mut reader, "stall", a_stall);
    // Would never come back if it waited for its thread.
    drop(reader);
    fake_nvml::change(&library, &one(a100(1))).unwrap();
}

#[test]
fn a_reader_that_is_dropped_shuts_the_library_down() {
    let folder = Folder::new();
    let library = fake_nvml::install(&folder.0, &one(a100(1))).unwrap();
    let mut reader = start(library.clone());
    wait_for(&mut reader, "tick", a_tick);
    assert_eq!(fake_nvml::initialised(&library), 1);
    drop(reader);
    // The thread that waits for Xids may be in its last wait still.
    until("the library is shut down", || fake_nvml::initialised(&library) == 0);
    assert_eq!(fake_nvml::misuses(&library), [""; 0]);
}

#[test]
fn rows_and_processes_are_read_as_they_come() {
    let folder = Folder::new();
    let device = Device {
        gpu_samples: Some(Samples::Dated { every_ms: 20, value: Value::Constant(64) }),
        memory_samples: None,
        rates: Some((Value::Constant(99), Value::Constant(33))),
        processes: vec![Process { pid: 5, compute: true, ..Process::default() }],
        process_utilisation: Some(vec![UtilisationRow { pid: 5, at_us: None, sm: Value::Constant(50) }]),
        ..a100(1)
    };
    let library = fake_nvml::install(&folder.0, &one(device.clone())).unwrap();
    let mut reader = start(library.clone());
    let value = |received, metric| a_tick(received).and_then(|tick| tick.devices[0].readings.newest(metric));
    assert_eq!(wait_for(&mut reader, "row", |received| value(received, Metric::GpuUtil)), 640_000);
    assert_eq!(wait_for(&mut reader, "rate", |received| value(received, Metric::MemUtil)), 330_000);
    let share = |received| a_tick(received).and_then(|tick| tick.devices[0].processes.as_ref()?.first()?.sm_util);
    assert_eq!(wait_for(&mut reader, "share", share), 500_000);
    // A driver whose clock is an hour off has no rows of now; then its rate is what there is.
    fake_nvml::change(&library, &Scenario { sample_clock_offset_us: -3_600_000_000, ..one(device) }).unwrap();
    let rate = |received| value(received, Metric::GpuUtil).filter(|value| *value != 640_000);
    assert_eq!(wait_for(&mut reader, "rate", rate), 990_000);
}

#[test]
fn a_caller_that_is_slow_finds_few_ticks_waiting() {
    let folder = Folder::new();
    let scenario = Scenario { log_calls: true, ..one(a100(1)) };
    let library = fake_nvml::install(&folder.0, &scenario).unwrap();
    let mut reader = start(library.clone());
    wait_for(&mut reader, "tick", a_tick);
    let passes = || fake_nvml::calls(&library).iter().filter(|call| *call == "nvmlDeviceGetCount_v2").count();
    std::thread::sleep(Duration::from_millis(300));
    // One taken, four waiting, one in the thread's hand, and the count of the thread that waits for Xids.
    assert!(passes() <= 7, "{} passes", passes());
    assert!(matches!(reader.read_tick(PATIENCE), Received::Tick(_)));
}

#[test]
fn a_machine_without_the_library_ticks_and_says_so() {
    let folder = Folder::new();
    let mut reader = start(folder.0.join("libnvidia-ml.so.1"));
    for _ in 0..3 {
        let tick = wait_for(&mut reader, "tick", a_tick);
        assert_eq!((tick.library, tick.devices.len(), tick.library_run), (Library::Gone, 0, 0));
    }
    assert!(a_stall(reader.read_tick(PATIENCE)).is_none());
}
