//! Guards: the bounds of a GPU line, measured against its list amount (SPEC §4.4).

use rust_decimal::Decimal;

use crate::amount::{Amount, AmountTooLarge};
use crate::exact;
use crate::pipeline::{AdjustmentScope, AppliedAdjustment, Line, LineUnit, MethodUsed};
use crate::plan::Guards;

/// The engine's own step, after the last one of the plan.
const GUARDS_STEP: &str = "guards";

/// Which step says that a bound was reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Where<'a> {
    pub step: &'a str,
    pub step_index: Option<usize>,
    pub scope: AdjustmentScope,
}

impl Where<'_> {
    pub(crate) const END: Where<'static> = Where { step: GUARDS_STEP, step_index: None, scope: AdjustmentScope::Line };
}

/// A bound of a line.
#[derive(Clone, Copy, Debug)]
struct Bound {
    rule: Rule,
    amount: Amount,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    MaxSurcharge(Decimal),
    MaxDiscount(Decimal),
    NotNegative,
    FloorUnitPrice(Decimal),
}

/// What brings `amount`, the line as it stands, back within the guards: cap first, then floor, so that the floor wins.
pub(crate) fn guard(
    line: &Line,
    amount: Amount,
    guards: &Guards,
    place: Where<'_>,
) -> Result<Vec<AppliedAdjustment>, AmountTooLarge> {
    correct(amount, bounds(line, guards)?, place, |bound| bound)
}

/// What a line does not take of its share of a whole-cart amount: the part that goes beyond the guards. `before` is the
/// line without the share. What the line was beyond them before stays for later steps and the end.
pub(crate) fn guard_share(
    line: &Line,
    (before, share): (Amount, Amount),
    guards: &Guards,
    place: Where<'_>,
) -> Result<Vec<AppliedAdjustment>, AmountTooLarge> {
    let after = before.plus(share)?;
    let bounds = bounds(line, guards)?;
    correct(after, bounds, place, |bound| bound.clamp(before.min(after), before.max(after)))
}

/// Goes from bound to bound as far as `reachable` lets it, and says so where that changes the amount.
fn correct(
    mut amount: Amount,
    bounds: [Option<Bound>; 3],
    place: Where<'_>,
    reachable: impl Fn(Amount) -> Amount,
) -> Result<Vec<AppliedAdjustment>, AmountTooLarge> {
    let mut made = Vec::new();
    for bound in bounds.into_iter().flatten() {
        let is_beyond = match bound.rule {
            Rule::MaxSurcharge(_) => amount > bound.amount,
            Rule::MaxDiscount(_) | Rule::NotNegative | Rule::FloorUnitPrice(_) => amount < bound.amount,
        };
        let target = if is_beyond { reachable(bound.amount) } else { amount };
        if target != amount {
            made.push(adjustment(place, bound.rule, target.minus(amount)?));
            amount = target;
        }
    }
    Ok(made)
}

/// The bounds of a line, in the order in which they are applied. Guards hold for GPU time that has a price of its own:
/// its free portions (see `Portions::free`) are left out of what they are measured against. Other lines are only kept
/// from falling below 0.
fn bounds(line: &Line, guards: &Guards) -> Result<[Option<Bound>; 3], AmountTooLarge> {
    let not_negative = Bound { rule: Rule::NotNegative, amount: Amount::ZERO };
    if line.unit != LineUnit::GpuSecond {
        return Ok([None, Some(not_negative), None]);
    }
    let seconds = guarded_seconds(line);
    let divisor = line.unit.price_divisor();
    let list = Amount::product(line.list_unit_price, seconds, divisor)?;
    let highest = match guards.max_surcharge {
        Some(share) => Some(Bound { rule: Rule::MaxSurcharge(share), amount: list.plus(list.times(share)?)? }),
        None => None,
    };
    let lowest = match guards.max_discount {
        Some(share) => Bound { rule: Rule::MaxDiscount(share), amount: list.minus(list.times(share)?)? },
        None => not_negative,
    };
    let floor = match guards.floor_unit_price {
        Some(price) => {
            Some(Bound { rule: Rule::FloorUnitPrice(price), amount: Amount::product(price, seconds, divisor)? })
        }
        None => None,
    };
    Ok([highest, Some(lowest), floor])
}

/// A line below 0 after a step is raised to 0, visibly, in that step.
pub(crate) fn raise_to_zero(amount: Amount, place: Where<'_>) -> Result<Option<AppliedAdjustment>, AmountTooLarge> {
    if !amount.is_negative() {
        return Ok(None);
    }
    Ok(Some(adjustment(place, Rule::NotNegative, Amount::ZERO.minus(amount)?)))
}

fn adjustment(place: Where<'_>, rule: Rule, amount: Amount) -> AppliedAdjustment {
    let (kind, label, reason) = match rule {
        Rule::MaxSurcharge(share) => ("cap", "Price cap", format!("at most {} above list", percent(share))),
        Rule::MaxDiscount(share) => ("cap", "Discount cap", format!("at most {} below list", percent(share))),
        Rule::NotNegative => ("cap", "Discount cap", "a line never falls below 0".to_owned()),
        Rule::FloorUnitPrice(price) => {
            ("floor", "Price floor", format!("at least {} per GPU-hour", exact::print(price)))
        }
    };
    AppliedAdjustment {
        step: place.step.to_owned(),
        step_index: place.step_index,
        scope: place.scope,
        kind: kind.to_owned(),
        code: kind.to_owned(),
        label: label.to_owned(),
        reason,
        method: MethodUsed::Amount,
        amount,
        facts: Vec::new(),
    }
}

/// GPU-seconds of a line that are not free.
fn guarded_seconds(line: &Line) -> Decimal {
    line.portions.free().fold(line.quantity, |seconds, portion| {
        // INVARIANT: portions are whole seconds that sum to the line's quantity, so this cannot overflow or fall below 0.
        seconds.checked_sub(portion.quantity).unwrap_or(Decimal::ZERO)
    })
}

/// `60 %`
fn percent(share: Decimal) -> String {
    let hundredfold = share.checked_mul(Decimal::ONE_HUNDRED).unwrap_or(share);
    format!("{} %", exact::print(hundredfold))
}
