//! The native twin: the same policies run as plain functions, without a sandbox.
//!
//! The second implementation of pricing's port. Tests hold the sandbox against it; the bench shows what the wall costs.

pub mod book;

use farebox_pricing::policy::{
    AddedLine, Adjustment, Advice, AmountsView, Balance, Context, Evaluation, Fact, Fault, Halt, LineView, Measurement,
    Method, Outcome, Portion, Rate, Refusal, RunPolicy, Segment, Stat, UsageView,
};
use farebox_sdk::Decimal;
use farebox_sdk::contract as sdk;
use farebox_sdk::native::Policy;

/// The policies that ship, natively.
pub const POLICIES: [&Policy; 9] = [
    &base_factors::POLICY,
    &cart_adjustment::POLICY,
    &framework_premium::POLICY,
    &feature_surcharge::POLICY,
    &image_channel::POLICY,
    &isolation::POLICY,
    &rate_table::POLICY,
    &session_plan::POLICY,
    &utilisation_adjustment::POLICY,
];

/// The native policy of a name.
pub fn native(name: &str) -> Option<&'static Policy> {
    POLICIES.into_iter().find(|policy| policy.describe().name == name)
}

/// A plan's policies with their configurations, by step index.
#[derive(Debug)]
pub struct NativeTwin {
    pub steps: Vec<(&'static Policy, Vec<u8>)>,
}

impl RunPolicy for NativeTwin {
    fn evaluate(&mut self, step: usize, context: &Context<'_>) -> Result<Evaluation, Halt> {
        let Some((policy, configuration)) = self.steps.get(step) else {
            return Err(Halt::Faulted(Fault::violation("the plan has no such step")));
        };
        match policy.evaluate(configuration, to_guest(context)) {
            Ok(outcome) => {
                let outcome = from_guest(outcome).map_err(Halt::Faulted)?;
                Ok(Evaluation { outcome, fuel: 0, memory_bytes: 0, nanoseconds: 0, reused: false })
            }
            Err(sdk::Refusal { code, detail, line, pointer }) => {
                Err(Halt::Refused(Refusal { code, detail, line, pointer }))
            }
        }
    }
}

// === From the host's types to the guest's ===

/// What the sandbox passes, as the guest's own types.
pub fn to_guest(context: &Context<'_>) -> sdk::Context {
    sdk::Context {
        currency: context.currency.to_owned(),
        exponent: context.exponent,
        at: context.at.map(|at| sdk::Instant { unix_s: at.unix_s, utc_offset_s: at.utc_offset_s }),
        tenant: facts(&context.tenant),
        lines: context.lines.iter().map(line).collect(),
        usages: context.usages.iter().map(usage).collect(),
        balances: context.balances.iter().map(|of| balance(of)).collect(),
        facts: facts(&context.facts),
    }
}

fn facts(facts: &[&Fact]) -> Vec<sdk::Fact> {
    facts.iter().map(|of| fact(of)).collect()
}

fn fact(fact: &Fact) -> sdk::Fact {
    sdk::Fact::new(&fact.key, &fact.value)
}

fn line(line: &LineView<'_>) -> sdk::Line {
    sdk::Line {
        key: line.key,
        facts: facts(&line.facts),
        amounts: line.amounts.map(amounts),
        segments: line.segments.iter().map(segment).collect(),
        portions: line.portions.iter().map(portion).collect(),
        usage: line.usage,
    }
}

fn amounts(amounts: AmountsView<'_>) -> sdk::Amounts {
    sdk::Amounts {
        unit: amounts.unit.to_owned(),
        quantity: amounts.quantity.into(),
        unit_price: amounts.unit_price.into(),
        list_amount: amounts.list_amount.into(),
        amount: amounts.amount.into(),
    }
}

fn segment(segment: &Segment) -> sdk::Segment {
    sdk::Segment { state: segment.state.clone(), quantity: segment.quantity.into() }
}

fn portion(portion: &Portion) -> sdk::Portion {
    sdk::Portion {
        code: portion.code.clone(),
        label: portion.label.clone(),
        unit: portion.unit.clone(),
        quantity: portion.quantity.into(),
        unit_price: portion.unit_price.into(),
        draws: portion.draws.clone(),
    }
}

fn usage(usage: &UsageView<'_>) -> sdk::Usage {
    let stat = |stat: &&Stat| sdk::Stat {
        metric: stat.metric.clone(),
        statistic: stat.statistic.clone(),
        window_s: stat.window_s,
        value: stat.value.into(),
        coverage: stat.coverage.into(),
    };
    sdk::Usage {
        scope: usage.scope.to_owned(),
        age_ms: usage.age_ms,
        quality: usage.quality.to_owned(),
        surcharge_allowed: usage.surcharge_allowed,
        stats: usage.stats.iter().map(stat).collect(),
    }
}

fn balance(balance: &Balance) -> sdk::Balance {
    let rate = |rate: &Rate| sdk::Rate {
        scope: rate.scope.iter().map(fact).collect(),
        unit_price: rate.unit_price.into(),
        overage_price: rate.overage_price.map(Into::into),
    };
    sdk::Balance {
        id: balance.id.clone(),
        kind: balance.kind.clone(),
        unit: balance.unit.clone(),
        scope: balance.scope.iter().map(fact).collect(),
        rates: balance.rates.iter().map(rate).collect(),
        remaining: balance.remaining.into(),
        expires_unix_s: balance.expires_unix_s,
    }
}

// === From the guest's types to the host's ===

fn from_guest(outcome: sdk::Outcome) -> Result<Outcome, Fault> {
    Ok(Outcome {
        adjustments: outcome.adjustments.into_iter().map(adjustment).collect::<Result<_, _>>()?,
        added: outcome.added.into_iter().map(added_line).collect::<Result<_, _>>()?,
        facts: host_facts(outcome.facts),
    })
}

fn adjustment(adjustment: sdk::Adjustment) -> Result<Adjustment, Fault> {
    let sdk::Adjustment { line, kind, code, label, reason, method, facts } = adjustment;
    let method = match method {
        sdk::Method::Percent(rate) => Method::Percent(exact(rate)?),
        sdk::Method::Amount(amount) => Method::Amount(exact(amount)?),
        sdk::Method::Reprice(portions) => {
            Method::Reprice(portions.into_iter().map(host_portion).collect::<Result<_, _>>()?)
        }
        sdk::Method::Measure(measured) => Method::Measure(Measurement {
            unit: measured.unit,
            quantity: exact(measured.quantity)?,
            unit_price: exact(measured.unit_price)?,
        }),
        sdk::Method::Minimum(minimum) => Method::Minimum(exact(minimum)?),
        sdk::Method::Note(advice) => Method::Note(Advice { level: advice.level, what_if: host_facts(advice.what_if) }),
    };
    Ok(Adjustment { line, kind, code, label, reason, method, facts: host_facts(facts) })
}

fn host_portion(portion: sdk::Portion) -> Result<Portion, Fault> {
    let sdk::Portion { code, label, unit, quantity, unit_price, draws } = portion;
    Ok(Portion { code, label, unit, quantity: exact(quantity)?, unit_price: exact(unit_price)?, draws })
}

fn added_line(line: sdk::AddedLine) -> Result<AddedLine, Fault> {
    let sdk::AddedLine { parent, code, label, unit, quantity, unit_price, facts } = line;
    let (quantity, unit_price) = (exact(quantity)?, exact(unit_price)?);
    Ok(AddedLine { parent, code, label, unit, quantity, unit_price, facts: host_facts(facts) })
}

fn host_facts(facts: Vec<sdk::Fact>) -> Vec<Fact> {
    facts.into_iter().map(|fact| Fact { key: fact.key, value: fact.value }).collect()
}

fn exact(decimal: sdk::Decimal) -> Result<Decimal, Fault> {
    decimal.exact().ok_or_else(|| Fault::violation("a decimal of more than 28 places"))
}
