//! How a device is asked: a beat before each call, what it cannot say not asked twice, and what went wrong told in the end.

use std::collections::BTreeSet;

use nvml_wrapper::error::NvmlError;

use super::fault::{Fault, Gone};
use super::pulse::Pulse;
use crate::tick::DeviceState;

/// What is asked of a device or instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    Name,
    MigMode,
    MigCount,
    MigInstance,
    Attributes,
    Memory,
    Power,
    PowerLimit,
    Energy,
    SmClock,
    MemClock,
    MaxSmClock,
    ThrottleMask,
    PowerByFieldId,
    GpuSamples,
    MemSamples,
    Rates,
    GpmSupport,
    GpmSample,
    GpmMetrics,
    ComputeProcesses,
    GraphicsProcesses,
    MpsProcesses,
    ProcessUtilisation,
}

/// One pass over one device or instance.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    pulse: &'a Pulse,
    unavailable: &'a mut BTreeSet<Field>,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) library_gone: bool,
    gone: Option<Gone>,
    answered: bool,
    failed: bool,
}

impl<'a> Asking<'a> {
    pub(super) fn new(pulse: &'a Pulse, unavailable: &'a mut BTreeSet<Field>) -> Self {
        Self { pulse, unavailable, outcome: Outcome::default() }
    }

    /// The answer, or `None` for whatever reason. A device that is gone is not asked further.
    pub(super) fn ask<T>(&mut self, field: Field, call: impl FnOnce() -> Result<T, NvmlError>) -> Option<T> {
        if self.outcome.library_gone || self.outcome.gone.is_some() || self.is_unavailable(field) {
            return None;
        }
        self.pulse.beat();
        match call() {
            Ok(answer) => {
                self.outcome.answered = true;
                Some(answer)
            }
            Err(error) => {
                let fault = Fault::from(&error);
                match fault {
                    Fault::FieldUnavailable => {
                        self.unavailable.insert(field);
                    }
                    Fault::NoData => {}
                    _ => tracing::debug!(?field, ?fault, %error, "the driver did not answer"),
                }
                self.outcome.note(fault);
                None
            }
        }
    }

    pub(super) fn is_unavailable(&self, field: Field) -> bool {
        self.unavailable.contains(&field)
    }

    /// Everything may be asked again.
    pub(super) fn forget(&mut self) {
        self.unavailable.clear();
    }
}

impl Outcome {
    pub(super) fn of(fault: Fault) -> Self {
        let mut outcome = Self::default();
        outcome.note(fault);
        outcome
    }

    fn note(&mut self, fault: Fault) {
        match fault {
            // That is an answer: the device is there.
            Fault::FieldUnavailable | Fault::NoData => self.answered = true,
            Fault::Permission | Fault::Transient => self.failed = true,
            Fault::DeviceGone(gone) => self.gone = Some(gone),
            Fault::LibraryGone => self.library_gone = true,
        }
    }

    /// An instance's part of what its device's pass came to. That an instance answers or fails says nothing of its device.
    pub(super) fn absorb(&mut self, instance: Self) {
        self.library_gone |= instance.library_gone;
        self.gone = self.gone.or(instance.gone);
    }

    pub(super) fn state(self) -> DeviceState {
        match self.gone {
            Some(Gone::Lost) => DeviceState::Lost,
            Some(Gone::ResetRequired) => DeviceState::ResetRequired,
            None if self.failed && !self.answered => DeviceState::Unreadable,
            None => DeviceState::Ok,
        }
    }
}
