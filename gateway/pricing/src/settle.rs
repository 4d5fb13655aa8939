//! Settling: guards, the one rounding of each line, and the sums that must hold exactly.

use crate::amount::{Amount, AmountTooLarge};
use crate::currency::Currency;
use crate::guard::{Where, guard};
use crate::pipeline::{
    AdjustmentScope, AppliedAdjustment, Line, MethodUsed, Note, PricedLines, PricingError, SkippedStep, StepCost,
};

/// Final lines whose rows sum to their amounts and whose amounts sum to the total. Only [`price`](crate::price::price)
/// makes them.
#[derive(Clone, Debug)]
pub struct Settled {
    pub currency: Currency,
    pub lines: Vec<Line>,
    pub totals: Totals,
    pub notes: Vec<Note>,
    /// Steps that were left out, in plan order.
    pub skipped: Vec<SkippedStep>,
    pub costs: Vec<StepCost>,
}

/// `list + adjustments = total`. There is no tax yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    pub list: Amount,
    pub adjustments: Amount,
    pub total: Amount,
}

/// A defect of this engine. Nothing that does not sum ever leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rows of the quote do not sum to its total")]
pub struct SumsDiffer;

/// Applies the guards of the plan that priced the lines, and rounds each line once, to its currency's minor units.
pub(crate) fn settle(priced: PricedLines) -> Result<Settled, PricingError> {
    let PricedLines { plan, mut lines, notes, skipped, costs } = priced;
    for line in &mut lines {
        for bound in guard(line, line.amount, &plan.guards, Where::END)? {
            line.amount = line.amount.plus(bound.amount)?;
            line.adjustments.push(bound);
        }
        let rounded = line.amount.rounded(plan.currency.exponent(), plan.rounding)?;
        if rounded != line.amount {
            line.adjustments.push(rounding(rounded.minus(line.amount)?));
            line.amount = rounded;
        }
    }
    let totals = Totals::of(&lines)?;
    let settled = Settled { currency: plan.currency, lines, totals, notes, skipped, costs };
    settled.check()?;
    Ok(settled)
}

impl Settled {
    /// `list_amount + Σ adjustments = amount` for each line and `Σ amounts = total`, exactly. Checked where a quote is
    /// built and again where it is rendered.
    pub fn check(&self) -> Result<(), SumsDiffer> {
        // A sum that is too large to be taken is not the one that was priced.
        if self.sums_hold().unwrap_or(false) { Ok(()) } else { Err(SumsDiffer) }
    }

    fn sums_hold(&self) -> Result<bool, AmountTooLarge> {
        for line in &self.lines {
            let rows = Amount::sum(line.adjustments.iter().map(|adjustment| adjustment.amount))?;
            if line.list_amount.plus(rows)? != line.amount || line.amount.is_negative() {
                return Ok(false);
            }
        }
        let Totals { list, adjustments, total } = self.totals;
        Ok(Totals::of(&self.lines)? == self.totals && list.plus(adjustments)? == total)
    }
}

impl Totals {
    fn of(lines: &[Line]) -> Result<Self, AmountTooLarge> {
        let list = Amount::sum(lines.iter().map(|line| line.list_amount))?;
        let adjustments =
            Amount::sum(lines.iter().flat_map(|line| &line.adjustments).map(|adjustment| adjustment.amount))?;
        let total = Amount::sum(lines.iter().map(|line| line.amount))?;
        Ok(Self { list, adjustments, total })
    }
}

fn rounding(amount: Amount) -> AppliedAdjustment {
    AppliedAdjustment {
        step: "rounding".to_owned(),
        step_index: None,
        scope: AdjustmentScope::Line,
        kind: "rounding".to_owned(),
        code: "currency_exponent".to_owned(),
        label: "Rounding".to_owned(),
        reason: "to whole minor units of the currency".to_owned(),
        method: MethodUsed::Amount,
        amount,
        facts: Vec::new(),
    }
}
