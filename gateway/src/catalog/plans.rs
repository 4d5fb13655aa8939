//! Plans as they are written become plan versions: priced by a book, every step configured.

use std::collections::BTreeMap;
use std::sync::Arc;

use farebox_pricing::amount::Rounding;
use farebox_pricing::currency::Currency;
use farebox_pricing::exact;
use farebox_pricing::granule::Granule;
use farebox_pricing::plan::{Guards, Plan, UtilisationBasis};
use farebox_pricing::price_book::{PriceBook, PriceRow};
use farebox_pricing::usage::UsageRules;

use super::advice_rules::AdviceRules;
use super::document::Document;
use super::findings::{Bound, Findings};
use super::policies::Policies;
use super::problem::CatalogProblem;
use super::shelf::Shelf;
use super::wire::{WireGranule, WireGuards, WirePlan, WireRounding, WireUsageRules, WireUtilisationBasis};
use super::{PlanVersion, digest, steps};

/// Until there is a ledger that counts versions, what lies in the data directory is the first.
const VERSION: u32 = 1;
const DEFAULT_QUOTE_LIFETIME_S: u64 = 15 * 60;
const LONGEST_QUOTE_LIFETIME_S: u64 = 30 * 24 * 3600;
const MS_PER_S: u64 = 1000;
const US_PER_S: u64 = 1_000_000;

/// What a plan is made of, beside its own document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    pub(super) books: &'a Shelf<Arc<PriceBook>>,
    pub(super) policies: &'a Policies,
}

/// Reads a plan, or says everything that is wrong with it.
pub(super) fn read(document: &Document, wire: WirePlan, parts: Parts<'_>) -> Result<PlanVersion, Vec<CatalogProblem>> {
    let mut findings = Findings::of(document);
    let currency = findings.currency("/currency", &wire.currency);
    let book = price_book(&mut findings, &wire, currency, parts.books);
    let time_zone = findings.time_zone("/time_zone", &wire.time_zone);
    let quote_lifetime_s = quote_lifetime_s(&mut findings, &wire);
    let guards = guards(&mut findings, &wire.guards);
    // Amounts of two currencies cannot be compared; that they differ is told already.
    if let Some(book) = book.as_ref().filter(|book| currency == Some(book.currency)) {
        check_floor(&mut findings, &guards, book);
    }
    let usage = usage_rules(&mut findings, &wire.usage);
    let advice = AdviceRules::read(&mut findings, &wire.advice);
    check_later_tables(&mut findings, &wire);
    let steps = steps::read(&mut findings, wire.steps, parts.policies);
    let (Some(currency), Some(book), Some(time_zone)) = (currency, book, time_zone) else {
        return Err(findings.problems);
    };
    if !findings.problems.is_empty() {
        return Err(findings.problems);
    }
    let (steps, policies): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
    let digests: Vec<&str> = steps.iter().map(|step| step.policy.digest.as_str()).collect();
    let plan = Plan {
        digest: digest::of_plan(document.value(), &digests),
        name: wire.name,
        version: VERSION,
        currency,
        price_book: wire.price_book,
        time_zone,
        granule: granule(wire.granule),
        rounding: rounding(wire.rounding),
        quote_lifetime_s,
        utilisation_basis: utilisation_basis(wire.utilisation_basis),
        guards,
        usage,
        steps,
    };
    Ok(PlanVersion { plan: Arc::new(plan), policies: policies.into(), book, advice })
}

fn price_book(
    findings: &mut Findings<'_>,
    wire: &WirePlan,
    currency: Option<Currency>,
    books: &Shelf<Arc<PriceBook>>,
) -> Option<Arc<PriceBook>> {
    match books.get(&wire.price_book) {
        Ok(book) => {
            if currency.is_some_and(|currency| currency != book.currency) {
                let message =
                    format!("the plan is in {}, its price book `{}` in {}", wire.currency, book.name, book.currency);
                findings.wrong("/price_book", message);
            }
            Some(Arc::clone(book))
        }
        Err(missing) => {
            findings.missing("/price_book", missing);
            None
        }
    }
}

