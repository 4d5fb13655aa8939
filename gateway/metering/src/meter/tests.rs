//! The meter as a whole: `metering.md` cases 1, 3, 4, 5, 7, 8, 9, 14, 15 and 16, and sums that hold whatever happens.

mod attribution;
mod exactness;
mod faults;
mod mig;
mod statistics;
mod unknown;

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farebox_pricing::usage::Window;

use super::*;
use crate::snapshot::{MetricWindow, Snapshot};
use crate::tick::{
    DeviceInfo, DeviceState, DeviceTick, InstanceId, InstanceTick, Library, Metric, Process, Reading, Readings, Tick,
    Xid,
};

const S: u64 = 1_000_000;
/// Monotonic time of the first pass.
const T0: u64 = 1_000 * S;

/// A meter with a clock: one pass a second, and every snapshot checked as the gateway checks it.
struct Rig {
    meter: Meter,
    mono_us: u64,
    wall_us: i64,
    library_run: u32,
    wire: Vec<WireSnapshot>,
}

impl Rig {
    fn new() -> Self {
        let models = BTreeMap::new();
        let settings =
            MeterSettings { node: "gpu-07".to_owned(), tick: Duration::from_secs(1), models, after_epoch_us: 0 };
        let wall_us = "2026-12-01T00:00:00Z".parse::<Timestamp>().unwrap().as_microsecond();
        Self { meter: Meter::new(settings), mono_us: T0, wall_us, library_run: 1, wire: Vec::new() }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.wall_us).unwrap()
    }

    /// Time goes on by this much.
    fn wait(&mut self, us: u64) {
        self.mono_us += us;
        self.wall_us += i64::try_from(us).unwrap();
    }

    fn tick_of(&self, devices: &[DeviceTick]) -> Tick {
        Tick {
            wall_us: self.wall_us,
            mono_us: self.mono_us,
            library_run: self.library_run,
            library: Library::Present,
            devices: devices.to_vec(),
            xids: Vec::new(),
        }
    }

    /// A pass now, then a second goes by.
    fn pass(&mut self, devices: &[DeviceTick]) {
        self.meter.observe(&self.tick_of(devices));
        self.wait(S);
    }

    /// A second goes by, then a pass.
    fn later(&mut self, devices: &[DeviceTick]) {
        self.wait(S);
        self.meter.observe(&self.tick_of(devices));
    }

    fn run(&mut self, seconds: u64, devices: &[DeviceTick]) {
        (0..seconds).for_each(|_| self.later(devices));
    }

    fn start(&mut self, job: Job) {
        self.meter.start(job, self.mono_us).unwrap();
    }

    fn end(&mut self, tenant: &str) {
        assert!(self.meter.end(tenant, Some("job-9"), JobEnd::Ended, self.mono_us));
    }

    fn snapshots(&mut self) -> Vec<Snapshot> {
        self.wire = self.meter.snapshots(self.now());
        self.wire.iter().map(|wire| Snapshot::try_from(wire.clone()).unwrap()).collect()
    }

    fn of(&mut self, tenant: &str) -> Option<Snapshot> {
        let mut found: Vec<Snapshot> =
            self.snapshots().into_iter().filter(|snapshot| snapshot.tenant == tenant).collect();
        assert!(found.len() <= 1, "{found:?}");
        found.pop()
    }

    fn wire_of(&self, tenant: &str) -> &WireSnapshot {
        self.wire.iter().find(|snapshot| snapshot.tenant == tenant).unwrap()
    }

    fn totals(&self, tenant: &str) -> Totals {
        self.meter.totals().into_iter().find(|totals| totals.tenant == tenant).unwrap()
    }

    fn histogram(&self, tenant: &str, metric: &str) -> Vec<u32> {
        let bytes = STANDARD.decode(&self.wire_of(tenant).histograms.as_ref().unwrap()[metric].bins).unwrap();
        bytes.chunks(4).map(|bin| u32::from_le_bytes(bin.try_into().unwrap())).collect()
    }
}

