//! What the library pretends, as the JSON beside it says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Empty: 570.86.15.
    pub driver_version: String,
    pub devices: Vec<Device>,
    /// What is told instead of how many devices there are.
    pub device_count: Option<u32>,
    /// By symbol, or `*` for all of them, `nvmlInit_v2` included: a driver being reloaded is `*` returning 9.
    pub functions: BTreeMap<String, Behaviour>,
    /// Added to the timestamps of rows that the library dates itself, µs.
    pub sample_clock_offset_us: i64,
    /// Handed out in this order, each once, to sets that have the device. A later scenario lists those handed out as well.
    pub events: Vec<XidEvent>,
    /// Every call of a symbol is written to `<library>.calls`.
    pub log_calls: bool,
}

/// What a function does instead of answering, or before it does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// An `nvmlReturn_t`; nothing is written then.
    pub returns: Option<u32>,
    pub hang: Option<Hang>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hang {
    Ms(u64),
    /// Until a scenario lies there in which this function does not hang.
    UntilChanged,
}

/// A field that is absent answers `NVML_ERROR_NOT_SUPPORTED`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Device {
    pub uuid: String,
    pub name: String,
    pub memory_total: Option<u64>,
    pub memory_reserved: u64,
    pub memory_used: Option<Value>,
    pub power_mw: Option<Value>,
    pub power_limit_mw: Option<u64>,
    pub energy_mj: Option<Value>,
    pub clocks: Option<Clocks>,
    pub throttle_mask: Option<u64>,
    /// Whether the mask is known only by the name that drivers before 535 have for it.
    pub throttle_by_its_old_name: bool,
    pub gpu_samples: Option<Samples>,
    pub memory_samples: Option<Samples>,
    /// GPU and memory, percent.
    pub rates: Option<(Value, Value)>,
    pub processes: Vec<Process>,
    /// How many processes each list is said to have, whatever was written.
    pub told_processes: Option<u32>,
    /// Absent: not supported. Empty: not found.
    pub process_utilisation: Option<Vec<UtilisationRow>>,
    pub gpm: Option<Gpm>,
    pub fields: Option<Fields>,
    /// Absent: not capable of MIG.
    pub mig: Option<bool>,
    /// By the index of the MIG device; a hole is not found.
    pub instances: Vec<Option<Instance>>,
    /// How many instances there can be; absent: 7, or as many as there are.
    pub instance_count: Option<u32>,
    /// What the driver answers for a hole among the instances; absent: not found.
    pub hole: Option<u32>,
    /// All of its functions return 15 until the library was shut down by all who had initialised it.
    pub lost_until_shut_down: bool,
    /// As the scenario's, for this device and its instances only.
    pub functions: BTreeMap<String, Behaviour>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Instance {
    pub uuid: String,
    pub gpu_instance: u32,
    pub compute_instance: u32,
    pub multiprocessors: u32,
    pub memory_mb: u64,
    pub memory_used: Option<Value>,
    pub processes: Vec<Process>,
    pub gpm: Option<Gpm>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clocks {
    pub sm: Value,
    pub memory: Value,
    pub max_sm: u64,
}

/// A buffer of the driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Samples {
    /// One row each `every_ms` of the machine's clock, up to 120 of them, dated by the library.
    Dated { every_ms: u64, value: Value },
    /// Exactly these.
    Rows {
        rows: Vec<Row>,
        /// `nvmlValueType_t`.
        value_type: u32,
        /// Whether rows up to the caller's last timestamp are given again, as some drivers do.
        repeats: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub at_us: i64,
    /// The bits of the value.
    pub value: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Process {
    pub pid: u32,
    /// Absent: `NVML_VALUE_NOT_AVAILABLE`.
    pub memory: Option<u64>,
    pub compute: bool,
    pub graphics: bool,
    pub mps: bool,
    /// Listed from then on, and up to then, ms since the library was first asked anything.
    pub from_ms: u64,
    pub until_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UtilisationRow {
    pub pid: u32,
    /// Absent: the machine's clock.
    pub at_us: Option<i64>,
    pub sm: Value,
}

/// Percent between two samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpm {
    pub sm_util: Value,
    pub sm_occupancy: Value,
    pub tensor: Value,
    pub dram: Value,
}

/// What `nvmlDeviceGetFieldValues` knows, by field id as drivers before 580.82 number them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fields {
    /// Value type (`nvmlValueType_t`) and bits. What is not here is not supported.
    pub values: BTreeMap<u32, (u32, u64)>,
    /// Whether answers carry other ids than were asked for.
    pub other_ids: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct XidEvent {
    /// By index. Absent: a null handle.
    pub device: Option<u32>,
    pub code: u64,
    /// GPU and compute instance.
    pub instance: Option<(u32, u32)>,
}

/// A number, constant or over the time since the library was first asked anything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    Constant(u64),
    Real(f64),
    Nan,
    /// One after the other, and again.
    List {
        values: Vec<u64>,
        every_ms: u64,
    },
    /// From low to high and back, in straight lines.
    Wave {
        low: u64,
        high: u64,
        period_ms: u64,
    },
    /// From `base` upwards: a counter.
    Rising {
        base: u64,
        per_second: u64,
    },
}

impl Value {
    #[expect(
        clippy::cast_precision_loss,
        reason = "percentages are far below 2^53; sentinels may lose their last bits"
    )]
    pub(crate) fn real(&self, elapsed_ms: u64) -> f64 {
        match self {
            Self::Real(value) => *value,
            Self::Nan => f64::NAN,
            _ => self.whole(elapsed_ms) as f64,
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, and NaN is 0")]
    pub(crate) fn whole(&self, elapsed_ms: u64) -> u64 {
        match self {
            Self::Constant(value) => *value,
            Self::Real(value) => *value as u64,
            Self::Nan => 0,
            Self::List { values, every_ms } => {
                let step = elapsed_ms / (*every_ms).max(1);
                let place = step % u64::try_from(values.len()).unwrap_or(1).max(1);
                values.get(usize::try_from(place).unwrap_or(0)).copied().unwrap_or(0)
            }
            Self::Wave { low, high, period_ms } => {
                let period = (*period_ms).max(2);
                let phase = elapsed_ms % period;
                let up = phase.min(period - phase);
                low + high.saturating_sub(*low) * up / (period / 2)
            }
            Self::Rising { base, per_second } => base.wrapping_add(per_second.saturating_mul(elapsed_ms) / 1_000),
        }
    }
}

impl Process {
    pub(crate) fn is_listed(&self, elapsed_ms: u64) -> bool {
        self.from_ms <= elapsed_ms && self.until_ms.is_none_or(|until| elapsed_ms < until)
    }
}

impl Samples {
    pub fn rows(rows: impl IntoIterator<Item = (i64, u64)>) -> Self {
        let rows = rows.into_iter().map(|(at_us, value)| Row { at_us, value }).collect();
        Self::Rows { rows, value_type: 1, repeats: false }
    }
}

impl Behaviour {
    pub fn returns(code: u32) -> Self {
        Self { returns: Some(code), hang: None }
    }

    pub fn hangs(hang: Hang) -> Self {
        Self { returns: None, hang: Some(hang) }
    }
}
