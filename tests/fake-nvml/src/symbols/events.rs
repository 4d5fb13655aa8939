//! Sets of events, of which there is one kind: Xid errors.

use std::ffi::{c_uint, c_ulonglong};
use std::thread;
use std::time::{Duration, Instant};

use super::put;
use crate::layout::EventData;
use crate::state::{Answer, Call, TIMEOUT, answer, current, device_handle, take_event};

const XID: c_ulonglong = 8;
/// A set is one for all: events are the scenario's, and each is handed out once.
const SET: usize = 1;

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetCreate(set: *mut usize) -> c_uint {
    answer("nvmlEventSetCreate", 0, |_| put(set, SET))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(_set: usize) -> c_uint {
    answer("nvmlEventSetFree", 0, |_| Ok(()))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetSupportedEventTypes(device: usize, kinds: *mut c_ulonglong) -> c_uint {
    answer("nvmlDeviceGetSupportedEventTypes", device, |call| {
        call.device(device)?;
        put(kinds, XID)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceRegisterEvents(device: usize, _kinds: c_ulonglong, _set: usize) -> c_uint {
    answer("nvmlDeviceRegisterEvents", device, |call| call.device(device).map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetWait_v2(_set: usize, data: *mut EventData, timeout_ms: c_uint) -> c_uint {
    answer("nvmlEventSetWait_v2", 0, |_| {
        let began = Instant::now();
        loop {
            if let Some((call, number)) = current().and_then(|call| take_event(&call).map(|number| (call, number))) {
                return give(&call, number, data);
            }
            if began.elapsed() >= Duration::from_millis(timeout_ms.into()) {
                return Err(TIMEOUT);
            }
            thread::sleep(Duration::from_millis(3));
        }
    })
}

fn give(call: &Call, number: usize, data: *mut EventData) -> Answer {
    let event = call.scenario.events.get(number).ok_or(TIMEOUT)?;
    let (gpu_instance, compute_instance) = event.instance.unwrap_or((u32::MAX, u32::MAX));
    let device = event.device.map_or(0, device_handle);
    put(data, EventData { device, event_type: XID, event_data: event.code, gpu_instance, compute_instance })
}
