//! Guards: cap, then floor, and the floor wins; on the part of a GPU line that has a price of its own.

use num_rational::BigRational;
use proptest::prelude::*;
use rust_decimal::Decimal;

use crate::amount::Rounding;
use crate::policy::Portion;

use super::oracle::{computed, exactly, ratio, rounded, whole};
use super::stage::{Stage, balance, drawn, flat, measure, on_quote, percent, portion, reprice};

/// Ten hours at 12.00: list 120.00.
fn ten_hours(guards: [Option<&str>; 3]) -> Stage {
    let [max_discount, max_surcharge, floor] = guards;
    Stage::new("CNY").gpu("a", "12.00", 36_000).guards(max_discount, max_surcharge, floor)
}

#[test]
fn each_guard_alone_and_at_its_bound() {
    for (guards, change, rows, total) in [
        ([Some("0.6"), None, None], "-71.99", &[][..], "48.01"),
        ([Some("0.6"), None, None], "-72.00", &[], "48.00"),
        ([Some("0.6"), None, None], "-72.01", &["guards cap 0.01"], "48.00"),
        ([Some("0"), None, None], "-0.01", &["guards cap 0.01"], "120.00"),
        ([None, Some("2"), None], "240.00", &[], "360.00"),
        ([None, Some("2"), None], "240.01", &["guards cap -0.01"], "360.00"),
        ([None, Some("0"), None], "5", &["guards cap -5.00"], "120.00"),
        ([None, None, Some("0.5")], "-115", &[], "5.00"),
        ([None, None, Some("0.5")], "-115.01", &["guards floor 0.01"], "5.00"),
        // Cap, then floor: both are shown where both are reached.
        ([Some("0.6"), None, Some("5")], "-80", &["guards cap 8.00", "guards floor 2.00"], "50.00"),
        ([Some("0.6"), None, Some("4")], "-80", &["guards cap 8.00"], "48.00"),
        // The floor wins over both caps, even above the highest surcharge.
        ([None, Some("0.1"), Some("20")], "100", &["guards cap -88.00", "guards floor 68.00"], "200.00"),
        ([Some("0"), Some("0"), Some("13")], "0", &["guards floor 10.00"], "130.00"),
        ([None, None, None], "99999", &[], "100119.00"),
    ] {
        let quote = ten_hours(guards).each_line("s", vec![flat("change", change)]).price();
        assert_eq!(quote.rows(0)[1..], *rows, "{guards:?} {change}");
        assert_eq!(quote.total(), total, "{guards:?} {change}");
    }
}

#[test]
fn guards_say_why_in_words() {
    let reason = |guards, change| {
        let quote = ten_hours(guards).each_line("s", vec![flat("change", change)]).price();
        let last = quote.lines[0].adjustments.last().unwrap().clone();
        (last.step_index, last.label, last.reason)
    };
    let told = |label: &str, reason: &str| (None, label.to_owned(), reason.to_owned());
    assert_eq!(reason([Some("0.60"), None, None], "-100"), told("Discount cap", "at most 60 % below list"));
    assert_eq!(reason([None, Some("2.00"), None], "999"), told("Price cap", "at most 200 % above list"));
    assert_eq!(reason([None, None, Some("0.50")], "-120"), told("Price floor", "at least 0.5 per GPU-hour"));
}

#[test]
fn guards_come_before_rounding_and_after_the_last_step() {
    // 0.333 of 10.01 off leaves 6.67667; the cap is exact, the rounding a row of its own.
    let quote = Stage::new("CNY")
        .gpu("a", "10.01", 3600)
        .guards(Some("0.333"), None, None)
        .each_line("s", vec![percent("half", "-0.5")])
        .price();
    assert_eq!(quote.rows(0)[1..], ["guards cap 1.67167", "rounding currency_exponent 0.00333"]);
    // Between steps a line may be below its guards: a later surcharge counts.
    let steps = |guards| {
        ten_hours(guards).each_line("s", vec![percent("deal", "-0.7")]).each_line("r", vec![percent("spot", "0.5")])
    };
    assert_eq!(steps([Some("0.6"), None, None]).price().rows(0), ["s deal -84.00", "r spot 18.00"]);
}

