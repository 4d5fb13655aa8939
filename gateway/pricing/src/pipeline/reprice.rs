//! Repricing a line in portions, each at a price of its own.

use rust_decimal::Decimal;

use crate::amount::Amount;
use crate::exact;
use crate::policy::{Fault, Portion};

use super::line::{Line, LineUnit};
use super::{Place, text};

/// `Σ (portion × price) − the amount entering`, after checking that the portions are a fair division of the line.
pub(super) fn amount(line: &Line, portions: &[Portion], place: Place<'_>) -> Result<Amount, Fault> {
    if line.has_percent {
        return Err(Fault::violation("a reprice after a percentage; repricing steps come right after `base`"));
    }
    portions.iter().try_for_each(|portion| check_portion(line, portion, place))?;
    if !exact::sum_is(portions.iter().map(|portion| portion.quantity), line.quantity) {
        return Err(Fault::violation("portions do not sum to the line's quantity"));
    }
    let count = |of: &[Portion], wanted: &Portion| of.iter().filter(|portion| *portion == wanted).count();
    for earlier in line.portions.settled() {
        if count(portions, earlier) < count(line.portions.as_slice(), earlier) {
            return Err(Fault::violation(format!("portion `{}` of an earlier step is not kept", earlier.code)));
        }
    }
    let terms = portions.iter().map(|portion| (portion.unit_price, portion.quantity));
    let repriced = Amount::sum_of_products(terms, line.unit.price_divisor())?;
    Ok(repriced.minus(line.amount)?)
}

fn check_portion(line: &Line, portion: &Portion, place: Place<'_>) -> Result<(), Fault> {
    text::check_code(&portion.code)?;
    if portion.unit != line.unit.as_str() || line.unit == LineUnit::Task {
        return Err(Fault::violation(format!("portion `{}` is not in the line's unit", portion.code)));
    }
    if portion.quantity.is_sign_negative() || portion.unit_price.is_sign_negative() {
        return Err(Fault::violation(format!("portion `{}` is negative", portion.code)));
    }
    if line.unit == LineUnit::GpuSecond && portion.quantity.fract() != Decimal::ZERO {
        return Err(Fault::violation(format!("portion `{}` is not in whole seconds", portion.code)));
    }
    let (balances, reads) = (&place.input.offer().balances, &place.step.reads);
    match &portion.draws {
        Some(id) if !balances.iter().any(|balance| balance.id == *id && reads.names_balance(&balance.kind)) => {
            Err(Fault::violation(format!("portion `{}` draws on a balance that is not there", portion.code)))
        }
        _ => Ok(()),
    }
}
