//! One pass over one device.

use std::path::Path;
use std::sync::Arc;

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::Clock;
use nvml_wrapper::sys_exports::field_id::{
    NVML_FI_DEV_POWER_AVERAGE, NVML_FI_DEV_POWER_INSTANT, NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION,
};

use super::asking::{Asking, Field, Refusals};
use super::gpm::{self, Held};
use super::instances::Instances;
use super::library::Library;
use super::pulse::Pulse;
use super::sieve::{Intake, Sieve};
use super::utilisation::{self, Buffers, Span};
use super::{processes, raw};
use crate::clock::Now;
use crate::tick::{DeviceInfo, DeviceState, DeviceTick, Metric, Readings};

/// What all devices of a pass are read with.
#[derive(Debug)]
pub(super) struct Moment<'a> {
    pub(super) now: Now,
    pub(super) tick_us: u64,
    pub(super) pulse: &'a Pulse,
    pub(super) proc_root: &'a Path,
}

/// A device to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Board<'a, 'l> {
    pub(super) library: &'l Arc<Library>,
    pub(super) device: &'a Device<'l>,
    pub(super) has_gpm: bool,
}

/// What is known of a device between passes.
#[derive(Debug, Default)]
pub(super) struct Known {
    last_mono_us: Option<u64>,
    buffers: Buffers,
    processes_seen_us: u64,
    // From here on, within one initialisation of the library.
    refusals: Refusals,
    name: Option<String>,
    max_sm_clock_mhz: Option<u64>,
    mig: bool,
    has_gpm: Option<bool>,
    sample: Option<Held>,
    instances: Instances,
}

/// What was read so far.
struct Draft {
    info: DeviceInfo,
    readings: Readings,
    sieve: Sieve,
    span: Span,
}

impl Draft {
    fn intake(&mut self) -> Intake<'_> {
        Intake { sieve: &mut self.sieve, readings: &mut self.readings }
    }
}

impl Known {
    /// The library is shut down: what was held of it is given back, and anything may be otherwise in the next one. Rows that
    /// were seen stay seen.
    pub(super) fn end_of_session(&mut self) {
        *self = Self {
            last_mono_us: self.last_mono_us,
            buffers: std::mem::take(&mut self.buffers),
            processes_seen_us: self.processes_seen_us,
            ..Self::default()
        };
    }

