//! One line of a recording: a tick in columns, beside what the devices are, which is written only when it changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::tick::{
    DeviceInfo, DeviceState, DeviceTick, InstanceId, InstanceTick, Library, MAX_DEVICES, MAX_INSTANCES, Metric,
    Process, ProcessKinds, Reading, Readings, Tick, Xid,
};

/// A value of each row; empty where no row has one.
type Column = Vec<Option<u64>>;

/// Rows are the devices in their order, then the instances, device by device.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Line {
    wall_us: i64,
    mono_us: u64,
    library_run: u32,
    #[serde(default = "present", skip_serializing_if = "is_present")]
    library: Library,
    /// As in the line before where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    layout: Option<Vec<DeviceLayout>>,
    /// (device, state) of those that are not `ok`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    states: Vec<(usize, DeviceState)>,
    /// Where a row has exactly one reading, of the pass itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<Metric, Column>,
    /// Every other: (row, its readings).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    samples: BTreeMap<Metric, Vec<(usize, Vec<Reading>)>>,
    /// Of devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    energy_mj: Column,
    /// Of devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    throttle_mask: Column,
    /// Of processes, row by row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    process_memory_bytes: Column,
    /// Of processes, row by row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    process_sm_util: Column,
    /// (device, count) where not 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refused_readings: Vec<(usize, u32)>,
    /// (device, raw values).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    clamped_readings: Vec<(usize, Vec<u64>)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    xids: Vec<Xid>,
}

/// What a device is, in distinction to what it reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct DeviceLayout {
    info: DeviceInfo,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    processes: Option<Vec<ProcessLayout>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    instances: Vec<InstanceLayout>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct InstanceLayout {
    id: InstanceId,
    uuid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    multiprocessors: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_total_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    processes: Option<Vec<ProcessLayout>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ProcessLayout {
    pid: u32,
    started: Option<u64>,
    kinds: ProcessKinds,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
}

fn present() -> Library {
    Library::Present
}

fn is_present(library: &Library) -> bool {
    *library == Library::Present
}

/// Writes ticks as lines, one after the other: each may refer to what an earlier one said.
#[derive(Debug, Default)]
pub struct Encoder {
    layout: Option<Vec<DeviceLayout>>,
}

impl Encoder {
    /// Appends the tick's line with its end to the buffer.
    pub fn encode(&mut self, tick: &Tick, buffer: &mut Vec<u8>) {
        let layout: Vec<_> = tick.devices.iter().map(DeviceLayout::of).collect();
        let changed = self.layout.as_ref() != Some(&layout);
        let line = Line::of(tick, changed.then(|| layout.clone()));
        self.layout = Some(layout);
        let before = buffer.len();
        // Whole numbers and texts into memory: there is nothing that could fail.
        if serde_json::to_writer(&mut *buffer, &line).is_err() {
            buffer.truncate(before);
            return;
        }
        buffer.push(b'\n');
    }

    /// The next line says anew what the devices are, because the last one was not kept.
    pub fn start_anew(&mut self) {
        self.layout = None;
    }
}

/// Reads what an [`Encoder`] wrote.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    layout: Option<Vec<DeviceLayout>>,
    mono_us: Option<u64>,
}

impl Decoder {
    /// Of a whole line; the error says what is wrong with it.
    pub(super) fn decode(&mut self, text: &[u8]) -> Result<Tick, String> {
        let mut line: Line = serde_json::from_slice(text).map_err(|error| super::said(&error))?;
        if let Some(before) = self.mono_us.filter(|before| line.mono_us <= *before) {
            return Err(format!("`mono_us` {} is not after {before}, the one before", line.mono_us));
        }
        if let Some(layout) = &line.layout {
            check_size(layout)?;
        }
        let layout = line.layout.take().or_else(|| self.layout.take()).ok_or("no line before it has a `layout`")?;
        let tick = line.into_tick(&layout)?;
        self.mono_us = Some(tick.mono_us);
        self.layout = Some(layout);
        Ok(tick)
    }
}

/// A recording may come from anywhere.
fn check_size(layout: &[DeviceLayout]) -> Result<(), String> {
    if layout.len() > MAX_DEVICES {
        return Err(format!("it has {} devices, over {MAX_DEVICES}", layout.len()));
    }
    match layout.iter().map(|device| device.instances.len()).find(|count| *count > MAX_INSTANCES) {
        Some(count) => Err(format!("a device has {count} instances, over {MAX_INSTANCES}")),
        None => Ok(()),
    }
}

