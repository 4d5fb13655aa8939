//! Spreading whole-cart amounts by largest remainder: to the last minor unit, whatever the order of the lines.

use proptest::prelude::*;
use rust_decimal::Decimal;

use crate::amount::Amount;
use crate::pipeline::{AdjustmentScope, Line};
use crate::policy::{AddedLine, Fact, Method, Outcome};
use crate::settle::Settled;
use crate::spread::spread;

use super::stage::{Stage, adjust, dec, fact, find, flat, on_quote, percent, says, step};

fn in_order(count: usize) -> Vec<usize> {
    (0..count).collect()
}

#[test]
fn odd_units_go_to_the_largest_remainders_and_ties_by_their_order() {
    for (total, weights, order, shares) in [
        (100, &[1u128, 1, 1][..], &[0, 1, 2][..], &[34, 33, 33][..]),
        (100, &[1, 1, 1], &[2, 1, 0], &[33, 33, 34]),
        (-100, &[1, 1, 1], &[0, 1, 2], &[-34, -33, -33]),
        (10, &[6, 3, 1], &[0, 1, 2], &[6, 3, 1]),
        (1, &[1, 2], &[0, 1], &[0, 1]),
        (1, &[0, 0], &[1, 0], &[0, 1]),
        (5, &[0, 7], &[0, 1], &[0, 5]),
        (0, &[1, 2], &[0, 1], &[0, 0]),
        (7, &[u128::MAX, u128::MAX], &[0, 1], &[4, 3]),
        (0, &[], &[], &[]),
    ] {
        assert_eq!(spread(total, weights, order).unwrap(), shares, "{total} over {weights:?}");
    }
    assert_eq!(spread(5, &[], &[]), Some(Vec::new()));
}

#[test]
fn a_coupon_is_spread_in_proportion_to_what_entered_the_step() {
    let quote = Stage::new("USD")
        .gpu("a", "100", 3600)
        .gpu("b", "10", 3600)
        .gpu("c", "0", 3600)
        .step(step("halve"), |context| {
            says(if fact(&context.lines[0], "line.ref") == "a" { vec![percent("half", "-0.5")] } else { Vec::new() })
        })
        .whole_cart("coupon", vec![on_quote(flat("ten_off", "-10")), on_quote(percent("tenth", "-0.1"))])
        .price();
    assert_eq!(quote.rows(0)[1..], ["coupon ten_off -8.33", "coupon tenth -5.00"]);
    assert_eq!(quote.rows(1), ["coupon ten_off -1.67", "coupon tenth -1.00"]);
    assert_eq!(quote.rows(2), ["coupon ten_off 0.00", "coupon tenth 0.00"]);
    for share in quote.lines.iter().flat_map(|line| &line.adjustments).filter(|made| made.step == "coupon") {
        assert_eq!((share.scope, share.step_index), (AdjustmentScope::Quote, Some(1)));
    }
    assert_eq!(quote.total(), "44.00");
}

#[test]
fn a_share_is_whole_minor_units_while_its_line_is_not() {
    let quote = Stage::new("JPY")
        .gpu("a", "1240", 1000)
        .gpu("b", "1240", 2000)
        .whole_cart("fee", vec![on_quote(flat("fee", "1000.5"))])
        .price();
    assert_eq!(quote.rows(0), ["fee fee 334", "rounding currency_exponent -0.444444444444"]);
    assert_eq!(quote.rows(1), ["fee fee 667", "rounding currency_exponent 0.111111111111"]);
}

