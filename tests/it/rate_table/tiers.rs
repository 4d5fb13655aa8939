//! Tiers over every second: each second of a line is in the first tier whose bound is not before its end.

use farebox_pricing::offer::{LineUsage, OfferedQuantity};
use farebox_pricing::price::price;
use farebox_pricing::usage::judge;
use farebox_sandbox::Session;
use farebox_sdk::contract::{Amounts, Context, Line, Method, Outcome};
use farebox_sdk::{Decimal, Price, Quantity};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{catalog, fixture};

/// Bounds in ten-thousandths of a GPU-hour, each 0.36 s; ascending. One more tier is open.
fn bounds() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::btree_set(1u64..14_000, 0..6).prop_map(|bounds| bounds.into_iter().collect())
}

fn table(mode: &str, bounds: &[u64]) -> String {
    let mut tiers: Vec<Value> = bounds
        .iter()
        .enumerate()
        .map(|(tier, bound)| {
            let up_to = Quantity::from(Decimal::from(*bound) / Decimal::from(10_000)).to_string();
            json!({"up_to": up_to, "unit_price": unit_price(tier), "flat_fee": flat_fee(tier)})
        })
        .collect();
    tiers.push(json!({"unit_price": unit_price(bounds.len()), "flat_fee": flat_fee(bounds.len())}));
    json!({"matching": "first", "rules": [{"code": "hours", "label": "Hours", mode: tiers}]}).to_string()
}

fn unit_price(tier: usize) -> String {
    format!("{}.{tier}", tier + 1)
}

/// Powers of two, so that a sum says which were charged.
fn flat_fee(tier: usize) -> String {
    (1u64 << tier).to_string()
}

fn priced(parameters: &str, seconds: u64) -> Outcome {
    let configuration = rate_table::POLICY.configure(parameters).unwrap();
    assert_eq!(configuration.reads, ["amounts", "portions"]);
    let amounts = Amounts {
        unit: "gpu_second".into(),
        quantity: Decimal::from(seconds).into(),
        unit_price: Decimal::TWO.into(),
        list_amount: Decimal::ZERO.into(),
        amount: Decimal::ZERO.into(),
    };
    let line = Line { key: 0, facts: vec![], amounts: Some(amounts), segments: vec![], portions: vec![], usage: None };
    let context = Context { currency: "USD".into(), exponent: 2, lines: vec![line], ..Context::default() };
    rate_table::POLICY.evaluate(&configuration.bytes, context).unwrap()
}

/// Seconds and price of each portion, and the fee.
fn portions(outcome: &Outcome) -> (Vec<(u64, String)>, u64) {
    let [reprice, fee] = outcome.adjustments.as_slice() else { panic!("{outcome:?}") };
    let (Method::Reprice(portions), Method::Amount(fee)) = (&reprice.method, &fee.method) else {
        panic!("{outcome:?}")
    };
    let number = |value: Decimal| value.normalize().to_string().parse::<u64>().unwrap();
    let portions = portions.iter().map(|portion| {
        let price = Price::from(portion.unit_price.exact().unwrap());
        (number(portion.quantity.exact().unwrap()), price.to_string())
    });
    (portions.collect(), number(fee.exact().unwrap()))
}

/// The tier of a whole quantity, or of the second that ends there.
fn tier_of(seconds: u64, bounds: &[u64]) -> usize {
    bounds.iter().position(|bound| seconds * 10_000 <= bound * 3600).unwrap_or(bounds.len())
}

fn shown(price: String) -> String {
    price.parse::<Price>().unwrap().to_string()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_second_is_in_the_tier_that_holds_its_end(bounds in bounds(), seconds in 0u64..6_000) {
        let mut in_tier = vec![0u64; bounds.len() + 1];
        (1..=seconds).for_each(|second| in_tier[tier_of(second, &bounds)] += 1);
        let filled = in_tier.iter().enumerate().filter(|(_, count)| **count > 0);
        let expected: Vec<_> = filled.map(|(tier, count)| (*count, shown(unit_price(tier)))).collect();
        // Reached: the first always, any other once a second is in it or beyond it.
        let last = tier_of(seconds, &bounds);
        let fees = (0..=last).map(|tier| 1u64 << tier).sum::<u64>();
        let (found, fee) = portions(&priced(&table("graduated", &bounds), seconds));
        prop_assert_eq!(found.iter().map(|(count, _)| count).sum::<u64>(), seconds);
        prop_assert_eq!((found, fee), (expected, fees));
    }

    #[test]
    fn a_volume_price_is_that_of_the_last_second(bounds in bounds(), seconds in 0u64..6_000) {
        let tier = tier_of(seconds, &bounds);
        let expected = if seconds == 0 { vec![] } else { vec![(seconds, shown(unit_price(tier)))] };
        prop_assert_eq!(portions(&priced(&table("volume", &bounds), seconds)), (expected, 1u64 << tier));
    }
}

/// `money.md` 14, as a charge for no use will see it: a quote cannot ask for no time.
#[test]
fn the_first_flat_fee_is_charged_at_zero_usage() {
    let body = fixture("cases/tiers-flat-fee/request.json").to_string();
    let request = farebox::intake::Intake::new().unwrap().read(body.as_bytes()).unwrap().request;
    let mut resolved = catalog().resolve(&request, "2026-12-01T00:00:00Z".parse().unwrap()).unwrap();
    resolved.offer.items[0].quantity = OfferedQuantity::GpuSeconds(0);
    let rules = resolved.version.plan.usage.clone();
    let input = resolved.offer.with_usage(|_| LineUsage { observation: None, judged: judge(None, &rules) });
    let settled = price(&input, &mut Session::new(&resolved.version.policies)).unwrap();
    assert_eq!(settled.totals.list.print(2), "0.00");
    assert_eq!(settled.totals.total.print(2), "25.00");
    let rows: Vec<_> =
        settled.lines[0].adjustments.iter().map(|row| (row.code.as_str(), row.amount.print(2))).collect();
    assert_eq!(rows, [("h100_hours", "0.00".to_owned()), ("h100_hours_fee", "25.00".to_owned())]);
}