impl DeviceLayout {
    fn of(device: &DeviceTick) -> Self {
        Self {
            info: device.info.clone(),
            processes: ProcessLayout::of(device.processes.as_ref()),
            instances: device.instances.iter().map(InstanceLayout::of).collect(),
        }
    }
}

impl InstanceLayout {
    fn of(instance: &InstanceTick) -> Self {
        Self {
            id: instance.id,
            uuid: instance.uuid.clone(),
            multiprocessors: instance.multiprocessors,
            memory_total_bytes: instance.memory_total_bytes,
            processes: ProcessLayout::of(instance.processes.as_ref()),
        }
    }
}

impl ProcessLayout {
    fn of(processes: Option<&Vec<Process>>) -> Option<Vec<Self>> {
        let of_one = |process: &Process| Self {
            pid: process.pid,
            started: process.started,
            kinds: process.kinds,
            cgroup: process.cgroup.clone(),
        };
        Some(processes?.iter().map(of_one).collect())
    }
}

impl Line {
    fn of(tick: &Tick, layout: Option<Vec<DeviceLayout>>) -> Self {
        let devices = &tick.devices;
        let instances = || devices.iter().flat_map(|device| &device.instances);
        let rows: Vec<&Readings> =
            devices.iter().map(|device| &device.readings).chain(instances().map(|part| &part.readings)).collect();
        let lists = devices.iter().map(|device| &device.processes).chain(instances().map(|part| &part.processes));
        let processes: Vec<&Process> = lists.flatten().flatten().collect();
        let (values, samples) = columns(&rows);
        let numbered = || devices.iter().enumerate();
        Self {
            wall_us: tick.wall_us,
            mono_us: tick.mono_us,
            library_run: tick.library_run,
            library: tick.library,
            layout,
            states: numbered().filter(|(_, d)| d.state != DeviceState::Ok).map(|(row, d)| (row, d.state)).collect(),
            values,
            samples,
            energy_mj: column(devices.iter().map(|device| device.energy_mj)),
            throttle_mask: column(devices.iter().map(|device| device.throttle_mask)),
            process_memory_bytes: column(processes.iter().map(|process| process.memory_bytes)),
            process_sm_util: column(processes.iter().map(|process| process.sm_util)),
            refused_readings: numbered()
                .filter(|(_, device)| device.refused_readings > 0)
                .map(|(row, device)| (row, device.refused_readings))
                .collect(),
            clamped_readings: numbered()
                .filter(|(_, device)| !device.clamped_readings.is_empty())
                .map(|(row, device)| (row, device.clamped_readings.clone()))
                .collect(),
            xids: tick.xids.clone(),
        }
    }

    fn into_tick(self, layout: &[DeviceLayout]) -> Result<Tick, String> {
        let count = layout.len() + layout.iter().map(|device| device.instances.len()).sum::<usize>();
        let mut rows = readings(self.values, self.samples, count)?.into_iter();
        let mut device_rows: Vec<Readings> = rows.by_ref().take(layout.len()).collect();
        let lists = layout.iter().map(|device| &device.processes);
        let lists = lists.chain(layout.iter().flat_map(|device| &device.instances).map(|part| &part.processes));
        let count = lists.flatten().map(Vec::len).sum();
        let mut processes = Processes {
            memory: whole(self.process_memory_bytes, count, "process_memory_bytes")?.into_iter(),
            sm_util: whole(self.process_sm_util, count, "process_sm_util")?.into_iter(),
        };
        let mut devices = Vec::with_capacity(layout.len());
        let energy = whole(self.energy_mj, layout.len(), "energy_mj")?;
        let throttle = whole(self.throttle_mask, layout.len(), "throttle_mask")?;
        for (((device, row), energy_mj), throttle_mask) in
            layout.iter().zip(device_rows.drain(..)).zip(energy).zip(throttle)
        {
            devices.push(DeviceTick {
                info: device.info.clone(),
                state: DeviceState::Ok,
                readings: row,
                energy_mj,
                throttle_mask,
                processes: processes.next_of(device.processes.as_deref()),
                instances: Vec::new(),
                refused_readings: 0,
                clamped_readings: Vec::new(),
            });
        }
        for (tick, device) in devices.iter_mut().zip(layout) {
            for (part, row) in device.instances.iter().zip(rows.by_ref()) {
                tick.instances.push(part.with(row, processes.next_of(part.processes.as_deref())));
            }
        }
        let beyond = |row: usize| format!("it names device {row} of {}", layout.len());
        for (row, state) in self.states {
            devices.get_mut(row).ok_or_else(|| beyond(row))?.state = state;
        }
        for (row, refused) in self.refused_readings {
            devices.get_mut(row).ok_or_else(|| beyond(row))?.refused_readings = refused;
        }
        for (row, clamped) in self.clamped_readings {
            devices.get_mut(row).ok_or_else(|| beyond(row))?.clamped_readings = clamped;
        }
        Ok(Tick {
            wall_us: self.wall_us,
            mono_us: self.mono_us,
            library_run: self.library_run,
            library: self.library,
            devices,
            xids: self.xids,
        })
    }
}

