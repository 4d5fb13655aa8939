//! Amounts on the whole quote: computed on the sum, rounded to minor units, spread over the lines.

use crate::amount::Amount;
use crate::exact::normalized;
use crate::guard::{Where, guard_share};
use crate::policy::{Adjustment, Fault, Method};
use crate::spread::spread;

use super::effects::{Effects, missing_to};
use super::line::{AdjustmentScope, AppliedAdjustment, Line, MethodUsed};
use super::{Place, State};

/// Spreads one quote-level adjustment by largest remainder, in proportion to the amounts that entered the step. Each
/// share stays within its line's guards and above 0; what goes beyond is shown as `cap` or `floor`.
pub(super) fn spread_over_lines(
    effects: &mut Effects,
    state: &State,
    place: Place<'_>,
    adjustment: Adjustment,
) -> Result<(), Fault> {
    let lines = &state.lines;
    let entering = Amount::sum(lines.iter().map(|line| line.amount))?;
    let (method, amount) = match &adjustment.method {
        Method::Percent(rate) => (MethodUsed::Percent(normalized(*rate)), entering.times(*rate)?),
        Method::Amount(amount) => (MethodUsed::Amount, Amount::from_decimal(*amount)?),
        Method::Minimum(minimum) => {
            let running = Amount::sum(effects.running.iter().copied())?;
            (MethodUsed::Minimum, missing_to(*minimum, running)?)
        }
        Method::Reprice(_) | Method::Measure(_) | Method::Note(_) => {
            return Err(Fault::violation("a quote-level reprice or measure"));
        }
    };
    let plan = place.input.plan();
    let exponent = plan.currency.exponent();
    let total = amount.rounded(exponent, plan.rounding)?.minor_units(exponent)?;
    let weights: Vec<u128> = lines.iter().map(|line| line.amount.weight()).collect();
    let too_large = || Fault::violation("a quote-level amount that cannot be spread");
    let shares = spread(total, &weights, &tie_order(lines)).ok_or_else(too_large)?;
    let here = Where { step: &place.step.id, step_index: Some(place.index), scope: AdjustmentScope::Quote };
    for (index, (line, share)) in lines.iter().zip(shares).enumerate() {
        let share = Amount::from_minor_units(share, exponent)?;
        let before = effects.running.get(index).copied().unwrap_or_default();
        effects.add_to(index, share)?;
        effects.adjustments.push((
            index,
            AppliedAdjustment {
                step: place.step.id.clone(),
                step_index: Some(place.index),
                scope: AdjustmentScope::Quote,
                kind: adjustment.kind.clone(),
                code: adjustment.code.clone(),
                label: adjustment.label.clone(),
                reason: adjustment.reason.clone(),
                method: method.clone(),
                amount: share,
                facts: adjustment.facts.clone(),
            },
        ));
        for bound in guard_share(line, (before, share), &plan.guards, here)? {
            effects.add_to(index, bound.amount)?;
            effects.adjustments.push((index, bound));
        }
    }
    Ok(())
}

/// Lines by reference, so that an odd cent goes to the same line in whatever order the items came.
fn tie_order(lines: &[Line]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|index| {
        let line = lines.get(*index);
        let reference = line.and_then(|line| owner(line, lines).reference.as_deref());
        (reference.is_none(), reference, line.map(|line| line.description.as_str()))
    });
    order
}

/// The line that an added line belongs to, however many steps lie between. A parent is always older than its lines, so
/// the way up ends.
fn owner<'a>(line: &'a Line, lines: &'a [Line]) -> &'a Line {
    let mut owner = line;
    while let Some(parent) = owner.parent.and_then(|parent| lines.get(parent)) {
        owner = parent;
    }
    owner
}
