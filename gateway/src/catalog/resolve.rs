//! From a request to an offer: which rows of its plan's book price it.

use std::sync::Arc;

use farebox_pricing::exact;
use farebox_pricing::granule::Granule;
use farebox_pricing::offer::{Offer, OfferedItem, OfferedQuantity};
use farebox_pricing::plan::Plan;
use farebox_pricing::price_book::{Market, PriceQuery, PriceRow, UnknownPrice};
use farebox_pricing::request::{MAX_GPU_COUNT, MAX_SECONDS, QuoteRequest, RequestedItem, Work};
use jiff::Timestamp;

use super::{Catalog, PlanVersion, facts};
use crate::schema::Violation;

/// An offer, and the plan version that prices it: hold on to it until the quote is made.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub version: Arc<PlanVersion>,
    pub offer: Offer,
    pub notes: Vec<OfferNote>,
}

/// Something that the customer should know about an item, without money of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferNote {
    /// Index into the request's items.
    pub item: usize,
    pub code: &'static str,
    /// `61 s are billed as 2 min`
    pub text: String,
}

/// Why there is no offer: everything at once, with pointers into the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// Something asked for is impossible; may also hold prices that are not known.
    #[error("the request cannot be offered")]
    Invalid(Vec<Violation>),
    /// All is possible, but the price book has no row for it.
    #[error("the request has no price")]
    UnknownPrice(Vec<Violation>),
    /// Nothing is wrong with the request: its plan is broken on this side. Says which.
    #[error("{0}")]
    Unavailable(String),
}

/// What was found wrong with the items so far.
#[derive(Default)]
struct Wrong {
    violations: Vec<Violation>,
    /// True once something is worse than a price that is not known.
    is_invalid: bool,
}

impl Catalog {
    /// Finds the plan of a request and the price of each item, as of `now`.
    pub fn resolve(&self, request: &QuoteRequest, now: Timestamp) -> Result<Resolved, OfferError> {
        let (tenant, version) = self.plan_of(request)?;
        let mut wrong = Wrong::default();
        let mut notes = Vec::new();
        let mut items = Vec::with_capacity(request.items.len());
        for (index, item) in request.items.iter().enumerate() {
            notes.extend(granule_note(version.plan.granule, (index, item)));
            notes.extend(storage_note(&version.plan, (index, item)));
            items.extend(offered(version, (index, item), now, &mut wrong));
        }
        wrong.into_result()?;
        let offer = Offer {
            plan: Arc::clone(&version.plan),
            price_book: version.book.id(),
            priced_at: now,
            tenant: tenant.facts.clone(),
            items,
            balances: Vec::new(),
        };
        Ok(Resolved { version: Arc::clone(version), offer, notes })
    }
}

impl PlanVersion {
    /// The row of the price book that prices an item.
    pub(crate) fn row_for(&self, item: &RequestedItem, at: Timestamp) -> Result<&PriceRow, UnknownPrice> {
        let RequestedItem { gpu_model, region, market, gpu_count, .. } = item;
        self.book.resolve(PriceQuery { gpu_model, region, market: *market, gpu_count: *gpu_count, at })
    }
}

impl Wrong {
    fn invalid(&mut self, violation: Violation) {
        self.is_invalid = true;
        self.violations.push(violation);
    }

    fn into_result(self) -> Result<(), OfferError> {
        match (self.violations, self.is_invalid) {
            (violations, _) if violations.is_empty() => Ok(()),
            (violations, true) => Err(OfferError::Invalid(violations)),
            (violations, false) => Err(OfferError::UnknownPrice(violations)),
        }
    }
}

/// One item at its list price; `None` with at least one violation noted.
fn offered(
    version: &PlanVersion,
    (index, item): (usize, &RequestedItem),
    now: Timestamp,
    wrong: &mut Wrong,
) -> Option<OfferedItem> {
    let quantity = quantity(version.plan.granule, (index, item), wrong);
    let row = version.row_for(item, now).map_err(|unknown| wrong.violations.push(unknown_price(index, &unknown)));
    let (quantity, row) = (quantity?, row.ok()?);
    Some(OfferedItem {
        reference: item.reference.clone(),
        description: description(row),
        gpu_model: item.gpu_model.clone(),
        facts: facts::of_item(item, quantity, row),
        quantity,
        list_unit_price: row.unit_price,
    })
}