impl InstanceLayout {
    fn with(&self, readings: Readings, processes: Option<Vec<Process>>) -> InstanceTick {
        InstanceTick {
            id: self.id,
            uuid: self.uuid.clone(),
            multiprocessors: self.multiprocessors,
            memory_total_bytes: self.memory_total_bytes,
            readings,
            processes,
        }
    }
}

/// What is left of the processes' columns.
struct Processes {
    memory: std::vec::IntoIter<Option<u64>>,
    sm_util: std::vec::IntoIter<Option<u64>>,
}

impl Processes {
    fn next_of(&mut self, layout: Option<&[ProcessLayout]>) -> Option<Vec<Process>> {
        let with_values = |process: &ProcessLayout| Process {
            pid: process.pid,
            started: process.started,
            kinds: process.kinds,
            memory_bytes: self.memory.next().flatten(),
            sm_util: self.sm_util.next().flatten(),
            cgroup: process.cgroup.clone(),
        };
        Some(layout?.iter().map(with_values).collect())
    }
}

type Columns = (BTreeMap<Metric, Column>, BTreeMap<Metric, Vec<(usize, Vec<Reading>)>>);

fn columns(rows: &[&Readings]) -> Columns {
    let (mut values, mut samples) = Columns::default();
    for metric in Metric::ALL {
        let single = |readings: &&Readings| match readings.0.get(&metric).map(Vec::as_slice) {
            Some([Reading { ago_us: 0, value }]) => Some(*value),
            _ => None,
        };
        let found = column(rows.iter().map(single));
        let others: Vec<_> = rows
            .iter()
            .enumerate()
            .filter(|(_, readings)| single(readings).is_none())
            .filter_map(|(row, readings)| Some((row, readings.0.get(&metric)?.clone())))
            .collect();
        if !found.is_empty() {
            values.insert(metric, found);
        }
        if !others.is_empty() {
            samples.insert(metric, others);
        }
    }
    (values, samples)
}

fn readings(
    values: BTreeMap<Metric, Column>,
    samples: BTreeMap<Metric, Vec<(usize, Vec<Reading>)>>,
    count: usize,
) -> Result<Vec<Readings>, String> {
    let mut rows = vec![Readings::default(); count];
    for (metric, column) in values {
        for (row, value) in rows.iter_mut().zip(whole(column, count, metric.name())?) {
            if let Some(value) = value {
                row.push(metric, value);
            }
        }
    }
    for (metric, of_rows) in samples {
        for (row, several) in of_rows {
            let found = rows.get_mut(row).ok_or_else(|| format!("it names row {row} of {count}"))?;
            found.0.insert(metric, several);
        }
    }
    Ok(rows)
}

/// Empty where no row has a value.
fn column(values: impl Iterator<Item = Option<u64>>) -> Column {
    let column: Column = values.collect();
    if column.iter().all(Option::is_none) { Vec::new() } else { column }
}

/// The column with a value or `None` for each row.
fn whole(column: Column, rows: usize, name: &str) -> Result<Column, String> {
    match column.len() {
        0 => Ok(vec![None; rows]),
        length if length == rows => Ok(column),
        length => Err(format!("`{name}` has {length} values, not {rows}")),
    }
}
