//! The portions of a line, and what the engine holds of each.

use crate::policy::Portion;

/// Where a portion comes from. The engine says so; a policy's words alone cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A policy set its price, perhaps 0.
    Policy,
    /// It draws on a balance.
    Drawn,
}

/// A line's division into portions; empty where it is not divided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Portions {
    parts: Vec<Portion>,
    /// One for each part.
    origins: Vec<Origin>,
}

impl Portions {
    /// What a policy answered, once checked.
    pub(super) fn of_policy(parts: Vec<Portion>) -> Self {
        let origin = |part: &Portion| if part.draws.is_some() { Origin::Drawn } else { Origin::Policy };
        Self { origins: parts.iter().map(origin).collect(), parts }
    }

    pub(super) fn as_slice(&self) -> &[Portion] {
        &self.parts
    }

    /// Settled facts: a later step may divide the rest, not take these back.
    pub(crate) fn settled(&self) -> impl Iterator<Item = &Portion> {
        let parts = self.parts.iter().zip(&self.origins);
        parts.filter(|(_, origin)| **origin != Origin::Policy).map(|(part, _)| part)
    }

    /// Settled facts at price 0, which guards leave out. A price of 0 that a policy merely set is not one of them.
    pub(crate) fn free(&self) -> impl Iterator<Item = &Portion> {
        self.settled().filter(|part| part.unit_price.is_zero())
    }
}