fn gpu(uuid: &str, readings: &[(Metric, u64)]) -> DeviceTick {
    let info = DeviceInfo {
        uuid: uuid.to_owned(),
        name: "NVIDIA A100-SXM4-80GB".to_owned(),
        memory_total_bytes: Some(80 << 30),
        power_limit_mw: Some(400_000),
        max_sm_clock_mhz: Some(1_410),
        mig: false,
        multiprocessors: None,
    };
    DeviceTick {
        info,
        state: DeviceState::Ok,
        readings: instant(readings),
        energy_mj: None,
        throttle_mask: None,
        processes: Some(Vec::new()),
        instances: Vec::new(),
        refused_readings: 0,
        clamped_readings: Vec::new(),
    }
}

/// With an utilisation in per cent.
fn at(uuid: &str, percent: u64) -> DeviceTick {
    gpu(uuid, &[(Metric::GpuUtil, percent * 10_000)])
}

fn instant(readings: &[(Metric, u64)]) -> Readings {
    let mut all = Readings::default();
    readings.iter().for_each(|(metric, value)| all.push(*metric, *value));
    all
}

fn failed(uuid: &str, state: DeviceState) -> DeviceTick {
    DeviceTick { state, processes: None, ..gpu(uuid, &[]) }
}

fn partitioned(uuid: &str, board: &[(Metric, u64)], instances: Vec<InstanceTick>) -> DeviceTick {
    let mut device = gpu(uuid, board);
    device.info.mig = true;
    DeviceTick { instances, ..device }
}

fn slice(gpu_instance: u32, multiprocessors: u32, readings: &[(Metric, u64)]) -> InstanceTick {
    InstanceTick {
        id: InstanceId { gpu_instance, compute_instance: 0 },
        uuid: format!("MIG-{gpu_instance}"),
        multiprocessors: Some(multiprocessors),
        memory_total_bytes: None,
        readings: instant(readings),
        processes: Some(Vec::new()),
    }
}

fn process(pid: u32, cgroup: &str, sm_percent: Option<u64>) -> Process {
    Process {
        pid,
        started: Some(u64::from(pid)),
        kinds: Default::default(),
        memory_bytes: Some(1 << 30),
        sm_util: sm_percent.map(|percent| percent * 10_000),
        cgroup: Some(cgroup.to_owned()),
    }
}

fn with(mut device: DeviceTick, processes: &[Process]) -> DeviceTick {
    device.processes = Some(processes.to_vec());
    device
}

fn with_energy(mut device: DeviceTick, energy_mj: u64) -> DeviceTick {
    device.energy_mj = Some(energy_mj);
    device
}

fn job(tenant: &str, parts: &[(&str, Option<u32>, u32)], cgroups: &[&str]) -> Job {
    let parts = parts.iter().map(|(uuid, instance, share)| Part {
        gpu_uuid: (*uuid).to_owned(),
        instance: instance.map(|gpu_instance| InstanceId { gpu_instance, compute_instance: 0 }),
        share: *share,
    });
    let workloads = cgroups.iter().map(|path| Workload::Cgroup((*path).to_owned()));
    Job {
        tenant: tenant.to_owned(),
        job: Some("job-9".to_owned()),
        parts: parts.collect(),
        workloads: workloads.collect(),
    }
}

fn whole(tenant: &str, uuid: &str) -> Job {
    job(tenant, &[(uuid, None, 1_000_000)], &[])
}

fn util(snapshot: &Snapshot, window: Window) -> &MetricWindow {
    snapshot.metric(window, "gpu_util").unwrap()
}

fn text(value: Option<rust_decimal::Decimal>) -> String {
    value.map(|value| value.normalize().to_string()).unwrap_or_default()
}

/// µs × millionths.
fn gpu_time(us: u64, share: u64) -> u128 {
    u128::from(us) * u128::from(share)
}
