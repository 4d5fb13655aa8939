//! Devices and MIG instances: OpenTelemetry's hardware conventions, written as Prometheus does (unit behind the name).

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::{Described, Series, family};
use crate::tick::{DeviceState, DeviceTick, Metric, Readings, Tick};

/// OpenTelemetry's, of those that a GPU is told to be in.
const STATES: [&str; 3] = ["ok", "degraded", "failed"];

/// A device or an instance of one.
struct Unit<'a> {
    labels: [(&'static str, String); 5],
    readings: &'a Readings,
    memory_total_bytes: Option<u64>,
}

pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    tick: &Tick,
    xids: &BTreeMap<(String, u64), u64>,
) -> fmt::Result {
    let units: Vec<_> = tick.devices.iter().flat_map(units_of).collect();
    readings(encoder, &units)?;
    memory(encoder, &units)?;
    boards(encoder, &tick.devices)?;
    let model_of =
        |uuid: &str| tick.devices.iter().find(|device| device.info.uuid == uuid).map(|device| &device.info.name);
    let errors = xids.iter().map(|((uuid, code), count)| {
        let model = model_of(uuid).cloned().unwrap_or_default();
        let labels = [
            ("hw_id", uuid.clone()),
            ("hw_model", model),
            ("hw_type", "gpu".to_owned()),
            ("error_type", format!("xid_{code}")),
        ];
        (labels, *count as f64)
    });
    let help = "Xid events since the agent's start.";
    family(encoder, Described { name: "hw_errors", help, unit: None, is_counter: true }, &errors.collect())
}

fn units_of(device: &DeviceTick) -> Vec<Unit<'_>> {
    let info = &device.info;
    let labels = |id: &str, parent: &str, instance: String| {
        [
            ("hw_id", id.to_owned()),
            ("hw_model", info.name.clone()),
            ("hw_type", "gpu".to_owned()),
            ("hw_parent", parent.to_owned()),
            ("instance_id", instance),
        ]
    };
    let (readings, memory_total_bytes) = (&device.readings, info.memory_total_bytes);
    let whole = Unit { labels: labels(&info.uuid, "", String::new()), readings, memory_total_bytes };
    let instances = device.instances.iter().map(|instance| Unit {
        labels: labels(&instance.uuid, &info.uuid, instance.id.to_string()),
        readings: &instance.readings,
        memory_total_bytes: instance.memory_total_bytes,
    });
    [whole].into_iter().chain(instances).collect()
}

fn readings(encoder: &mut DescriptorEncoder<'_>, units: &[Unit<'_>]) -> fmt::Result {
    // Readings are under 2⁵³, to where an f64 is exact.
    let told: [(Metric, &str, &str, Option<&str>, f64); 8] = [
        (Metric::GpuUtil, "hw_gpu_utilization", "Share of time with a kernel running.", Some("ratio"), 1e6),
        (Metric::SmUtil, "farebox_agent_gpu_sm_utilization", "Share of SM time with a warp.", Some("ratio"), 1e6),
        (Metric::SmOccupancy, "farebox_agent_gpu_sm_occupancy", "Resident warps of the most.", Some("ratio"), 1e6),
        (Metric::TensorActive, "farebox_agent_gpu_tensor_active", "Tensor pipes in use.", Some("ratio"), 1e6),
        (Metric::DramActive, "farebox_agent_gpu_dram_active", "DRAM cycles in use.", Some("ratio"), 1e6),
        (Metric::MemUtil, "farebox_agent_gpu_memory_busy", "Share of time with memory traffic.", Some("ratio"), 1e6),
        (Metric::SmClockMhz, "farebox_agent_gpu_sm_clock", "SM clock.", Some("hertz"), 1e-6),
        (Metric::MemClockMhz, "farebox_agent_gpu_memory_clock", "Memory clock.", Some("hertz"), 1e-6),
    ];
    for (metric, name, help, unit, divisor) in told {
        let value = |found: &Unit<'_>| Some((found.labels.clone(), found.readings.newest(metric)? as f64 / divisor));
        let series = units.iter().filter_map(value).collect();
        family(encoder, Described { name, help, unit, is_counter: false }, &series)?;
    }
    Ok(())
}

fn memory(encoder: &mut DescriptorEncoder<'_>, units: &[Unit<'_>]) -> fmt::Result {
    let (mut usage, mut limit, mut ratio): (Series<'_, 5>, Series<'_, 5>, Series<'_, 5>) = Default::default();
    for unit in units {
        let used = unit.readings.newest(Metric::MemUsedBytes).map(|bytes| bytes as f64);
        let total = unit.memory_total_bytes.filter(|total| *total > 0).map(|bytes| bytes as f64);
        usage.extend(used.map(|used| (unit.labels.clone(), used)));
        limit.extend(total.map(|total| (unit.labels.clone(), total)));
        ratio.extend(used.zip(total).map(|(used, total)| (unit.labels.clone(), used / total)));
    }
    let gauge = |name, help, unit| Described { name, help, unit: Some(unit), is_counter: false };
    family(encoder, gauge("hw_gpu_memory_usage", "Memory in use.", "bytes"), &usage)?;
    family(encoder, gauge("hw_gpu_memory_limit", "Memory there is.", "bytes"), &limit)?;
    family(encoder, gauge("hw_gpu_memory_utilization", "Memory in use, of what there is.", "ratio"), &ratio)
}

/// What only a whole board has: power, energy, state, throttling.
fn boards(encoder: &mut DescriptorEncoder<'_>, devices: &[DeviceTick]) -> fmt::Result {
    let labels = |device: &DeviceTick| {
        [("hw_id", device.info.uuid.clone()), ("hw_model", device.info.name.clone()), ("hw_type", "gpu".to_owned())]
    };
    let of = |value: &dyn Fn(&DeviceTick) -> Option<u64>, divisor: f64| -> Series<'_, 3> {
        let value = |device: &DeviceTick| Some((labels(device), value(device)? as f64 / divisor));
        devices.iter().filter_map(value).collect()
    };
    let power = of(&|device| device.readings.newest(Metric::PowerW), 1e3);
    let help = "Power of the board.";
    family(encoder, Described { name: "hw_power", help, unit: Some("watts"), is_counter: false }, &power)?;
    let limit = of(&|device| device.info.power_limit_mw, 1e3);
    let help = "The enforced limit.";
    family(encoder, Described { name: "hw_power_limit", help, unit: Some("watts"), is_counter: false }, &limit)?;
    let energy = of(&|device| device.energy_mj, 1e3);
    let help = "The driver's counter, since it was loaded.";
    family(encoder, Described { name: "hw_energy", help, unit: Some("joules"), is_counter: true }, &energy)?;
    // Bits above 2⁵³ are not in use.
    let mask = of(&|device| device.throttle_mask, 1.0);
    let help = "nvmlClocksEventReasons, raw.";
    let name = "farebox_agent_gpu_clocks_event_reasons";
    family(encoder, Described { name, help, unit: None, is_counter: false }, &mask)?;
    let states = devices.iter().flat_map(|device| {
        STATES.map(|state| {
            let [id, model, kind] = labels(device);
            ([id, model, kind, ("hw_state", state.to_owned())], f64::from(u8::from(state == state_of(device.state))))
        })
    });
    let help = "1 for the state that the device is in.";
    family(encoder, Described { name: "hw_status", help, unit: None, is_counter: false }, &states.collect())
}

fn state_of(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Ok => "ok",
        DeviceState::Unreadable => "degraded",
        DeviceState::Lost | DeviceState::ResetRequired => "failed",
    }
}
