//! What a policy sees, from the domain's words into the contract's.
//!
//! Strings stay where they are; only lists of records get a new skeleton, which lives as long as the call.

use farebox_pricing::policy as domain;
use rust_decimal::Decimal;

use crate::bindings as wire;

/// Hands `context` to `call` in the contract's types.
pub(crate) fn with<Answer>(context: &domain::Context<'_>, call: impl FnOnce(wire::Context<'_>) -> Answer) -> Answer {
    let line_parts: Vec<LineParts<'_>> = context.lines.iter().map(LineParts::of).collect();
    let lines: Vec<wire::Line<'_>> =
        context.lines.iter().zip(&line_parts).map(|(line, parts)| parts.line(line)).collect();
    let stats: Vec<Vec<wire::Stat<'_>>> =
        context.usages.iter().map(|usage| usage.stats.iter().map(|given| stat(given)).collect()).collect();
    let usages: Vec<wire::Usage<'_>> =
        context.usages.iter().zip(&stats).map(|(given, stats)| usage(given, stats)).collect();
    let rate_scopes: Vec<Vec<Vec<wire::FactParam<'_>>>> =
        context.balances.iter().map(|given| given.rates.iter().map(|rate| facts(&rate.scope)).collect()).collect();
    let balance_parts: Vec<BalanceParts<'_>> =
        context.balances.iter().zip(&rate_scopes).map(|(given, scopes)| BalanceParts::of(given, scopes)).collect();
    let balances: Vec<wire::Balance<'_>> =
        context.balances.iter().zip(&balance_parts).map(|(given, parts)| parts.balance(given)).collect();
    let tenant = facts(context.tenant.iter().copied());
    let of_steps = facts(context.facts.iter().copied());
    call(wire::Context {
        currency: context.currency,
        exponent: context.exponent,
        at: context.at.map(|at| wire::Instant { unix_s: at.unix_s, utc_offset_s: at.utc_offset_s }),
        tenant: &tenant,
        lines: &lines,
        usages: &usages,
        balances: &balances,
        facts: &of_steps,
    })
}

struct LineParts<'a> {
    facts: Vec<wire::FactParam<'a>>,
    segments: Vec<wire::Segment<'a>>,
    portions: Vec<wire::PortionParam<'a>>,
}

impl<'a> LineParts<'a> {
    fn of(line: &'a domain::LineView<'_>) -> Self {
        Self {
            facts: facts(line.facts.iter().copied()),
            segments: line.segments.iter().map(segment).collect(),
            portions: line.portions.iter().map(portion).collect(),
        }
    }

    fn line(&'a self, line: &'a domain::LineView<'_>) -> wire::Line<'a> {
        wire::Line {
            key: line.key,
            facts: &self.facts,
            amounts: line.amounts.as_ref().map(amounts),
            segments: &self.segments,
            portions: &self.portions,
            usage: line.usage,
        }
    }
}

struct BalanceParts<'a> {
    scope: Vec<wire::FactParam<'a>>,
    rates: Vec<wire::Rate<'a>>,
}

impl<'a> BalanceParts<'a> {
    fn of(balance: &'a domain::Balance, rate_scopes: &'a [Vec<wire::FactParam<'a>>]) -> Self {
        let rate = |(given, scope): (&domain::Rate, &'a Vec<wire::FactParam<'a>>)| wire::Rate {
            scope,
            unit_price: decimal(given.unit_price),
            overage_price: given.overage_price.map(decimal),
        };
        Self { scope: facts(&balance.scope), rates: balance.rates.iter().zip(rate_scopes).map(rate).collect() }
    }

    fn balance(&'a self, balance: &'a domain::Balance) -> wire::Balance<'a> {
        wire::Balance {
            id: &balance.id,
            kind: &balance.kind,
            unit: &balance.unit,
            scope: &self.scope,
            rates: &self.rates,
            remaining: decimal(balance.remaining),
            expires_unix_s: balance.expires_unix_s,
        }
    }
}

fn facts<'a>(facts: impl IntoIterator<Item = &'a domain::Fact>) -> Vec<wire::FactParam<'a>> {
    facts.into_iter().map(|fact| wire::FactParam { key: &fact.key, value: &fact.value }).collect()
}

fn amounts<'a>(amounts: &'a domain::AmountsView<'_>) -> wire::Amounts<'a> {
    wire::Amounts {
        unit: amounts.unit,
        quantity: decimal(amounts.quantity),
        unit_price: decimal(amounts.unit_price),
        list_amount: decimal(amounts.list_amount),
        amount: decimal(amounts.amount),
    }
}

fn segment(segment: &domain::Segment) -> wire::Segment<'_> {
    wire::Segment { state: &segment.state, quantity: decimal(segment.quantity) }
}

fn portion(portion: &domain::Portion) -> wire::PortionParam<'_> {
    wire::PortionParam {
        code: &portion.code,
        label: &portion.label,
        unit: &portion.unit,
        quantity: decimal(portion.quantity),
        unit_price: decimal(portion.unit_price),
        draws: portion.draws.as_deref(),
    }
}

fn usage<'a>(usage: &'a domain::UsageView<'_>, stats: &'a [wire::Stat<'a>]) -> wire::Usage<'a> {
    wire::Usage {
        scope: usage.scope,
        age_ms: usage.age_ms,
        quality: usage.quality,
        surcharge_allowed: usage.surcharge_allowed,
        stats,
    }
}

fn stat(stat: &domain::Stat) -> wire::Stat<'_> {
    wire::Stat {
        metric: &stat.metric,
        statistic: &stat.statistic,
        window_s: stat.window_s,
        value: decimal(stat.value),
        coverage: decimal(stat.coverage),
    }
}

/// Zero goes in without a sign, as it must come out.
fn decimal(value: Decimal) -> wire::Decimal {
    let parts = value.unpack();
    wire::Decimal {
        lo: parts.lo,
        mid: parts.mid,
        hi: parts.hi,
        scale: u8::try_from(parts.scale).unwrap_or(u8::MAX),
        negative: parts.negative && !value.is_zero(),
    }
}
