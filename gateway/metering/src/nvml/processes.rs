//! Which processes are on a device, and which part of its time each used.

use std::collections::BTreeMap;
use std::path::Path;

use nvml_wrapper::Device;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample};

use super::asking::{Asking, Field};
use super::procfs::Kernel;
use super::sieve::Sieve;
use super::utilisation::Span;
use crate::tick::{Process, ProcessKinds};

/// Notes that a process is in one of the lists.
type Mark = fn(&mut ProcessKinds);

/// Each process once, with all that it is listed as, in the order of PIDs. `None`: compute processes could not be asked for.
pub(super) fn list(asking: &mut Asking<'_>, device: &Device<'_>, proc_root: &Path) -> Option<Vec<Process>> {
    let mut found: BTreeMap<u32, Process> = BTreeMap::new();
    let compute = asking.ask(Field::ComputeProcesses, || patiently(|| device.running_compute_processes()));
    let graphics = asking.ask(Field::GraphicsProcesses, || patiently(|| device.running_graphics_processes()));
    let mps = asking.ask(Field::MpsProcesses, || patiently(|| device.mps_running_compute_processes()));
    let could_ask = compute.is_some();
    let marks: [(_, Mark); 3] = [
        (compute, |kinds| kinds.compute = true),
        (graphics, |kinds| kinds.graphics = true),
        (mps, |kinds| kinds.mps = true),
    ];
    for (listed, mark) in marks {
        // A list may be padded with zeros.
        for info in listed.into_iter().flatten().filter(|info| info.pid != 0) {
            let process = found.entry(info.pid).or_insert_with(|| blank(info.pid));
            mark(&mut process.kinds);
            process.memory_bytes = process.memory_bytes.max(memory_of(&info));
        }
    }
    for process in found.values_mut() {
        let kernel = Kernel::ask(proc_root, process.pid);
        (process.started, process.cgroup) = (kernel.started, kernel.cgroup);
    }
    could_ask.then(|| found.into_values().collect())
}

/// A list may grow between asking for its length and for itself.
fn patiently<T>(call: impl Fn() -> Result<T, NvmlError>) -> Result<T, NvmlError> {
    match call() {
        Err(NvmlError::InsufficientSize(_)) => call(),
        answer => answer,
    }
}

fn blank(pid: u32) -> Process {
    Process { pid, started: None, kinds: ProcessKinds::default(), memory_bytes: None, sm_util: None, cgroup: None }
}

/// Told per process, not per list, so it is not added up. Sentinels are no refused readings: containers without the right
/// see nothing else.
fn memory_of(info: &ProcessInfo) -> Option<u64> {
    match info.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => Sieve::default().wide(bytes),
        UsedGpuMemory::Unavailable => None,
    }
}

/// Adds each process's part of the device's time since the last pass: the mean of its new rows, and 0 where the driver has new
/// rows of others only, since it leaves out who did nothing. Nothing new at all says nothing of anybody.
pub(super) fn add_utilisation(
    asking: &mut Asking<'_>,
    device: &Device<'_>,
    (span, last_seen_us): (Span, &mut u64),
    sieve: &mut Sieve,
    processes: &mut [Process],
) {
    let since = span.since(last_seen_us);
    let asked = || patiently(|| device.process_utilization_stats(since));
    let rows = asking.ask(Field::ProcessUtilisation, asked).unwrap_or_default();
    let new: Vec<ProcessUtilizationSample> =
        rows.into_iter().filter(|row| row.pid != 0 && row.timestamp > since && span.holds(row.timestamp)).collect();
    *last_seen_us = new.iter().map(|row| row.timestamp).fold(*last_seen_us, u64::max);
    let mut shares: BTreeMap<u32, Vec<Option<u64>>> = BTreeMap::new();
    for row in &new {
        shares.entry(row.pid).or_default().push(sieve.share(row.sm_util.into()));
    }
    for process in processes.iter_mut().filter(|_| !new.is_empty()) {
        process.sm_util = match shares.get(&process.pid) {
            Some(shares) => mean(shares.iter().flatten().copied()),
            None => Some(0),
        };
    }
}

fn mean(values: impl Iterator<Item = u64>) -> Option<u64> {
    let (sum, count) = values.fold((0_u64, 0_u64), |(sum, count), value| (sum + value, count + 1));
    sum.checked_div(count)
}