    /// `uuid` is the device's, asked in this pass. Also says whether the library is gone.
    pub(super) fn read<'l>(
        &mut self,
        library: &'l Arc<Library>,
        device: &Device<'l>,
        uuid: String,
        moment: &Moment<'_>,
    ) -> (DeviceTick, bool) {
        let span = Span::new(moment.now, self.last_mono_us, moment.tick_us);
        self.last_mono_us = Some(moment.now.mono_us);
        let mut refusals = std::mem::take(&mut self.refusals);
        let mut asking = Asking::new(moment.pulse, &mut refusals);
        self.ask_mode(&mut asking, device, library);
        let info = DeviceInfo { uuid, mig: self.mig, ..DeviceInfo::default() };
        let mut draft = Draft { info, readings: Readings::default(), sieve: Sieve::default(), span };
        self.read_info(&mut asking, device, &mut draft);
        read_board(&mut asking, device, &mut draft);
        let energy_mj = read_power_and_energy(&mut asking, device, &mut draft);
        let throttle_mask = asking.ask(Field::ThrottleMask, || raw::throttle_mask(device));
        let throttle_mask = throttle_mask.and_then(|mask| draft.sieve.wide(mask));
        let board = Board { library, device, has_gpm: self.has_gpm == Some(true) };
        let (mut instances, mut listed) = (Vec::new(), None);
        if self.mig {
            instances = self.instances.read(&mut asking, &mut draft.sieve, board, moment);
        } else {
            listed = self.read_whole(&mut asking, board, moment, &mut draft);
        }
        let outcome = asking.outcome;
        self.refusals = refusals;
        let tick = DeviceTick {
            info: draft.info,
            state: outcome.state(),
            readings: draft.readings,
            energy_mj,
            throttle_mask,
            processes: listed,
            instances,
            refused_readings: draft.sieve.refused,
            clamped_readings: draft.sieve.clamped,
        };
        (tick, outcome.library_gone)
    }

    /// Whether MIG is on, and after a change anything may be asked anew. Whether the device has GPM.
    fn ask_mode(&mut self, asking: &mut Asking<'_>, device: &Device<'_>, library: &Library) {
        if let Some(mode) = asking.ask(Field::MigMode, || device.mig_mode()) {
            let mig = mode.current == 1;
            if mig != self.mig {
                asking.forget();
                self.instances.forget();
                (self.mig, self.sample, self.has_gpm) = (mig, None, None);
                self.buffers = Buffers::default();
            }
        }
        if self.has_gpm.is_none() && gpm::is_usable(library) {
            self.has_gpm = asking.ask(Field::GpmSupport, || device.gpm_support());
        }
    }

    fn read_info(&mut self, asking: &mut Asking<'_>, device: &Device<'_>, draft: &mut Draft) {
        if self.name.is_none() {
            self.name = asking.ask(Field::Name, || device.name());
        }
        draft.info.name = self.name.clone().unwrap_or_default();
        if self.max_sm_clock_mhz.is_none() {
            let clock = asking.ask(Field::MaxSmClock, || device.max_clock_info(Clock::SM));
            self.max_sm_clock_mhz = clock.and_then(|clock| draft.sieve.narrow(clock));
        }
        draft.info.max_sm_clock_mhz = self.max_sm_clock_mhz;
        let limit = asking.ask(Field::PowerLimit, || device.enforced_power_limit());
        draft.info.power_limit_mw = limit.and_then(|limit| draft.sieve.narrow(limit));
        if let Some(memory) = asking.ask(Field::Memory, || device.memory_info()) {
            draft.info.memory_total_bytes = draft.sieve.wide(memory.total);
            // Under MIG, the instances' memory is read one by one.
            if let Some(used) = draft.sieve.wide(memory.used).filter(|_| !self.mig) {
                draft.readings.push(Metric::MemUsedBytes, used);
            }
        }
    }

    /// What only a device that is not divided has.
    fn read_whole<'l>(
        &mut self,
        asking: &mut Asking<'_>,
        board: Board<'_, 'l>,
        moment: &Moment<'_>,
        draft: &mut Draft,
    ) -> Option<Vec<crate::tick::Process>> {
        let (Board { library, device, has_gpm }, span) = (board, draft.span);
        utilisation::read(asking, device, &mut self.buffers, span, draft.intake());
        if has_gpm {
            gpm::read(asking, library, &mut self.sample, || device.gpm_sample(), draft.intake());
        }
        let mut listed = processes::list(asking, device, moment.proc_root)?;
        let rows = processes::new_rows(asking, device, span, &mut self.processes_seen_us);
        processes::add_utilisation(&rows, &mut draft.sieve, &mut listed);
        Some(listed)
    }
}

fn read_board(asking: &mut Asking<'_>, device: &Device<'_>, draft: &mut Draft) {
    let clocks =
        [(Field::SmClock, Clock::SM, Metric::SmClockMhz), (Field::MemClock, Clock::Memory, Metric::MemClockMhz)];
    for (field, clock, metric) in clocks {
        let answer = asking.ask(field, || device.clock_info(clock));
        if let Some(mhz) = answer.and_then(|mhz| draft.sieve.narrow(mhz)) {
            draft.readings.push(metric, mhz);
        }
    }
}

/// Power is a reading; the energy counter is returned. Where a device lacks the direct call, both may still be field values.
fn read_power_and_energy(asking: &mut Asking<'_>, device: &Device<'_>, draft: &mut Draft) -> Option<u64> {
    let power = asking.ask(Field::Power, || device.power_usage());
    let mut power_mw = power.and_then(|power| draft.sieve.narrow(power));
    let energy = asking.ask(Field::Energy, || device.total_energy_consumption());
    let mut energy_mj = energy.and_then(|energy| draft.sieve.wide(energy));
    if asking.is_refused(Field::Power) || asking.is_refused(Field::Energy) {
        let ids = [NVML_FI_DEV_POWER_AVERAGE, NVML_FI_DEV_POWER_INSTANT, NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION];
        let values = asking.ask(Field::PowerByFieldId, || raw::field_values(device, ids)).unwrap_or_default();
        let [average, instant, counted] = values.map(|value| value.and_then(raw::Number::whole));
        power_mw = power_mw.or_else(|| average.or(instant).and_then(|value| draft.sieve.wide(value)));
        energy_mj = energy_mj.or_else(|| counted.and_then(|value| draft.sieve.wide(value)));
    }
    if let Some(power_mw) = power_mw {
        draft.readings.push(Metric::PowerW, power_mw);
    }
    energy_mj
}

/// A device that could not be read at all.
pub(super) fn unread(info: DeviceInfo, state: DeviceState) -> DeviceTick {
    DeviceTick {
        info,
        state,
        readings: Readings::default(),
        energy_mj: None,
        throttle_mask: None,
        processes: None,
        instances: Vec::new(),
        refused_readings: 0,
        clamped_readings: Vec::new(),
    }
}
