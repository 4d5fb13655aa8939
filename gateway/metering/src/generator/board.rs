//! What a board reads while its jobs are at given ranks: utilisation by the fleet's curves, all else following it.

use super::Options;
use super::facts::{
    Fleet, H200_IDLE_MHZ, H200_IDLE_MW, H200_LIMIT_MW, H200_LOAD_MEM_UTIL, H200_LOAD_MHZ, H200_LOAD_MW, ONE,
};
use crate::tick::{
    DeviceInfo, DeviceState, DeviceTick, InstanceId, InstanceTick, Metric, Process, ProcessKinds, Readings,
};

const MIB: u64 = 1 << 20;
/// `nvmlClocksEventReasonGpuIdle`.
const GPU_IDLE: u64 = 1;
/// What a driver's energy counter stands at when a recording begins, mJ.
const ENERGY_AT_START: u64 = 1_000_000_000;

/// A model of GPU: its name, memory, power limit, clocks and multiprocessors are those of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Model {
    A100,
    H100,
    H200,
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::A100 => "NVIDIA A100-SXM4-80GB",
            Self::H100 => "NVIDIA H100 80GB HBM3",
            Self::H200 => "NVIDIA H200",
        }
    }

    fn memory_bytes(self) -> u64 {
        match self {
            Self::A100 => 81_920 * MIB,
            Self::H100 => 81_559 * MIB,
            Self::H200 => 143_771 * MIB,
        }
    }

    fn limit_mw(self) -> u64 {
        if self == Self::A100 { 400_000 } else { 700_000 }
    }

    /// Idle and highest.
    fn sm_mhz(self) -> (u64, u64) {
        if self == Self::A100 { (210, 1410) } else { (H200_IDLE_MHZ, H200_LOAD_MHZ) }
    }

    fn mem_mhz(self) -> u64 {
        match self {
            Self::A100 => 1593,
            Self::H100 => 2619,
            Self::H200 => 3201,
        }
    }

    fn multiprocessors(self) -> u32 {
        if self == Self::A100 { 108 } else { 132 }
    }

    /// Whether the driver has GPM for it, as from Hopper on.
    fn has_gpm(self) -> bool {
        self != Self::A100
    }

    /// A H200's power at this utilisation, in proportion to the board's limit, mW.
    fn power_mw(self, util: u64) -> u64 {
        let of_h200 = H200_IDLE_MW + (H200_LOAD_MW - H200_IDLE_MW) * util / ONE;
        of_h200 * self.limit_mw() / H200_LIMIT_MW
    }

    /// Idle only where nothing runs, else near the highest.
    fn clock_mhz(self, util: u64) -> u64 {
        let (idle, highest) = self.sm_mhz();
        idle + (highest - idle) * (2 * util).min(ONE) / ONE
    }
}

/// One device, or under MIG its instances, with what lasts from pass to pass.
#[derive(Debug)]
pub(super) struct Board {
    model: Model,
    index: u32,
    info: DeviceInfo,
    /// One without MIG, else one for each instance.
    parts: Vec<Part>,
    mig: bool,
    energy_mj: u64,
    /// Below a millijoule, µJ.
    rest_uj: u64,
}

#[derive(Debug)]
struct Part {
    memory_total: u64,
    memory_used: u64,
    tenant: Option<String>,
}

