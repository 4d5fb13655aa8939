//! GPM: samples, and what pairs of them say.

use std::ffi::c_uint;
use std::ptr;

use super::put;
use crate::handles::Sampled;
use crate::layout::{GpmMetricsGet, GpmSupport};
use crate::state::{Answer, Call, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, answer, sampled, with_handles};

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmQueryDeviceSupport(device: usize, support: *mut GpmSupport) -> c_uint {
    answer("nvmlGpmQueryDeviceSupport", device, |call| {
        let of = call.device(device)?;
        let is_supported = of.gpm.is_some() || of.instances.iter().flatten().any(|instance| instance.gpm.is_some());
        put(support, GpmSupport { version: 1, is_supported: c_uint::from(is_supported) })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmSampleAlloc(sample: *mut usize) -> c_uint {
    let name = "nvmlGpmSampleAlloc";
    answer(name, 0, |_| put(sample, with_handles(name, |handles| Some(handles.new_sample()))?))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmSampleFree(sample: usize) -> c_uint {
    let name = "nvmlGpmSampleFree";
    answer(name, 0, |_| with_handles(name, |handles| handles.samples.remove(&sample)).map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmSampleGet(device: usize, sample: usize) -> c_uint {
    answer("nvmlGpmSampleGet", device, |call| {
        let of = call.device(device)?;
        if of.gpm.is_none() || of.mig == Some(true) {
            return Err(NOT_SUPPORTED);
        }
        fill("nvmlGpmSampleGet", sample, Sampled { device, instance: None })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmMigSampleGet(device: usize, gpu_instance: c_uint, sample: usize) -> c_uint {
    answer("nvmlGpmMigSampleGet", device, |call| {
        let mut instances = call.device(device)?.instances.iter().flatten();
        instances.find(|instance| instance.gpu_instance == gpu_instance).ok_or(NOT_FOUND)?;
        fill("nvmlGpmMigSampleGet", sample, Sampled { device, instance: Some(gpu_instance) })
    })
}

fn fill(name: &str, sample: usize, sampled: Sampled) -> Answer {
    with_handles(name, |handles| handles.samples.get_mut(&sample).map(|place| *place = sampled))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmMetricsGet(request: *mut GpmMetricsGet) -> c_uint {
    answer("nvmlGpmMetricsGet", 0, |call| {
        // SAFETY: a pointer that is not null is to a request that the caller filled in.
        let request = unsafe { request.as_mut() }.ok_or(INVALID_ARGUMENT)?;
        let [first, second] = request.samples.map(|sample| sampled("nvmlGpmMetricsGet", sample));
        let (first, second) = (first?, second?);
        let count = usize::try_from(request.count).unwrap_or(usize::MAX);
        if request.version != 1 || first != second || count > request.metrics.len() {
            return Err(INVALID_ARGUMENT);
        }
        for metric in request.metrics.iter_mut().take(count) {
            let value = value_of(call, second, metric.id);
            metric.nvml_return = value.err().unwrap_or(0);
            metric.value = value.unwrap_or_default();
            metric.names = [ptr::null(); 3];
        }
        Ok(())
    })
}

fn value_of(call: &Call, sampled: Sampled, metric: c_uint) -> Result<f64, u32> {
    let device = call.device(sampled.device)?;
    let gpm = match sampled.instance {
        None => device.gpm.as_ref(),
        Some(id) => {
            let found = device.instances.iter().flatten().find(|instance| instance.gpu_instance == id);
            found.and_then(|instance| instance.gpm.as_ref())
        }
    };
    let gpm = gpm.ok_or(NOT_SUPPORTED)?;
    let value = match metric {
        2 => &gpm.sm_util,
        3 => &gpm.sm_occupancy,
        5 => &gpm.tensor,
        10 => &gpm.dram,
        _ => return Err(NOT_SUPPORTED),
    };
    Ok(value.real(call.elapsed_ms))
}
