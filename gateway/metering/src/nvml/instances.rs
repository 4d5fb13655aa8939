//! MIG: a device's compute instances, each read for itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nvml_wrapper::Device;

use super::asking::{Asking, Field};
use super::device::Moment;
use super::gpm::{self, Held};
use super::library::Library;
use super::sieve::Sieve;
use super::{processes, raw};
use crate::tick::{InstanceId, InstanceTick, Metric, Readings};

/// What is known of a device's instances between passes.
#[derive(Debug, Default)]
pub(super) struct Instances {
    /// By `MIG-…`.
    known: BTreeMap<String, Known>,
    /// By GPU instance, which is what GPM samples.
    samples: BTreeMap<u32, Option<Held>>,
}

#[derive(Debug, Default)]
struct Known {
    unavailable: BTreeSet<Field>,
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
        (asking, sieve): (&mut Asking<'_>, &mut Sieve),
        device: &Device<'l>,
        (library, has_gpm): (&'l Arc<Library>, bool),
        moment: &Moment<'_>,
    ) -> Vec<InstanceTick> {
        let found = find(asking, device);
        self.known.retain(|uuid, _| found.iter().any(|instance| instance.uuid == *uuid));
        self.samples.retain(|id, _| found.iter().any(|instance| instance.id.gpu_instance == *id));
        // Memory and GPM are told of the whole GPU instance. Where several compute instances share it, they are nobody's own.
        let is_alone =
            |id: InstanceId| found.iter().filter(|other| other.id.gpu_instance == id.gpu_instance).count() == 1;
        let mut ticks = Vec::new();
        for instance in &found {
            let known = self.known.entry(instance.uuid.clone()).or_default();
            let mut own = Asking::new(moment.pulse, &mut known.unavailable);
            let mut readings = Readings::default();
            if is_alone(instance.id) {
                read_memory(&mut own, &instance.device, sieve, &mut readings);
                if has_gpm {
                    let gpu_instance = instance.id.gpu_instance;
                    let held = self.samples.entry(gpu_instance).or_default();
                    let take = || device.gpm_mig_sample(gpu_instance);
                    gpm::read(&mut own, library, held, take, (sieve, &mut readings));
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
}

fn find<'l>(asking: &mut Asking<'_>, device: &Device<'l>) -> Vec<Found<'l>> {
    let most = asking.ask(Field::MigCount, || device.mig_device_count()).unwrap_or(0);
    let mut found = Vec::new();
    for index in 0..most {
        // Indices may have holes: then there is nothing to find.
        let instance = asking.ask(Field::MigInstance, || {
            let instance = device.mig_device_by_index(index)?;
            let (gpu_instance, compute_instance) = raw::instance_ids(&instance)?;
            let uuid = instance.uuid()?;
            Ok(Found { device: instance, uuid, id: InstanceId { gpu_instance, compute_instance } })
        });
        found.extend(instance);
    }
    found
}

fn read_memory(asking: &mut Asking<'_>, device: &Device<'_>, sieve: &mut Sieve, readings: &mut Readings) {
    let memory = asking.ask(Field::Memory, || device.memory_info());
    if let Some(used) = memory.and_then(|memory| sieve.wide(memory.used)) {
        readings.push(Metric::MemUsedBytes, used);
    }
}
