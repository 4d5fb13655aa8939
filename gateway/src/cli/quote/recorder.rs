//! What was seen of a quote's making: the rows that gave the list prices, what each policy was passed, what it cost.

use farebox_pricing::exact;
use farebox_pricing::policy::{Context, Evaluation, Fact, Halt, LineView, Scope, Stat, UsageView};
use farebox_pricing::price_book::PriceRow;
use farebox_pricing::request::QuoteRequest;
use serde::Serialize;

use crate::api::line_id;
use crate::catalog::PlanVersion;
use crate::quoting::Watch;

/// Watches one quote.
#[derive(Debug)]
pub(super) struct Recorder {
    /// Of one evaluation.
    fuel_limit: u64,
    made: Made,
}

/// The record, as `--explain --json` shows it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Made {
    pub(super) rows: Vec<Row>,
    pub(super) steps: Vec<Step>,
}

/// The row of the price book that won for a line.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) line: String,
    pub(super) gpu_model: String,
    pub(super) region: String,
    pub(super) market: &'static str,
    pub(super) min_gpus: u32,
    pub(super) unit_price: String,
    pub(super) effective_from: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Step {
    pub(super) step: String,
    pub(super) policy: String,
    pub(super) digest: String,
    /// `line`: evaluated on each line in turn; `quote`: once on all.
    pub(super) scope: &'static str,
    pub(super) reads: Vec<String>,
    pub(super) evaluations: Vec<Seen>,
}

/// One evaluation.
#[derive(Debug, Serialize)]
pub(super) struct Seen {
    /// The line; absent where it was all lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<String>,
    pub(super) saw: Vec<Saw>,
    pub(super) fuel: u64,
    pub(super) fuel_limit: u64,
    pub(super) memory_bytes: u64,
}

/// What a word of `reads` came to; `null` where there was nothing of it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Saw {
    pub(super) read: String,
    pub(super) value: Option<String>,
}

impl Recorder {
    pub(super) fn new(fuel_limit: u64) -> Self {
        Self { fuel_limit, made: Made::default() }
    }

    pub(super) fn made(&self) -> &Made {
        &self.made
    }
}

impl Watch for Recorder {
    fn offered(&mut self, request: &QuoteRequest, version: &PlanVersion, at: jiff::Timestamp) {
        let exponent = version.plan.currency.exponent();
        let rows = request.items.iter().zip(0..).filter_map(|(item, index)| {
            let row = version.row_for(item, at).ok()?;
            Some(Row::of(line_id(index), row, exponent))
        });
        self.made.rows = rows.collect();
        let steps = version.plan.steps.iter().zip(version.policies.iter()).map(|(step, policy)| Step {
            step: step.id.clone(),
            policy: step.policy.id(),
            digest: step.policy.digest.clone(),
            scope: if step.scope == Scope::Line { "line" } else { "quote" },
            reads: policy.reads().to_vec(),
            evaluations: Vec::new(),
        });
        self.made.steps = steps.collect();
    }

    fn evaluated(&mut self, step: usize, context: &Context<'_>, evaluation: Result<&Evaluation, &Halt>) {
        let Some(step) = self.made.steps.get_mut(step) else { return };
        // A step of scope `line` takes the lines in order, one evaluation each.
        let line = (step.scope == "line").then(|| line_id(step.evaluations.len()));
        step.evaluations.push(Seen {
            saw: step.reads.iter().flat_map(|read| seen(read, context)).collect(),
            line,
            fuel: evaluation.map_or(0, |made| made.fuel),
            fuel_limit: self.fuel_limit,
            memory_bytes: evaluation.map_or(0, |made| made.memory_bytes),
        });
    }
}

impl Row {
    fn of(line: String, row: &PriceRow, exponent: u8) -> Self {
        Self {
            line,
            gpu_model: row.gpu_model.clone(),
            region: row.region.clone(),
            market: row.market.as_str(),
            min_gpus: row.min_gpus,
            unit_price: exact::print_price(row.unit_price, exponent),
            effective_from: row.effective_from.to_string(),
        }
    }
}

