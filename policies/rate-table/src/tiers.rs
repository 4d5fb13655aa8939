//! Prices by quantity. Bounds are upper ones, inclusive, and the last tier has none, so every quantity has a price.

use farebox_sdk::prelude::*;

use crate::compiled::{Effect, HOUR_SECONDS, Tier};
use crate::wording::{self, GPU_SECOND};

/// A line's new division, and the fee that goes with it.
#[derive(Debug)]
pub(crate) struct Repriced {
    pub(crate) portions: Vec<Portion>,
    /// `None` where no tier has a flat fee.
    pub(crate) flat_fee: Option<Decimal>,
    /// `10500 GPU-hours`, and for volume the tier.
    pub(crate) reason: String,
}

/// A tier in the line's unit: above `lower`, up to `upper`.
struct Span<'a> {
    tier: &'a Tier,
    number: usize,
    lower: Decimal,
    upper: Option<Decimal>,
    /// As written.
    lower_bound: Decimal,
}

/// What of the line is open, at the prices of `effect`; `None` where that sets no price.
///
/// Portions that draw on a balance stay as they are and count for no tier: the engine holds no others settled. A price of
/// 0 that an earlier step set is a price like any other.
pub(crate) fn reprice(effect: &Effect<'_>, line: Line<'_>) -> Option<Repriced> {
    let amounts = line.amounts.as_ref()?;
    let unit = amounts.unit.as_str();
    let mut portions: Vec<Portion> = line.portions.iter().filter(|portion| portion.draws.is_some()).cloned().collect();
    let mut open = amounts.quantity.exact()?;
    for settled in &portions {
        open = open.checked_sub(settled.quantity.exact()?)?;
    }
    let (flat_fee, reason) = match effect {
        Effect::UnitPrice(price) => {
            portions.extend(portion(("whole".to_owned(), "Whole line".to_owned()), unit, open, *price));
            (None, wording::quantity(open, unit))
        }
        Effect::Graduated(tiers) => {
            let spans = spans(tiers, unit);
            // The first tier is reached by any quantity, and by none.
            let reached = spans.iter().filter(|span| span.number == 1 || open > span.lower);
            for span in reached.clone() {
                let end = span.upper.map_or(open, |upper| upper.min(open));
                portions.extend(portion(span.name(unit), unit, end - span.lower, span.tier.unit_price));
            }
            let fees = reached.filter_map(|span| span.tier.flat_fee).map(Price::value).sum();
            (has_fee(tiers).then_some(fees), wording::quantity(open, unit))
        }
        Effect::Volume(tiers) => {
            let spans = spans(tiers, unit);
            let span = spans.iter().find(|span| span.upper.is_none_or(|upper| open <= upper))?;
            let name = span.name(unit);
            let reason = format!("{}, tier {}", wording::quantity(open, unit), name.1);
            portions.extend(portion(name, unit, open, span.tier.unit_price));
            (has_fee(tiers).then(|| span.tier.flat_fee.map_or(Decimal::ZERO, Price::value)), reason)
        }
        _ => return None,
    };
    Some(Repriced { portions, flat_fee, reason })
}

fn has_fee(tiers: &[Tier]) -> bool {
    tiers.iter().any(|tier| tier.flat_fee.is_some())
}

/// A portion of nothing is none.
fn portion((code, label): (String, String), unit: &str, quantity: Decimal, price: Price) -> Option<Portion> {
    let unit_price = price.value().into();
    let portion = || Portion { code, label, unit: unit.to_owned(), quantity: quantity.into(), unit_price, draws: None };
    (quantity > Decimal::ZERO).then(portion)
}

/// A GPU-second is in a tier if all of it is: a bound within a second counts down to its beginning.
fn spans<'a>(tiers: &'a [Tier], unit: &str) -> Vec<Span<'a>> {
    let in_unit = |bound: Quantity| match unit {
        GPU_SECOND => (bound.value() * Decimal::from(HOUR_SECONDS)).floor(),
        _ => bound.value(),
    };
    let (mut lower, mut lower_bound) = (Decimal::ZERO, Decimal::ZERO);
    let mut spans = Vec::with_capacity(tiers.len());
    for (tier, number) in tiers.iter().zip(1..) {
        let upper = tier.up_to.map(in_unit);
        spans.push(Span { tier, number, lower, upper, lower_bound });
        lower = upper.unwrap_or(lower);
        lower_bound = tier.up_to.map_or(lower_bound, Quantity::value);
    }
    spans
}

impl Span<'_> {
    /// Code and label: `tier_2`, `above 10000 GPU-hours`.
    fn name(&self, unit: &str) -> (String, String) {
        let label = match self.tier.up_to {
            Some(bound) => format!("up to {}", wording::bound(bound.value(), unit)),
            None => format!("above {}", wording::bound(self.lower_bound, unit)),
        };
        (format!("tier_{}", self.number), label)
    }
}
