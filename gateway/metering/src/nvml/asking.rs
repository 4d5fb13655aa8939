//! How a device is asked: a beat before each call, what it cannot say not asked twice, and what went wrong told in the end.

use std::collections::{BTreeMap, BTreeSet};

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
    MigIds,
    MigUuid,
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

/// A driver that is busy with a reset or with MIG may call something unsupported once. After so many passes in a row it is
/// believed, and not asked again.
const BELIEVED: u32 = 3;

/// In how many passes in a row it was answered that there is no such thing here.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<Field, u32>);

/// One pass over one device or instance.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    pulse: &'a Pulse,
    refusals: &'a mut Refusals,
    /// Those of this pass; several instances that refuse are one refusal.
    refused: BTreeSet<Field>,
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
    pub(super) fn new(pulse: &'a Pulse, refusals: &'a mut Refusals) -> Self {
        Self { pulse, refusals, refused: BTreeSet::new(), outcome: Outcome::default() }
    }

    /// The answer, or `None` for whatever reason. A device that is gone is not asked further.
    pub(super) fn ask<T>(&mut self, field: Field, call: impl FnOnce() -> Result<T, NvmlError>) -> Option<T> {
        if self.outcome.library_gone || self.outcome.gone.is_some() || self.is_given_up(field) {
            return None;
        }
        self.pulse.beat();
        match call() {
            Ok(answer) => {
                self.outcome.answered = true;
                self.refusals.0.remove(&field);
                Some(answer)
            }
            Err(error) => {
                let fault = Fault::from(&error);
                match fault {
                    Fault::FieldUnavailable => {
                        if self.refused.insert(field) {
                            *self.refusals.0.entry(field).or_default() += 1;
                        }
                    }
                    Fault::NoData => {}
                    _ => tracing::debug!(?field, ?fault, %error, "the driver did not answer"),
                }
                self.outcome.note(fault);
                None
            }
        }
    }

    /// Whether the last answer was that there is no such thing here: what can take its place may be asked.
    pub(super) fn is_refused(&self, field: Field) -> bool {
        self.refusals.0.contains_key(&field)
    }

    fn is_given_up(&self, field: Field) -> bool {
        self.refusals.0.get(&field).is_some_and(|passes| *passes >= BELIEVED)
    }

    /// Everything may be asked again.
    pub(super) fn forget(&mut self) {
        self.refusals.0.clear();
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