/// What a word of `reads` came to in a context: at least one entry.
fn seen(read: &str, context: &Context<'_>) -> Vec<Saw> {
    let values = match read {
        "amounts" => context.lines.iter().filter_map(amounts).collect(),
        "segments" => context.lines.iter().map(|line| format!("{} segments", line.segments.len())).collect(),
        "portions" => context.lines.iter().map(|line| format!("{} portions", line.portions.len())).collect(),
        "time" => context
            .at
            .map(|at| format!("{} s since 1970, offset {} s", at.unix_s, at.utc_offset_s))
            .into_iter()
            .collect(),
        "usage.age" => context.usages.iter().filter_map(|usage| Some(format!("{} ms", usage.age_ms?))).collect(),
        _ if read.starts_with("usage/") => statistics(read, context),
        _ if read.starts_with("balance.") => balances(read, context),
        _ => return facts(read, context),
    };
    saw(read, values)
}

fn saw(read: &str, values: Vec<String>) -> Vec<Saw> {
    if values.is_empty() {
        return vec![Saw { read: read.to_owned(), value: None }];
    }
    values.into_iter().map(|value| Saw { read: read.to_owned(), value: Some(value) }).collect()
}

/// Facts by their own keys, where `workload.*` was read.
fn facts(read: &str, context: &Context<'_>) -> Vec<Saw> {
    let is_read = |key: &str| match read.strip_suffix('*') {
        Some(prefix) => key.starts_with(prefix),
        None => key == read,
    };
    let of_lines = context.lines.iter().flat_map(|line| line.facts.iter().copied());
    let all = context.tenant.iter().copied().chain(of_lines).chain(context.facts.iter().copied());
    let found = all.filter(|fact| is_read(&fact.key));
    let found: Vec<Saw> =
        found.map(|Fact { key, value }| Saw { read: key.clone(), value: Some(value.clone()) }).collect();
    if found.is_empty() { saw(read, Vec::new()) } else { found }
}

fn amounts(line: &LineView<'_>) -> Option<String> {
    let amounts = line.amounts?;
    Some(format!(
        "{} {} at {}, list {}, now {}",
        exact::print(amounts.quantity),
        amounts.unit,
        exact::print(amounts.unit_price),
        exact::print(amounts.list_amount),
        exact::print(amounts.amount)
    ))
}

fn statistics(read: &str, context: &Context<'_>) -> Vec<String> {
    let name = |stat: &Stat| {
        let window = farebox_pricing::usage::Window::ALL.into_iter().find(|window| window.seconds() == stat.window_s);
        format!("usage/{}/{}/{}", stat.metric, stat.statistic, window.map_or("?", |window| window.as_str()))
    };
    let shown = |usage: &UsageView<'_>, stat: &Stat| {
        let surcharge = if usage.surcharge_allowed { "" } else { ", no surcharge allowed" };
        let (value, coverage) = (exact::print(stat.value), exact::print(stat.coverage));
        format!("{value} (coverage {coverage}, quality {}{surcharge})", usage.quality)
    };
    let mut found = Vec::new();
    for usage in &context.usages {
        found.extend(usage.stats.iter().filter(|stat| name(stat) == read).map(|stat| shown(usage, stat)));
    }
    found
}

fn balances(read: &str, context: &Context<'_>) -> Vec<String> {
    let kind = read.strip_prefix("balance.").unwrap_or_default();
    let named = context.balances.iter().filter(|balance| kind == "*" || balance.kind == kind);
    named.map(|balance| format!("{}: {} {} left", balance.id, exact::print(balance.remaining), balance.unit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context<'a>(tenant: Vec<&'a Fact>) -> Context<'a> {
        Context {
            currency: "CNY",
            exponent: 2,
            at: None,
            tenant,
            lines: Vec::new(),
            usages: Vec::new(),
            balances: Vec::new(),
            facts: Vec::new(),
        }
    }

    #[test]
    fn a_word_that_came_to_nothing_is_shown_as_such() {
        let segment = Fact::new("tenant.segment", "startup");
        let context = context(vec![&segment]);
        let pairs = |read: &str| -> Vec<(String, Option<String>)> {
            seen(read, &context).into_iter().map(|saw| (saw.read, saw.value)).collect()
        };
        assert_eq!(pairs("tenant.*"), [("tenant.segment".to_owned(), Some("startup".to_owned()))]);
        for read in
            ["tenant.region", "workload.*", "amounts", "time", "usage.age", "usage/gpu_util/mean/7d", "balance.*"]
        {
            assert_eq!(pairs(read), [(read.to_owned(), None)]);
        }
    }
}
