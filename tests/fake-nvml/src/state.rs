//! Inside the library: which scenario is in force, and what becomes of every call.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::handles::{self, Handles, Sampled};
use crate::place::{calls_path, initialised_path, misuse_path, scenario_path};
use crate::scenario::{Behaviour, Device, Hang, Instance, Scenario};

pub(crate) type Answer = Result<(), u32>;

pub(crate) const UNINITIALIZED: u32 = 1;
pub(crate) const INVALID_ARGUMENT: u32 = 2;
pub(crate) const NOT_SUPPORTED: u32 = 3;
pub(crate) const NOT_FOUND: u32 = 6;
pub(crate) const INSUFFICIENT_SIZE: u32 = 7;
pub(crate) const TIMEOUT: u32 = 10;
const UNKNOWN: u32 = 999;

const GPU_IS_LOST: u32 = 15;
const POLL: Duration = Duration::from_millis(3);

static STATE: Mutex<Option<State>> = Mutex::new(None);

struct State {
    library: PathBuf,
    scenario: Arc<Scenario>,
    /// Modified, length, inode: one of them differs when the file was replaced.
    stamp: Option<(i64, u64, u64)>,
    /// The generation in which the scenario was read.
    scenario_generation: u32,
    initialised: u32,
    /// Counts how often the library went from shut down to initialised. Handles are good for one generation only.
    generation: u32,
    handles: Handles,
    /// By number.
    events_given: BTreeSet<usize>,
    started: Instant,
}

/// What a function answers from.
pub(crate) struct Call {
    pub(crate) scenario: Arc<Scenario>,
    pub(crate) elapsed_ms: u64,
    pub(crate) generation: u32,
    /// Whether devices that are lost until the library was shut down are so still.
    is_unrevived: bool,
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
                let wrong = if lifetime { Ok(()) } else { check(name, handle) };
                return match behaviour.returns {
                    Some(code) if code != 0 => code,
                    _ => wrong.and_then(|()| call.revived(handle)).and_then(|()| answer(&call)).err().unwrap_or(0),
                };
            }
        }
    }
}

/// What only a caller that breaks the header's rules does is written down beside the library.
fn check(name: &str, handle: usize) -> Answer {
    with_state(|state| {
        if state.initialised == 0 {
            state.misused(&format!("{name}: the library is not initialised"));
            return Err(UNINITIALIZED);
        }
        if handle != 0 && handles::generation(handle) != state.generation {
            state.misused(&format!("{name}: the handle is of an earlier initialisation"));
            return Err(INVALID_ARGUMENT);
        }
        Ok(())
    })
}

pub(crate) fn initialise() -> Answer {
    with_state(|state| {
        state.initialised += 1;
        if state.initialised == 1 {
            state.generation += 1;
        }
        state.tell_initialised()
    })
}

pub(crate) fn shut_down() -> Answer {
    with_state(|state| {
        let Some(left) = state.initialised.checked_sub(1) else {
            state.misused("nvmlShutdown: the library is not initialised");
            return Err(UNINITIALIZED);
        };
        state.initialised = left;
        if left == 0 {
            for forgotten in state.handles.clear() {
                state.misused(&format!("nvmlShutdown: {forgotten} is not freed"));
            }
        }
        state.tell_initialised()
    })
}

/// Changes what is known of sets and samples. What is asked for and not there was freed before, or never was.
pub(crate) fn with_handles<T>(name: &str, change: impl FnOnce(&mut Handles) -> Option<T>) -> Result<T, u32> {
    with_state(|state| {
        let done = change(&mut state.handles);
        if done.is_none() {
            state.misused(&format!("{name}: there is no such set or sample (any more)"));
        }
        done.ok_or(INVALID_ARGUMENT)
    })
}

pub(crate) fn sampled(name: &str, sample: usize) -> Result<Sampled, u32> {
    with_handles(name, |handles| handles.samples.get(&sample).copied())
}

/// The number of the next event that was not handed out yet, of a device that this set has, or of none.
pub(crate) fn take_event(call: &Call, set: usize) -> Option<usize> {
    with_state(|state| {
        let devices = state.handles.sets.get(&set);
        let is_there =
            |device: Option<u32>| devices.is_some_and(|devices| device.is_none_or(|device| devices.contains(&device)));
        let waiting = call.scenario.events.iter().enumerate();
        let mut waiting = waiting.filter(|(number, _)| !state.events_given.contains(number));
        let found = waiting.find(|(_, event)| is_there(event.device)).map(|(number, _)| number);
        state.events_given.extend(found);
        Ok(found)
    })
    .ok()
    .flatten()
}

/// The scenario in force now, for functions that wait.
pub(crate) fn current() -> Option<Call> {
    enter("").ok()
}

impl Call {
    pub(crate) fn device(&self, handle: usize) -> Result<&Device, u32> {
        handles::device_of(handle).and_then(|index| self.scenario.devices.get(index)).ok_or(INVALID_ARGUMENT)
    }

    /// Of a handle of an instance.
    pub(crate) fn instance(&self, handle: usize) -> Option<&Instance> {
        self.device(handle).ok()?.instances.get(handles::instance_of(handle)?)?.as_ref()
    }

    fn revived(&self, handle: usize) -> Answer {
        let is_lost = self.is_unrevived && self.device(handle).is_ok_and(|device| device.lost_until_shut_down);
        if is_lost { Err(GPU_IS_LOST) } else { Ok(()) }
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
            append(&calls_path(&state.library), name);
        }
        let elapsed_ms = u64::try_from(state.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Call {
            scenario: Arc::clone(&state.scenario),
            elapsed_ms,
            generation: state.generation,
            is_unrevived: state.generation == state.scenario_generation,
        })
    })
}

impl State {
    fn open() -> Option<Self> {
        let library = own_path()?;
        stay(&library);
        Some(Self {
            library,
            scenario: Arc::default(),
            stamp: None,
            scenario_generation: 0,
            initialised: 0,
            generation: 0,
            handles: Handles::default(),
            events_given: BTreeSet::new(),
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
            self.scenario_generation = self.generation;
        }
        Ok(())
    }

    fn misused(&self, how: &str) {
        append(&misuse_path(&self.library), how);
    }

    fn tell_initialised(&self) -> Answer {
        fs::write(initialised_path(&self.library), self.initialised.to_string()).map_err(|_| UNKNOWN)
    }
}

/// A folder that is gone already has nobody who reads there.
fn append(place: &Path, line: &str) {
    let log = fs::OpenOptions::new().create(true).append(true).open(place);
    let _ = log.and_then(|mut log| log.write_all(format!("{line}\n").as_bytes()));
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

/// Keeps this code and its state from being unloaded: a caller that outlives its handle is told so, instead of ending the process.
#[expect(unsafe_code, reason = "only the linker can pin a library")]
fn stay(library: &Path) {
    let Ok(name) = CString::new(library.as_os_str().as_encoded_bytes()) else { return };
    // SAFETY: the name ends with NUL; nothing new is loaded, so no initialiser runs.
    unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
}