#[test]
fn what_is_not_gpu_time_has_no_guards() {
    let quote = Stage::new("CNY")
        .task("t")
        .guards(Some("0"), Some("0"), Some("100"))
        .each_line("tasks", vec![measure("units", "10", "5")])
        .each_line("deal", vec![percent("half", "-0.5")])
        .price();
    assert_eq!(quote.total(), "25.00");
}

/// Ten hours, of which `seconds` are free and drawn from a block, the rest at 12.00.
fn partly_free(seconds: u64, guards: [Option<&str>; 3]) -> Stage {
    let portions = vec![
        drawn("prepaid", &seconds.to_string(), "0", "pb-1"),
        portion("rest", &(36_000 - seconds).to_string(), "12.00"),
    ];
    let mut stage = ten_hours(guards).each_line("block", vec![reprice("prepaid", portions)]);
    stage.balances = vec![balance("pb-1", "prepaid_block", "36000")];
    stage
}

#[test]
fn free_time_is_left_out_of_what_guards_are_measured_against() {
    // Five hours are prepaid: that is no discount of 50 %, and the floor holds for the other five.
    let halved = partly_free(18_000, [Some("0.4"), None, Some("0.5")]).price();
    assert_eq!((halved.rows(0), halved.total()), (vec!["block prepaid -60.00".to_owned()], "60.00".to_owned()));
    let deal = partly_free(18_000, [Some("0.4"), None, None]).each_line("s", vec![percent("half", "-0.5")]).price();
    assert_eq!(deal.rows(0)[1..], ["s half -30.00", "guards cap 6.00"]);
    let dear = partly_free(18_000, [None, Some("0.1"), None]).each_line("s", vec![percent("fsdp", "0.2")]).price();
    assert_eq!(dear.rows(0)[1..], ["s fsdp 12.00", "guards cap -6.00"]);
    let floor = partly_free(18_000, [None, None, Some("11")]).each_line("s", vec![percent("half", "-0.5")]).price();
    assert_eq!(
        (floor.rows(0)[2..].to_vec(), floor.total()),
        (vec!["guards floor 25.00".to_owned()], "55.00".to_owned())
    );
    // All of it is free: it stays at 0.00 under a floor, and no fee can be put on it.
    let free = partly_free(36_000, [Some("0.4"), Some("2"), Some("0.5")]).price();
    assert_eq!((free.rows(0), free.total()), (vec!["block prepaid -120.00".to_owned()], "0.00".to_owned()));
    let fee = partly_free(36_000, [None, Some("2"), None]).each_line("s", vec![flat("fee", "3")]).price();
    assert_eq!(fee.rows(0)[1..], ["s fee 3.00", "guards cap -3.00"]);
}

#[test]
fn a_commitment_is_guarded_like_any_other_price() {
    let committed = vec![Portion { unit_price: "8.40".parse().unwrap(), ..drawn("committed", "36000", "0", "cm-1") }];
    let mut stage =
        ten_hours([Some("0.25"), None, None]).each_line("commitment", vec![reprice("committed", committed)]);
    stage.balances = vec![balance("cm-1", "commitment", "36000")];
    assert_eq!(stage.price().rows(0), ["commitment committed -36.00", "guards cap 6.00"]);
}

