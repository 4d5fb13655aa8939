//! The quote on the wire: from the domain to JSON, by hand, checked once more.

use farebox_pricing::amount::Amount;
use farebox_pricing::exact;
use farebox_pricing::pipeline::{AdjustmentScope, AppliedAdjustment, Line, LineUnit, MethodUsed};
use farebox_pricing::plan::Plan;
use farebox_pricing::policy::Portion;
use farebox_pricing::settle::SumsDiffer;
use rust_decimal::Decimal;
use serde::Serialize;
use utoipa::ToSchema;

use super::effective_utilisation::ExpectedUtilisation;
use super::usage_view::{SnapshotView, snapshot_of};
use crate::ledger::{Message, Quote};

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Quote)]
pub(crate) struct QuoteView<'a> {
    #[schema(example = "q_01kbbq3f6xk2e4s8vw2x7c9t5m")]
    id: &'a str,
    /// `open` or `expired`.
    // `preview` without a token: no server answers that, and the published document does not say it.
    status: &'static str,
    tenant_id: &'a str,
    currency: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_reference: Option<&'a str>,
    /// RFC 3339 UTC.
    created_at: String,
    expires_at: String,
    /// False where a charge uses the charged period's own utilisation.
    price_locked: bool,
    lines: Vec<LineView<'a>>,
    totals: TotalsView,
    /// The expected effective utilisation of the GPUs; `null` where nothing is known of them. It moves no price.
    effective_utilisation: Option<ExpectedUtilisation>,
    inputs: InputsView<'a>,
    plan: PlanView<'a>,
    decision_id: &'a str,
    messages: Vec<MessageView<'a>>,
    /// Compact JWS; lets any replica honour the quote.
    // Absent, like the links, on a preview.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = true)]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = LinksView, required = true)]
    links: Option<LinksView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QuoteLine)]
pub(crate) struct LineView<'a> {
    #[schema(example = "l1")]
    id: String,
    /// The item's `ref`; absent on a line that a policy added.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    /// The line that an added line belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    description: &'a str,
    quantity: QuantityView<'a>,
    /// Per GPU-hour for GPU time, else per unit; never rounded to the currency.
    #[schema(example = "12.00")]
    list_unit_price: String,
    #[schema(example = "6912.00")]
    list_amount: String,
    /// `list_amount` + Σ adjustments, exactly.
    #[schema(example = "9300.10")]
    amount: String,
    adjustments: Vec<AdjustmentView<'a>>,
    /// Where lines have different snapshots: this line's.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<SnapshotView<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Quantity)]
pub(crate) struct QuantityView<'a> {
    #[schema(example = "576")]
    value: String,
    /// `gpu_hour` where that is exact, else `gpu_second`; or the unit of a task or an added line.
    #[schema(example = "gpu_hour")]
    unit: &'a str,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Adjustment)]
pub(crate) struct AdjustmentView<'a> {
    /// The plan's step; `guards` and `rounding` for the engine's own.
    step: &'a str,
    /// `line`, or `quote` for the line's share of a whole-cart amount.
    scope: &'static str,
    kind: &'a str,
    code: &'a str,
    label: &'a str,
    /// `percent`, `amount`, `reprice`, `measure` or `minimum`.
    method: &'static str,
    /// For `percent`: of the amount that entered the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    amount: String,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    portions: Option<Vec<PortionView<'a>>>,
    /// What the policy says beside its reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    facts: Vec<FactView<'a>>,
    /// `name@version`; absent on the engine's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    /// SHA-256 of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a str>,
    /// Fuel of the step, over all its evaluations; the same for the same inputs on any machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    fuel: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fact)]
pub(crate) struct FactView<'a> {
    key: &'a str,
    value: &'a str,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Portion)]
pub(crate) struct PortionView<'a> {
    code: &'a str,
    label: &'a str,
    unit: &'a str,
    quantity: String,
    unit_price: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    draws: Option<&'a str>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Totals)]
pub(crate) struct TotalsView {
    list: String,
    adjustments: String,
    subtotal: String,
    /// Always zero; reserved.
    tax: String,
    total: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QuoteInputs)]
pub(crate) struct InputsView<'a> {
    #[schema(example = "cn-2026@1")]
    price_book: &'a str,
    /// What was observed of the GPUs; `null` if nothing was. Where lines differ, each line has its own `usage`.
    snapshot: Option<SnapshotView<'a>>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QuotePlan)]
pub(crate) struct PlanView<'a> {
    /// Opaque; the same for the same plan version.
    #[schema(example = "pl_5d1f0a9c3b7e2f46")]
    id: String,
    name: &'a str,
    version: u32,
    digest: &'a str,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Message)]
pub(crate) struct MessageView<'a> {
    /// `info`, `advice` or `warning`.
    level: &'a str,
    code: &'a str,
    text: &'a str,
    /// The line it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    /// How much less the total would be, priced as the quote was, with what is advised.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "808.71")]
    saves: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = QuoteLinks)]
pub(crate) struct LinksView {
    #[serde(rename = "self")]
    itself: String,
    accept: String,
}

