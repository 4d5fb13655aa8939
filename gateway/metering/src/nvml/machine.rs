//! All GPUs of the machine, read once per pass; the library opened, and opened again when it is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

use super::asking::Outcome;
use super::device::{Known, Moment, unread};
use super::fault::Fault;
use super::library::Library;
use super::pulse::Pulse;
use super::retry::Retry;
use super::xids::Watch;
use crate::clock::Now;
use crate::tick::{self, DeviceInfo, DeviceState, DeviceTick, Tick, Xid};

const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// A device that is gone may come back only to a library that is initialised anew, and can be reset only while none is. That
/// costs the other devices' tenants a boot epoch, so it is tried less often.
const FIRST_WAIT_FOR_DEVICE: Duration = Duration::from_secs(10);
const LONGEST_WAIT_FOR_DEVICE: Duration = Duration::from_mins(10);

#[derive(Clone, Debug)]
pub struct Options {
    /// Of the library. `None`: `libnvidia-ml.so.1`, where the linker finds it.
    pub lib_path: Option<PathBuf>,
    /// Between two passes.
    pub tick: Duration,
    /// Where the kernel tells of processes: `/proc`.
    pub proc_root: PathBuf,
}

impl Default for Options {
    /// The driver's own library, once a second.
    fn default() -> Self {
        Self { lib_path: None, tick: Duration::from_secs(1), proc_root: PathBuf::from("/proc") }
    }
}

/// The machine's GPUs. Blocks while the driver does; never fails: what is wrong is in the tick.
#[derive(Debug)]
pub struct Machine {
    options: Options,
    pulse: Pulse,
    session: Option<Session>,
    /// Initialisations so far.
    library_run: u32,
    library_retry: Retry,
    device_retry: Retry,
    /// Devices seen since the start, in the driver's last order, and by UUID what is known of each.
    seen: Vec<DeviceInfo>,
    known: BTreeMap<String, Known>,
}

/// The library from one initialisation to its end.
#[derive(Debug)]
struct Session {
    xids: Option<Watch>,
    library: Arc<Library>,
}

/// The library is gone.
struct LibraryGone;