impl Board {
    pub(super) fn new(options: &Options, index: u32) -> Self {
        let model = options.model;
        let count = options.mig.max(1);
        let part = |instance: u32| {
            let rows = (options.devices * count) as usize;
            let row = (index * count + instance) as usize;
            let tenant = options.tenants.get(row * options.tenants.len() / rows).cloned();
            Part { memory_total: model.memory_bytes() / u64::from(count) / MIB * MIB, memory_used: 0, tenant }
        };
        Self {
            model,
            index,
            info: DeviceInfo {
                uuid: format!("GPU-00000000-0000-0000-0000-{:010}{index:02}", options.host),
                name: model.name().to_owned(),
                memory_total_bytes: Some(model.memory_bytes()),
                power_limit_mw: Some(model.limit_mw()),
                max_sm_clock_mhz: Some(model.sm_mhz().1),
                mig: options.mig > 0,
                multiprocessors: None,
            },
            parts: (0..count).map(part).collect(),
            mig: options.mig > 0,
            energy_mj: ENERGY_AT_START,
            rest_uj: 0,
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.parts.len()
    }

    /// A pass, with a rank for each row and whether a phase began there.
    pub(super) fn read(&mut self, fleet: Fleet, ranks: &[(u64, bool)], tick_ms: u64) -> DeviceTick {
        for (part, &(rank, began)) in self.parts.iter_mut().zip(ranks) {
            part.renew_memory(rank, began);
        }
        let rows = ranks.len().max(1) as u64;
        let util = ranks.iter().map(|&(rank, _)| fleet.gpu_util().at(rank)).sum::<u64>() / rows;
        let by_rank = |curve: &super::facts::Curve| ranks.iter().map(|&(rank, _)| curve.at(rank)).sum::<u64>() / rows;
        let power = fleet.power().map_or_else(|| self.model.power_mw(util), by_rank);
        let micro = power * tick_ms + self.rest_uj;
        self.energy_mj += micro / 1000;
        self.rest_uj = micro % 1000;
        let mut readings = Readings::default();
        readings.push(Metric::PowerW, power);
        readings.push(Metric::SmClockMhz, self.model.clock_mhz(util));
        readings.push(Metric::MemClockMhz, self.model.mem_mhz());
        let mut device = DeviceTick {
            info: self.info.clone(),
            state: DeviceState::Ok,
            readings,
            energy_mj: Some(self.energy_mj),
            throttle_mask: Some(if util == 0 { GPU_IDLE } else { 0 }),
            processes: None,
            instances: Vec::new(),
            refused_readings: 0,
            clamped_readings: Vec::new(),
        };
        if self.mig {
            device.instances = self.instances(fleet, ranks);
        } else if let (Some(part), Some(&(rank, _))) = (self.parts.first(), ranks.first()) {
            device.readings.push(Metric::GpuUtil, util);
            device.readings.push(Metric::MemUsedBytes, part.memory_used);
            device.readings.push(Metric::MemUtil, util * H200_LOAD_MEM_UTIL / ONE / 10_000 * 10_000);
            if let Some(share) = self.sm_util(fleet, rank) {
                device.readings.push(Metric::SmUtil, share);
            }
            device.processes = part.processes(self.pid(0), Some(util));
        }
        device
    }

    /// GPM of each; the driver's own utilisation, of devices and processes, does not exist under MIG.
    fn instances(&self, fleet: Fleet, ranks: &[(u64, bool)]) -> Vec<InstanceTick> {
        let count = self.parts.len() as u32;
        let instance = |((number, part), &(rank, _)): ((u32, &Part), &(u64, bool))| {
            let mut readings = Readings::default();
            readings.push(Metric::MemUsedBytes, part.memory_used);
            if let Some(share) = self.sm_util(fleet, rank) {
                readings.push(Metric::SmUtil, share);
            }
            InstanceTick {
                id: InstanceId { gpu_instance: number + 1, compute_instance: 0 },
                uuid: format!("MIG-{}-{}", self.info.uuid.trim_start_matches("GPU-"), number + 1),
                multiprocessors: Some(self.model.multiprocessors() / count),
                memory_total_bytes: Some(part.memory_total),
                readings,
                processes: part.processes(self.pid(number), None),
            }
        };
        (0..).zip(&self.parts).zip(ranks).map(instance).collect()
    }

    fn sm_util(&self, fleet: Fleet, rank: u64) -> Option<u64> {
        fleet.sm_util().filter(|_| self.model.has_gpm()).map(|curve| curve.at(rank))
    }

    fn pid(&self, instance: u32) -> u32 {
        1000 + self.index * 10 + instance
    }
}

impl Part {
    /// A job takes its memory when it begins and keeps it: a fifth to nine tenths, by its rank, which says nothing else.
    fn renew_memory(&mut self, rank: u64, began: bool) {
        if began {
            let share = 200_000 + (rank * 7919) % 700_000;
            self.memory_used = self.memory_total / MIB * share / ONE * MIB;
        }
    }

    fn processes(&self, pid: u32, sm_util: Option<u64>) -> Option<Vec<Process>> {
        let tenant = self.tenant.as_ref()?;
        Some(vec![Process {
            pid,
            started: Some(u64::from(pid) * 100),
            kinds: ProcessKinds { compute: true, graphics: false, mps: false },
            memory_bytes: Some(self.memory_used),
            sm_util,
            cgroup: Some(format!("/tenants/{tenant}")),
        }])
    }
}
