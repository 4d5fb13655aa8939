//! How public billing systems went wrong: `cases/money.md` 1–11, 15, 33 and 34, each for its whole kind of fault.

use rust_decimal::Decimal;

use crate::amount::{Amount, Rounding};
use crate::currency::Currency;
use crate::exact;
use crate::granule::Granule;
use crate::settle::{Settled, SumsDiffer};

use super::stage::{Stage, amount, dec, flat, measure, on_quote, percent};

fn product(price: &str, quantity: &str) -> Amount {
    Amount::product(dec(price), dec(quantity), 1).unwrap()
}

#[test]
fn case_1_halves_are_decided_on_the_exact_figure_and_once() {
    let rounded = |text: &str, rounding| amount(text).rounded(2, rounding).unwrap().print(2);
    for (figure, away, even) in [
        ("3.685", "3.69", "3.68"),
        ("3.675", "3.68", "3.68"),
        ("-3.685", "-3.69", "-3.68"),
        ("3.684999999999", "3.68", "3.68"),
        ("3.685000000001", "3.69", "3.69"),
        ("0.005", "0.01", "0.00"),
        ("-0.005", "-0.01", "0.00"),
        ("0.004999999999", "0.00", "0.00"),
        ("2.4449", "2.44", "2.44"),
    ] {
        assert_eq!(rounded(figure, Rounding::HalfAwayFromZero), away, "{figure}");
        assert_eq!(rounded(figure, Rounding::HalfEven), even, "{figure}");
    }
}

#[test]
fn case_2_no_float_lies_on_the_road() {
    for (left, right, expected) in [
        ("4", "0.029", "0.116"),
        ("3", "0.1", "0.30"),
        ("1.1", "1.1", "1.21"),
        ("4.35", "100", "435.00"),
        ("1.005", "1000", "1005.00"),
        ("123456789.123", "987654.321", "121932631234116.750483"),
    ] {
        let exact = dec(left).checked_mul(dec(right)).unwrap();
        assert_eq!(product(left, right), Amount::from_decimal(exact).unwrap(), "{left} × {right}");
        assert_eq!(product(left, right).print(2).get(..expected.len()), Some(expected), "{left} × {right}");
    }
    assert_eq!(
        Stage::new("CNY").gpu("a", "4", 3600).each_line("s", vec![percent("p", "0.029")]).price().rows(0),
        ["s p 0.116", "rounding currency_exponent 0.004",]
    );
}

#[test]
fn case_3_no_tiny_negative_flips_anything() {
    let difference = amount("102").minus(Amount::from_decimal(dec("102.00000000000000024")).unwrap()).unwrap();
    assert!(difference.is_zero() && !difference.is_negative());
    let quote = Stage::new("CNY")
        .gpu("a", "102", 3600)
        .each_line("discount", vec![flat("all_of_it", "-102.00000000000000024")])
        .price();
    assert_eq!(quote.rows(0), ["discount all_of_it -102.00"]);
    assert_eq!(quote.total(), "0.00");
}

#[test]
fn case_4_prices_keep_their_digits_and_print_short() {
    for text in ["0.025", "0.000096774", "4.77001111111111111111107306", "0.0000000000000000000000000001"] {
        assert_eq!(exact::print(dec(text)), text);
    }
    // $0.025 per 1,000 and $0.000096774 per GB-hour are neither $0.03 nor $0.00 before they meet a quantity.
    assert_eq!(product("0.025", "1000").print(2), "25.00");
    assert_eq!(product("0.000096774", "1000000").print(2), "96.774");
    assert_eq!(product("0.000096774", "1").print(2), "0.000096774");
    // All 27 digits take part in the product; only the amount has 12 decimals.
    assert_eq!(product("4.77001111111111111111107306", "1000000000000").print(2), "4770011111111.111111111073");
    let quote = Stage::new("USD").gpu("a", "4.77001111111111111111107306", 3600).price();
    assert_eq!(quote.lines[0].list_unit_price, dec("4.77001111111111111111107306"));
    assert_eq!(quote.lines[0].list_amount.print(2), "4.770011111111");
    assert_eq!(quote.total(), "4.77");
}

#[test]
fn case_5_full_precision_until_the_line() {
    // 200 / 30 × 29 then +25 %: 241.666…, not 1.25 × 193.33 = 241.66.
    let prorated = Amount::product(dec("200"), dec("29"), 30).unwrap();
    let raised = prorated.plus(prorated.times(dec("0.25")).unwrap()).unwrap();
    assert_eq!(raised.rounded(2, Rounding::HalfAwayFromZero).unwrap().print(2), "241.67");
    // The same through the pipeline: GPU-seconds divide by 3,600, which 200 × 3,480 does not.
    let quote = Stage::new("CNY").gpu("a", "200", 3480).each_line("raise", vec![percent("quarter", "0.25")]).price();
    assert_eq!(quote.rows(0), ["raise quarter 48.333333333333", "rounding currency_exponent 0.003333333334"]);
    assert_eq!(quote.total(), "241.67");
}

