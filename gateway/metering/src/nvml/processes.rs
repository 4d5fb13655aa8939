//! Which processes are on a device, and which part of its time each used.

use std::collections::BTreeMap;
use std::path::Path;

use nvml_wrapper::Device;

use super::asking::{Asking, Field};
use super::procfs::Kernel;
use super::raw::{self, ListedProcess, Listing, ProcessRow};
use super::sieve::Sieve;
use super::utilisation::Span;
use crate::tick::{Process, ProcessKinds};

/// Notes that a process is in one of the lists.
type Mark = fn(&mut ProcessKinds);

/// Each process once, with all that it is listed as, in the order of PIDs. `None`: compute processes could not be asked for.
pub(super) fn list(asking: &mut Asking<'_>, device: &Device<'_>, proc_root: &Path) -> Option<Vec<Process>> {
    let mut found: BTreeMap<u32, Process> = BTreeMap::new();
    let compute = asking.ask(Field::ComputeProcesses, || raw::processes(device, Listing::Compute));
    let graphics = asking.ask(Field::GraphicsProcesses, || raw::processes(device, Listing::Graphics));
    let mps = asking.ask(Field::MpsProcesses, || raw::processes(device, Listing::Mps));
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

fn blank(pid: u32) -> Process {
    Process { pid, started: None, kinds: ProcessKinds::default(), memory_bytes: None, sm_util: None, cgroup: None }
}

/// Told per process, not per list, so it is not added up. Sentinels are no refused readings: containers without the right
/// see nothing else.
fn memory_of(info: &ListedProcess) -> Option<u64> {
    Sieve::default().wide(info.memory_bytes)
}

/// The driver's rows of this pass, of all processes.
pub(super) fn new_rows(
    asking: &mut Asking<'_>,
    device: &Device<'_>,
    span: Span,
    last_seen_us: &mut u64,
) -> Vec<ProcessRow> {
    let since = span.since(last_seen_us);
    let mut rows = asking.ask(Field::ProcessUtilisation, || raw::process_rows(device, since)).unwrap_or_default();
    rows.retain(|row| row.pid != 0 && row.at_us > since && span.holds(row.at_us));
    *last_seen_us = rows.iter().map(|row| row.at_us).fold(*last_seen_us, u64::max);
    rows
}

/// Adds each process's part of the device's time since the last pass: the mean of its new rows, and 0 where the driver has new
/// rows of others only, since it leaves out who did nothing. Nothing new at all says nothing of anybody.
pub(super) fn add_utilisation(rows: &[ProcessRow], sieve: &mut Sieve, processes: &mut [Process]) {
    let mut shares: BTreeMap<u32, Vec<Option<u64>>> = BTreeMap::new();
    for row in rows {
        shares.entry(row.pid).or_default().push(sieve.share(row.sm_util.into()));
    }
    for process in processes.iter_mut().filter(|_| !rows.is_empty()) {
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
