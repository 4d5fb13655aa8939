//! `--once`: what is seen of the GPUs, as a table for people.

use std::fmt::Write as _;
use std::time::Duration;

use super::holding::{self, WHOLE};
use crate::meter::{self, Job, Part};
use crate::reader::{ReadTick, Received};
use crate::tick::{DeviceState, DeviceTick, InstanceId, Library, Metric, Process, Readings, Tick};

/// For each of two passes; the driver may take seconds to be initialised.
const PATIENCE: Duration = Duration::from_secs(30);
const SLICE: Duration = Duration::from_secs(1);
const NOTHING: &str = "-";

/// Why nothing was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotSeen {
    #[error(
        "no GPU can be seen: NVML (libnvidia-ml.so.1, a part of NVIDIA's driver) is not there or cannot be initialised; \
         `nvidia-smi` says more, and `library` names one that lies elsewhere"
    )]
    WithoutLibrary,
    #[error("no GPU can be seen: the driver does not answer")]
    Silent,
    #[error("no GPU can be seen: the driver is there and tells of none that can be read; `nvidia-smi` says more")]
    NothingReadable,
}

/// The second pass: utilisation is a difference between two.
pub(super) fn look(reader: &mut dyn ReadTick) -> Result<Tick, NotSeen> {
    pass(reader)?;
    let tick = pass(reader)?;
    if tick.devices.is_empty() { Err(NotSeen::NothingReadable) } else { Ok(tick) }
}

fn pass(reader: &mut dyn ReadTick) -> Result<Tick, NotSeen> {
    let mut waited = Duration::ZERO;
    while waited < PATIENCE {
        match reader.read_tick(SLICE) {
            Received::Tick(tick) if tick.library == Library::Gone => return Err(NotSeen::WithoutLibrary),
            Received::Tick(tick) => return Ok(*tick),
            Received::Nothing { stalled: true } | Received::Ended => return Err(NotSeen::Silent),
            Received::Nothing { stalled: false } => waited = waited.saturating_add(SLICE),
        }
    }
    Err(NotSeen::Silent)
}

/// `jobs` are those of the configuration and those that were started.
pub(super) fn table(node: &str, tick: &Tick, jobs: &[Job]) -> String {
    let mut text = format!("{}: {} GPU(s)\n\n", printable(node), tick.devices.len());
    let header = ["GPU", "MODEL", "UTIL", "SM", "MEMORY", "POWER", "SM CLOCK", "MEM CLOCK", "HEALTH", "HELD BY"];
    let mut devices = vec![header.map(str::to_owned).to_vec()];
    let mut processes = vec![["PID", "GPU", "KIND", "MEMORY", "SM", "TENANT", "JOB"].map(str::to_owned).to_vec()];
    for device in &tick.devices {
        devices.push(device_row(device, jobs));
        let uuid = &device.info.uuid;
        processes.extend(device.processes.iter().flatten().map(|process| process_row(uuid, None, process, jobs)));
        for instance in &device.instances {
            let total = instance.memory_total_bytes;
            let readings = &instance.readings;
            let id = format!("{uuid} {}", instance.id);
            let held = held_by(uuid, Some(instance.id), jobs);
            let mut row = vec![id, NOTHING.to_owned(), utilisation(readings, Metric::GpuUtil)];
            row.extend([utilisation(readings, Metric::SmUtil), memory(readings, total)]);
            row.extend([NOTHING; 4].map(str::to_owned));
            row.push(held);
            devices.push(row);
            let own = instance.processes.iter().flatten();
            processes.extend(own.map(|process| process_row(uuid, Some(instance.id), process, jobs)));
        }
    }
    columns(&mut text, &devices);
    if processes.len() > 1 {
        text.push('\n');
        columns(&mut text, &processes);
    }
    text
}

fn device_row(device: &DeviceTick, jobs: &[Job]) -> Vec<String> {
    let (info, readings) = (&device.info, &device.readings);
    let clock = |metric| readings.newest(metric).map_or(NOTHING.to_owned(), |mhz| format!("{mhz} MHz"));
    let watts = |mw: u64| (mw.saturating_add(500) / 1000).to_string();
    let power = match (readings.newest(Metric::PowerW), info.power_limit_mw) {
        (Some(power), Some(limit)) => format!("{} / {} W", watts(power), watts(limit)),
        (Some(power), None) => format!("{} W", watts(power)),
        (None, _) => NOTHING.to_owned(),
    };
    let health = match device.state {
        DeviceState::Ok => "ok",
        DeviceState::Lost => "lost",
        DeviceState::ResetRequired => "reset required",
        DeviceState::Unreadable => "unreadable",
    };
    vec![
        info.uuid.clone(),
        if info.mig { format!("{} (MIG)", info.name) } else { info.name.clone() },
        utilisation(readings, Metric::GpuUtil),
        utilisation(readings, Metric::SmUtil),
        memory(readings, info.memory_total_bytes),
        power,
        clock(Metric::SmClockMhz),
        clock(Metric::MemClockMhz),
        health.to_owned(),
        held_by(&info.uuid, None, jobs),
    ]
}

