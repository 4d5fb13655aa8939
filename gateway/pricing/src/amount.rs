//! Money: a fixed-point number with 12 decimals that can only be made by one of the roundings below.
//!
//! Every product and quotient is taken exactly, in 256 bits, and rounded half-even to 12 decimals once, when it is
//! computed (SPEC §4.3); sums and differences are exact by construction. `rust_decimal` is not used for products: its
//! `checked_mul` rounds silently where 96 bits do not hold the result.

use std::cmp::Ordering;
use std::fmt::Write as _;
use std::iter;

use ethnum::I256;
use rust_decimal::Decimal;

/// Decimals of an amount.
pub const SCALE: u32 = 12;
const UNIT: i128 = 1_000_000_000_000;
/// |amount| < 10¹⁵ in major units.
const LIMIT: i128 = 1_000_000_000_000_000_000_000_000_000;

/// An amount of money in a currency's major units. Which currency is known by the plan that computed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i128);

/// How a line is rounded to its currency's minor units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    HalfAwayFromZero,
    HalfEven,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an amount reaches 10¹⁵, the largest that is priced")]
pub struct AmountTooLarge;

impl Amount {
    pub const ZERO: Self = Self(0);

    /// The amount nearest to `value`, half-even at the 12th decimal.
    ///
    /// ```
    /// # use farebox_pricing::{amount::Amount, exact::parse};
    /// let amount = Amount::from_decimal(parse("-0.0000000000025")?)?;
    /// assert_eq!(amount.print(2), "-0.000000000002");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_decimal(value: Decimal) -> Result<Self, AmountTooLarge> {
        Self::sum_of_products(iter::once((value, Decimal::ONE)), 1)
    }

    /// `price × quantity ÷ divisor`: one division, last. The divisor is 3,600 for GPU-seconds at a price per GPU-hour.
    ///
    /// ```
    /// # use farebox_pricing::{amount::Amount, exact::parse};
    /// let list = Amount::product(parse("12.00")?, parse("2073600")?, 3600)?;
    /// assert_eq!(list.print(2), "6912.00");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn product(price: Decimal, quantity: Decimal, divisor: u32) -> Result<Self, AmountTooLarge> {
        Self::sum_of_products(iter::once((price, quantity)), divisor)
    }

    /// `Σ (price × quantity) ÷ divisor`, the sum taken exactly and rounded once.
    ///
    /// ```
    /// # use farebox_pricing::{amount::Amount, exact::parse};
    /// let half = (parse("-0.0000000000005")?, parse("1")?);
    /// assert_eq!(Amount::sum_of_products([half].into_iter(), 1)?.print(2), "0.00");
    /// assert_eq!(Amount::sum_of_products([half, half, half].into_iter(), 1)?.print(2), "-0.000000000002");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sum_of_products(
        terms: impl Iterator<Item = (Decimal, Decimal)>,
        divisor: u32,
    ) -> Result<Self, AmountTooLarge> {
        let mut sum = Ratio { numerator: I256::ZERO, scale: 0 };
        for (price, quantity) in terms {
            let product = multiply(I256::from(price.mantissa()), I256::from(quantity.mantissa()))?;
            sum = sum.add(Ratio { numerator: product, scale: add_scales(price.scale(), quantity.scale())? })?;
        }
        sum.rounded(divisor)
    }

    /// `rate × self`.
    ///
    /// ```
    /// # use farebox_pricing::{amount::Amount, exact::parse};
    /// let entering = Amount::from_decimal(parse("10333.44")?)?;
    /// assert_eq!(entering.times(parse("-0.1")?)?.print(2), "-1033.344");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn times(self, rate: Decimal) -> Result<Self, AmountTooLarge> {
        let product = multiply(I256::from(self.0), I256::from(rate.mantissa()))?;
        Ratio { numerator: product, scale: add_scales(SCALE, rate.scale())? }.rounded(1)
    }

    /// The exact sum; an error from 10¹⁵ on.
    ///
    /// ```
    /// # use farebox_pricing::{amount::{Amount, AmountTooLarge}, exact::parse};
    /// let [credit, most] = ["-12.505", "999999999999999"].map(|text| Amount::from_decimal(parse(text).unwrap()));
    /// assert_eq!(credit?.plus(credit?)?.print(2), "-25.01");
    /// assert_eq!(most?.plus(most?), Err(AmountTooLarge));
    /// # Ok::<(), AmountTooLarge>(())
    /// ```
    pub fn plus(self, other: Self) -> Result<Self, AmountTooLarge> {
        self.0.checked_add(other.0).ok_or(AmountTooLarge).and_then(bounded)
    }

    /// The exact difference, perhaps below 0; an error from ±10¹⁵ on.
    ///
    /// ```
    /// # use farebox_pricing::{amount::Amount, exact::parse};
    /// let [list, off] = [Amount::from_decimal(parse("0.005")?)?, Amount::from_decimal(parse("0.01")?)?];
    /// assert_eq!(list.minus(off)?.print(2), "-0.005");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn minus(self, other: Self) -> Result<Self, AmountTooLarge> {
        self.0.checked_sub(other.0).ok_or(AmountTooLarge).and_then(bounded)
    }

    /// The exact sum; 0 of nothing.
    ///
    /// ```
    /// # use farebox_pricing::{amount::Amount, exact::parse};
    /// let [list, off] = [Amount::from_decimal(parse("12.00")?)?, Amount::from_decimal(parse("-12.005")?)?];
    /// assert_eq!(Amount::sum([list, off])?.print(2), "-0.005");
    /// assert_eq!(Amount::sum([])?, Amount::ZERO);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sum(amounts: impl IntoIterator<Item = Self>) -> Result<Self, AmountTooLarge> {
        amounts.into_iter().try_fold(Self::ZERO, Self::plus)
    }

    /// Rounded to `exponent` decimals, in one step from the full precision.
    ///
    /// ```
    /// # use farebox_pricing::{amount::{Amount, Rounding}, exact::parse};
    /// let amount = Amount::product(parse("0.067")?, parse("55")?, 1)?; // 3.685
    /// assert_eq!(amount.rounded(2, Rounding::HalfAwayFromZero)?.print(2), "3.69");
    /// assert_eq!(amount.rounded(2, Rounding::HalfEven)?.print(2), "3.68");
    /// let refund = Amount::from_decimal(parse("-3.685")?)?;
    /// assert_eq!(refund.rounded(2, Rounding::HalfAwayFromZero)?.print(2), "-3.69");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rounded(self, exponent: u8, rounding: Rounding) -> Result<Self, AmountTooLarge> {
        let step = minor_unit(exponent)?;
        let minor_units = match rounding {
            Rounding::HalfEven => divide_half_even(I256::from(self.0), I256::from(step))?,
            Rounding::HalfAwayFromZero => divide_half_away(I256::from(self.0), I256::from(step))?,
        };
        Self::from_minor_units(i128::try_from(minor_units).map_err(|_| AmountTooLarge)?, exponent)
    }

    /// Whole minor units (fen, cents, yen) of an amount that was rounded to `exponent` decimals; what lies below a minor
    /// unit is cut off towards zero.
    ///
    /// ```
    /// # use farebox_pricing::{amount::Amount, exact::parse};
    /// let refund = Amount::from_decimal(parse("-3.685")?)?;
    /// assert_eq!((refund.minor_units(2)?, refund.minor_units(3)?), (-368, -3685));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn minor_units(self, exponent: u8) -> Result<i128, AmountTooLarge> {
        self.0.checked_div(minor_unit(exponent)?).ok_or(AmountTooLarge)
    }

    /// The amount of so many minor units of `exponent` decimals, exactly.
    ///
    /// ```
    /// # use farebox_pricing::amount::{Amount, AmountTooLarge};
    /// assert_eq!(Amount::from_minor_units(-5, 2)?.print(2), "-0.05");
    /// assert_eq!(Amount::from_minor_units(-1854, 0)?.print(0), "-1854");
    /// assert_eq!(Amount::from_minor_units(1_000_000_000_000_000, 0), Err(AmountTooLarge));
    /// # Ok::<(), AmountTooLarge>(())
    /// ```
    pub fn from_minor_units(units: i128, exponent: u8) -> Result<Self, AmountTooLarge> {
        units.checked_mul(minor_unit(exponent)?).ok_or(AmountTooLarge).and_then(bounded)
    }

    /// The amount as a decimal with up to 12 decimals and no trailing zeros.
    pub fn to_decimal(self) -> Decimal {
        // INVARIANT: |self| < 10^27 fits 96 bits, so the conversion cannot fail.
        Decimal::try_from_i128_with_scale(self.0, SCALE).unwrap_or_default().normalize()
    }

    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Prints at least the currency's decimals and no further trailing zeros: `12.00`, `-1033.344`, `1854` for yen.
    pub fn print(self, exponent: u8) -> String {
        let magnitude = self.0.unsigned_abs();
        let unit = UNIT.unsigned_abs();
        let whole = magnitude.checked_div(unit).unwrap_or_default();
        let fraction = magnitude.checked_rem(unit).unwrap_or_default();
        let all = format!("{fraction:012}");
        let significant = all.trim_end_matches('0').len().max(usize::from(exponent));
        let mut text = String::with_capacity(24);
        if self.0 < 0 {
            text.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{whole}");
        if significant > 0 {
            text.push('.');
            text.push_str(all.get(..significant).unwrap_or(&all));
        }
        text
    }

    /// The magnitude in 10⁻¹² units, as a weight for spreading.
    pub(crate) fn weight(self) -> u128 {
        self.0.unsigned_abs()
    }
}