impl Machine {
    /// Opens nothing yet.
    pub fn new(options: Options, pulse: Pulse) -> Self {
        Self {
            options,
            pulse,
            session: None,
            library_run: 0,
            library_retry: Retry::new(FIRST_WAIT, LONGEST_WAIT),
            device_retry: Retry::new(FIRST_WAIT_FOR_DEVICE, LONGEST_WAIT_FOR_DEVICE),
            seen: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    /// Reads everything once. `now` is the moment of the pass, and later than that of the last one.
    pub fn pass(&mut self, now: Now) -> Tick {
        if self.device_retry.is_over(now.mono_us) {
            self.close();
        }
        if self.session.is_none() && (!self.library_retry.is_waiting() || self.library_retry.is_over(now.mono_us)) {
            self.open(now);
        }
        let devices = self.read(now);
        let xids = self.session.as_ref().map(Session::take_xids).unwrap_or_default();
        let library = match &devices {
            Some(devices) => {
                self.library_retry.succeeded();
                self.mind(devices, now);
                tick::Library::Present
            }
            None => {
                self.close();
                tick::Library::Gone
            }
        };
        self.pulse.rest();
        Tick {
            wall_us: now.wall_us,
            mono_us: now.mono_us,
            library_run: self.library_run,
            library,
            devices: devices.unwrap_or_default(),
            xids,
        }
    }

    fn open(&mut self, now: Now) {
        self.pulse.beat();
        match Session::open(&self.options) {
            Ok(session) => {
                self.session = Some(session);
                self.library_run = self.library_run.saturating_add(1);
                tracing::info!(library_run = self.library_run, "the NVML library is initialised");
            }
            Err(error) => self.wait_for_library(now, &error.to_string()),
        }
    }

    fn close(&mut self) {
        self.pulse.beat();
        self.known.values_mut().for_each(Known::end_of_session);
        self.session = None;
    }

    fn wait_for_library(&mut self, now: Now, why: &str) {
        let wait = self.library_retry.wait(now.mono_us);
        tracing::warn!(why, "no GPU can be read; the NVML library is tried again in {} s", wait.as_secs());
    }

    /// `None`: there is no library, or no longer.
    fn read(&mut self, now: Now) -> Option<Vec<DeviceTick>> {
        let moment = Moment {
            now,
            tick_us: u64::try_from(self.options.tick.as_micros()).unwrap_or(u64::MAX),
            pulse: &self.pulse,
            proc_root: &self.options.proc_root,
        };
        let devices = self.session.as_ref()?.read(&moment, &self.seen, &mut self.known);
        if devices.is_err() {
            self.wait_for_library(now, "the driver was unloaded, replaced or shut down");
        }
        devices.ok()
    }

    /// Remembers who was there, and whether somebody is gone.
    fn mind(&mut self, devices: &[DeviceTick], now: Now) {
        self.seen = devices.iter().map(|device| device.info.clone()).collect();
        let is_gone = |device: &DeviceTick| matches!(device.state, DeviceState::Lost | DeviceState::ResetRequired);
        if !devices.iter().any(is_gone) {
            self.device_retry.succeeded();
        } else if !self.device_retry.is_waiting() || self.device_retry.is_over(now.mono_us) {
            let wait = self.device_retry.wait(now.mono_us);
            let gone: Vec<_> =
                devices.iter().filter(|device| is_gone(device)).map(|device| &device.info.uuid).collect();
            tracing::warn!(?gone, "GPUs are gone; the NVML library is initialised anew in {} s", wait.as_secs());
        }
    }
}

impl Session {
    fn open(options: &Options) -> Result<Self, NvmlError> {
        let library = Arc::new(Library::open(options.lib_path.as_deref())?);
        let watch = Watch::start(Arc::clone(&library));
        let xids = watch.inspect_err(|error| tracing::warn!(%error, "no thread to wait for Xid errors")).ok();
        Ok(Self { xids, library })
    }

    fn take_xids(&self) -> Vec<Xid> {
        self.xids.as_ref().map(Watch::take).unwrap_or_default()
    }

    /// By index, then those seen before that have no index any more.
    fn read(
        &self,
        moment: &Moment<'_>,
        seen: &[DeviceInfo],
        known: &mut BTreeMap<String, Known>,
    ) -> Result<Vec<DeviceTick>, LibraryGone> {
        let library = Arc::clone(&self.library);
        moment.pulse.beat();
        let count = match library.nvml().device_count() {
            Ok(count) => count,
            Err(error) => return all_unread(Fault::from(&error), seen),
        };
        let mut there = Vec::new();
        for index in 0..count {
            let found = identify(&library, index, moment);
            if found.as_ref().is_err_and(|fault| *fault == Fault::LibraryGone) {
                return Err(LibraryGone);
            }
            there.push(found);
        }
        let mut unnamed: BTreeSet<&str> = seen.iter().map(|info| info.uuid.as_str()).collect();
        for (_, uuid) in there.iter().flatten() {
            unnamed.remove(uuid.as_str());
        }
        let mut ticks = Vec::new();
        for (index, found) in there.iter().enumerate() {
            match found {
                Ok((device, uuid)) => {
                    let known = known.entry(uuid.clone()).or_default();
                    let (tick, library_gone) = known.read(&library, device, uuid.clone(), moment);
                    if library_gone {
                        return Err(LibraryGone);
                    }
                    ticks.push(tick);
                }
                // Whoever had that index before, unless it is elsewhere now. Nobody at all has no identity to tell.
                Err(fault) => {
                    let before = seen.get(index).filter(|info| unnamed.remove(info.uuid.as_str()));
                    ticks.extend(before.map(|info| unread(info.clone(), state_of(*fault))));
                }
            }
        }
        let fallen = seen.iter().filter(|info| unnamed.contains(info.uuid.as_str()));
        ticks.extend(fallen.map(|info| unread(info.clone(), DeviceState::Lost)));
        Ok(ticks)
    }
}

/// The device at an index, and who it is.
fn identify<'l>(library: &'l Library, index: u32, moment: &Moment<'_>) -> Result<(Device<'l>, String), Fault> {
    moment.pulse.beat();
    let device = library.nvml().device_by_index(index).map_err(|error| Fault::from(&error))?;
    let uuid = device.uuid().map_err(|error| Fault::from(&error))?;
    Ok((device, uuid))
}

/// Nobody could be asked.
fn all_unread(fault: Fault, seen: &[DeviceInfo]) -> Result<Vec<DeviceTick>, LibraryGone> {
    if fault == Fault::LibraryGone {
        return Err(LibraryGone);
    }
    Ok(seen.iter().map(|info| unread(info.clone(), state_of(fault))).collect())
}

/// Of a device that did not even say who it is.
fn state_of(fault: Fault) -> DeviceState {
    match Outcome::of(fault).state() {
        DeviceState::Ok => DeviceState::Unreadable,
        state => state,
    }
}