fn process_row(uuid: &str, instance: Option<InstanceId>, process: &Process, jobs: &[Job]) -> Vec<String> {
    let kinds = [("compute", process.kinds.compute), ("graphics", process.kinds.graphics), ("MPS", process.kinds.mps)];
    let kinds: Vec<_> = kinds.into_iter().filter(|(_, is_it)| *is_it).map(|(name, _)| name).collect();
    let owner = owner(uuid, instance, process, jobs);
    vec![
        process.pid.to_string(),
        instance.map_or(uuid.to_owned(), |instance| format!("{uuid} {instance}")),
        if kinds.is_empty() { NOTHING.to_owned() } else { kinds.join("+") },
        process.memory_bytes.map_or(NOTHING.to_owned(), gibibytes),
        process.sm_util.map_or(NOTHING.to_owned(), per_cent),
        owner.map_or("_unattributed", |job| &job.tenant).to_owned(),
        owner.and_then(|job| job.job.clone()).unwrap_or_else(|| NOTHING.to_owned()),
    ]
}

fn utilisation(readings: &Readings, metric: Metric) -> String {
    readings.newest(metric).map_or(NOTHING.to_owned(), per_cent)
}

fn per_cent(millionths: u64) -> String {
    format!("{} %", millionths.saturating_add(5_000) / 10_000)
}

fn memory(readings: &Readings, total: Option<u64>) -> String {
    match (readings.newest(Metric::MemUsedBytes), total) {
        (Some(used), Some(total)) => format!("{} of {}", gibibytes(used), gibibytes(total)),
        (Some(used), None) => gibibytes(used),
        (None, _) => NOTHING.to_owned(),
    }
}

fn gibibytes(bytes: u64) -> String {
    let tenths = (bytes >> 20).saturating_mul(10) >> 10;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

/// `acme/job-9 25 %`, one after the other.
fn held_by(uuid: &str, instance: Option<InstanceId>, jobs: &[Job]) -> String {
    let is_it = |part: &&Part| part.gpu_uuid == uuid && part.instance == instance;
    let holders = jobs.iter().flat_map(|job| job.parts.iter().filter(is_it).map(move |part| (job, part)));
    let texts: Vec<_> = holders
        .map(|(job, part)| {
            let name = job.job.as_ref().map_or(job.tenant.clone(), |name| format!("{}/{name}", job.tenant));
            if part.share == WHOLE { name } else { format!("{name} {}", holding::share_text(part.share)) }
        })
        .collect();
    if texts.is_empty() { NOTHING.to_owned() } else { texts.join(", ") }
}

/// For show: by cgroup where a job names one that fits, else whoever holds all of the device.
fn owner<'a>(uuid: &str, instance: Option<InstanceId>, process: &Process, jobs: &'a [Job]) -> Option<&'a Job> {
    let cgroup = process.cgroup.as_deref().unwrap_or_default();
    let fit = |job: &Job| job.workloads.iter().filter_map(|workload| meter::fit(cgroup, workload)).max();
    let named = jobs.iter().filter_map(|job| Some((fit(job)?, job))).max_by_key(|(fit, _)| *fit);
    let holds_all = |job: &&Job| {
        job.parts.iter().any(|part| part.gpu_uuid == uuid && part.instance == instance && part.share == WHOLE)
    };
    named.map(|(_, job)| job).or_else(|| jobs.iter().find(holds_all))
}

