//! What portions draw on balances: no more than is there.

use rust_decimal::Decimal;

use crate::amount::Amount;
use crate::policy::{Balance, Fault, Portion};

use super::line::Line;
use super::portions::Portions;

/// Checks what all lines draw once the portions of this step have taken the places of earlier ones. Balances in credits
/// are left to whoever posts to them: a portion does not say how many it takes.
pub(super) fn check(lines: &[Line], repriced: &[(usize, Portions)], balances: &[Balance]) -> Result<(), Fault> {
    let divided: Vec<(&Line, &Portions)> = lines
        .iter()
        .enumerate()
        .map(|(index, line)| {
            let new = repriced.iter().find(|(of, _)| *of == index);
            (line, new.map_or(&line.portions, |(_, portions)| portions))
        })
        .collect();
    for balance in balances {
        let drawn = match balance.unit.as_str() {
            "gpu_second" => seconds_drawn(&divided, balance)?,
            "money" => money_drawn(&divided, balance)?,
            _ => continue,
        };
        if drawn > balance.remaining {
            return Err(Fault::violation(format!("draws more on a {} than remains", balance.kind)));
        }
    }
    Ok(())
}

fn seconds_drawn(divided: &[(&Line, &Portions)], balance: &Balance) -> Result<Decimal, Fault> {
    let mut sum = Decimal::ZERO;
    for portion in divided.iter().flat_map(|(_, portions)| drawing_on(portions, balance)) {
        if portion.unit != balance.unit {
            return Err(Fault::violation("draws something else than GPU time on a balance of GPU time"));
        }
        // Whole seconds of at most 100 lines: the sum is exact.
        sum = sum.checked_add(portion.quantity).ok_or_else(|| Fault::violation("draws too many seconds"))?;
    }
    Ok(sum)
}

fn money_drawn(divided: &[(&Line, &Portions)], balance: &Balance) -> Result<Decimal, Fault> {
    let mut sum = Amount::ZERO;
    for (line, portions) in divided {
        let terms = drawing_on(portions, balance).map(|portion| (portion.unit_price, portion.quantity));
        sum = sum.plus(Amount::sum_of_products(terms, line.unit.price_divisor())?)?;
    }
    Ok(sum.to_decimal())
}

fn drawing_on<'a>(portions: &'a Portions, balance: &Balance) -> impl Iterator<Item = &'a Portion> {
    portions.settled().filter(|portion| portion.draws.as_ref() == Some(&balance.id))
}
