//! The oracle: rational numbers without limits, and the roundings written from their definitions.

use num_bigint::BigInt;
use num_rational::BigRational;
use rust_decimal::Decimal;

use crate::amount::{Amount, Rounding};

pub(super) fn ratio(value: Decimal) -> BigRational {
    BigRational::new(BigInt::from(value.mantissa()), BigInt::from(10).pow(value.scale()))
}

pub(super) fn whole(value: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(value.into())
}

pub(super) fn exactly(amount: Amount) -> BigRational {
    BigRational::new(BigInt::from(amount.minor_units(12).unwrap()), BigInt::from(10).pow(12))
}

/// The multiple of 10^-places nearest to `value`.
pub(super) fn rounded(value: &BigRational, places: u32, rounding: Rounding) -> BigRational {
    let step = BigRational::new(BigInt::from(1), BigInt::from(10).pow(places));
    let scaled = value / &step;
    let below = scaled.floor();
    let rest = &scaled - &below;
    let half = BigRational::new(BigInt::from(1), BigInt::from(2));
    let one = whole(1);
    let is_even = (below.to_integer() % BigInt::from(2)) == BigInt::from(0);
    let goes_up = match (rest.cmp(&half), rounding) {
        (std::cmp::Ordering::Less, _) => false,
        (std::cmp::Ordering::Greater, _) => true,
        (std::cmp::Ordering::Equal, Rounding::HalfEven) => !is_even,
        (std::cmp::Ordering::Equal, Rounding::HalfAwayFromZero) => scaled > whole(0),
    };
    (if goes_up { below + one } else { below }) * step
}

/// Half-even at the 12th decimal: what every list and adjustment amount is.
pub(super) fn computed(value: &BigRational) -> BigRational {
    rounded(value, 12, Rounding::HalfEven)
}