/// numerator × 10^-scale
struct Ratio {
    numerator: I256,
    scale: u32,
}

impl Ratio {
    fn add(self, other: Self) -> Result<Self, AmountTooLarge> {
        let scale = self.scale.max(other.scale);
        let numerator = self.widened(scale)?.checked_add(other.widened(scale)?).ok_or(AmountTooLarge)?;
        Ok(Self { numerator, scale })
    }

    fn widened(&self, scale: u32) -> Result<I256, AmountTooLarge> {
        match scale.saturating_sub(self.scale) {
            0 => Ok(self.numerator),
            places => multiply(self.numerator, power_of_ten(places)?),
        }
    }

    fn rounded(self, divisor: u32) -> Result<Amount, AmountTooLarge> {
        let (numerator, denominator) = if self.scale <= SCALE {
            (self.widened(SCALE)?, I256::ONE)
        } else {
            (self.numerator, power_of_ten(self.scale.saturating_sub(SCALE))?)
        };
        let denominator = multiply(denominator, I256::from(divisor))?;
        let units = divide_half_even(numerator, denominator)?;
        i128::try_from(units).map_err(|_| AmountTooLarge).and_then(bounded)
    }
}

fn bounded(units: i128) -> Result<Amount, AmountTooLarge> {
    if units.unsigned_abs() < LIMIT.unsigned_abs() { Ok(Amount(units)) } else { Err(AmountTooLarge) }
}

