//! Who pays, and by which plans.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use farebox_pricing::currency::Currency;
use farebox_pricing::policy::Fact;

use super::PlanVersion;
use super::document::Document;
use super::findings::Findings;
use super::problem::CatalogProblem;
use super::shelf::{Missing, Shelf};
use super::wire::WireTenant;
use crate::schema::child;

/// Characters of an attribute's value.
const MAX_VALUE: usize = 200;

/// In a tenant's `offered`: every plan that there is.
const EVERY_PLAN: &str = "*";

/// A billing tenant.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// A plan's name by currency code, also where that plan cannot be priced under.
    pub plans: BTreeMap<String, String>,
    /// Names of plans that it may ask for beside those.
    offered: BTreeSet<String>,
    /// `tenant.*`, in the order of their keys.
    pub facts: Vec<Fact>,
}

impl Tenant {
    /// Whether a request of the tenant may name this plan.
    pub fn may_ask_for(&self, plan: &str) -> bool {
        self.plans.values().any(|own| own == plan) || self.offered.contains(plan) || self.offered.contains(EVERY_PLAN)
    }
}

/// Reads a tenant. A plan that is not there is a problem of that currency, or of that offer, only.
pub(super) fn read(
    document: &Document,
    wire: WireTenant,
    plans: &Shelf<Arc<PlanVersion>>,
) -> (Option<Tenant>, Vec<CatalogProblem>) {
    let mut findings = Findings::of(document);
    // Nothing is reckoned in a tenant's own time yet: its zone is only checked.
    findings.time_zone("/time_zone", &wire.time_zone);
    let mut facts = Vec::with_capacity(wire.attributes.len());
    for (key, value) in wire.attributes {
        let pointer = child("/attributes", &key);
        if !is_word(&key) {
            let problem = findings.document.key_problem(&pointer, format!("`{key}` is not a lower-case word"));
            findings.problems.push(problem);
        } else if value.is_empty() || value.chars().count() > MAX_VALUE || value.chars().any(char::is_control) {
            findings
                .wrong(&pointer, format!("must have 1 to {MAX_VALUE} characters, none of them a control character"));
        }
        facts.push(Fact::new(format!("tenant.{key}"), value));
    }
    let is_sound = findings.problems.is_empty();
    let mut by_currency = BTreeMap::new();
    for (code, plan) in wire.plans {
        let Some(currency) = findings.currency(&child("/plans", &code), &code) else { continue };
        check_plan(&mut findings, currency, plans.get(&plan));
        by_currency.insert(code, plan);
    }
    for (index, plan) in wire.offered.iter().enumerate().filter(|(_, plan)| *plan != EVERY_PLAN) {
        if let Err(missing) = plans.get(plan) {
            findings.missing(&format!("/offered/{index}"), missing);
        }
    }
    let offered = wire.offered.into_iter().collect();
    let tenant = is_sound.then_some(Tenant { plans: by_currency, offered, facts });
    (tenant, findings.problems)
}

/// That the plan is there and in this currency.
fn check_plan(findings: &mut Findings<'_>, currency: Currency, plan: Result<&Arc<PlanVersion>, Missing>) {
    let pointer = child("/plans", currency.code());
    match plan {
        Ok(found) if found.plan.currency == currency => {}
        Ok(found) => {
            let message = format!("plan `{}` is in {}, not in {currency}", found.plan.name, found.plan.currency);
            findings.wrong(&pointer, message);
        }
        Err(missing) => findings.missing(&pointer, missing),
    }
}

fn is_word(key: &str) -> bool {
    key.starts_with(|first: char| first.is_ascii_lowercase())
        && key.len() <= 64
        && key.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}