impl<'a> QuoteView<'a> {
    /// Refuses a quote whose rows do not sum: it must not leave the house.
    pub(crate) fn of(quote: &'a Quote, now: jiff::Timestamp) -> Result<Self, SumsDiffer> {
        quote.settled.check()?;
        let Quote { issued, input, settled, .. } = quote;
        let plan = input.plan();
        let exponent = settled.currency.exponent();
        let print = |amount: Amount| amount.print(exponent);
        Ok(Self {
            id: &issued.id,
            status: match &quote.token {
                None => "preview",
                Some(_) if quote.is_expired(now) => "expired",
                Some(_) => "open",
            },
            tenant_id: &issued.tenant_id,
            currency: settled.currency.code(),
            client_reference: quote.client_reference.as_deref(),
            created_at: issued.created_at.to_string(),
            expires_at: issued.expires_at.to_string(),
            price_locked: plan.price_is_locked(),
            lines: lines_of(quote),
            totals: TotalsView {
                list: print(settled.totals.list),
                adjustments: print(settled.totals.adjustments),
                subtotal: print(settled.totals.total),
                tax: print(Amount::ZERO),
                total: print(settled.totals.total),
            },
            effective_utilisation: quote.effective_utilisation.as_ref().map(ExpectedUtilisation::of),
            inputs: InputsView {
                price_book: &input.offer().price_book,
                snapshot: match input.usages() {
                    [only] => snapshot_of(only, plan),
                    _ => None,
                },
            },
            plan: PlanView { id: plan_id(plan), name: &plan.name, version: plan.version, digest: &plan.digest },
            decision_id: &issued.decision_id,
            messages: quote.messages.iter().map(|message| MessageView::of(message, exponent)).collect(),
            token: quote.token.as_deref(),
            links: quote.token.is_some().then(|| LinksView {
                itself: format!("/v1/quotes/{}", issued.id),
                accept: format!("/v1/quotes/{}/accept", issued.id),
            }),
        })
    }
}

impl<'a> MessageView<'a> {
    fn of(message: &'a Message, exponent: u8) -> Self {
        let (line, saves) = (message.line.map(line_id), message.saves.map(|saves| saves.print(exponent)));
        Self { level: &message.level, code: &message.code, text: &message.text, line, saves }
    }
}

fn lines_of(quote: &Quote) -> Vec<LineView<'_>> {
    let own_usage = quote.input.usages().len() > 1;
    let lines = quote.settled.lines.iter().enumerate();
    lines.map(|(index, line)| line_view(quote, index, line, own_usage)).collect()
}

fn line_view<'a>(quote: &'a Quote, index: usize, line: &'a Line, own_usage: bool) -> LineView<'a> {
    let exponent = quote.settled.currency.exponent();
    let usage = quote.input.usage(index).filter(|_| own_usage);
    LineView {
        id: line_id(index),
        reference: line.reference.as_deref(),
        parent: line.parent.map(line_id),
        description: &line.description,
        quantity: quantity(&line.unit, line.quantity),
        list_unit_price: exact::print_price(line.list_unit_price, exponent),
        list_amount: line.list_amount.print(exponent),
        amount: line.amount.print(exponent),
        adjustments: line.adjustments.iter().map(|adjustment| adjustment_view(quote, adjustment)).collect(),
        usage: usage.and_then(|usage| snapshot_of(usage, quote.input.plan())),
    }
}

fn adjustment_view<'a>(quote: &'a Quote, adjustment: &'a AppliedAdjustment) -> AdjustmentView<'a> {
    let exponent = quote.settled.currency.exponent();
    let step = adjustment.step_index.and_then(|index| quote.input.plan().steps.get(index));
    let cost = adjustment.step_index.and_then(|index| quote.settled.costs.get(index));
    let portion = |portion: &'a Portion| PortionView {
        code: &portion.code,
        label: &portion.label,
        unit: &portion.unit,
        quantity: exact::print(portion.quantity),
        unit_price: exact::print_price(portion.unit_price, exponent),
        draws: portion.draws.as_deref(),
    };
    let (method, rate, portions) = match &adjustment.method {
        MethodUsed::Percent(rate) => ("percent", Some(exact::print(*rate)), None),
        MethodUsed::Amount => ("amount", None, None),
        MethodUsed::Reprice(portions) => ("reprice", None, Some(portions.iter().map(portion).collect())),
        MethodUsed::Measure => ("measure", None, None),
        MethodUsed::Minimum => ("minimum", None, None),
    };
    AdjustmentView {
        step: &adjustment.step,
        scope: match adjustment.scope {
            AdjustmentScope::Line => "line",
            AdjustmentScope::Quote => "quote",
        },
        kind: &adjustment.kind,
        code: &adjustment.code,
        label: &adjustment.label,
        method,
        rate,
        amount: adjustment.amount.print(exponent),
        reason: &adjustment.reason,
        portions,
        facts: adjustment.facts.iter().map(|fact| FactView { key: &fact.key, value: &fact.value }).collect(),
        policy: step.map(|step| step.policy.id()),
        digest: step.map(|step| step.policy.digest.as_str()),
        fuel: cost.map(|cost| cost.fuel),
    }
}

/// `l1` for the first.
pub(crate) fn line_id(index: usize) -> String {
    format!("l{}", index.saturating_add(1))
}

/// GPU time in hours where that is exact. 3,600 = 2⁴·3²·5², so hours have finitely many decimals where 9 divides the
/// seconds.
fn quantity(unit: &LineUnit, quantity: Decimal) -> QuantityView<'_> {
    let hours = (*unit == LineUnit::GpuSecond && (quantity % Decimal::from(9)).is_zero())
        .then(|| quantity.checked_div(Decimal::from(3600)))
        .flatten();
    match hours {
        Some(hours) => QuantityView { value: exact::print(hours), unit: "gpu_hour" },
        None => QuantityView { value: exact::print(quantity), unit: unit.as_str() },
    }
}

/// Says nothing of name or version, and is the same wherever the same plan version is served.
fn plan_id(plan: &Plan) -> String {
    format!("pl_{}", plan.digest.get(..16).unwrap_or(&plan.digest))
}
