//! What a quote would be if something were otherwise: priced by the same function, under the same plan version, price book,
//! instant, observation and balances, so that it is what the quote comes to that is really asked so.
//!
//! It is worth something only beside a quote that stands: whatever goes wrong here is counted, and the quote is as it was.

mod alteration;
mod ration;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use farebox_pricing::amount::Amount;
use farebox_pricing::offer::{LineUsage, Offer, PricedInput};
use farebox_pricing::pipeline::{MAX_WHAT_IFS, PricingError};
use farebox_pricing::policy::Fact;
use farebox_pricing::price::price;
use farebox_pricing::settle::Settled;
use farebox_sandbox::{Memoized, Session};
use serde_json::Value;

use super::Road;
use crate::catalog::PlanVersion;
use ration::Rationed;

/// Fuel of all what-ifs of one quote together, in evaluations at the sandbox's limit: fifty. Some tenth of a second at the
/// very most; a hundred lines under six shipped policies take a twentieth of it.
const MOST_FUEL: u64 = 100_000_000;
/// What a statistic's name begins with, where a policy asks for another value of it.
const USAGE: &str = "usage/";

/// A quote that stands, beside which others are priced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoted<'a> {
    /// The request as it was sent.
    pub(super) body: &'a Value,
    pub(super) version: &'a Arc<PlanVersion>,
    pub(super) input: &'a PricedInput,
    pub(super) settled: &'a Settled,
}

/// The what-ifs of one quote: at most three, and only so much fuel.
#[derive(Debug)]
pub(super) struct WhatIfs<'a> {
    road: &'a Road,
    quoted: Quoted<'a>,
    left: usize,
    fuel_left: u64,
}

/// How what-ifs ended, since the start.
#[derive(Debug, Default)]
pub(crate) struct WhatIfCounters {
    saving: AtomicU64,
    without_saving: AtomicU64,
    not_priced: AtomicU64,
    faulted: AtomicU64,
}

/// [`WhatIfCounters`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WhatIfCounts {
    pub saving: u64,
    pub without_saving: u64,
    pub not_priced: u64,
    pub faulted: u64,
}

impl WhatIfCounters {
    pub(crate) fn read(&self) -> WhatIfCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WhatIfCounts {
            saving: read(&self.saving),
            without_saving: read(&self.without_saving),
            not_priced: read(&self.not_priced),
            faulted: read(&self.faulted),
        }
    }
}

/// Why a what-if has no price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unpriced {
    /// It asks for what nobody can ask for, or what the plan does not price.
    Refused,
    /// More fuel than there is for what-ifs.
    TooMuch,
    /// A policy or the sandbox failed.
    Faulted,
}

impl<'a> WhatIfs<'a> {
    pub(super) fn of(road: &'a Road, quoted: Quoted<'a>) -> Self {
        Self { road, quoted, left: MAX_WHAT_IFS, fuel_left: MOST_FUEL }
    }

    /// How much less the quote would be if these items were asked so; `None` where it would not be less, or cannot be told.
    pub(super) fn saves(&mut self, items: &[usize], asks: &[Fact]) -> Option<Amount> {
        self.left = self.left.checked_sub(1)?;
        let counters = &self.road.what_ifs;
        let (counter, saves) = match self.total(items, asks) {
            Ok(total) => match self.quoted.settled.totals.total.minus(total) {
                Ok(saves) if saves > Amount::ZERO => (&counters.saving, Some(saves)),
                _ => (&counters.without_saving, None),
            },
            Err(Unpriced::Refused) => (&counters.not_priced, None),
            Err(unpriced) => {
                // Whoever failed or was slow once gets no second turn on this quote's time.
                self.left = 0;
                let faulted = unpriced == Unpriced::Faulted;
                (if faulted { &counters.faulted } else { &counters.not_priced }, None)
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        saves
    }

    fn total(&mut self, items: &[usize], asks: &[Fact]) -> Result<Amount, Unpriced> {
        let Quoted { version, settled, .. } = self.quoted;
        let input = self.input(items, asks).ok_or(Unpriced::Refused)?;
        let priced = self.price(&input);
        if self.fuel_left == 0 {
            return Err(Unpriced::TooMuch);
        }
        let priced = priced.map_err(|error| match error {
            PricingError::Faulted { ref step, ref policy, ref fault, .. } => {
                tracing::warn!(plan = version.plan.name, step, policy, %fault, "a policy faulted in a what-if");
                Unpriced::Faulted
            }
            PricingError::SumsDiffer(_) => {
                tracing::error!(plan = version.plan.name, "the rows of a what-if do not sum");
                Unpriced::Faulted
            }
            PricingError::Refused { .. }
            | PricingError::NotMeasured { .. }
            | PricingError::TooManyLines { .. }
            | PricingError::TooLarge(_) => Unpriced::Refused,
        })?;
        // Without the same steps it is no price to compare with.
        let steps = |settled: &Settled| settled.skipped.iter().map(|it| it.step_index).collect::<Vec<_>>();
        let is_comparable = steps(&priced) == steps(settled);
        if is_comparable { Ok(priced.totals.total) } else { Err(Unpriced::Faulted) }
    }

    /// The altered request with the observation of the quote, itself altered. `None` where it cannot be asked so.
    fn input(&self, items: &[usize], asks: &[Fact]) -> Option<PricedInput> {
        let Quoted { input, .. } = self.quoted;
        let (of_usage, of_items): (Vec<&Fact>, Vec<&Fact>) = asks.iter().partition(|ask| ask.key.starts_with(USAGE));
        let usages = alteration::usages(input, items, &of_usage)?;
        let offer = if of_items.is_empty() { input.offer().clone() } else { self.offer(items, &of_items)? };
        let model_of = |index: usize| input.offer().items.get(index).map(|item| item.gpu_model.as_str());
        let usage_of = |model: &str| -> Option<&LineUsage> {
            let first = (0..input.offer().items.len()).find(|index| model_of(*index) == Some(model))?;
            usages.get(*input.usage_of_item().get(first)?)
        };
        // Of another model nothing was observed for this quote.
        if !offer.items.iter().all(|item| usage_of(&item.gpu_model).is_some()) {
            return None;
        }
        let nothing =
            || LineUsage { observation: None, judged: farebox_pricing::usage::judge(None, &input.plan().usage) };
        Some(offer.with_usage(|item| usage_of(&item.gpu_model).cloned().unwrap_or_else(nothing)))
    }

    /// What the catalogue offers for the altered request, under the quote's plan version and with its balances.
    fn offer(&self, items: &[usize], asks: &[&Fact]) -> Option<Offer> {
        let Quoted { body, version, input, .. } = self.quoted;
        let request = alteration::request(&self.road.intake, body, items, asks)?;
        let resolved = self.road.catalog.resolve(&request, input.offer().priced_at).ok()?;
        let is_same = Arc::ptr_eq(&resolved.version, version);
        is_same.then(|| Offer { balances: input.offer().balances.clone(), ..resolved.offer })
    }

    fn price(&mut self, input: &PricedInput) -> Result<Settled, PricingError> {
        let policies = &self.quoted.version.policies;
        let (session, fuel_left) = (Session::new(policies), &mut self.fuel_left);
        match &self.road.memo {
            Some(memo) => price(input, &mut Rationed { policies: Memoized::new(policies, memo, session), fuel_left }),
            None => price(input, &mut Rationed { policies: session, fuel_left }),
        }
    }
}