#[test]
fn a_share_of_the_quote_stays_within_the_guards_of_its_line() {
    let quote = |first: &str, coupon: &str| {
        ten_hours([Some("0.6"), Some("0.5"), None])
            .each_line("s", vec![flat("change", first)])
            .whole_cart("coupon", vec![on_quote(flat("coupon", coupon))])
            .each_line("later", vec![percent("nothing", "0")])
            .price()
    };
    assert_eq!(quote("-70", "-5").rows(0)[1..3], ["coupon coupon -5.00", "coupon cap 3.00"]);
    assert_eq!(quote("58", "5").rows(0)[1..3], ["coupon coupon 5.00", "coupon cap -3.00"]);
    assert_eq!(quote("-70", "-2").rows(0)[1..3], ["coupon coupon -2.00", "later nothing 0.00"]);
    // What the line was beyond its guards before is not the share's: it waits for the end.
    assert_eq!(
        quote("-80", "-5").rows(0)[1..],
        ["coupon coupon -5.00", "coupon cap 5.00", "later nothing 0.00", "guards cap 8.00"]
    );
    assert_eq!(quote("-80", "5").rows(0)[1..], ["coupon coupon 5.00", "later nothing 0.00", "guards cap 3.00"]);
    assert_eq!(
        quote("70", "5").rows(0)[1..],
        ["coupon coupon 5.00", "coupon cap -5.00", "later nothing 0.00", "guards cap -10.00"]
    );
    let floored = ten_hours([Some("0.6"), None, Some("5")])
        .each_line("s", vec![flat("change", "-60")])
        .whole_cart("coupon", vec![on_quote(flat("coupon", "-30"))])
        .price();
    assert_eq!(floored.rows(0)[1..], ["coupon coupon -30.00", "coupon cap 18.00", "coupon floor 2.00"]);
}

fn share() -> impl Strategy<Value = Decimal> {
    (0i64..=400).prop_map(|hundredths| Decimal::new(hundredths, 2))
}

/// cap, then floor, then rounding, written from the definition.
fn expected(
    before: BigRational,
    list: &BigRational,
    floor: Option<BigRational>,
    caps: [Option<Decimal>; 2],
) -> BigRational {
    let [max_discount, max_surcharge] = caps;
    let mut amount = before;
    if let Some(share) = max_surcharge {
        amount = amount.min(list + computed(&(list * ratio(share))));
    }
    if let Some(share) = max_discount {
        amount = amount.max(list - computed(&(list * ratio(share))));
    }
    if let Some(floor) = floor {
        amount = amount.max(computed(&floor));
    }
    rounded(&amount, 2, Rounding::HalfAwayFromZero)
}

proptest! {
    #[test]
    fn guards_hold_for_any_line(
        list_price in 1i64..=9_999, price in 0i64..=9_999, seconds in 1i64..=1_000_000, free_share in 0i64..=10,
        rate in -120i64..=500, max_discount in prop::option::of(share()), max_surcharge in prop::option::of(share()),
        floor in prop::option::of(0i64..=9_999),
    ) {
        let max_discount = max_discount.map(|share| share.min(Decimal::ONE));
        let free_s = seconds * free_share / 10;
        let paid_s = seconds - free_s;
        let [list_price, price] = [list_price, price].map(|cents| Decimal::new(cents, 2));
        let portions = vec![
            portion("given_away", &free_s.to_string(), "0"),
            Portion { unit_price: price, ..portion("rest", &paid_s.to_string(), "0") },
        ];
        let mut stage = Stage::new("CNY")
            .gpu("a", &list_price.to_string(), u64::try_from(seconds).unwrap())
            .each_line("portions", vec![reprice("portions", portions)])
            .each_line("rate", vec![percent("rate", &Decimal::new(rate, 2).to_string())]);
        let floor = floor.map(|cents| Decimal::new(cents, 2));
        (stage.plan.guards.max_discount, stage.plan.guards.max_surcharge) = (max_discount, max_surcharge);
        stage.plan.guards.floor_unit_price = floor;
        let quote = stage.price();

        let hours = |price: Decimal, seconds: i64| ratio(price) * whole(seconds) / whole(3600);
        let paid = computed(&hours(price, paid_s));
        let before = (&paid + computed(&(&paid * ratio(Decimal::new(rate, 2))))).max(whole(0));
        // Nothing is drawn from a balance, so guards hold for all of it: a policy cannot give away what they protect.
        let list = computed(&hours(list_price, seconds));
        let floor = floor.map(|price| hours(price, seconds));
        prop_assert_eq!(exactly(quote.totals.total), expected(before, &list, floor, [max_discount, max_surcharge]));
    }
}
