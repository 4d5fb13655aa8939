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
use super::procfs::Strangers;
use super::pulse::Pulse;
use super::retry::Retry;
use super::xids::Watch;
use crate::clock::Now;
use crate::tick::{self, DeviceInfo, DeviceState, DeviceTick, MAX_DEVICES, Tick, Xid};

const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// A device that is gone may come back only to a library that is initialised anew, and can be reset only while none is. That
/// costs the other devices' tenants a boot epoch, so it is tried less often.
const FIRST_WAIT_FOR_DEVICE: Duration = Duration::from_secs(10);
const LONGEST_WAIT_FOR_DEVICE: Duration = Duration::from_mins(10);
/// A device that the driver has not counted for so long was taken away. It is forgotten.
const TAKEN_AWAY_US: u64 = 15 * 60 * 1_000_000;
/// A driver that tells of more is not believed.
pub(super) const MOST_DEVICES: u32 = MAX_DEVICES as u32;

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
    /// Of the session before, while its thread still holds the library. NVML counts initialisations: one more now would keep
    /// the driver from ever letting go, and a device that is gone from coming back.
    leaving: Option<Watch>,
    /// Initialisations so far.
    library_run: u32,
    library_retry: Retry,
    device_retry: Retry,
    /// Devices seen since the start, in the driver's last order, and by UUID what is known of each.
    seen: Vec<DeviceInfo>,
    known: BTreeMap<String, Known>,
    /// By UUID, since when the driver does not count a device any more, monotonic µs.
    uncounted: BTreeMap<String, u64>,
    strangers: Strangers,
    /// Whether it was said that the driver tells of too many devices.
    is_cut: bool,
}

/// What a pass found.
struct Found {
    devices: Vec<DeviceTick>,
    /// So many of them from the front are in the driver's own count.
    counted: usize,
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
            leaving: None,
            library_run: 0,
            library_retry: Retry::new(FIRST_WAIT, LONGEST_WAIT),
            device_retry: Retry::new(FIRST_WAIT_FOR_DEVICE, LONGEST_WAIT_FOR_DEVICE),
            seen: Vec::new(),
            known: BTreeMap::new(),
            uncounted: BTreeMap::new(),
            strangers: Strangers::default(),
            is_cut: false,
        }
    }

    /// Reads everything once. `now` is the moment of the pass, and later than that of the last one.
    pub fn pass(&mut self, now: Now) -> Tick {
        let mut xids = self.bid_farewell();
        let may_open = !self.library_retry.is_waiting() || self.library_retry.is_over(now.mono_us);
        if self.session.is_none() && self.leaving.is_none() && may_open {
            self.open(now);
        }
        let found = self.read(now);
        // Before anything is closed: the last errors are those that say why.
        xids.extend(self.session.as_mut().map(Session::take_xids).unwrap_or_default());
        let library = match &found {
            Some(found) => {
                self.library_retry.succeeded();
                if self.mind(found, now) {
                    self.close();
                }
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
            devices: found.map(|found| found.devices).unwrap_or_default(),
            xids,
        }
    }

    /// What the last session's thread still has to tell. Until it has ended, no library is opened.
    fn bid_farewell(&mut self) -> Vec<Xid> {
        let Some(watch) = &mut self.leaving else { return Vec::new() };
        watch.mind();
        // In this order, or what it tells last would be lost.
        let has_ended = watch.has_ended();
        let xids = watch.take();
        if has_ended {
            self.leaving = None;
        }
        xids
    }

    fn open(&mut self, now: Now) {
        self.pulse.beat();
        match Session::open(&self.options, &self.pulse) {
            Ok(session) => {
                self.session = Some(session);
                self.library_run = self.library_run.saturating_add(1);
                tracing::info!(library_run = self.library_run, "the NVML library is initialised");
            }
            Err(error) => self.wait_for_library(now, &error.to_string()),
        }
    }

    /// Opened again is in a later pass, and only when the thread that waits for Xids has let go of the library as well.
    fn close(&mut self) {
        self.pulse.beat();
        self.known.values_mut().for_each(Known::end_of_session);
        let Some(Session { xids, library }) = self.session.take() else { return };
        self.leaving = xids.inspect(Watch::end);
        drop(library);
    }

    fn wait_for_library(&mut self, now: Now, why: &str) {
        let wait = self.library_retry.wait(now.mono_us);
        tracing::warn!(why, "no GPU can be read; the NVML library is tried again in {} s", wait.as_secs());
    }

    /// `None`: there is no library, or no longer.
    fn read(&mut self, now: Now) -> Option<Found> {
        let moment = Moment {
            now,
            tick_us: u64::try_from(self.options.tick.as_micros()).unwrap_or(u64::MAX),
            pulse: &self.pulse,
            proc_root: &self.options.proc_root,
        };
        let memory = Memory { seen: &self.seen, known: &mut self.known, is_cut: &mut self.is_cut };
        let found = self.session.as_ref()?.read(&moment, memory);
        if found.is_err() {
            self.wait_for_library(now, "the driver was unloaded, replaced or shut down");
        }
        found.ok()
    }

    /// Remembers who was there. Whether the library is to be closed, because somebody is gone.
    fn mind(&mut self, found: &Found, now: Now) -> bool {
        let is_gone = |device: &DeviceTick| matches!(device.state, DeviceState::Lost | DeviceState::ResetRequired);
        self.forget_those_taken_away(found, now);
        self.note_strangers(found);
        let stays = |device: &&DeviceTick| self.seen.iter().any(|info| info.uuid == device.info.uuid);
        let gone: Vec<&str> =
            found.devices.iter().filter(stays).filter(|device| is_gone(device)).map(uuid_of).collect();
        if gone.is_empty() {
            self.device_retry.succeeded();
            return false;
        }
        let closes = self.device_retry.is_over(now.mono_us);
        if closes || !self.device_retry.is_waiting() {
            let wait = self.device_retry.wait(now.mono_us);
            tracing::warn!(?gone, "GPUs are gone; the NVML library is initialised anew in {} s", wait.as_secs());
        }
        closes
    }

    /// Devices that the driver has not counted for a long time force nothing any more.
    fn forget_those_taken_away(&mut self, found: &Found, now: Now) {
        let (_, fallen) = found.devices.split_at_checked(found.counted).unwrap_or_default();
        self.uncounted.retain(|uuid, _| fallen.iter().any(|device| device.info.uuid == *uuid));
        for device in fallen {
            self.uncounted.entry(device.info.uuid.clone()).or_insert(now.mono_us);
        }
        let is_over = |since: &u64| now.mono_us.saturating_sub(*since) >= TAKEN_AWAY_US;
        let is_forgotten = |uuid: &str| self.uncounted.get(uuid).is_some_and(is_over);
        self.seen = found.devices.iter().map(|device| device.info.clone()).collect();
        self.seen.retain(|info| {
            let is_forgotten = is_forgotten(&info.uuid);
            if is_forgotten {
                tracing::warn!(uuid = info.uuid, "a GPU that the driver has not counted for 15 minutes is forgotten");
            }
            !is_forgotten
        });
        self.known.retain(|uuid, _| !is_forgotten(uuid));
    }

    fn note_strangers(&mut self, found: &Found) {
        let (mut listed, mut known) = (0, 0);
        for device in &found.devices {
            let of_instances = device.instances.iter().filter_map(|instance| instance.processes.as_ref()).flatten();
            for process in device.processes.iter().flatten().chain(of_instances) {
                listed += 1;
                known += usize::from(process.started.is_some());
            }
        }
        if self.strangers.note(listed, known) {
            tracing::warn!(
                proc = %self.options.proc_root.display(),
                "none of the processes on the GPUs is known here, so nobody's use can be told: run the agent in the host's PID \
                 namespace (`hostPID: true`, `--pid=host`)"
            );
        }
    }
}

