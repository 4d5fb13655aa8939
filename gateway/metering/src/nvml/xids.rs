//! Xid errors, waited for on a thread of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use crossbeam_channel::{Receiver, Sender, bounded};
use nvml_wrapper::EventSet;
use nvml_wrapper::error::NvmlError;

use super::fault::Fault;
use super::library::Library;
use super::machine::MOST_DEVICES;
use super::pulse::Pulse;
use super::raw;
use crate::tick::{InstanceId, Xid};

/// How long one wait lasts, and so how long the thread outlives its session.
const WAIT_MS: u32 = 250;
/// Devices that could not be registered are tried again after so many waits.
const WAITS_TO_RETRY: u32 = 4;
/// A wait that lasts longer hangs.
const HANGS_US: u64 = 10_000_000;
/// More than a machine with eight dying devices tells between two passes. What comes on top is dropped: the devices are
/// unhealthy already.
const MOST: usize = 256;

/// The thread ends with its owner, or a wait later. It keeps the library open until then.
#[derive(Debug)]
pub(super) struct Watch {
    found: Receiver<Xid>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    pulse: Pulse,
    was_said_to_hang: bool,
}

/// Why nothing waits any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    Asked,
    /// The library lacks this function.
    Lacks(&'static str),
    NoDeviceTells,
    Refused(Fault, String),
}

impl Watch {
    pub(super) fn start(library: Arc<Library>, pulse: Pulse) -> io::Result<Self> {
        let (give, found) = bounded(MOST);
        let ends = Arc::new(AtomicBool::new(false));
        let (end, beat) = (Arc::clone(&ends), pulse.clone());
        let body = move || {
            let why = watch(&library, &give, &end, &beat);
            beat.beat();
            // Shuts the library down, where everybody else is done with it.
            drop(library);
            beat.rest();
            match why {
                End::Asked => {}
                why => tracing::warn!("Xid errors are not told until the NVML library is initialised anew: {why}"),
            }
        };
        let thread = thread::Builder::new().name("nvml-xids".to_owned()).spawn(body)?;
        Ok(Self { found, ends, thread, pulse, was_said_to_hang: false })
    }

    /// Those since the last time.
    pub(super) fn take(&self) -> Vec<Xid> {
        self.found.try_iter().collect()
    }

    /// Asks the thread to end, which it does after its wait.
    pub(super) fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    /// Whether the thread is gone, and its hold on the library with it.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Says once when the driver does not come back from a wait.
    pub(super) fn mind(&mut self) {
        if !self.was_said_to_hang && self.pulse.busy_for_us().is_some_and(|us| us > HANGS_US) {
            self.was_said_to_hang = true;
            tracing::warn!(
                "the driver hangs while it is waited for Xid errors; none are told, and a library that goes cannot \
                            be initialised anew until it comes back"
            );
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

/// Gives Xid errors until it is to end, or nothing can be waited for.
pub(super) fn watch(library: &Library, give: &Sender<Xid>, ends: &AtomicBool, pulse: &Pulse) -> End {
    let nvml = library.nvml();
    // The wrapper frees sets when it drops them, and panics where it cannot.
    if nvml.lib().nvmlEventSetFree.is_err() {
        return End::Lacks("nvmlEventSetFree");
    }
    if nvml.lib().nvmlEventSetWait_v2.is_err() {
        return End::Lacks("nvmlEventSetWait_v2");
    }
    let set = match nvml.create_event_set() {
        Ok(set) => set,
        Err(error) => return End::Refused(Fault::from(&error), error.to_string()),
    };
    let mut register = Register::default();
    let mut waits = 0_u32;
    while !ends.load(Ordering::Relaxed) {
        pulse.beat();
        if waits.is_multiple_of(WAITS_TO_RETRY) && !register.is_complete() {
            register.add(library, &set);
        }
        waits = waits.wrapping_add(1);
        if register.registered == 0 {
            if register.is_complete() {
                return End::NoDeviceTells;
            }
            // An empty set cannot be waited for.
            pulse.rest();
            thread::sleep(Duration::from_millis(WAIT_MS.into()));
            continue;
        }
        let waited = raw::wait_for_xid(nvml, &set, WAIT_MS);
        pulse.rest();
        match waited {
            Ok(event) => {
                let of = |(gpu_instance, compute_instance)| InstanceId { gpu_instance, compute_instance };
                let _ = give.try_send(Xid { uuid: event.uuid, instance: event.instance.map(of), code: event.xid });
            }
            Err(NvmlError::Timeout) => {}
            Err(error) => match Fault::from(&error) {
                fault @ (Fault::FieldUnavailable | Fault::Permission | Fault::LibraryGone) => {
                    return End::Refused(fault, error.to_string());
                }
                // A device that fell off the bus makes every wait fail at once; others may still tell something.
                Fault::NoData | Fault::DeviceGone(_) | Fault::Transient => {
                    thread::sleep(Duration::from_millis(WAIT_MS.into()));
                }
            },
        }
    }
    End::Asked
}

/// Which devices' errors are waited for.
#[derive(Debug, Default)]
struct Register {
    /// Indices that are still to be registered. `None`: it could not be said how many there are.
    missing: Option<Vec<u32>>,
    registered: usize,
}

impl Register {
    fn is_complete(&self) -> bool {
        self.missing.as_ref().is_some_and(Vec::is_empty)
    }

    fn add(&mut self, library: &Library, set: &EventSet<'_>) {
        let nvml = library.nvml();
        let count = || nvml.device_count().ok().map(|count| (0..count.min(MOST_DEVICES)).collect());
        let Some(mut missing) = self.missing.take().or_else(count) else { return };
        missing.retain(|index| {
            let device = nvml.device_by_index(*index);
            match device.and_then(|device| raw::register_xids(&device, set)) {
                Ok(()) => {
                    self.registered += 1;
                    false
                }
                Err(error) => {
                    tracing::debug!(index, %error, "the Xid errors of a device cannot be waited for");
                    Fault::from(&error) != Fault::FieldUnavailable
                }
            }
        });
        self.missing = Some(missing);
    }
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => out.write_str("it was to end"),
            Self::Lacks(function) => write!(out, "the library has no `{function}`"),
            Self::NoDeviceTells => out.write_str("no device here tells of them"),
            Self::Refused(_, error) => write!(out, "the driver refuses: {error}"),
        }
    }
}
