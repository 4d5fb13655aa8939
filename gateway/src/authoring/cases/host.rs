//! Between a case file's words and the engine's own.

use farebox_pricing::policy as host;

use super::wire;

/// Owns what a [`host::Context`] borrows.
pub(crate) struct HostContext<'a> {
    given: &'a wire::Context,
    tenant: Vec<host::Fact>,
    facts: Vec<host::Fact>,
    balances: Vec<host::Balance>,
    lines: Vec<HostLine>,
    usages: Vec<Vec<host::Stat>>,
}

struct HostLine {
    facts: Vec<host::Fact>,
    segments: Vec<host::Segment>,
    portions: Vec<host::Portion>,
}

impl<'a> HostContext<'a> {
    pub(crate) fn of(given: &'a wire::Context) -> Self {
        let line = |line: &wire::Line| HostLine {
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

    pub(crate) fn view(&self) -> host::Context<'_> {
        let lines = self.given.lines.iter().zip(&self.lines).map(|(given, own)| host::LineView {
            key: given.key,
            facts: own.facts.iter().collect(),
            amounts: given.amounts.as_ref().map(|amounts| host::AmountsView {
                unit: &amounts.unit,
                quantity: amounts.quantity.0,
                unit_price: amounts.unit_price.0,
                list_amount: amounts.list_amount.0,
                amount: amounts.amount.0,
            }),
            segments: &own.segments,
            portions: &own.portions,
            usage: given.usage,
        });
        let usages = self.given.usages.iter().zip(&self.usages).map(|(given, stats)| host::UsageView {
            scope: &given.scope,
            age_ms: given.age_ms,
            quality: &given.quality,
            surcharge_allowed: given.surcharge_allowed,
            stats: stats.iter().collect(),
        });
        host::Context {
            currency: &self.given.currency,
            exponent: self.given.exponent,
            at: self.given.at.map(|at| host::Instant { unix_s: at.unix_s, utc_offset_s: at.utc_offset_s }),
            tenant: self.tenant.iter().collect(),
            lines: lines.collect(),
            usages: usages.collect(),
            balances: self.balances.iter().collect(),
            facts: self.facts.iter().collect(),
        }
    }
}

fn facts(facts: &[wire::Fact]) -> Vec<host::Fact> {
    facts.iter().map(|fact| host::Fact::new(&fact.key, &fact.value)).collect()
}

fn segment(segment: &wire::Segment) -> host::Segment {
    host::Segment { state: segment.state.clone(), quantity: segment.quantity.0 }
}

fn portion(portion: &wire::Portion) -> host::Portion {
    host::Portion {
        code: portion.code.clone(),
        label: portion.label.clone(),
        unit: portion.unit.clone(),
        quantity: portion.quantity.0,
        unit_price: portion.unit_price.0,
        draws: portion.draws.clone(),
    }
}

fn stat(stat: &wire::Stat) -> host::Stat {
    host::Stat {
        metric: stat.metric.clone(),
        statistic: stat.statistic.clone(),
        window_s: stat.window_s,
        value: stat.value.0,
        coverage: stat.coverage.0,
    }
}

fn balance(balance: &wire::Balance) -> host::Balance {
    let rate = |rate: &wire::Rate| host::Rate {
        scope: facts(&rate.scope),
        unit_price: rate.unit_price.0,
        overage_price: rate.overage_price.map(|price| price.0),
    };
    host::Balance {
        id: balance.id.clone(),
        kind: balance.kind.clone(),
        unit: balance.unit.clone(),
        scope: facts(&balance.scope),
        rates: balance.rates.iter().map(rate).collect(),
        remaining: balance.remaining.0,
        expires_unix_s: balance.expires_unix_s,
    }
}

// === Back ===

impl From<host::Outcome> for wire::Outcome {
    fn from(outcome: host::Outcome) -> Self {
        Self {
            adjustments: outcome.adjustments.into_iter().map(Into::into).collect(),
            added: outcome.added.into_iter().map(Into::into).collect(),
            facts: wire_facts(outcome.facts),
        }
    }
}

impl From<host::Adjustment> for wire::Adjustment {
    fn from(adjustment: host::Adjustment) -> Self {
        let host::Adjustment { line, kind, code, label, reason, method, facts } = adjustment;
        let method = match method {
            host::Method::Percent(rate) => wire::Method::Percent(wire::Exact(rate)),
            host::Method::Amount(amount) => wire::Method::Amount(wire::Exact(amount)),
            host::Method::Minimum(amount) => wire::Method::Minimum(wire::Exact(amount)),
            host::Method::Reprice(portions) => wire::Method::Reprice(portions.into_iter().map(Into::into).collect()),
            host::Method::Measure(host::Measurement { unit, quantity, unit_price }) => {
                let (quantity, unit_price) = (wire::Exact(quantity), wire::Exact(unit_price));
                wire::Method::Measure(wire::Measurement { unit, quantity, unit_price })
            }
            host::Method::Note(host::Advice { level, what_if }) => {
                wire::Method::Note(wire::Advice { level, what_if: wire_facts(what_if) })
            }
        };
        Self { line, kind, code, label, reason, method, facts: wire_facts(facts) }
    }
}

impl From<host::Portion> for wire::Portion {
    fn from(portion: host::Portion) -> Self {
        let host::Portion { code, label, unit, quantity, unit_price, draws } = portion;
        Self { code, label, unit, quantity: wire::Exact(quantity), unit_price: wire::Exact(unit_price), draws }
    }
}

impl From<host::AddedLine> for wire::AddedLine {
    fn from(line: host::AddedLine) -> Self {
        let host::AddedLine { parent, code, label, unit, quantity, unit_price, facts } = line;
        let (quantity, unit_price) = (wire::Exact(quantity), wire::Exact(unit_price));
        Self { parent, code, label, unit, quantity, unit_price, facts: wire_facts(facts) }
    }
}

impl From<host::Refusal> for wire::Refusal {
    fn from(refusal: host::Refusal) -> Self {
        let host::Refusal { code, detail, line, pointer } = refusal;
        Self { code, detail, line, pointer }
    }
}

fn wire_facts(facts: Vec<host::Fact>) -> Vec<wire::Fact> {
    facts.into_iter().map(|fact| wire::Fact { key: fact.key, value: fact.value }).collect()
}