/// Rows under each other, in columns as wide as their widest.
fn columns(text: &mut String, rows: &[Vec<String>]) {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a string does not fail.
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// Names come from drivers and schedulers: nothing that a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Workload;
    use crate::tick::{DeviceInfo, InstanceTick, ProcessKinds};

    struct Given(Vec<Received>);

    impl ReadTick for Given {
        fn read_tick(&mut self, _patience: Duration) -> Received {
            if self.0.is_empty() { Received::Ended } else { self.0.remove(0) }
        }
    }

    fn process(pid: u32, cgroup: &str) -> Process {
        Process {
            pid,
            started: Some(1),
            kinds: ProcessKinds { compute: true, graphics: false, mps: false },
            memory_bytes: Some(3 << 29),
            sm_util: Some(125_000),
            cgroup: Some(cgroup.to_owned()),
        }
    }

    fn device() -> DeviceTick {
        let mut readings = Readings::default();
        for (metric, value) in [
            (Metric::GpuUtil, 820_000),
            (Metric::MemUsedBytes, 40 << 30),
            (Metric::PowerW, 301_500),
            (Metric::SmClockMhz, 1_410),
        ] {
            readings.push(metric, value);
        }
        let info = DeviceInfo {
            uuid: "GPU-1".to_owned(),
            name: "NVIDIA A100\u{1b}[2J".to_owned(),
            memory_total_bytes: Some(80 << 30),
            power_limit_mw: Some(400_000),
            max_sm_clock_mhz: None,
            mig: false,
            multiprocessors: None,
        };
        DeviceTick {
            info,
            state: DeviceState::Ok,
            readings,
            energy_mj: None,
            throttle_mask: None,
            processes: Some(vec![process(7, "/slurm/job_1/step_0"), process(8, "/slurm/job_12")]),
            instances: Vec::new(),
            refused_readings: 0,
            clamped_readings: Vec::new(),
        }
    }

    fn tick(devices: Vec<DeviceTick>, library: Library) -> Tick {
        Tick { wall_us: 0, mono_us: 0, library_run: 1, library, devices, xids: Vec::new() }
    }

    fn job(tenant: &str, share: u32, cgroup: &str) -> Job {
        let part = Part { gpu_uuid: "GPU-1".to_owned(), instance: None, share };
        let workloads = vec![Workload::Cgroup(cgroup.to_owned())];
        Job { tenant: tenant.to_owned(), job: Some("j".to_owned()), parts: vec![part], workloads }
    }

    #[test]
    fn the_table_shows_devices_processes_and_whose_they_are() {
        let jobs = [job("acme", 250_000, "/slurm/job_1"), job("globex", 750_000, "/elsewhere")];
        let text = table("gpu-07", &tick(vec![device()], Library::Present), &jobs);
        let expected = "\
gpu-07: 1 GPU(s)

GPU    MODEL           UTIL  SM  MEMORY                POWER        SM CLOCK  MEM CLOCK  HEALTH  HELD BY
GPU-1  NVIDIA A100[2J  82 %  -   40.0 GiB of 80.0 GiB  302 / 400 W  1410 MHz  -          ok      acme/j 0.25, globex/j 0.75

PID  GPU    KIND     MEMORY   SM    TENANT         JOB
7    GPU-1  compute  1.5 GiB  13 %  acme           j
8    GPU-1  compute  1.5 GiB  13 %  _unattributed  -
";
        assert_eq!(text, expected);
    }

    #[test]
    fn whose_a_process_is_is_told_as_the_meter_counts_it() {
        let id = "a".repeat(64);
        let mut holder = job("acme", 250_000, "/nowhere");
        holder.workloads = vec![Workload::Container(id.clone())];
        let owner = |cgroup: &str| owner("GPU-1", None, &process(1, cgroup), std::slice::from_ref(&holder)).is_some();
        assert!(owner(&format!("/system.slice/docker-{id}.scope")));
        assert!(!owner(&format!("/system.slice/x-{id}.scope")), "an id inside another name");
        assert!(!owner(&format!("/user.slice/user-1000.slice/user@1000.service/docker-{id}.scope")), "posing");
    }

    #[test]
    fn instances_have_rows_of_their_own_and_no_utilisation_of_the_board() {
        let mut device = device();
        device.info.mig = true;
        device.readings.0.remove(&Metric::GpuUtil);
        let id = InstanceId { gpu_instance: 1, compute_instance: 0 };
        let mut readings = Readings::default();
        readings.push(Metric::SmUtil, 500_000);
        device.instances.push(InstanceTick {
            id,
            uuid: "MIG-1".to_owned(),
            multiprocessors: None,
            memory_total_bytes: None,
            readings,
            processes: Some(vec![process(9, "/x")]),
        });
        let mut holder = job("acme", WHOLE, "/nowhere");
        holder.parts[0].instance = Some(id);
        let text = table("n", &tick(vec![device], Library::Present), &[holder]);
        assert!(
            text.lines()
                .any(|line| line.starts_with("GPU-1 1/0  -") && line.contains("50 %") && line.ends_with("acme/j"))
        );
        assert!(text.lines().any(|line| line.starts_with("9    GPU-1 1/0") && line.contains("acme")), "{text}");
    }

    #[test]
    fn the_second_pass_is_shown_and_a_missing_library_is_said() {
        let present = || Received::Tick(Box::new(tick(Vec::new(), Library::Present)));
        let nothing = || Received::Nothing { stalled: false };
        let second = Received::Tick(Box::new(tick(vec![device()], Library::Present)));
        let seen = look(&mut Given(vec![nothing(), present(), nothing(), second])).unwrap();
        assert_eq!(seen.devices.len(), 1);
        let gone = Received::Tick(Box::new(tick(Vec::new(), Library::Gone)));
        assert_eq!(look(&mut Given(vec![gone])), Err(NotSeen::WithoutLibrary));
        assert_eq!(
            look(&mut Given(vec![present(), present()])),
            Err(NotSeen::NothingReadable),
            "it may have some that it cannot read"
        );
        assert_eq!(look(&mut Given(vec![Received::Nothing { stalled: true }])), Err(NotSeen::Silent));
        assert_eq!(look(&mut Given((0..40).map(|_| nothing()).collect())), Err(NotSeen::Silent));
    }
}
