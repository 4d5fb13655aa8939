//! Which processes are on a device, and how much of it they use.

use std::ffi::{c_uint, c_ulonglong};

use super::samples::now_us;
use super::{narrow, put, put_list};
use crate::layout::{ProcessInfo, ProcessSample};
use crate::scenario::Process;
use crate::state::{Answer, Call, NOT_FOUND, NOT_SUPPORTED, answer};

/// Asked of a device, those of its instances as well.
fn list(call: &Call, handle: usize, count: *mut c_uint, place: *mut ProcessInfo, kind: fn(&Process) -> bool) -> Answer {
    let device = call.device(handle)?;
    let mut found: Vec<ProcessInfo> = Vec::new();
    let mut add = |processes: &[Process], ids: (u32, u32)| {
        let listed = processes.iter().filter(|process| kind(process) && process.is_listed(call.elapsed_ms));
        found.extend(listed.map(|process| ProcessInfo {
            pid: process.pid,
            used_gpu_memory: process.memory.unwrap_or(u64::MAX),
            gpu_instance: ids.0,
            compute_instance: ids.1,
        }));
    };
    match call.instance(handle) {
        Some(instance) => add(&instance.processes, (instance.gpu_instance, instance.compute_instance)),
        None => {
            add(&device.processes, (u32::MAX, u32::MAX));
            for instance in device.instances.iter().flatten().filter(|_| device.mig == Some(true)) {
                add(&instance.processes, (instance.gpu_instance, instance.compute_instance));
            }
        }
    }
    put_list(count, place, found)?;
    device.told_processes.map_or(Ok(()), |told| put(count, told))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: usize,
    count: *mut c_uint,
    infos: *mut ProcessInfo,
) -> c_uint {
    answer("nvmlDeviceGetComputeRunningProcesses_v3", device, |call| {
        list(call, device, count, infos, |process| process.compute)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: usize,
    count: *mut c_uint,
    infos: *mut ProcessInfo,
) -> c_uint {
    answer("nvmlDeviceGetGraphicsRunningProcesses_v3", device, |call| {
        list(call, device, count, infos, |process| process.graphics)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    device: usize,
    count: *mut c_uint,
    infos: *mut ProcessInfo,
) -> c_uint {
    answer("nvmlDeviceGetMPSComputeRunningProcesses_v3", device, |call| {
        list(call, device, count, infos, |process| process.mps)
    })
}

/// All rows that the scenario has, whatever the caller saw last: drivers repeat themselves here.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetProcessUtilization(
    device: usize,
    rows: *mut ProcessSample,
    count: *mut c_uint,
    _last_seen: c_ulonglong,
) -> c_uint {
    answer("nvmlDeviceGetProcessUtilization", device, |call| {
        let of = call.device(device)?;
        let told = of.process_utilisation.as_ref().filter(|_| of.mig != Some(true)).ok_or(NOT_SUPPORTED)?;
        if told.is_empty() {
            return Err(NOT_FOUND);
        }
        let dated = |at: Option<i64>| at.unwrap_or_else(|| now_us() + call.scenario.sample_clock_offset_us);
        let found = told.iter().map(|row| ProcessSample {
            pid: row.pid,
            time_stamp: dated(row.at_us).cast_unsigned(),
            sm_util: narrow(row.sm.whole(call.elapsed_ms)),
            mem_util: 0,
            enc_util: 0,
            dec_util: 0,
        });
        put_list(count, rows, found.collect())
    })
}