fn quote_lifetime_s(findings: &mut Findings<'_>, wire: &WirePlan) -> u32 {
    let pointer = "/quote_lifetime";
    let seconds = findings.seconds(pointer, wire.quote_lifetime.as_ref(), DEFAULT_QUOTE_LIFETIME_S);
    if !(1..=LONGEST_QUOTE_LIFETIME_S).contains(&seconds) {
        findings.wrong(pointer, "a quote lives for 1 second to 30 days");
    }
    // INVARIANT: 30 days of seconds fit; anything longer is a problem already.
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

fn guards(findings: &mut Findings<'_>, wire: &WireGuards) -> Guards {
    let mut guard = |field: &str, sent, bound| findings.optional_decimal(&format!("/guards/{field}"), sent, bound);
    Guards {
        max_discount: guard("max_discount", wire.max_discount.as_ref(), Bound::Share),
        max_surcharge: guard("max_surcharge", wire.max_surcharge.as_ref(), Bound::NotNegative),
        floor_unit_price: guard("floor_unit_price", wire.floor_unit_price.as_ref(), Bound::NotNegative),
    }
}

/// A floor above a list price would be the price of that row, whatever the book says: one of the two is a mistake.
fn check_floor(findings: &mut Findings<'_>, guards: &Guards, book: &PriceBook) {
    let Some(floor) = guards.floor_unit_price else { return };
    let below: Vec<_> = newest(book).filter(|row| row.unit_price < floor).collect();
    let Some(row) = below.iter().min_by_key(|row| row.unit_price) else { return };
    let more = match below.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(", and above {more} more"),
    };
    let message = format!(
        "the floor of {} is above the list price of {} for `{}` in `{}` as `{}` of price book `{}`{more}",
        exact::print(floor),
        exact::print(row.unit_price),
        row.gpu_model,
        row.region,
        row.market.as_str(),
        book.name
    );
    findings.wrong("/guards/floor_unit_price", message);
}

/// The last price of everything in a book. What it supersedes is history, and as right as it was. By the dates in the
/// book, not today's, so that the same files have the same problems on every day.
fn newest(book: &PriceBook) -> impl Iterator<Item = &PriceRow> {
    let mut newest: BTreeMap<_, &PriceRow> = BTreeMap::new();
    for row in book.rows() {
        let last = newest.entry((&row.gpu_model, &row.region, row.market, row.min_gpus)).or_insert(row);
        if last.effective_from < row.effective_from {
            *last = row;
        }
    }
    newest.into_values()
}

fn usage_rules(findings: &mut Findings<'_>, wire: &WireUsageRules) -> UsageRules {
    let default = UsageRules::default();
    let mut duration = |field: &str, sent, default: u64, per_second: u64| {
        let pointer = format!("/usage/{field}");
        let seconds = findings.seconds(&pointer, sent, default.div_euclid(per_second));
        seconds.checked_mul(per_second).unwrap_or_else(|| {
            findings.wrong(&pointer, "is too long");
            default
        })
    };
    let soft_stale_ms = duration("soft_stale", wire.soft_stale.as_ref(), default.soft_stale_ms, MS_PER_S);
    let hard_stale_ms = duration("hard_stale", wire.hard_stale.as_ref(), default.hard_stale_ms, MS_PER_S);
    let thin_held_us = duration("thin", wire.thin.as_ref(), default.thin_held_us, US_PER_S);
    let grace_s = duration("grace", wire.grace.as_ref(), default.grace_s, 1);
    let min_coverage = findings.optional_decimal("/usage/min_coverage", wire.min_coverage.as_ref(), Bound::Share);
    if soft_stale_ms > hard_stale_ms {
        let field = if wire.soft_stale.is_some() { "/usage/soft_stale" } else { "/usage/hard_stale" };
        let [soft, hard] = [soft_stale_ms, hard_stale_ms].map(|ms| ms.div_euclid(MS_PER_S));
        findings.wrong(field, format!("`soft_stale` ({soft} s) is longer than `hard_stale` ({hard} s)"));
    }
    UsageRules {
        soft_stale_ms,
        hard_stale_ms,
        min_coverage: min_coverage.unwrap_or(default.min_coverage),
        thin_held_us,
        grace_s,
    }
}

/// Tables without effect until there are idle protection, spot estimates and task billing: a wrong one is told today.
fn check_later_tables(findings: &mut Findings<'_>, wire: &WirePlan) {
    if let Some(idle) = &wire.idle
        && findings.seconds("/idle/after", Some(&idle.after), 1) == 0
    {
        findings.wrong("/idle/after", "must be above 0");
    }
    if let Some(spot) = &wire.spot {
        findings.decimal("/spot/restart_overhead", &spot.restart_overhead, Bound::NotNegative);
    }
    if let Some(credit) = &wire.credit {
        findings.decimal("/credit/price", &credit.price, Bound::AboveZero);
        findings.decimal("/credit/per_unit", &credit.per_unit, Bound::AboveZero);
    }
}

fn granule(wire: WireGranule) -> Granule {
    match wire {
        WireGranule::Second => Granule::Second,
        WireGranule::Minute => Granule::Minute,
        WireGranule::Hour => Granule::Hour,
    }
}

fn rounding(wire: WireRounding) -> Rounding {
    match wire {
        WireRounding::HalfAwayFromZero => Rounding::HalfAwayFromZero,
        WireRounding::HalfEven => Rounding::HalfEven,
    }
}

fn utilisation_basis(wire: WireUtilisationBasis) -> UtilisationBasis {
    match wire {
        WireUtilisationBasis::Quote => UtilisationBasis::Quote,
        WireUtilisationBasis::Period => UtilisationBasis::Period,
    }
}