#[test]
fn case_7_impossible_quantities_are_refused_not_wrapped() {
    let largest = Decimal::MAX;
    assert!(Amount::from_decimal(largest).is_err());
    assert!(Amount::product(largest, largest, 1).is_err());
    assert!(Amount::product(largest, largest, 3600).is_err());
    assert!(amount("999999999999999").times(largest).is_err());
    assert!(amount("999999999999999").plus(amount("1")).is_err());
    assert!(amount("-999999999999999").minus(amount("1")).is_err());
    assert!(Amount::from_decimal(dec("1000000000000000")).is_err());
    assert!(Amount::from_decimal(dec("-1000000000000000")).is_err());
    assert_eq!(amount("999999999999999.999999999999").print(2), "999999999999999.999999999999");
    // Scale 28 + 28: exact, then rounded to what an amount can hold.
    let finest = Decimal::new(1, 28);
    assert!(Amount::product(finest, finest, 1).unwrap().is_zero());
    assert!(Amount::product(largest, finest, 1).is_ok());
    assert!(Amount::product(finest, finest, 0).is_err());
    // 10⁹ GPUs for a century.
    let stage = Stage::new("CNY").gpu("a", "12.00", 1_000_000_000 * 100 * 365 * 86_400);
    assert!(stage.try_price().unwrap_err().to_string().contains("10¹⁵"));
}

#[test]
fn case_7_a_cart_that_cannot_be_summed_blames_no_policy() {
    let stage = Stage::new("CNY")
        .gpu("a", "900000000000000", 3600)
        .gpu("b", "900000000000000", 3600)
        .whole_cart("fee", vec![on_quote(flat("fee", "1"))]);
    assert!(matches!(stage.try_price().unwrap_err(), crate::pipeline::PricingError::TooLarge(_)));
}

#[test]
fn case_8_what_is_taken_and_what_is_left_sum_to_what_was_there() {
    let topped_up = Amount::from_decimal(dec("17.9699999999999988631316")).unwrap();
    assert_eq!(topped_up.rounded(2, Rounding::HalfAwayFromZero).unwrap().print(2), "17.97");
    let left = amount("100").minus(amount("14.28444999")).unwrap();
    assert_eq!(left.print(2), "85.71555001");
    assert_eq!(left.rounded(2, Rounding::HalfAwayFromZero).unwrap().print(2), "85.72");
}

#[test]
fn case_9_every_currency_has_its_own_digits() {
    for (code, exponent, printed) in [
        ("JPY", 0, "10000"),
        ("KRW", 0, "10000"),
        ("USD", 2, "10000.00"),
        ("CNY", 2, "10000.00"),
        ("KWD", 3, "10000.000"),
    ] {
        assert_eq!(Currency::parse(code).unwrap().exponent(), exponent);
        let quote = Stage::new(code).gpu("a", "10000", 3600).price();
        assert_eq!(quote.total(), printed);
        assert_eq!(quote.totals.total.minor_units(exponent).unwrap(), 10_000 * 10i128.pow(u32::from(exponent)));
    }
    let kuwaiti = Stage::new("KWD").gpu("a", "1.2345", 3600).price();
    assert_eq!(kuwaiti.rows(0), ["rounding currency_exponent 0.0005"]);
    assert_eq!(kuwaiti.total(), "1.235");
    for code in ["", "cny", "XAU", "XXX", "CNYY", "US", "¥"] {
        assert!(Currency::parse(code).is_err(), "{code}");
    }
}

#[test]
fn case_10_less_than_a_minor_unit_is_a_visible_zero() {
    for (price, row) in [("0.004", "-0.004"), ("0.0000000001", "-0.0000000001")] {
        let quote = Stage::new("USD").gpu("a", price, 3600).price();
        assert_eq!(quote.rows(0), [format!("rounding currency_exponent {row}")]);
        assert_eq!(quote.total(), "0.00");
    }
    // A price so small that not even 12 decimals hold it.
    let quote = Stage::new("USD").gpu("a", "0.0000000000000001", 3600).price();
    assert_eq!((quote.rows(0), quote.total()), (Vec::new(), "0.00".to_owned()));
    let nothing = Stage::new("USD").gpu("a", "12", 0).each_line("s", vec![percent("p", "0.5")]).price();
    assert_eq!((nothing.rows(0), nothing.total()), (vec!["s p 0.00".to_owned()], "0.00".to_owned()));
    let refund = Amount::from_minor_units(-1, 2).unwrap();
    assert_eq!((refund.print(2), refund.minor_units(2)), ("-0.01".to_owned(), Ok(-1)));
    let less = Stage::new("USD").gpu("a", "0.05", 3600).whole_cart("cents", vec![on_quote(flat("one_off", "-0.01"))]);
    assert_eq!(
        (less.price().rows(0), less.price().total()),
        (vec!["cents one_off -0.01".to_owned()], "0.04".to_owned())
    );
}