/// GPU time at the plan's granule. Within the bounds a product has 64 bits to spare.
fn quantity(granule: Granule, (index, item): (usize, &RequestedItem), wrong: &mut Wrong) -> Option<OfferedQuantity> {
    let count = item.gpu_count;
    let count_fits = (1..=MAX_GPU_COUNT).contains(&count);
    if !count_fits {
        let detail = format!("`{count}` GPUs cannot be priced; ask for 1 to {MAX_GPU_COUNT}");
        wrong.invalid(Violation::new(format!("/items/{index}/gpu_count"), "out_of_range", detail));
    }
    let Work::Seconds(seconds) = item.work else {
        return count_fits.then_some(OfferedQuantity::Task);
    };
    let billed = granule.billed(seconds).filter(|_| (1..=MAX_SECONDS).contains(&seconds));
    if billed.is_none() {
        let hours = MAX_SECONDS.div_euclid(3600);
        let detail = format!("`{seconds}` seconds cannot be priced; ask for 1 second to {hours} hours");
        wrong.invalid(Violation::new(format!("/items/{index}"), "out_of_range", detail));
    }
    let gpu_seconds = billed?.checked_mul(u64::from(count)).filter(|_| count_fits)?;
    Some(OfferedQuantity::GpuSeconds(gpu_seconds))
}

/// The violation at the first thing that the book does not know.
fn unknown_price(index: usize, unknown: &UnknownPrice) -> Violation {
    let (field, code) = match unknown {
        UnknownPrice::Model { .. } => ("gpu_model", "unknown_gpu_model"),
        UnknownPrice::Region { .. } => ("region", "unknown_region"),
        UnknownPrice::Market { .. } => ("market", "unknown_market"),
        UnknownPrice::TooFewGpus { .. } => ("gpu_count", "too_few_gpus"),
        UnknownPrice::NotYetEffective { .. } => ("gpu_model", "not_yet_effective"),
    };
    Violation::new(format!("/items/{index}/{field}"), code, unknown.to_string())
}

/// `A100, cn-east-1, on demand`
fn description(row: &PriceRow) -> String {
    let market = match row.market {
        Market::Guaranteed => "guaranteed",
        Market::OnDemand => "on demand",
        Market::Spot => "spot",
    };
    format!("{}, {}, {market}", row.gpu_model, row.region)
}

/// Says so where the granule rounds time up (`money.md` case 15).
fn granule_note(granule: Granule, (item, requested): (usize, &RequestedItem)) -> Option<OfferNote> {
    let Work::Seconds(asked) = requested.work else { return None };
    let billed = granule.billed(asked)?;
    if billed == asked {
        return None;
    }
    let verb = if asked == 1 { "is" } else { "are" };
    let text = format!("{} {verb} billed as {}", duration(asked), duration(billed));
    Some(OfferNote { item, code: "granule", text })
}

/// Storage that no step of the plan looks at is not sold, and not given away without a word.
fn storage_note(plan: &Plan, (item, requested): (usize, &RequestedItem)) -> Option<OfferNote> {
    let gib = requested.storage_gib.filter(|gib| !gib.is_zero())?;
    let is_priced = plan.steps.iter().any(|step| step.reads.names_fact("line.storage_gib"));
    let text = format!("the plan sells no storage: the {} GiB are not part of the quote", exact::print(gib));
    (!is_priced).then_some(OfferNote { item, code: "storage_not_sold", text })
}

/// In the largest unit that divides it: `61 s`, `2 min`, `1 h`.
fn duration(seconds: u64) -> String {
    let (unit, length) =
        [("h", 3600), ("min", 60)].into_iter().find(|(_, length)| seconds.is_multiple_of(*length)).unwrap_or(("s", 1));
    format!("{} {unit}", seconds.div_euclid(length))
}