/// What is remembered of devices between passes.
struct Memory<'a> {
    seen: &'a [DeviceInfo],
    known: &'a mut BTreeMap<String, Known>,
    is_cut: &'a mut bool,
}

impl Session {
    fn open(options: &Options, pulse: &Pulse) -> Result<Self, NvmlError> {
        let library = Arc::new(Library::open(options.lib_path.as_deref())?);
        let watch = Watch::start(Arc::clone(&library), pulse.of_another());
        let xids = watch.inspect_err(|error| tracing::warn!(%error, "no thread to wait for Xid errors")).ok();
        Ok(Self { xids, library })
    }

    fn take_xids(&mut self) -> Vec<Xid> {
        let Some(watch) = &mut self.xids else { return Vec::new() };
        watch.mind();
        watch.take()
    }

    /// By index, then those seen before that have no index any more.
    fn read(&self, moment: &Moment<'_>, memory: Memory<'_>) -> Result<Found, LibraryGone> {
        let Memory { seen, known, is_cut } = memory;
        let library = Arc::clone(&self.library);
        let there = match identify_all(&library, moment, is_cut)? {
            Ok(there) => there,
            Err(fault) => return Ok(all_unread(fault, seen)),
        };
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
        let counted = ticks.len();
        let fallen = seen.iter().filter(|info| unnamed.contains(info.uuid.as_str()));
        ticks.extend(fallen.map(|info| unread(info.clone(), DeviceState::Lost)));
        Ok(Found { devices: ticks, counted })
    }
}

type Identified<'l> = Result<(Device<'l>, String), Fault>;

/// Every device in the driver's count, or why it could not count.
fn identify_all<'l>(
    library: &'l Library,
    moment: &Moment<'_>,
    is_cut: &mut bool,
) -> Result<Result<Vec<Identified<'l>>, Fault>, LibraryGone> {
    moment.pulse.beat();
    let count = match library.nvml().device_count().map_err(|error| Fault::from(&error)) {
        Ok(count) => count,
        Err(Fault::LibraryGone) => return Err(LibraryGone),
        Err(fault) => return Ok(Err(fault)),
    };
    if count > MOST_DEVICES && !*is_cut {
        tracing::warn!(told = count, read = MOST_DEVICES, "the driver tells of more GPUs than a machine can have");
        *is_cut = true;
    }
    let mut there = Vec::new();
    for index in 0..count.min(MOST_DEVICES) {
        let found = identify(library, index, moment);
        if found.as_ref().is_err_and(|fault| *fault == Fault::LibraryGone) {
            return Err(LibraryGone);
        }
        there.push(found);
    }
    Ok(Ok(there))
}

/// The device at an index, and who it is.
fn identify<'l>(library: &'l Library, index: u32, moment: &Moment<'_>) -> Identified<'l> {
    moment.pulse.beat();
    let device = library.nvml().device_by_index(index).map_err(|error| Fault::from(&error))?;
    let uuid = device.uuid().map_err(|error| Fault::from(&error))?;
    Ok((device, uuid))
}

/// Nobody could be asked. That says nothing of who is there.
fn all_unread(fault: Fault, seen: &[DeviceInfo]) -> Found {
    let devices: Vec<_> = seen.iter().map(|info| unread(info.clone(), state_of(fault))).collect();
    Found { counted: devices.len(), devices }
}

fn uuid_of(device: &DeviceTick) -> &str {
    &device.info.uuid
}

/// Of a device that did not even say who it is.
fn state_of(fault: Fault) -> DeviceState {
    match Outcome::of(fault).state() {
        DeviceState::Ok => DeviceState::Unreadable,
        state => state,
    }
}
