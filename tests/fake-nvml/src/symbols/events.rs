//! Sets of events, of which there is one kind: Xid errors.

use std::ffi::{c_uint, c_ulonglong};
use std::thread;
use std::time::{Duration, Instant};

use super::put;
use crate::handles::{device_handle, device_of};
use crate::layout::EventData;
use crate::state::{Answer, Call, INVALID_ARGUMENT, TIMEOUT, answer, current, take_event, with_handles};

const XID: c_ulonglong = 8;

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetCreate(set: *mut usize) -> c_uint {
    let name = "nvmlEventSetCreate";
    answer(name, 0, |_| put(set, with_handles(name, |handles| Some(handles.new_set()))?))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetFree(set: usize) -> c_uint {
    let name = "nvmlEventSetFree";
    answer(name, 0, |_| with_handles(name, |handles| handles.sets.remove(&set)).map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetSupportedEventTypes(device: usize, kinds: *mut c_ulonglong) -> c_uint {
    answer("nvmlDeviceGetSupportedEventTypes", device, |call| {
        call.device(device)?;
        put(kinds, XID)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceRegisterEvents(device: usize, _kinds: c_ulonglong, set: usize) -> c_uint {
    let name = "nvmlDeviceRegisterEvents";
    answer(name, device, |call| {
        call.device(device)?;
        let index = device_of(device).and_then(|index| u32::try_from(index).ok()).ok_or(INVALID_ARGUMENT)?;
        with_handles(name, |handles| handles.sets.get_mut(&set).map(|devices| devices.insert(index))).map(|_| ())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlEventSetWait_v2(set: usize, data: *mut EventData, timeout_ms: c_uint) -> c_uint {
    let name = "nvmlEventSetWait_v2";
    answer(name, 0, |_| {
        let began = Instant::now();
        loop {
            let is_empty =
                with_handles(name, |handles| handles.sets.get(&set).map(std::collections::BTreeSet::is_empty))?;
            if is_empty {
                return Err(INVALID_ARGUMENT);
            }
            let call = current();
            if let Some((call, number)) = call.and_then(|call| take_event(&call, set).map(|number| (call, number))) {
                return give(&call, number, data);
            }
            if began.elapsed() >= Duration::from_millis(timeout_ms.into()) {
                return Err(TIMEOUT);
            }
            thread::sleep(Duration::from_millis(25));
        }
    })
}

fn give(call: &Call, number: usize, data: *mut EventData) -> Answer {
    let event = call.scenario.events.get(number).ok_or(TIMEOUT)?;
    let (gpu_instance, compute_instance) = event.instance.unwrap_or((u32::MAX, u32::MAX));
    let device = event.device.map_or(0, |index| device_handle(call.generation, index));
    put(data, EventData { device, event_type: XID, event_data: event.code, gpu_instance, compute_instance })
}
