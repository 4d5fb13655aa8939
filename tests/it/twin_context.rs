//! A context of a golden case, from the guest's types to the host's.

use farebox_pricing::policy::{
    AmountsView, Balance, Context, Fact, Instant, LineView, Portion, Rate, Segment, Stat, UsageView,
};
use farebox_sdk::Decimal;
use farebox_sdk::contract as sdk;

/// Owns what a [`Context`] borrows.
pub struct HostContext<'a> {
    given: &'a sdk::Context,
    tenant: Vec<Fact>,
    facts: Vec<Fact>,
    balances: Vec<Balance>,
    lines: Vec<HostLine>,
    usages: Vec<Vec<Stat>>,
}

struct HostLine {
    facts: Vec<Fact>,
    segments: Vec<Segment>,
    portions: Vec<Portion>,
}

impl<'a> HostContext<'a> {
    pub fn of(given: &'a sdk::Context) -> Self {
        let line = |line: &sdk::Line| HostLine {
            facts: facts(&line.facts),
            segments: line.segments.iter().map(segment).collect(),
            portions: line.portions.iter().map(portion).collect(),
        };
        Self {
            given,
            tenant: facts(&given.tenant),
            facts: facts(&given.facts),
            balances: given.balances.iter().map(balance).collect(),
            lines: given.lines.iter().map(line).collect(),
            usages: given.usages.iter().map(|usage| usage.stats.iter().map(stat).collect()).collect(),
        }
    }

    pub fn view(&self) -> Context<'_> {
        let lines = self.given.lines.iter().zip(&self.lines).map(|(given, host)| LineView {
            key: given.key,
            facts: host.facts.iter().collect(),
            amounts: given.amounts.as_ref().map(|amounts| AmountsView {
                unit: &amounts.unit,
                quantity: exact(amounts.quantity),
                unit_price: exact(amounts.unit_price),
                list_amount: exact(amounts.list_amount),
                amount: exact(amounts.amount),
            }),
            segments: &host.segments,
            portions: &host.portions,
            usage: given.usage,
        });
        let usages = self.given.usages.iter().zip(&self.usages).map(|(given, stats)| UsageView {
            scope: &given.scope,
            age_ms: given.age_ms,
            quality: &given.quality,
            surcharge_allowed: given.surcharge_allowed,
            stats: stats.iter().collect(),
        });
        Context {
            currency: &self.given.currency,
            exponent: self.given.exponent,
            at: self.given.at.map(|at| Instant { unix_s: at.unix_s, utc_offset_s: at.utc_offset_s }),
            tenant: self.tenant.iter().collect(),
            lines: lines.collect(),
            usages: usages.collect(),
            balances: self.balances.iter().collect(),
            facts: self.facts.iter().collect(),
        }
    }
}

fn facts(facts: &[sdk::Fact]) -> Vec<Fact> {
    facts.iter().map(|fact| Fact::new(&fact.key, &fact.value)).collect()
}

fn segment(segment: &sdk::Segment) -> Segment {
    Segment { state: segment.state.clone(), quantity: exact(segment.quantity) }
}

fn portion(portion: &sdk::Portion) -> Portion {
    Portion {
        code: portion.code.clone(),
        label: portion.label.clone(),
        unit: portion.unit.clone(),
        quantity: exact(portion.quantity),
        unit_price: exact(portion.unit_price),
        draws: portion.draws.clone(),
    }
}

fn stat(stat: &sdk::Stat) -> Stat {
    Stat {
        metric: stat.metric.clone(),
        statistic: stat.statistic.clone(),
        window_s: stat.window_s,
        value: exact(stat.value),
        coverage: exact(stat.coverage),
    }
}

fn balance(balance: &sdk::Balance) -> Balance {
    let rate = |rate: &sdk::Rate| Rate {
        scope: facts(&rate.scope),
        unit_price: exact(rate.unit_price),
        overage_price: rate.overage_price.map(exact),
    };
    Balance {
        id: balance.id.clone(),
        kind: balance.kind.clone(),
        unit: balance.unit.clone(),
        scope: facts(&balance.scope),
        rates: balance.rates.iter().map(rate).collect(),
        remaining: exact(balance.remaining),
        expires_unix_s: balance.expires_unix_s,
    }
}

fn exact(decimal: sdk::Decimal) -> Decimal {
    decimal.exact().unwrap()
}