#[test]
fn the_odd_cent_follows_the_reference_also_through_added_lines() {
    // Equal lines, and under each an added line under an added line: every tie there is.
    let cents = |references: [&str; 3]| {
        let mut stage = Stage::new("CNY");
        for reference in references {
            stage = stage.gpu(reference, "6", 3600);
        }
        for level in ["disk", "copy"] {
            stage = stage.step(step(level), move |context| {
                let of_item = context.lines[0].facts.iter().all(|fact| fact.key != "added.code");
                let wanted = if of_item { level == "disk" } else { level == "copy" };
                let added = AddedLine {
                    parent: Some(0),
                    code: level.to_owned(),
                    label: level.to_owned(),
                    unit: "gib".to_owned(),
                    quantity: dec("6"),
                    unit_price: dec("1"),
                    facts: vec![Fact::new("line.ref", fact(&context.lines[0], "line.ref"))],
                };
                Ok(Outcome { added: if wanted { vec![added] } else { Vec::new() }, ..Outcome::default() })
            });
        }
        let quote = stage.whole_cart("fee", vec![on_quote(flat("fee", "0.08"))]).price();
        let mut cents: Vec<(String, String, String)> = Vec::new();
        for line in &quote.lines {
            let reference = line.stage_name();
            let cent = line.adjustments.iter().find(|made| made.code == "fee").unwrap().amount.print(2);
            cents.push((reference, line.description.clone(), cent));
        }
        cents.sort();
        cents
    };
    let expected = cents(["a", "b", "c"]);
    assert_eq!(expected.iter().filter(|line| line.2 == "0.01").count(), 8);
    for references in [["a", "c", "b"], ["b", "a", "c"], ["b", "c", "a"], ["c", "a", "b"], ["c", "b", "a"]] {
        assert_eq!(cents(references), expected, "{references:?}");
    }
}

proptest! {
    #[test]
    fn shares_sum_to_the_amount_and_stay_within_one_unit_of_proportion(
        total in prop_oneof![-1000i128..=1000, -10i128.pow(27)..=10i128.pow(27)],
        weights in prop::collection::vec(prop_oneof![Just(0u128), 0u128..10, 0u128..10u128.pow(27)], 1..=50),
    ) {
        let shares = spread(total, &weights, &in_order(weights.len())).unwrap();
        prop_assert_eq!(shares.len(), weights.len());
        prop_assert_eq!(shares.iter().sum::<i128>(), total);
        let sum: u128 = weights.iter().sum();
        for (share, weight) in shares.iter().zip(&weights) {
            prop_assert!(share.signum() * total.signum() >= 0, "a share against the sign of the amount");
            let (weight, sum) = if sum == 0 { (1, 50.min(u128::try_from(weights.len()).unwrap())) } else { (*weight, sum) };
            let exact = num_rational::BigRational::new((total.unsigned_abs()).into(), sum.into()) * super::oracle::whole(weight);
            let off = exact - super::oracle::whole(share.unsigned_abs());
            prop_assert!(off < super::oracle::whole(1) && off > super::oracle::whole(-1));
        }
    }

    #[test]
    fn a_cart_of_1_to_50_lines_takes_exactly_the_amount(
        prices in prop::collection::vec(0i64..=20, 1..=50), cents in -5_000i64..=5_000, exponent in 0usize..3,
        rotate in 0usize..50,
    ) {
        let currency = ["JPY", "USD", "KWD"][exponent];
        let cart = |rotate: usize| {
            let mut stage = Stage::new(currency);
            for (number, price) in prices.iter().enumerate() {
                // 100 and more per line, so that no share can take a line below 0.
                stage = stage.gpu(&format!("r{number}"), &(100 + price).to_string(), 3600);
            }
            stage.items.rotate_left(rotate % prices.len());
            let amount = Method::Amount(Decimal::new(cents, 2));
            stage.whole_cart("cart", vec![on_quote(adjust("cart", amount))]).price()
        };
        let quote = cart(0);
        let digits = quote.currency.exponent();
        let asked = Amount::from_decimal(Decimal::new(cents, 2)).unwrap();
        let asked = asked.rounded(digits, crate::amount::Rounding::HalfAwayFromZero).unwrap();
        let of = |line: &crate::pipeline::Line| line.adjustments.iter().find(|made| made.code == "cart").unwrap().amount;
        prop_assert_eq!(Amount::sum(quote.lines.iter().map(of)).unwrap(), asked);
        let turned = cart(rotate);
        for number in 0..prices.len() {
            let reference = format!("r{number}");
            let place = |quote: &Settled| quote.lines[find(&quote.lines, &reference)].clone();
            // Where the item stood in the request is all that may differ.
            let [here, there] = [&quote, &turned].map(|quote| Line { item: None, ..place(quote) });
            prop_assert_eq!(here, there);
        }
    }
}