#[test]
fn case_15_blocks_round_up_and_nothing_held_bills_nothing() {
    for (granule, held_s, billed_s) in [
        (Granule::Minute, 61, 120),
        (Granule::Minute, 60, 60),
        (Granule::Minute, 1, 60),
        (Granule::Minute, 0, 0),
        (Granule::Hour, 3601, 7200),
        (Granule::Hour, 0, 0),
        (Granule::Second, 61, 61),
    ] {
        assert_eq!(granule.billed(held_s), Some(billed_s), "{held_s} s by the {}", granule.as_str());
    }
    assert_eq!(Granule::Hour.billed(u64::MAX), None);
    // A reading that runs backwards is a fault of the meter, even inside one block.
    assert_eq!(Granule::Minute.billed_between(61, 119), Some(0));
    assert_eq!(Granule::Minute.billed_between(119, 61), None);
}

#[test]
fn case_33_a_stack_of_discounts_ends_at_nothing_never_below() {
    let discounts = || (percent("tenth", "-0.1"), flat("fifty_off", "-50.00"));
    let line = || Stage::new("CNY").gpu("a", "50.00", 3600);
    let (tenth, fifty) = discounts();
    let in_one_step = line().each_line("discounts", vec![tenth, fifty]).price();
    assert_eq!(in_one_step.rows(0), ["discounts tenth -5.00", "discounts fifty_off -50.00", "discounts cap 5.00"]);
    assert_eq!(in_one_step.total(), "0.00");
    let (tenth, fifty) = discounts();
    let in_two_steps = line().each_line("first", vec![tenth]).each_line("second", vec![fifty]).price();
    assert_eq!(in_two_steps.rows(0), ["first tenth -5.00", "second fifty_off -50.00", "second cap 5.00"]);
    assert_eq!(in_two_steps.total(), "0.00");
    let twice_all = line().each_line("discounts", vec![percent("all", "-1"), percent("again", "-1")]).price();
    assert_eq!(twice_all.rows(0), ["discounts all -50.00", "discounts again -50.00", "discounts cap 50.00"]);
    // A negative rate of nothing is nothing: −100 % and then −100 % is not +100 %, and a later premium raises nothing.
    let later = line()
        .each_line("first", vec![percent("three_times", "-3")])
        .each_line("second", vec![percent("minus", "-1"), percent("plus", "0.5")])
        .price();
    assert_eq!(later.rows(0)[1..], ["first cap 100.00", "second minus 0.00", "second plus 0.00"]);
    assert_eq!(later.total(), "0.00");
    let of_quote = line().whole_cart("coupon", vec![on_quote(flat("coupon", "-80"))]).price();
    assert_eq!(of_quote.rows(0), ["coupon coupon -80.00", "coupon cap 30.00"]);
    assert_eq!(of_quote.total(), "0.00");
    // A line that is not GPU time has no guards, but no payout either.
    let task = Stage::new("CNY")
        .task("t")
        .each_line("measure", vec![measure("units", "2", "5")])
        .each_line("discount", vec![flat("too_much", "-11")])
        .price();
    assert_eq!(task.rows(0), ["measure units 0.00", "discount too_much -11.00", "discount cap 1.00"]);
}

#[test]
fn case_34_a_discount_of_everything_is_legal_where_the_guards_permit_it() {
    let free = |max_discount| {
        Stage::new("CNY")
            .gpu("a", "12.00", 3600)
            .guards(max_discount, None, None)
            .each_line("gift", vec![percent("gift", "-1")])
            .price()
    };
    assert_eq!(
        (free(Some("1")).rows(0), free(Some("1")).total()),
        (vec!["gift gift -12.00".to_owned()], "0.00".to_owned())
    );
    assert_eq!(free(None).total(), "0.00");
    assert_eq!(free(Some("0.6")).rows(0), ["gift gift -12.00", "guards cap 4.80"]);
}

#[test]
fn what_does_not_sum_is_never_shown() {
    let quote = Stage::new("CNY").gpu("a", "12.00", 3600).each_line("s", vec![percent("p", "0.1")]).price();
    assert_eq!(quote.check(), Ok(()));
    let largest = amount("999999999999999");
    let changes: [fn(&mut Settled, Amount); 5] = [
        |quote, _| quote.totals.total = quote.totals.list,
        |quote, _| quote.lines[0].amount = quote.lines[0].list_amount,
        |quote, _| quote.lines[0].adjustments.clear(),
        |quote, _| quote.lines.clear(),
        // Cannot even be summed.
        |quote, largest| quote.lines[0].adjustments[0].amount = largest,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut changed = quote.clone();
        change(&mut changed, largest);
        assert_eq!(changed.check(), Err(SumsDiffer), "change {number}");
    }
}
