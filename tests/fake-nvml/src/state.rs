//! Inside the library: which scenario is in force, and what becomes of every call.

use std::ffi::CStr;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::place::{calls_path, scenario_path};
use crate::scenario::{Behaviour, Device, Hang, Instance, Scenario};

pub(crate) type Answer = Result<(), u32>;

pub(crate) const UNINITIALIZED: u32 = 1;
pub(crate) const INVALID_ARGUMENT: u32 = 2;
pub(crate) const NOT_SUPPORTED: u32 = 3;
pub(crate) const NOT_FOUND: u32 = 6;
pub(crate) const INSUFFICIENT_SIZE: u32 = 7;
pub(crate) const TIMEOUT: u32 = 10;
const UNKNOWN: u32 = 999;

/// Handles are numbers: devices are far apart, so that their instances fit in between.
const FIRST_HANDLE: usize = 0x1_0000;
const STEP: usize = 0x100;
const POLL: Duration = Duration::from_millis(3);

static STATE: Mutex<Option<State>> = Mutex::new(None);

struct State {
    library: PathBuf,
    scenario: Arc<Scenario>,
    /// Modified, length, inode: one of them differs when the file was replaced.
    stamp: Option<(i64, u64, u64)>,
    initialised: u32,
    events_given: usize,
    started: Instant,
}

/// What a function answers from.
pub(crate) struct Call {
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) elapsed_ms: u64,
}

/// One function of the C interface: logged, held up or refused as the scenario says, else answered.
pub(crate) fn answer(name: &str, handle: usize, answer: impl FnOnce(&Call) -> Answer) -> u32 {
    let began = Instant::now();
    let mut logged = name;
    loop {
        let call = match enter(std::mem::take(&mut logged)) {
            Ok(call) => call,
            Err(code) => return code,
        };
        let behaviour = call.behaviour(name, handle);
        match behaviour.hang {
            Some(Hang::Ms(ms)) if began.elapsed() < Duration::from_millis(ms) => thread::sleep(POLL),
            Some(Hang::UntilChanged) => thread::sleep(POLL),
            _ => {
                let lifetime = ["nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown"].contains(&name);
                return match behaviour.returns {
                    Some(code) if code != 0 => code,
                    _ if !lifetime && lock().as_ref().is_none_or(|state| state.initialised == 0) => UNINITIALIZED,
                    _ => answer(&call).err().unwrap_or(0),
                };
            }
        }
    }
}

pub(crate) fn initialise() -> Answer {
    with_state(|state| {
        state.initialised += 1;
        Ok(())
    })
}

pub(crate) fn shut_down() -> Answer {
    with_state(|state| {
        state.initialised = state.initialised.checked_sub(1).ok_or(UNINITIALIZED)?;
        Ok(())
    })
}

/// The number of the next event that was not handed out yet.
pub(crate) fn take_event(call: &Call) -> Option<usize> {
    let mut state = lock();
    let state = state.as_mut()?;
    let number = state.events_given;
    if number >= call.scenario.events.len() {
        return None;
    }
    state.events_given += 1;
    Some(number)
}

/// The scenario in force now, for functions that wait.
pub(crate) fn current() -> Option<Call> {
    enter("").ok()
}

pub(crate) fn device_handle(index: u32) -> usize {
    FIRST_HANDLE + usize::try_from(index).unwrap_or(0) * STEP
}

pub(crate) fn instance_handle(parent: usize, index: u32) -> usize {
    parent + 1 + usize::try_from(index).unwrap_or(0)
}

impl Call {
    pub(crate) fn index(handle: usize) -> Option<usize> {
        Some(handle.checked_sub(FIRST_HANDLE)? / STEP)
    }

    pub(crate) fn device(&self, handle: usize) -> Result<&Device, u32> {
        Self::index(handle).and_then(|index| self.scenario.devices.get(index)).ok_or(INVALID_ARGUMENT)
    }

    /// Of a handle of an instance.
    pub(crate) fn instance(&self, handle: usize) -> Option<&Instance> {
        let place = handle.checked_sub(FIRST_HANDLE)? % STEP;
        self.device(handle).ok()?.instances.get(place.checked_sub(1)?)?.as_ref()
    }

    fn behaviour(&self, name: &str, handle: usize) -> Behaviour {
        let of_device = self.device(handle).ok().map(|device| &device.functions);
        let places = [of_device, Some(&self.scenario.functions)];
        let found =
            places.into_iter().flatten().find_map(|functions| functions.get(name).or_else(|| functions.get("*")));
        found.cloned().unwrap_or_default()
    }
}

fn enter(name: &str) -> Result<Call, u32> {
    with_state(|state| {
        state.reload()?;
        if state.scenario.log_calls && !name.is_empty() {
            let log = fs::OpenOptions::new().create(true).append(true).open(calls_path(&state.library));
            log.and_then(|mut log| log.write_all(format!("{name}\n").as_bytes())).map_err(|_| UNKNOWN)?;
        }
        let elapsed_ms = u64::try_from(state.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Call { scenario: Arc::clone(&state.scenario), elapsed_ms })
    })
}

impl State {
    fn open() -> Option<Self> {
        Some(Self {
            library: own_path()?,
            scenario: Arc::default(),
            stamp: None,
            initialised: 0,
            events_given: 0,
            started: Instant::now(),
        })
    }

    fn reload(&mut self) -> Answer {
        let place = scenario_path(&self.library);
        let file = fs::metadata(&place).map_err(|_| UNKNOWN)?;
        let stamp = Some((file.mtime_nsec() ^ file.mtime(), file.len(), file.ino()));
        if stamp != self.stamp {
            self.scenario = Arc::new(read(&place)?);
            self.stamp = stamp;
        }
        Ok(())
    }
}

fn read(place: &Path) -> Result<Scenario, u32> {
    let bytes = fs::read(place).map_err(|_| UNKNOWN)?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let _ = writeln!(std::io::stderr(), "fake-nvml: {}: {error}", place.display());
        UNKNOWN
    })
}

fn with_state<T>(change: impl FnOnce(&mut State) -> Result<T, u32>) -> Result<T, u32> {
    let mut state = lock();
    if state.is_none() {
        *state = State::open();
    }
    change(state.as_mut().ok_or(UNKNOWN)?)
}

fn lock() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file this code was loaded from.
#[expect(unsafe_code, reason = "dladdr is the only way for a library to learn its own path")]
fn own_path() -> Option<PathBuf> {
    let inside = (&raw const STATE).cast();
    // SAFETY: `Dl_info` is plain pointers, for which zero is valid; dladdr fills it, and its strings live as long as the library.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(inside, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(info.dli_fname)
    };
    Some(PathBuf::from(name.to_str().ok()?))
}
