//! Xid errors, waited for on a thread of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, bounded};
use nvml_wrapper::EventSet;
use nvml_wrapper::error::NvmlError;

use super::fault::Fault;
use super::library::Library;
use super::raw;
use crate::tick::{InstanceId, Xid};

/// How long one wait lasts, and so how long the thread outlives its session.
const WAIT_MS: u32 = 250;
/// More than a machine with eight dying devices tells between two passes. What comes on top is dropped: the devices are
/// unhealthy already.
const MOST: usize = 256;

/// The thread ends with its owner, or a wait later. It keeps the library open until then.
#[derive(Debug)]
pub(super) struct Watch {
    found: Receiver<Xid>,
    ends: Arc<AtomicBool>,
}

impl Watch {
    pub(super) fn start(library: Arc<Library>) -> io::Result<Self> {
        let (give, found) = bounded(MOST);
        let ends = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ends);
        let body = move || watch(&library, &give, &end);
        thread::Builder::new().name("nvml-xids".to_owned()).spawn(body)?;
        Ok(Self { found, ends })
    }

    /// Those since the last time.
    pub(super) fn take(&self) -> Vec<Xid> {
        self.found.try_iter().collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn watch(library: &Library, give: &Sender<Xid>, ends: &AtomicBool) {
    let nvml = library.nvml();
    // The wrapper frees sets when it drops them, and panics where it cannot.
    if nvml.lib().nvmlEventSetFree.is_err() {
        return;
    }
    let Ok(set) = nvml.create_event_set() else { return };
    if !register(library, &set) {
        tracing::info!("no device here tells of Xid errors");
        return;
    }
    while !ends.load(Ordering::Relaxed) {
        match raw::wait_for_xid(nvml, &set, WAIT_MS) {
            Ok(event) => {
                let of = |(gpu_instance, compute_instance)| InstanceId { gpu_instance, compute_instance };
                let _ = give.try_send(Xid { uuid: event.uuid, instance: event.instance.map(of), code: event.xid });
            }
            Err(NvmlError::Timeout) => {}
            Err(error) => match Fault::from(&error) {
                Fault::FieldUnavailable | Fault::Permission | Fault::LibraryGone => return,
                // A device that fell off the bus makes every wait fail at once; others may still tell something.
                Fault::NoData | Fault::DeviceGone(_) | Fault::Transient => {
                    thread::sleep(std::time::Duration::from_millis(WAIT_MS.into()));
                }
            },
        }
    }
}

/// Whether at least one device tells.
fn register(library: &Library, set: &EventSet<'_>) -> bool {
    let nvml = library.nvml();
    let devices = (0..nvml.device_count().unwrap_or(0)).filter_map(|index| nvml.device_by_index(index).ok());
    devices.map(|device| raw::register_xids(&device, set)).filter(Result::is_ok).count() > 0
}
