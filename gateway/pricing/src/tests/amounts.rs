//! `Amount` against rational numbers without limits.

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;
use rust_decimal::Decimal;

use crate::amount::{Amount, Rounding};

use super::oracle::{computed, exactly, ratio, rounded, whole};

/// Any decimal: all of 96 bits, all 28 scales, both signs; small and large magnitudes equally often.
pub(super) fn any_decimal() -> impl Strategy<Value = Decimal> {
    (any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>(), 0u32..=28, 0u32..=95).prop_map(
        |(lo, mid, hi, negative, scale, bits_off)| {
            let mantissa = (u128::from(hi) << 64 | u128::from(mid) << 32 | u128::from(lo)) >> bits_off;
            let mut value = Decimal::from_i128_with_scale(i128::try_from(mantissa).unwrap(), scale);
            value.set_sign_negative(negative && !value.is_zero());
            value
        },
    )
}

/// Any amount, in 10⁻¹² units; halves of minor units often.
fn any_amount() -> impl Strategy<Value = Amount> {
    let limit = 10i128.pow(27) - 1;
    let near_halves = (-1_000_000i128..=1_000_000, -2i128..=2, 0u32..=12)
        .prop_map(|(units, off, places)| units * 5 * 10i128.pow(places) / 10 + off);
    prop_oneof![near_halves, -limit..=limit].prop_map(|units| Amount::from_minor_units(units, 12).unwrap())
}

fn limit() -> BigRational {
    whole(BigInt::from(10).pow(15))
}

/// The result is the oracle's, and an error exactly where the oracle's is out of bounds.
fn agrees(result: Result<Amount, crate::amount::AmountTooLarge>, expected: &BigRational) -> Result<(), TestCaseError> {
    let fits = *expected < limit() && *expected > -limit();
    match result {
        Ok(amount) => {
            prop_assert!(fits);
            prop_assert_eq!(exactly(amount), expected.clone());
        }
        Err(_) => prop_assert!(!fits, "{} was refused", expected),
    }
    Ok(())
}

proptest! {
    #[test]
    fn products_are_exact_before_their_one_rounding(
        price in any_decimal(), quantity in any_decimal(), divisor in prop_oneof![Just(1u32), Just(3600), 1u32..=u32::MAX],
    ) {
        let expected = computed(&(ratio(price) * ratio(quantity) / whole(divisor)));
        agrees(Amount::product(price, quantity, divisor), &expected)?;
    }

    #[test]
    fn sums_of_products_are_rounded_once_not_per_term(
        terms in prop::collection::vec((any_decimal(), any_decimal()), 0..6), hourly in any::<bool>(),
    ) {
        let terms: Vec<_> = terms.into_iter().map(|(price, quantity)| (price.abs(), quantity.abs())).collect();
        let divisor = if hourly { 3600 } else { 1 };
        let sum = terms.iter().fold(whole(0), |sum, (price, quantity)| sum + ratio(*price) * ratio(*quantity));
        agrees(Amount::sum_of_products(terms.into_iter(), divisor), &computed(&(sum / whole(divisor))))?;
    }

    #[test]
    fn rates_are_exact_before_their_one_rounding(amount in any_amount(), rate in any_decimal()) {
        agrees(amount.times(rate), &computed(&(exactly(amount) * ratio(rate))))?;
    }

    #[test]
    fn sums_and_differences_are_exact(left in any_amount(), right in any_amount()) {
        agrees(left.plus(right), &(exactly(left) + exactly(right)))?;
        agrees(left.minus(right), &(exactly(left) - exactly(right)))?;
    }

    #[test]
    fn decimals_become_the_nearest_amount(value in any_decimal()) {
        agrees(Amount::from_decimal(value), &computed(&ratio(value)))?;
    }

    #[test]
    fn amounts_round_to_minor_units_in_one_step(amount in any_amount(), exponent in 0u8..=4, away in any::<bool>()) {
        let rounding = if away { Rounding::HalfAwayFromZero } else { Rounding::HalfEven };
        let result = amount.rounded(exponent, rounding);
        agrees(result, &rounded(&exactly(amount), u32::from(exponent), rounding))?;
        if let Ok(result) = result {
            let units = result.minor_units(exponent).unwrap();
            prop_assert_eq!(Amount::from_minor_units(units, exponent), Ok(result));
        }
    }

    #[test]
    fn amounts_print_whole_and_without_further_zeros(amount in any_amount(), exponent in 0u8..=4) {
        let text = amount.print(exponent);
        let value: Decimal = text.parse().unwrap();
        prop_assert_eq!(ratio(value), exactly(amount));
        prop_assert_eq!(amount.to_decimal(), value);
        let decimals = text.split_once('.').map_or("", |(_, decimals)| decimals);
        prop_assert!(decimals.len() >= usize::from(exponent));
        prop_assert!(decimals.len() == usize::from(exponent) || !decimals.ends_with('0'), "{}", text);
        prop_assert!(!text.ends_with('.'));
        prop_assert_eq!(text.starts_with('-'), amount.is_negative());
    }
}

#[test]
fn ties_at_the_twelfth_decimal_go_to_the_even_one() {
    for (value, expected) in [
        ("0.0000000000005", "0.00"),
        ("0.0000000000015", "0.000000000002"),
        ("-0.0000000000005", "0.00"),
        ("-0.0000000000015", "-0.000000000002"),
        ("0.0000000000005000000000000001", "0.000000000001"),
    ] {
        assert_eq!(super::stage::amount(value).print(2), expected, "{value}");
    }
}