fn add_scales(left: u32, right: u32) -> Result<u32, AmountTooLarge> {
    left.checked_add(right).ok_or(AmountTooLarge)
}

fn power_of_ten(exponent: u32) -> Result<I256, AmountTooLarge> {
    match 10i128.checked_pow(exponent) {
        Some(narrow) => Ok(I256::from(narrow)),
        None => I256::from(10u8).checked_pow(exponent).ok_or(AmountTooLarge),
    }
}

/// The exact product. Most fit 128 bits, where the processor multiplies several times faster than in 256.
fn multiply(left: I256, right: I256) -> Result<I256, AmountTooLarge> {
    if let (Ok(narrow), Ok(by)) = (i128::try_from(left), i128::try_from(right))
        && let Some(product) = narrow.checked_mul(by)
    {
        return Ok(I256::from(product));
    }
    left.checked_mul(right).ok_or(AmountTooLarge)
}

/// One minor unit in 10⁻¹² units.
fn minor_unit(exponent: u8) -> Result<i128, AmountTooLarge> {
    let places = SCALE.checked_sub(u32::from(exponent)).ok_or(AmountTooLarge)?;
    10i128.checked_pow(places).ok_or(AmountTooLarge)
}

/// Nearest integer, ties to the even one. `denominator` > 0.
fn divide_half_even(numerator: I256, denominator: I256) -> Result<I256, AmountTooLarge> {
    divide(numerator, denominator, |quotient_is_odd| quotient_is_odd)
}

/// Nearest integer, ties away from zero. `denominator` > 0.
fn divide_half_away(numerator: I256, denominator: I256) -> Result<I256, AmountTooLarge> {
    divide(numerator, denominator, |_| true)
}

fn divide(numerator: I256, denominator: I256, tie_goes_out: impl Fn(bool) -> bool) -> Result<I256, AmountTooLarge> {
    if denominator == I256::ONE {
        return Ok(numerator);
    }
    if let (Ok(narrow), Ok(by)) = (i128::try_from(numerator), i128::try_from(denominator)) {
        return divide_narrow(narrow, by, tie_goes_out).map(I256::from);
    }
    let quotient = numerator.checked_div(denominator).ok_or(AmountTooLarge)?;
    let remainder = numerator.checked_rem(denominator).ok_or(AmountTooLarge)?;
    let twice = remainder.checked_abs().and_then(|rest| rest.checked_mul(I256::from(2u8))).ok_or(AmountTooLarge)?;
    let quotient_is_odd = (quotient & I256::ONE) == I256::ONE;
    let rounds_out = twice > denominator || (twice == denominator && tie_goes_out(quotient_is_odd));
    if !rounds_out {
        return Ok(quotient);
    }
    let outwards = if numerator.is_negative() { I256::MINUS_ONE } else { I256::ONE };
    quotient.checked_add(outwards).ok_or(AmountTooLarge)
}

/// The same in 128 bits, which hold most amounts and where the processor divides several times faster than in 256.
fn divide_narrow(
    numerator: i128,
    denominator: i128,
    tie_goes_out: impl Fn(bool) -> bool,
) -> Result<i128, AmountTooLarge> {
    let quotient = numerator.checked_div(denominator).ok_or(AmountTooLarge)?;
    let remainder = numerator.checked_rem(denominator).ok_or(AmountTooLarge)?;
    // Below the denominator, so that twice as much fits 128 bits without a sign.
    let twice = remainder.unsigned_abs().checked_mul(2).ok_or(AmountTooLarge)?;
    let rounds_out = match twice.cmp(&denominator.unsigned_abs()) {
        Ordering::Less => false,
        Ordering::Equal => tie_goes_out(quotient & 1 == 1),
        Ordering::Greater => true,
    };
    match (rounds_out, numerator < 0) {
        (false, _) => Ok(quotient),
        (true, true) => quotient.checked_sub(1).ok_or(AmountTooLarge),
        (true, false) => quotient.checked_add(1).ok_or(AmountTooLarge),
    }
}
