//! MIG: a device's compute instances, each read for itself.

use std::collections::BTreeMap;

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

use super::asking::{Asking, Field, Refusals};
use super::device::{Board, Moment};
use super::fault::Fault;
use super::gpm::{self, Held};
use super::sieve::{Intake, Sieve};
use super::{processes, raw};
use crate::tick::{InstanceId, InstanceTick, MAX_INSTANCES, Metric, Readings};

/// More than any device can be divided into. A driver that tells of more is not believed.
const MOST: u32 = MAX_INSTANCES as u32;

/// What is known of a device's instances between passes.
#[derive(Debug, Default)]
pub(super) struct Instances {
    /// By `MIG-…`.
    known: BTreeMap<String, Known>,
    /// By GPU instance, which is what GPM samples.
    samples: BTreeMap<u32, Option<Held>>,
    /// Whether it was said that the driver tells of too many.
    is_cut: bool,
}

#[derive(Debug, Default)]
struct Known {
    refusals: Refusals,
    /// Multiprocessors and memory, bytes.
    attributes: Option<(u32, u64)>,
}

struct Found<'l> {
    device: Device<'l>,
    uuid: String,
    id: InstanceId,
}

impl Instances {
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// All compute instances, in the driver's order.
    pub(super) fn read<'l>(
        &mut self,
        asking: &mut Asking<'_>,
        sieve: &mut Sieve,
        board: Board<'_, 'l>,
        moment: &Moment<'_>,
    ) -> Vec<InstanceTick> {
        let Board { library, device, has_gpm } = board;
        let found = self.find(asking, device);
        self.known.retain(|uuid, _| found.iter().any(|instance| instance.uuid == *uuid));
        self.samples.retain(|id, _| found.iter().any(|instance| instance.id.gpu_instance == *id));
        // Memory and GPM are told of the whole GPU instance. Where several compute instances share it, they are nobody's own.
        let is_alone =
            |id: InstanceId| found.iter().filter(|other| other.id.gpu_instance == id.gpu_instance).count() == 1;
        let mut ticks = Vec::new();
        for instance in &found {
            let known = self.known.entry(instance.uuid.clone()).or_default();
            let mut own = Asking::new(moment.pulse, &mut known.refusals);
            let mut readings = Readings::default();
            if is_alone(instance.id) {
                read_memory(&mut own, &instance.device, sieve, &mut readings);
                if has_gpm {
                    let gpu_instance = instance.id.gpu_instance;
                    let held = self.samples.entry(gpu_instance).or_default();
                    let take = || device.gpm_mig_sample(gpu_instance);
                    gpm::read(&mut own, library, held, take, Intake { sieve, readings: &mut readings });
                }
            }
            if known.attributes.is_none() {
                let answer = own.ask(Field::Attributes, || instance.device.attributes());
                known.attributes = answer.map(|answer| (answer.multiprocessor_count, answer.memory_size_mb << 20));
            }
            let processes = processes::list(&mut own, &instance.device, moment.proc_root);
            asking.outcome.absorb(own.outcome);
            ticks.push(InstanceTick {
                id: instance.id,
                uuid: instance.uuid.clone(),
                multiprocessors: known.attributes.map(|(multiprocessors, _)| multiprocessors),
                memory_total_bytes: known.attributes.map(|(_, bytes)| bytes),
                readings,
                processes,
            });
        }
        ticks
    }

    fn find<'l>(&mut self, asking: &mut Asking<'_>, device: &Device<'l>) -> Vec<Found<'l>> {
        let most = asking.ask(Field::MigCount, || device.mig_device_count()).unwrap_or(0);
        if most > MOST && !self.is_cut {
            tracing::warn!(told = most, read = MOST, "the driver tells of more MIG instances than a device can have");
            self.is_cut = true;
        }
        (0..most.min(MOST)).filter_map(|index| identify(asking, device, index)).collect()
    }
}

fn identify<'l>(asking: &mut Asking<'_>, device: &Device<'l>, index: u32) -> Option<Found<'l>> {
    let found = asking.ask(Field::MigInstance, || match device.mig_device_by_index(index) {
        Err(error) if is_hole(&error) => Ok(None),
        answer => answer.map(Some),
    });
    let device = found.flatten()?;
    let (gpu_instance, compute_instance) = asking.ask(Field::MigIds, || raw::instance_ids(&device))?;
    let uuid = asking.ask(Field::MigUuid, || device.uuid())?;
    Some(Found { device, uuid, id: InstanceId { gpu_instance, compute_instance } })
}

/// Indices may have holes: then there is nothing to find. Drivers differ in how they say it.
fn is_hole(error: &NvmlError) -> bool {
    matches!(error, NvmlError::InvalidArg) || matches!(Fault::from(error), Fault::NoData | Fault::FieldUnavailable)
}

fn read_memory(asking: &mut Asking<'_>, device: &Device<'_>, sieve: &mut Sieve, readings: &mut Readings) {
    let memory = asking.ask(Field::Memory, || device.memory_info());
    if let Some(used) = memory.and_then(|memory| sieve.wide(memory.used)) {
        readings.push(Metric::MemUsedBytes, used);
    }
}
