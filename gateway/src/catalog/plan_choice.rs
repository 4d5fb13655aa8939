//! Which plan answers: the tenant's for the currency, or the one that is asked for by name.

use std::sync::Arc;

use farebox_pricing::request::QuoteRequest;

use super::shelf::there_are;
use super::{Catalog, OfferError, PlanVersion, Tenant};
use crate::schema::Violation;

/// Who asks for a plan by name, and in which currency; what is not known narrows nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) tenant: Option<(&'a str, &'a Tenant)>,
    pub(super) currency: Option<&'a str>,
}

impl Catalog {
    /// What a customer got wrong is theirs to mend; what is wrong with a plan, or with a tenant's choice of one, is not.
    pub(super) fn plan_of(&self, request: &QuoteRequest) -> Result<(&Tenant, &Arc<PlanVersion>), OfferError> {
        let QuoteRequest { tenant_id, currency, plan, .. } = request;
        let Some(tenant) = self.tenants.get(tenant_id) else {
            return Err(invalid("/tenant_id", "unknown_tenant", format!("there is no tenant `{tenant_id}`")));
        };
        if let Some(name) = plan {
            let asker = Asker { tenant: Some((tenant_id, tenant)), currency: Some(currency.code()) };
            let version = self.plan_named(name, asker)?;
            if version.plan.currency == *currency {
                return Ok((tenant, version));
            }
            let detail = format!("plan `{name}` is in `{}`; ask for that currency", version.plan.currency);
            return Err(invalid("/currency", "currency_mismatch", detail));
        }
        let Some(name) = tenant.plans.get(currency.code()) else {
            let sold: Vec<String> = tenant.plans.keys().map(|code| format!("`{code}`")).collect();
            let sold = if sold.is_empty() { "none".to_owned() } else { sold.join(", ") };
            let detail = format!("tenant `{tenant_id}` has no plan in `{currency}`; it has plans in {sold}");
            return Err(invalid("/currency", "no_plan", detail));
        };
        let version = self.plans.get(name).filter(|version| version.plan.currency == *currency);
        Ok((tenant, version.ok_or_else(|| unavailable(name))?))
    }

    /// A plan that is asked for, in whichever currency it is. That there is one is its customers' business: to anybody else
    /// the words are those for a plan that is not there, before anything is said of it.
    pub(super) fn plan_named(&self, name: &str, asker: Asker<'_>) -> Result<&Arc<PlanVersion>, OfferError> {
        if !asker.may_ask_for(name) {
            return Err(self.unknown_plan(name, asker));
        }
        self.plans.get(name).ok_or_else(|| match self.plans_left_out.contains(name) {
            true => unavailable(name),
            false => self.unknown_plan(name, asker),
        })
    }

    fn unknown_plan(&self, name: &str, asker: Asker<'_>) -> OfferError {
        let is_in = |version: &PlanVersion| asker.currency.is_none_or(|code| version.plan.currency.code() == code);
        let offered = self.plans.iter().filter(|(name, version)| is_in(version) && asker.may_ask_for(name));
        let offered = there_are(offered.map(|(name, _)| name));
        let for_tenant = asker.tenant.map_or_else(String::new, |(id, _)| format!(" for tenant `{id}`"));
        let in_currency = asker.currency.map_or_else(String::new, |code| format!("in `{code}` "));
        invalid("/plan", "unknown_plan", format!("there is no plan `{name}`{for_tenant}; {in_currency}{offered}"))
    }
}

impl Asker<'_> {
    fn may_ask_for(&self, plan: &str) -> bool {
        self.tenant.is_none_or(|(_, tenant)| tenant.may_ask_for(plan))
    }
}

fn unavailable(plan: &str) -> OfferError {
    OfferError::Unavailable(format!("plan `{plan}` cannot be priced under at the moment"))
}

fn invalid(pointer: &str, code: &str, detail: String) -> OfferError {
    OfferError::Invalid(vec![Violation::new(pointer, code, detail)])
}
