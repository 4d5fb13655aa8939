//! What a device is and how it does, apart from lists.

use std::ffi::{c_char, c_uint, c_ulonglong};

use super::{narrow, put, put_text};
use crate::layout::{FieldValue, Memory, MemoryV2, Rates};
use crate::state::{Answer, Call, INVALID_ARGUMENT, NOT_SUPPORTED, answer};

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUUID(device: usize, uuid: *mut c_char, length: c_uint) -> c_uint {
    answer("nvmlDeviceGetUUID", device, |call| {
        let own = &call.device(device)?.uuid;
        put_text(uuid, length, call.instance(device).map_or(own, |instance| &instance.uuid))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetName(device: usize, name: *mut c_char, length: c_uint) -> c_uint {
    answer("nvmlDeviceGetName", device, |call| put_text(name, length, &call.device(device)?.name))
}

/// Total, reserved, used.
fn memory_of(call: &Call, handle: usize) -> Result<(u64, u64, u64), u32> {
    let device = call.device(handle)?;
    if let Some(instance) = call.instance(handle) {
        let used = instance.memory_used.as_ref().ok_or(NOT_SUPPORTED)?.whole(call.elapsed_ms);
        return Ok((instance.memory_mb << 20, 0, used));
    }
    let used = device.memory_used.as_ref().ok_or(NOT_SUPPORTED)?.whole(call.elapsed_ms);
    Ok((device.memory_total.ok_or(NOT_SUPPORTED)?, device.memory_reserved, used))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo(device: usize, memory: *mut Memory) -> c_uint {
    answer("nvmlDeviceGetMemoryInfo", device, |call| {
        let (total, reserved, used) = memory_of(call, device)?;
        let used = used.saturating_add(reserved);
        put(memory, Memory { total, free: total.saturating_sub(used), used })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: usize, memory: *mut MemoryV2) -> c_uint {
    const VERSION: c_uint = 40 | 2 << 24;
    answer("nvmlDeviceGetMemoryInfo_v2", device, |call| {
        // SAFETY: a pointer that is not null is to a structure with its version set, as the header asks.
        if memory.is_null() || unsafe { (*memory).version } != VERSION {
            return Err(if memory.is_null() { INVALID_ARGUMENT } else { 25 });
        }
        let (total, reserved, used) = memory_of(call, device)?;
        let free = total.saturating_sub(used).saturating_sub(reserved);
        put(memory, MemoryV2 { version: VERSION, total, reserved, free, used })
    })
}

/// Writes a number that a device has or does not support. Instances have none of their own.
fn number(name: &str, handle: usize, place: *mut c_uint, value: impl FnOnce(&Call) -> Option<u64>) -> c_uint {
    answer(name, handle, |call| {
        call.device(handle)?;
        let value = if call.instance(handle).is_some() { None } else { value(call) };
        put(place, narrow(value.ok_or(NOT_SUPPORTED)?))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPowerUsage(device: usize, power: *mut c_uint) -> c_uint {
    number("nvmlDeviceGetPowerUsage", device, power, |call| {
        Some(call.device(device).ok()?.power_mw.as_ref()?.whole(call.elapsed_ms))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: usize, limit: *mut c_uint) -> c_uint {
    number("nvmlDeviceGetEnforcedPowerLimit", device, limit, |call| call.device(device).ok()?.power_limit_mw)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetClockInfo(device: usize, clock: c_uint, mhz: *mut c_uint) -> c_uint {
    number("nvmlDeviceGetClockInfo", device, mhz, |call| {
        let clocks = call.device(device).ok()?.clocks.as_ref()?;
        let clock = match clock {
            1 => &clocks.sm,
            2 => &clocks.memory,
            _ => return None,
        };
        Some(clock.whole(call.elapsed_ms))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxClockInfo(device: usize, clock: c_uint, mhz: *mut c_uint) -> c_uint {
    number("nvmlDeviceGetMaxClockInfo", device, mhz, |call| {
        let clocks = call.device(device).ok()?.clocks.as_ref()?;
        (clock == 1).then_some(clocks.max_sm)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: usize, energy: *mut c_ulonglong) -> c_uint {
    answer("nvmlDeviceGetTotalEnergyConsumption", device, |call| {
        put(energy, call.device(device)?.energy_mj.as_ref().ok_or(NOT_SUPPORTED)?.whole(call.elapsed_ms))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCurrentClocksEventReasons(device: usize, reasons: *mut c_ulonglong) -> c_uint {
    answer("nvmlDeviceGetCurrentClocksEventReasons", device, |call| {
        let device = call.device(device)?;
        if device.throttle_by_its_old_name {
            return Err(13);
        }
        put(reasons, device.throttle_mask.ok_or(NOT_SUPPORTED)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(device: usize, reasons: *mut c_ulonglong) -> c_uint {
    answer("nvmlDeviceGetCurrentClocksThrottleReasons", device, |call| {
        put(reasons, call.device(device)?.throttle_mask.ok_or(NOT_SUPPORTED)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUtilizationRates(device: usize, rates: *mut Rates) -> c_uint {
    answer("nvmlDeviceGetUtilizationRates", device, |call| {
        let of = call.device(device)?;
        if of.mig == Some(true) {
            return Err(NOT_SUPPORTED);
        }
        let (gpu, memory) = of.rates.as_ref().ok_or(NOT_SUPPORTED)?;
        put(rates, Rates { gpu: narrow(gpu.whole(call.elapsed_ms)), memory: narrow(memory.whole(call.elapsed_ms)) })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetFieldValues(device: usize, count: i32, values: *mut FieldValue) -> c_uint {
    answer("nvmlDeviceGetFieldValues", device, |call| {
        let fields = call.device(device)?.fields.as_ref().ok_or(NOT_SUPPORTED)?;
        let count = usize::try_from(count).ok().filter(|count| *count > 0 && !values.is_null());
        for position in 0..count.ok_or(INVALID_ARGUMENT)? {
            // SAFETY: the caller gives `count` values, as the header asks.
            let value = unsafe { &mut *values.add(position) };
            fill(value, fields)?;
        }
        Ok(())
    })
}

fn fill(value: &mut FieldValue, fields: &crate::scenario::Fields) -> Answer {
    let known = fields.values.get(&value.field_id);
    value.nvml_return = if known.is_some() { 0 } else { NOT_SUPPORTED };
    if let Some((value_type, bits)) = known {
        (value.value_type, value.value) = (*value_type, *bits);
    }
    if fields.other_ids {
        value.field_id += 18;
    }
    Ok(())
}
