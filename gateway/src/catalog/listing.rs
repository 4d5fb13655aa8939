//! What is sold: the rows of the price books behind the plans, as of one instant.

use std::collections::BTreeMap;
use std::sync::Arc;

use farebox_pricing::price_book::{Market, PriceBook, PriceRow};
use jiff::Timestamp;

use super::plan_choice::Asker;
use super::{Catalog, OfferError, PlanVersion};
use crate::schema::Violation;

/// What of the catalogue is asked for. What is absent does not narrow it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Narrows to the plans that this tenant gets without asking for one.
    pub tenant: Option<String>,
    pub plan: Option<String>,
    pub currency: Option<String>,
    pub gpu_model: Option<String>,
    pub region: Option<String>,
    pub market: Option<Market>,
    /// Only what comes after this.
    pub after: Option<OfferingId>,
}

/// Where an offering stands in the catalogue: by book, model, region and market. Written `cn-2026:A100:cn-east-1:spot`; none
/// of the names has a colon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingId {
    book: String,
    gpu_model: String,
    region: String,
    market: Market,
}

/// One GPU model in one region and market, as one price book sells it.
#[derive(Clone, Debug)]
pub struct Offering<'a> {
    pub id: OfferingId,
    pub book: &'a PriceBook,
    /// The selected plans that price by this book.
    pub plans: &'a [&'a str],
    /// One for each size, by `min_gpus`. Empty where every price is still to come.
    pub in_force: Vec<&'a PriceRow>,
    /// By the instant from which they hold.
    pub upcoming: Vec<&'a PriceRow>,
}

/// The plans of a selection, and the books that they price by.
#[derive(Debug)]
pub struct Listing<'a> {
    pub plans: Vec<&'a PlanVersion>,
    books: BTreeMap<&'a str, (&'a PriceBook, Vec<&'a str>)>,
}

impl Catalog {
    /// The plans and books that `selection` names.
    ///
    /// # Errors
    /// As a quote that names the same tenant and plan: what is not there, all at once; then that a plan is broken.
    pub fn listing(&self, selection: &Selection) -> Result<Listing<'_>, OfferError> {
        let mut wrong = Vec::new();
        let tenant = selection.tenant.as_deref().and_then(|id| {
            let found = self.tenants.get(id).map(|tenant| (id, tenant));
            if found.is_none() {
                let detail = format!("there is no tenant `{id}`");
                wrong.push(Violation::new("/tenant_id", "unknown_tenant", detail));
            }
            found
        });
        let asker = Asker { tenant, currency: selection.currency.as_deref() };
        match selection.plan.as_ref().map(|name| self.plan_named(name, asker)) {
            Some(Err(OfferError::Invalid(unknown))) => wrong.extend(unknown),
            Some(Err(broken)) if wrong.is_empty() => return Err(broken),
            _ => {}
        }
        if !wrong.is_empty() {
            return Err(OfferError::Invalid(wrong));
        }
        let is_selected = |version: &&PlanVersion| {
            let plan = &version.plan;
            let code = plan.currency.code();
            let is_of_tenant = |name: &String| tenant.is_none_or(|(_, tenant)| tenant.plans.get(code) == Some(name));
            // A plan asked for by name need not be the one that the tenant gets without asking.
            let is_named = selection.plan.as_ref().map(|name| *name == plan.name);
            selection.currency.as_ref().is_none_or(|wanted| wanted == code)
                && is_named.unwrap_or_else(|| is_of_tenant(&plan.name))
        };
        let plans: Vec<&PlanVersion> = self.plans.values().map(Arc::as_ref).filter(is_selected).collect();
        let mut books: BTreeMap<&str, (&PriceBook, Vec<&str>)> = BTreeMap::new();
        for version in &plans {
            let (_, names) = books.entry(&version.book.name).or_insert_with(|| (&*version.book, Vec::new()));
            names.push(&version.plan.name);
        }
        Ok(Listing { plans, books })
    }
}

impl Listing<'_> {
    /// The offerings of `selection` as of `at`, in the order of their ids.
    pub fn offerings<'a>(&'a self, selection: &'a Selection, at: Timestamp) -> impl Iterator<Item = Offering<'a>> {
        self.books.values().flat_map(move |(book, plans)| {
            let matches = |wanted: &Option<String>, name: &String| wanted.as_ref().is_none_or(|wanted| wanted == name);
            let rows = book.rows().filter(move |row| {
                matches(&selection.gpu_model, &row.gpu_model)
                    && matches(&selection.region, &row.region)
                    && selection.market.is_none_or(|market| market == row.market)
            });
            grouped(rows)
                .map(move |rows| offering(book, plans, &rows, at))
                .filter(|offering| selection.after.as_ref().is_none_or(|after| offering.id > *after))
        })
    }
}

/// Rows of one model, region and market, which lie side by side in a book.
fn grouped<'a>(rows: impl Iterator<Item = &'a PriceRow>) -> impl Iterator<Item = Vec<&'a PriceRow>> {
    let mut rows = rows.peekable();
    std::iter::from_fn(move || {
        let first = rows.next()?;
        let mut group = vec![first];
        let is_same = |row: &&PriceRow| {
            row.market == first.market && row.gpu_model == first.gpu_model && row.region == first.region
        };
        while let Some(row) = rows.next_if(is_same) {
            group.push(row);
        }
        Some(group)
    })
}

fn offering<'a>(book: &'a PriceBook, plans: &'a [&'a str], rows: &[&'a PriceRow], at: Timestamp) -> Offering<'a> {
    let (effective, mut upcoming): (Vec<&PriceRow>, Vec<&PriceRow>) =
        rows.iter().partition(|row| row.effective_from <= at);
    upcoming.sort_by_key(|row| (row.effective_from, row.min_gpus));
    let mut newest: BTreeMap<u32, &PriceRow> = BTreeMap::new();
    for row in effective {
        let held = newest.entry(row.min_gpus).or_insert(row);
        if held.effective_from < row.effective_from {
            *held = row;
        }
    }
    let (gpu_model, region, market) = rows.first().map_or_else(
        || (String::new(), String::new(), Market::OnDemand),
        |row| (row.gpu_model.clone(), row.region.clone(), row.market),
    );
    let id = OfferingId { book: book.name.clone(), gpu_model, region, market };
    Offering { id, book, plans, in_force: newest.into_values().collect(), upcoming }
}

impl OfferingId {
    pub fn parse(text: &str) -> Option<Self> {
        let mut names = text.split(':');
        let mut name = || names.next().filter(|name| !name.is_empty()).map(str::to_owned);
        let (book, gpu_model, region) = (name()?, name()?, name()?);
        let market = Market::parse(names.next()?)?;
        names.next().is_none().then_some(Self { book, gpu_model, region, market })
    }

    pub fn gpu_model(&self) -> &str {
        &self.gpu_model
    }

    pub fn region(&self) -> &str {
        &self.region
    }

    pub fn market(&self) -> Market {
        self.market
    }
}

impl std::fmt::Display for OfferingId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}:{}:{}", self.book, self.gpu_model, self.region, self.market.as_str())
    }
}
