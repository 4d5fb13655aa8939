//! MIG: whether it is on, and its instances.

use std::ffi::c_uint;

use super::put;
use crate::handles::instance_handle;
use crate::layout::Attributes;
use crate::scenario::Instance;
use crate::state::{Answer, Call, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, answer};

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigMode(device: usize, current: *mut c_uint, pending: *mut c_uint) -> c_uint {
    answer("nvmlDeviceGetMigMode", device, |call| {
        let mode = c_uint::from(call.device(device)?.mig.ok_or(NOT_SUPPORTED)?);
        put(current, mode)?;
        put(pending, mode)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: usize, count: *mut c_uint) -> c_uint {
    answer("nvmlDeviceGetMaxMigDeviceCount", device, |call| {
        let of = call.device(device)?;
        let there = c_uint::try_from(of.instances.len()).map_err(|_| INVALID_ARGUMENT)?;
        put(count, if of.mig.is_some() { of.instance_count.unwrap_or(there.max(7)) } else { 0 })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(device: usize, index: c_uint, instance: *mut usize) -> c_uint {
    answer("nvmlDeviceGetMigDeviceHandleByIndex", device, |call| {
        let of = call.device(device)?;
        if of.mig != Some(true) {
            return Err(NOT_SUPPORTED);
        }
        let handle = instance_handle(device, index);
        call.instance(handle).ok_or(of.hole.unwrap_or(NOT_FOUND))?;
        put(instance, handle)
    })
}

fn of_instance(name: &str, handle: usize, give: impl FnOnce(&Call, &Instance) -> Answer) -> c_uint {
    answer(name, handle, |call| {
        call.device(handle)?;
        give(call, call.instance(handle).ok_or(INVALID_ARGUMENT)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstanceId(device: usize, id: *mut c_uint) -> c_uint {
    of_instance("nvmlDeviceGetGpuInstanceId", device, |_, instance| put(id, instance.gpu_instance))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeInstanceId(device: usize, id: *mut c_uint) -> c_uint {
    of_instance("nvmlDeviceGetComputeInstanceId", device, |_, instance| put(id, instance.compute_instance))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetAttributes_v2(device: usize, attributes: *mut Attributes) -> c_uint {
    of_instance("nvmlDeviceGetAttributes_v2", device, |_, instance| {
        put(
            attributes,
            Attributes {
                multiprocessors: instance.multiprocessors,
                engines: [0; 5],
                gpu_instance_slices: 1,
                compute_instance_slices: 1,
                memory_mb: instance.memory_mb,
            },
        )
    })
}
