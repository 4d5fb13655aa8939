//! What one pass over a machine's GPUs read: the only thing that live reading, recordings and the generator have in common,
//! and all that metering is computed from.
//!
//! Values are whole numbers in the unit that [`Metric::unit`] names. What a device does not report is absent, never 0. Nothing
//! in here decides who pays: that is [`crate::meter`]'s.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// More than any host has; what is beyond is not taken in.
pub const MAX_DEVICES: usize = 256;
/// Compute instances of one device; more than any has.
pub const MAX_INSTANCES: usize = 64;

/// One pass. Passes are numbered by time only: `mono_us` rises from one to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tick {
    /// Wall clock at the pass, Unix µs. Compared with `mono_us` to notice that somebody set the clock.
    pub wall_us: i64,
    /// Monotonic clock at the same moment, µs from any start. All durations are of this clock.
    pub mono_us: u64,
    /// Counts initialisations of the library in this run of the agent; a change is a new boot epoch.
    pub library_run: u32,
    pub library: Library,
    /// In the order of the driver's indices. A device that fell off the bus stays, with its state.
    pub devices: Vec<DeviceTick>,
    /// Since the last pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub xids: Vec<Xid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    Present,
    /// Not loaded, not initialised, or gone with its driver. No device is known then.
    Gone,
}

/// What does not change between passes, or hardly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// `GPU-…`: the identity. Indices change with every boot.
    pub uuid: String,
    /// As the driver names it: `NVIDIA A100-SXM4-80GB`.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    /// The enforced limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_limit_mw: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sm_clock_mhz: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mig: bool,
    /// Of the whole board, where the driver tells: what is not cut into instances has its part of power and energy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiprocessors: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceState {
    Ok,
    /// Fell off the bus (`NVML_ERROR_GPU_IS_LOST`, `…_GPU_NOT_FOUND`).
    Lost,
    ResetRequired,
    /// Did not answer this time, for a reason that may pass.
    Unreadable,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceTick {
    pub info: DeviceInfo,
    pub state: DeviceState,
    #[serde(default, skip_serializing_if = "Readings::is_empty")]
    pub readings: Readings,
    /// The driver's counter since it was loaded, mJ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_mj: Option<u64>,
    /// `nvmlClocksEventReasons`, raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_mask: Option<u64>,
    /// `None`: could not be asked. Each process once, whatever it is listed as. Those of instances are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<Process>>,
    /// Under MIG, all compute instances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceTick>,
    /// Readings of this pass that could not be ones (blank sentinels, NaN, over 101 %).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused_readings: u32,
    /// Raw values in millionths that were over 1 by a rounding and are 1 in `readings`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clamped_readings: Vec<u64>,
}

/// A MIG compute instance, by its GPU instance and its own id: `1/0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceId {
    pub gpu_instance: u32,
    pub compute_instance: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceTick {
    pub id: InstanceId,
    /// `MIG-…`.
    pub uuid: String,
    /// What the board's power and energy are split by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiprocessors: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_total_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Readings::is_empty")]
    pub readings: Readings,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<Process>>,
}

/// By metric, in the order of time. Driver sample buffers give several a pass, all else one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Readings(pub BTreeMap<Metric, Vec<Reading>>);

/// One value, and how long before the pass it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u64)", into = "(u32, u64)")]
pub struct Reading {
    pub ago_us: u32,
    pub value: u64,
}

/// What is read of a device or instance. Names are those of snapshots (`SHAPES`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Share of time in which at least one kernel ran. Absent under MIG.
    GpuUtil,
    /// Share of time in which device memory was read or written. Absent under MIG.
    MemUtil,
    /// GPM: share of multiprocessor time with a warp resident (DCGM's `sm_active`).
    SmUtil,
    SmOccupancy,
    TensorActive,
    DramActive,
    MemUsedBytes,
    /// Of the board.
    PowerW,
    SmClockMhz,
    MemClockMhz,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Shares of 1, in millionths.
    Millionths,
    Bytes,
    /// Shown in watts.
    Milliwatts,
    Megahertz,
}

/// A process on a device. A PID is reused; with its start time it is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks since the machine's boot. `None`: it has already ended.
    pub started: Option<u64>,
    #[serde(default)]
    pub kinds: ProcessKinds,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Part of the device's SM time since the last pass, millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_util: Option<u64>,
    /// From `/proc/<pid>/cgroup`: the v2 path, or the longest of the v1 paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessKinds {
    pub compute: bool,
    pub graphics: bool,
    pub mps: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xid {
    /// Of the device; `None` where the driver did not say.
    pub uuid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<InstanceId>,
    pub code: u64,
}

impl Metric {
    pub const ALL: [Self; 10] = [
        Self::GpuUtil,
        Self::MemUtil,
        Self::SmUtil,
        Self::SmOccupancy,
        Self::TensorActive,
        Self::DramActive,
        Self::MemUsedBytes,
        Self::PowerW,
        Self::SmClockMhz,
        Self::MemClockMhz,
    ];

    /// As in snapshots.
    pub fn name(self) -> &'static str {
        match self {
            Self::GpuUtil => "gpu_util",
            Self::MemUtil => "mem_util",
            Self::SmUtil => "sm_util",
            Self::SmOccupancy => "sm_occupancy",
            Self::TensorActive => "tensor_active",
            Self::DramActive => "dram_active",
            Self::MemUsedBytes => "mem_used_bytes",
            Self::PowerW => "power_w",
            Self::SmClockMhz => "sm_clock_mhz",
            Self::MemClockMhz => "mem_clock_mhz",
        }
    }

    /// Of the values in a [`Reading`].
    pub fn unit(self) -> Unit {
        match self {
            Self::GpuUtil
            | Self::MemUtil
            | Self::SmUtil
            | Self::SmOccupancy
            | Self::TensorActive
            | Self::DramActive => Unit::Millionths,
            Self::MemUsedBytes => Unit::Bytes,
            Self::PowerW => Unit::Milliwatts,
            Self::SmClockMhz | Self::MemClockMhz => Unit::Megahertz,
        }
    }
}

impl Readings {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a reading taken at the pass itself.
    pub fn push(&mut self, metric: Metric, value: u64) {
        self.0.entry(metric).or_default().push(Reading { ago_us: 0, value });
    }

    /// The newest value.
    pub fn newest(&self, metric: Metric) -> Option<u64> {
        Some(self.0.get(&metric)?.last()?.value)
    }
}

impl From<(u32, u64)> for Reading {
    fn from((ago_us, value): (u32, u64)) -> Self {
        Self { ago_us, value }
    }
}

impl From<Reading> for (u32, u64) {
    fn from(reading: Reading) -> Self {
        (reading.ago_us, reading.value)
    }
}

impl std::fmt::Display for InstanceId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.gpu_instance, self.compute_instance)
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
