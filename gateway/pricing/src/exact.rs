//! Decimals as people write them: parsed digit for digit, never rounded on the way in, printed without trailing zeros.

use ethnum::U256;
use rust_decimal::Decimal;

/// Most digits of a decimal, before and after the point together; a lone zero before the point does not count. 28 digits
/// always fit the 96 bits of a [`Decimal`], 29 sometimes do.
pub const MAX_DIGITS: usize = 28;

/// The same rule as a JSON Schema pattern, for strings.
pub const PATTERN: &str = r"^-?(0|[1-9][0-9]{0,27})(\.[0-9]{1,28})?$";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    #[error("`{0}` is not a plain decimal such as `0.25` (no exponent, no sign but `-`, no leading zeros)")]
    NotPlain(String),
    #[error("`{0}` has more than {MAX_DIGITS} digits")]
    TooManyDigits(String),
}

/// Reads a plain decimal.
///
/// ```
/// use farebox_pricing::exact::{parse, print};
/// assert_eq!(print(parse("-4.77001111111111111111107306")?), "-4.77001111111111111111107306");
/// assert_eq!(print(parse("0.10")?), "0.1");
/// assert!(parse("1e3").is_err() && parse("01").is_err() && parse(".5").is_err());
/// assert!(parse("0.12345678901234567890123456789").is_err());
/// # Ok::<(), farebox_pricing::exact::DecimalError>(())
/// ```
pub fn parse(text: &str) -> Result<Decimal, DecimalError> {
    let not_plain = || DecimalError::NotPlain(shorten(text));
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').map_or((unsigned, None), |(whole, rest)| (whole, Some(rest)));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let fraction_is_plain = fraction.is_none_or(all_digits);
    if !all_digits(whole) || !fraction_is_plain || (whole.len() > 1 && whole.starts_with('0')) {
        return Err(not_plain());
    }
    let fraction = fraction.unwrap_or("");
    let whole_digits = if whole == "0" { 0 } else { whole.len() };
    if whole_digits.saturating_add(fraction.len()) > MAX_DIGITS {
        return Err(DecimalError::TooManyDigits(shorten(text)));
    }
    let mut mantissa: i128 = 0;
    for byte in whole.bytes().chain(fraction.bytes()) {
        let digit = i128::from(byte.saturating_sub(b'0'));
        mantissa = mantissa.checked_mul(10).and_then(|shifted| shifted.checked_add(digit)).ok_or_else(not_plain)?;
    }
    let scale = u32::try_from(fraction.len()).map_err(|_| not_plain())?;
    let mut value = Decimal::try_from_i128_with_scale(mantissa, scale).map_err(|_| not_plain())?;
    value.set_sign_negative(unsigned.len() != text.len() && !value.is_zero());
    Ok(value)
}

/// The same number without trailing zeros in its scale. Most numbers have none, which is quicker seen than done.
pub(crate) fn normalized(value: Decimal) -> Decimal {
    let has_none = value.scale() == 0 || value.mantissa().checked_rem(10).is_some_and(|digit| digit != 0);
    if has_none { value } else { value.normalize() }
}

/// Prints without trailing zeros: `0.2`, `576`, `-0.1`.
pub fn print(value: Decimal) -> String {
    value.normalize().to_string()
}

/// Prints a price with at least the currency's decimals, and as many more as it has: `12.00`, `0.000096774`.
///
/// ```
/// use farebox_pricing::exact::{parse, print_price};
/// let prices = ["12", "0.0250", "-0.5"].map(|text| parse(text).map(|price| print_price(price, 2)));
/// assert_eq!(prices, [Ok("12.00".to_owned()), Ok("0.025".to_owned()), Ok("-0.50".to_owned())]);
/// ```
pub fn print_price(price: Decimal, exponent: u8) -> String {
    let mut text = print(price);
    let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let missing = usize::from(exponent).saturating_sub(decimals);
    if decimals == 0 && missing > 0 {
        text.push('.');
    }
    text.extend(std::iter::repeat_n('0', missing));
    text
}

/// True if the parts, none of them negative, sum to `whole` exactly. `Decimal`'s own sum rounds where 96 bits do not hold
/// it.
pub(crate) fn sum_is(mut parts: impl Iterator<Item = Decimal>, whole: Decimal) -> bool {
    let sum = parts.try_fold(U256::ZERO, |sum, part| sum.checked_add(at_full_scale(part)?));
    sum.is_some() && sum == at_full_scale(whole)
}

/// In units of 10⁻²⁸, the finest that a decimal has.
fn at_full_scale(value: Decimal) -> Option<U256> {
    let factor = U256::from(10u8).checked_pow(Decimal::MAX_SCALE.checked_sub(value.scale())?)?;
    U256::from(u128::try_from(value.mantissa()).ok()?).checked_mul(factor)
}

/// Keeps error messages short whatever a caller sends.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
