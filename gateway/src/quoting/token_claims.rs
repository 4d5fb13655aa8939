//! What a quote's token says: enough to price the same again where the quote's row is lost (SPEC §5).

use farebox_pricing::exact;
use farebox_pricing::offer::{LineUsage, PricedInput};
use farebox_pricing::policy::Balance;
use farebox_pricing::settle::{Settled, Totals};
use farebox_pricing::usage::{Observation, ObservedStat, StatQuality};
use serde_json::{Value, json};

use super::Issuer;
use crate::ledger::Issued;
use crate::token::Purpose;

/// A quote's token is for accepting it, and for nothing else.
const AUDIENCE: &str = "accept";

pub(super) struct Claimed<'a> {
    pub(super) issuer: &'a Issuer,
    pub(super) issued: &'a Issued,
    pub(super) request: &'a Value,
    pub(super) input: &'a PricedInput,
    pub(super) settled: &'a Settled,
}

pub(super) fn of(claimed: Claimed<'_>) -> Value {
    let Claimed { issuer, issued, request, input, settled } = claimed;
    let (offer, plan) = (input.offer(), input.plan());
    let exponent = settled.currency.exponent();
    let Totals { list, total, .. } = settled.totals;
    let claims = [
        ("tenant", json!(issued.tenant_id)),
        ("jti", json!(issued.id)),
        ("iat", json!(issued.created_at.as_second())),
        ("request", request.clone()),
        ("plan", json!(plan.digest)),
        ("engine", json!(issuer.engine)),
        ("price_book", json!(offer.price_book)),
        ("priced_at", json!(offer.priced_at.to_string())),
        ("usage", input.usages().iter().map(usage).collect()),
        ("usage_of_item", json!(input.usage_of_item())),
        ("balances", offer.balances.iter().map(balance).collect()),
        ("totals", json!({ "list": list.print(exponent), "total": total.print(exponent) })),
    ];
    let claims = claims.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Purpose { issuer: &issuer.name, audience: AUDIENCE }.claims_until(issued.expires_at, claims)
}

fn usage(usage: &LineUsage) -> Value {
    usage.observation.as_ref().map_or(Value::Null, observation)
}

fn observation(observation: &Observation) -> Value {
    json!({
        "scope": observation.scope.as_str(),
        "observed_at_ms": observation.observed_at_ms,
        "age_ms": observation.age_ms,
        "healthy": observation.healthy,
        "reasons": observation.reasons,
        "job_held_s": observation.job_held_s,
        "mig_without_metric": observation.mig_without_metric,
        "stats": observation.stats.iter().map(stat).collect::<Vec<_>>(),
    })
}

fn stat(observed: &ObservedStat) -> Value {
    let stat = &observed.stat;
    json!({
        "metric": stat.metric,
        "statistic": stat.statistic,
        "window_s": stat.window_s,
        "value": exact::print(stat.value),
        "coverage": exact::print(stat.coverage),
        "held_us": observed.held_us.to_string(),
        "suspect_zero": observed.quality == StatQuality::SuspectZero,
    })
}

fn balance(balance: &Balance) -> Value {
    json!({ "id": balance.id, "remaining": exact::print(balance.remaining) })
}
