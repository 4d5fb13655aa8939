//! What enters the pipeline: an [`Offer`] is a request resolved against a plan and a price book; with the judged usage of
//! its lines it becomes a [`PricedInput`]. Neither can be taken back or taken twice.

use std::sync::Arc;

use jiff::Timestamp;
use rust_decimal::Decimal;

use crate::plan::Plan;
use crate::policy::{Balance, Fact};
use crate::usage::{JudgedUsage, Observation};

/// A request with everything that prices it, apart from live usage. The catalogue makes it.
#[derive(Clone, Debug)]
pub struct Offer {
    pub plan: Arc<Plan>,
    /// `cn-2026@1`
    pub price_book: String,
    pub priced_at: Timestamp,
    /// `tenant.*` facts.
    pub tenant: Vec<Fact>,
    pub items: Vec<OfferedItem>,
    pub balances: Vec<Balance>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedItem {
    /// The caller's name for the item, unique in the request; breaks ties where a whole-cart amount is spread, so that
    /// the order of items does not matter.
    pub reference: String,
    /// `A100, cn-east-1, on demand`
    pub description: String,
    pub gpu_model: String,
    pub facts: Vec<Fact>,
    pub quantity: OfferedQuantity,
    /// Per GPU-hour.
    pub list_unit_price: Decimal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferedQuantity {
    /// Whole GPU-seconds, already rounded up to the plan's granule.
    GpuSeconds(u64),
    /// Not measured yet: a policy turns it into units at a price.
    Task,
}

/// Live usage of one scope, as observed and as judged by the plan's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineUsage {
    pub observation: Option<Observation>,
    pub judged: JudgedUsage,
}

/// An offer with the usage of its items: everything that a price depends on.
#[derive(Clone, Debug)]
pub struct PricedInput {
    offer: Offer,
    usages: Vec<LineUsage>,
    /// Index into `usages`, one for each item.
    usage_of_item: Vec<usize>,
}

impl Offer {
    /// Joins each item with its usage. `usage_of` is asked once for each GPU model, so lines of one model share one
    /// observation; models whose usages are equal, such as under one tenant-wide observation, share one as well.
    pub fn with_usage(self, mut usage_of: impl FnMut(&OfferedItem) -> LineUsage) -> PricedInput {
        let mut models: Vec<(&str, usize)> = Vec::new();
        let mut usages: Vec<LineUsage> = Vec::new();
        let mut usage_of_item = Vec::with_capacity(self.items.len());
        for item in &self.items {
            let known = models.iter().find(|(model, _)| *model == item.gpu_model).map(|(_, index)| *index);
            let index = known.unwrap_or_else(|| {
                let usage = usage_of(item);
                let index = usages.iter().position(|other| *other == usage).unwrap_or(usages.len());
                if index == usages.len() {
                    usages.push(usage);
                }
                models.push((&item.gpu_model, index));
                index
            });
            usage_of_item.push(index);
        }
        PricedInput { offer: self, usages, usage_of_item }
    }
}

impl PricedInput {
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    pub fn plan(&self) -> &Plan {
        &self.offer.plan
    }

    pub fn usages(&self) -> &[LineUsage] {
        &self.usages
    }

    /// For each item, the index of its usage.
    pub fn usage_of_item(&self) -> &[usize] {
        &self.usage_of_item
    }

    pub(crate) fn usage_index(&self, item: usize) -> Option<usize> {
        self.usage_of_item.get(item).copied()
    }

    /// The usage of an item.
    pub fn usage(&self, item: usize) -> Option<&LineUsage> {
        self.usages.get(self.usage_index(item)?)
    }
}
