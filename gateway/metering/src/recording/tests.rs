//! Recordings that were cut off, changed or never ones.

mod gpu_check;
mod replaying;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::*;
use crate::tick::*;

/// A path that nothing is at, in a directory that goes with it.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("farebox-recording-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn file(&self) -> PathBuf {
        self.0.join("recording.jsonl")
    }

    fn holding(bytes: &[u8]) -> Self {
        let place = Self::new();
        std::fs::write(place.file(), bytes).unwrap();
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn header() -> Header {
    Header { node: "gpu-07".into(), started: "2026-12-01T00:00:00Z".parse().unwrap(), tick_ms: 1000 }
}

fn device(index: u64, second: u64) -> DeviceTick {
    let mut readings = Readings::default();
    for (metric, value) in [
        (Metric::GpuUtil, 820_000),
        (Metric::MemUtil, 70_000),
        (Metric::MemUsedBytes, 42_949_672_960 + index),
        (Metric::PowerW, 301_500),
        (Metric::SmClockMhz, 1410),
        (Metric::MemClockMhz, 1593),
    ] {
        readings.push(metric, value);
    }
    DeviceTick {
        info: DeviceInfo {
            uuid: format!("GPU-00000000-0000-0000-0000-00000000070{index}"),
            name: "NVIDIA A100-SXM4-80GB".into(),
            memory_total_bytes: Some(85_899_345_920),
            power_limit_mw: Some(400_000),
            max_sm_clock_mhz: Some(1410),
            mig: false,
            multiprocessors: None,
        },
        state: DeviceState::Ok,
        readings,
        energy_mj: Some(1_000_000_000 + second * 301_500),
        throttle_mask: Some(0),
        processes: Some(vec![process(1000 + index as u32)]),
        instances: Vec::new(),
        refused_readings: 0,
        clamped_readings: Vec::new(),
    }
}

fn process(pid: u32) -> Process {
    Process {
        pid,
        started: Some(123_456),
        kinds: ProcessKinds { compute: true, graphics: false, mps: true },
        memory_bytes: Some(42_949_672_960),
        sm_util: Some(810_000),
        cgroup: Some("/kubepods.slice/kubepods-pod0a1b.slice/cri-containerd-0a1b.scope".into()),
    }
}

/// Of eight devices, `second` seconds after the start.
fn tick(second: u64) -> Tick {
    Tick {
        wall_us: 1_796_083_200_000_000 + second as i64 * 1_000_000,
        mono_us: 5_000_000 + second * 1_000_000,
        library_run: 1,
        library: Library::Present,
        devices: (0..8).map(|index| device(index, second)).collect(),
        xids: Vec::new(),
    }
}

/// With all that a tick may have.
fn strange(second: u64) -> Tick {
    let mut strange = tick(second);
    let of = |readings: &[(u32, u64)]| readings.iter().map(|pair| Reading::from(*pair)).collect::<Vec<_>>();
    let devices = &mut strange.devices;
    devices[0].readings.0.insert(Metric::GpuUtil, of(&[(900_000, 0), (450_000, 1_000_000), (0, 500_000)]));
    devices[0].readings.0.insert(Metric::PowerW, of(&[(1, 300_000)]));
    devices[1].readings = Readings::default();
    devices[1].state = DeviceState::Lost;
    (devices[1].processes, devices[1].energy_mj, devices[1].throttle_mask) = (None, None, None);
    devices[2].info.mig = true;
    devices[2].instances = (1..4)
        .map(|number| InstanceTick {
            id: InstanceId { gpu_instance: number, compute_instance: 0 },
            uuid: format!("MIG-{number}"),
            multiprocessors: Some(14),
            memory_total_bytes: None,
            readings: Readings([(Metric::SmUtil, of(&[(0, u64::from(number) * 100_000)]))].into()),
            processes: (number == 2).then(|| vec![process(7), process(8)]),
        })
        .collect();
    devices[3].processes =
        Some(vec![Process { started: None, memory_bytes: None, sm_util: None, cgroup: None, ..process(9) }]);
    devices[4].processes = Some(Vec::new());
    (devices[5].refused_readings, devices[5].clamped_readings) = (3, vec![1_004_000]);
    devices[6].state = DeviceState::ResetRequired;
    let uuid = Some(devices[1].info.uuid.clone());
    strange.xids = vec![Xid { uuid, instance: None, code: 79 }, Xid { uuid: None, instance: None, code: u64::MAX }];
    strange
}

fn gone(second: u64) -> Tick {
    Tick { library: Library::Gone, library_run: 2, devices: Vec::new(), ..tick(second) }
}

fn recorded(ticks: &[Tick]) -> Place {
    let place = Place::new();
    let mut recorder = Recorder::create(&place.file(), &header()).unwrap();
    for tick in ticks {
        recorder.write(tick).unwrap();
    }
    place
}

fn read_all(path: &Path) -> (Vec<Tick>, Recording, Option<RecordingError>) {
    let mut recording = Recording::open(path).unwrap();
    let mut ticks = Vec::new();
    loop {
        match recording.next_tick() {
            Ok(Some(tick)) => ticks.push(tick),
            Ok(None) => return (ticks, recording, None),
            Err(error) => return (ticks, recording, Some(error)),
        }
    }
}

#[test]
fn what_was_recorded_is_read_as_it_was() {
    let ticks = [tick(0), tick(1), strange(2), strange(3), gone(4), tick(5), strange(6)];
    let place = recorded(&ticks);
    let (read, recording, error) = read_all(&place.file());
    assert_eq!(read, ticks);
    assert_eq!(recording.header(), &header());
    assert!(error.is_none() && !recording.is_torn());
}

#[test]
fn what_devices_are_is_written_when_it_changes_and_a_tick_of_eight_takes_under_a_kilobyte() {
    let place = recorded(&[tick(0), tick(1), tick(2), strange(3), strange(4), tick(5)]);
    let text = std::fs::read_to_string(place.file()).unwrap();
    let told: Vec<_> = text.lines().map(|line| line.contains("A100-SXM4")).collect();
    assert_eq!(told, [false, true, false, false, true, false, true]);
    let longest = text.lines().skip(2).take(2).map(str::len).max().unwrap();
    assert!(longest < 1000, "{longest} bytes");
}

#[test]
fn a_killed_recorder_leaves_all_ticks_but_the_torn_one() {
    let place = recorded(&[tick(0), tick(1), strange(2)]);
    let whole = std::fs::read(place.file()).unwrap();
    let second_line_end = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(2).unwrap().0;
    for cut in [second_line_end + 2, second_line_end + 200, whole.len() - 2] {
        let torn = Place::holding(&whole[..cut]);
        let (read, mut recording, error) = read_all(&torn.file());
        assert_eq!(read, [tick(0), tick(1)], "cut at {cut}");
        assert!(error.is_none() && recording.is_torn(), "cut at {cut}");
        assert!(recording.next_tick().unwrap().is_none(), "and stays at its end");
    }
    let without_end = Place::holding(&whole[..whole.len() - 1]);
    let (read, recording, _) = read_all(&without_end.file());
    assert_eq!((read.len(), recording.is_torn()), (3, false), "only the line's end is missing");
}

#[test]
fn a_tick_is_in_the_file_before_the_next_one_is_written() {
    let place = Place::new();
    let mut recorder = Recorder::create(&place.file(), &header()).unwrap();
    for second in 0..3 {
        recorder.write(&tick(second)).unwrap();
        assert_eq!(read_all(&place.file()).0.len() as u64, second + 1);
    }
}

#[test]
fn nothing_is_overwritten() {
    let place = recorded(&[tick(0)]);
    let before = std::fs::read(place.file()).unwrap();
    let error = Recorder::create(&place.file(), &header()).unwrap_err();
    assert!(matches!(error, RecordingError::Exists { .. }), "{error}");
    assert_eq!(std::fs::read(place.file()).unwrap(), before);
    let nowhere = place.0.join("no/such/directory");
    assert!(matches!(Recorder::create(&nowhere, &header()), Err(RecordingError::Create { .. })));
}

#[test]
fn a_tick_that_could_not_be_read_again_is_not_written() {
    let place = Place::new();
    let mut recorder = Recorder::create(&place.file(), &header()).unwrap();
    recorder.write(&tick(0)).unwrap();
    let mut long = tick(1);
    long.devices[0].processes = Some(vec![Process { cgroup: Some("x".repeat(MAX_LINE)), ..process(1) }]);
    assert!(matches!(recorder.write(&long), Err(RecordingError::LongTick { .. })));
    recorder.write(&tick(2)).unwrap();
    assert_eq!(read_all(&place.file()).0, [tick(0), tick(2)]);
}

#[test]
fn more_devices_or_instances_than_there_are_anywhere_are_no_tick() {
    let many = |devices: u64, instances: u32| {
        let instance = |number| InstanceTick {
            id: InstanceId { gpu_instance: number, compute_instance: 0 },
            uuid: String::new(),
            multiprocessors: None,
            memory_total_bytes: None,
            readings: Readings::default(),
            processes: None,
        };
        let mut tick = tick(0);
        tick.devices = (0..devices).map(|index| device(index, 0)).collect();
        tick.devices[0].instances = (0..instances).map(instance).collect();
        read_all(&recorded(&[tick]).file()).2.map(|error| error.to_string())
    };
    assert_eq!(many(256, 64), None);
    assert!(many(257, 0).unwrap().contains("it has 257 devices, over 256"));
    assert!(many(1, 65).unwrap().contains("a device has 65 instances, over 64"));
}

#[test]
fn a_full_disk_is_said() {
    // Linux has a device that is always full.
    let path = Path::new("/dev/full");
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let error = Recorder::onto(file, path, &header()).unwrap_err();
    assert_eq!(error.to_string(), "cannot write `/dev/full`; what was recorded before is whole");
}

#[test]
fn what_is_no_recording_is_refused_with_the_reason() {
    let told = |bytes: &[u8]| Recording::open(&Place::holding(bytes).file()).unwrap_err().to_string();
    assert!(told(b"").contains("it is empty"));
    assert!(told(b"GPU 0: 82 %\n").contains("expected value"));
    assert!(told(b"{}\n").contains("missing field `farebox_recording`"));
    assert!(told(br#"{"farebox_recording":2,"other":1}"#).contains("format 2, this version reads format 1"));
    assert!(told(br#"{"farebox_recording":1,"node":"a","started":"today","tick_ms":1}"#).contains("`started`"));
    for tick_ms in ["0", "3600001"] {
        let header =
            format!(r#"{{"farebox_recording":1,"node":"a","started":"2026-12-01T00:00:00Z","tick_ms":{tick_ms}}}"#);
        assert!(told(header.as_bytes()).contains("`tick_ms`"), "{tick_ms}");
    }
    assert!(told(&vec![b'x'; 2 * MAX_LINE]).contains("first line is too long"));
    assert!(!told(b"{\"farebox_recording\":1,\"node\":\"\x1b[2J").contains('\x1b'));
    let nowhere = Place::new();
    assert!(matches!(Recording::open(&nowhere.file()), Err(RecordingError::Open { .. })));
    let directory = Recording::open(&nowhere.0).unwrap_err().to_string();
    assert!(directory.contains("it is no regular file"), "{directory}");
    assert!(Recording::open(Path::new("/dev/zero")).is_err());
}

#[test]
fn a_bad_line_is_named_with_what_to_do() {
    let good = String::from_utf8(std::fs::read(recorded(&[tick(0), tick(1)]).file()).unwrap()).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let error_of = |third: &str| {
        let place = Place::holding(format!("{}\n{}\n{third}\n{}\n", lines[0], lines[1], lines[2]).as_bytes());
        let (read, _, error) = read_all(&place.file());
        let error = error.unwrap_or_else(|| panic!("{third} was read"));
        assert_eq!(read.len(), 1);
        error.to_string().replace(place.file().to_str().unwrap(), "FILE")
    };
    assert_eq!(
        error_of(""),
        "line 3 of `FILE` is no tick: EOF while parsing a value; `head -n 2 FILE` gives what is before it"
    );
    assert!(error_of("{\"wall_us\":1").starts_with("line 3 of `FILE` is no tick: EOF"));
    assert!(error_of(lines[1]).contains("`mono_us` 5000000 is not after 5000000"), "twice");
    assert!(error_of(&lines[2].replace("[820000,", "[")).contains("`gpu_util` has 7 values, not 8"));
    assert!(error_of(&lines[2].replace("\"gpu_util\"", "\"gpu_use\"")).contains("unknown variant `gpu_use`"));
    assert!(
        error_of(&lines[2].replace("\"library_run\"", "\"states\":[[8,\"lost\"]],\"library_run\""))
            .contains("device 8 of 8")
    );
    assert!(error_of(&lines[2].replace("820000", "-1")).contains("-1"));
    assert_eq!(
        error_of(&"x".repeat(MAX_LINE + 1)),
        format!("line 3 of `FILE` is over {MAX_LINE} bytes; `head -n 2 FILE` gives what is before it")
    );
    let without_layout = Place::holding(format!("{}\n{}\n", lines[0], lines[2]).as_bytes());
    assert!(read_all(&without_layout.file()).2.unwrap().to_string().contains("no line before it has a `layout`"));
}

proptest! {
    #[test]
    fn no_byte_that_changed_brings_the_reader_down(at in 0_usize..6000, byte: u8) {
        let mut bytes = std::fs::read(recorded(&[tick(0), strange(1), tick(2)]).file()).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        let place = Place::holding(&bytes);
        if let Ok(mut recording) = Recording::open(&place.file()) {
            while let Ok(Some(_)) = recording.next_tick() {}
        }
    }
}
