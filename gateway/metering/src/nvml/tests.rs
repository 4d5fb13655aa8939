//! The reading against the stand-in library: every pass at a moment that the test names, on the test's own thread.

mod board;
mod gone;
mod gpm;
mod instances;
mod processes;
mod samples;
mod symbols;
mod xids;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, fs, process, thread};

use fake_nvml::{Behaviour, Clocks, Device, Samples, Scenario, Value};

use super::{Machine, Options, Pulse};
use crate::clock::{Clock, Now};
use crate::tick::{DeviceTick, Metric, Readings, Tick};

/// The wall clock at a rig's first pass, Unix µs.
pub(crate) const START: i64 = 1_800_000_000_000_000;
pub(crate) const GIB: u64 = 1 << 30;

/// A folder of a test's own, gone with it.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("farebox-nvml-{}-{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A machine with the stand-in library, and its two clocks.
pub(super) struct Rig {
    /// `None` at its end.
    machine: Option<Machine>,
    pub(super) library: PathBuf,
    folder: Folder,
    pub(super) now: Now,
}

impl Rig {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self::without(scenario, &[])
    }

    /// The library lacks these symbols.
    pub(super) fn without(scenario: &Scenario, symbols: &[&str]) -> Self {
        let folder = Folder::new();
        let library = fake_nvml::install_without(&folder.0, scenario, symbols).unwrap();
        Self::in_folder(folder, library)
    }

    pub(super) fn in_folder(folder: Folder, library: PathBuf) -> Self {
        let options =
            Options { lib_path: Some(library.clone()), tick: Duration::from_secs(1), proc_root: folder.0.join("proc") };
        let pulse = Pulse::new(Clock::from_fn(|| Now { wall_us: 0, mono_us: 0 }));
        Self {
            machine: Some(Machine::new(options, pulse)),
            library,
            folder,
            now: Now { wall_us: START, mono_us: 5_000_000 },
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder.0
    }

    pub(super) fn change(&self, scenario: &Scenario) {
        fake_nvml::change(&self.library, scenario).unwrap();
    }

    pub(super) fn pass(&mut self) -> Tick {
        self.machine.as_mut().unwrap().pass(self.now)
    }

    /// A pass so much later on both clocks.
    pub(super) fn pass_after(&mut self, ms: u32) -> Tick {
        let us = u64::from(ms) * 1_000;
        self.now = Now { wall_us: self.now.wall_us + us.cast_signed(), mono_us: self.now.mono_us + us };
        self.pass()
    }

    /// As [`Self::pass_after`], on a machine with one device.
    pub(super) fn device_after(&mut self, ms: u32) -> DeviceTick {
        let tick = self.pass_after(ms);
        assert_eq!(tick.devices.len(), 1, "{tick:?}");
        tick.devices.into_iter().next().unwrap()
    }

    /// Passes, a moment of real time apart, until one is as wanted: the thread that waits for Xids ends when its wait does.
    pub(super) fn pass_until(&mut self, what: &str, is_wanted: impl Fn(&Tick) -> bool) -> Tick {
        for _ in 0..2_000 {
            let tick = self.pass_after(1);
            if is_wanted(&tick) {
                return tick;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("never: {what}")
    }

    pub(super) fn count(&self, function: &str) -> usize {
        fake_nvml::calls(&self.library).iter().filter(|call| *call == function).count()
    }

    /// Ends the machine, and waits until nobody holds the library.
    pub(super) fn end(mut self) {
        self.machine = None;
        until("the library is shut down", || fake_nvml::initialised(&self.library) == 0);
    }

    /// A process as the kernel tells of it.
    pub(super) fn kernel_process(&self, pid: u32, started: u64, cgroup: &str) {
        let folder = self.folder().join("proc").join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        let stat = format!("{pid} (a (strange) name) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 {started} 20 21\n");
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.machine = None;
        if !thread::panicking() {
            assert_eq!(fake_nvml::misuses(&self.library), [""; 0]);
        }
    }
}

/// Waits, in real time, for what another thread does.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let waited = (0..2_000).any(|_| {
        is_so() || {
            thread::sleep(Duration::from_millis(5));
            false
        }
    });
    assert!(waited, "never: {what}");
}

/// Reports everything that an A100 does, except processes.
pub(crate) fn a100(number: u32) -> Device {
    Device {
        uuid: format!("GPU-{number:08}"),
        name: "NVIDIA A100-SXM4-80GB".to_owned(),
        memory_total: Some(80 * GIB),
        memory_reserved: GIB,
        memory_used: Some(Value::Constant(20 * GIB)),
        power_mw: Some(Value::Constant(250_000)),
        power_limit_mw: Some(400_000),
        energy_mj: Some(Value::Constant(123_456_789)),
        clocks: Some(Clocks { sm: Value::Constant(1_275), memory: Value::Constant(1_512), max_sm: 1_410 }),
        throttle_mask: Some(4),
        gpu_samples: Some(Samples::rows([(START - 500_000, 80)])),
        memory_samples: Some(Samples::rows([(START - 500_000, 35)])),
        process_utilisation: Some(Vec::new()),
        mig: Some(false),
        ..Device::default()
    }
}

pub(crate) fn one(device: Device) -> Scenario {
    Scenario { devices: vec![device], ..Scenario::default() }
}

/// A function that returns this code.
pub(super) fn returning(device: &Device, function: &str, code: u32) -> Device {
    let mut device = device.clone();
    device.functions.insert(function.to_owned(), Behaviour::returns(code));
    device
}

/// A metric's readings: µs ago, value.
pub(super) fn readings(readings: &Readings, metric: Metric) -> Vec<(u32, u64)> {
    readings.0.get(&metric).into_iter().flatten().map(|reading| (reading.ago_us, reading.value)).collect()
}
