//! Initialisation, shutdown, versions, and which devices there are.

use std::ffi::{c_char, c_uint};

use super::{put, put_text};
use crate::handles::device_handle;
use crate::state::{INVALID_ARGUMENT, answer, current, initialise, shut_down};

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_uint {
    answer("nvmlInit_v2", 0, |_| initialise())
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> c_uint {
    answer("nvmlInitWithFlags", 0, |_| initialise())
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_uint {
    answer("nvmlShutdown", 0, |_| shut_down())
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(_result: c_uint) -> *const c_char {
    c"an error of the stand-in library".as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> c_uint {
    answer("nvmlSystemGetDriverVersion", 0, |call| {
        let told = call.scenario.driver_version.as_str();
        put_text(version, length, if told.is_empty() { "570.86.15" } else { told })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> c_uint {
    answer("nvmlDeviceGetCount_v2", 0, |call| {
        let there = c_uint::try_from(call.scenario.devices.len()).map_err(|_| INVALID_ARGUMENT)?;
        put(count, call.scenario.device_count.unwrap_or(there))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut usize) -> c_uint {
    let handle = device_handle(current().map_or(0, |call| call.generation), index);
    answer("nvmlDeviceGetHandleByIndex_v2", handle, |call| {
        call.device(handle)?;
        put(device, handle)
    })
}
