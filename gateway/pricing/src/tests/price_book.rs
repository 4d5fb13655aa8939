//! Which row of a price book prices a request, and what the refusals say.

use jiff::Timestamp;

use crate::currency::Currency;
use crate::price_book::{DuplicateRow, Market, PriceBook, PriceQuery, PriceRow};

use super::stage::dec;

fn instant(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn row(gpu_model: &str, region: &str, min_gpus: u32, from: &str, price: &str) -> PriceRow {
    PriceRow {
        gpu_model: gpu_model.to_owned(),
        region: region.to_owned(),
        market: Market::OnDemand,
        min_gpus,
        unit_price: dec(price),
        memory_gib: None,
        network_gbps: None,
        effective_from: instant(from),
    }
}

fn try_book(rows: Vec<PriceRow>) -> Result<PriceBook, DuplicateRow> {
    PriceBook::new("cn-2026".to_owned(), 1, Currency::parse("CNY").unwrap(), rows)
}

const JANUARY: &str = "2026-01-01T00:00:00Z";
const MARCH: &str = "2026-03-01T00:00:00Z";

fn book() -> PriceBook {
    try_book(vec![
        row("A100", "cn-east-1", 1, JANUARY, "12.00"),
        row("A100", "cn-east-1", 8, JANUARY, "11.00"),
        row("A100", "cn-east-1", 1, MARCH, "13.00"),
        row("A100", "cn-east-1", 64, MARCH, "10.00"),
        row("A100", "cn-west-1", 4, MARCH, "9.00"),
        PriceRow { market: Market::Spot, ..row("V100", "cn-east-1", 1, JANUARY, "0.000096774") },
    ])
    .unwrap()
}

fn query<'a>(gpu_model: &'a str, region: &'a str, gpu_count: u32, at: &str) -> PriceQuery<'a> {
    PriceQuery { gpu_model, region, market: Market::OnDemand, gpu_count, at: instant(at) }
}

#[test]
fn the_largest_number_of_gpus_then_the_newest_price_wins() {
    let book = book();
    let price = |gpu_count, at| book.resolve(query("A100", "cn-east-1", gpu_count, at)).unwrap().unit_price;
    for (gpu_count, at, expected) in [
        (1, JANUARY, "12.00"),
        (7, "2026-02-28T23:59:59.999999999Z", "12.00"),
        (7, MARCH, "13.00"),
        (8, JANUARY, "11.00"),
        (8, MARCH, "11.00"),
        (64, "2026-02-28T23:59:59Z", "11.00"),
        (63, MARCH, "11.00"),
        (64, MARCH, "10.00"),
        (u32::MAX, "2099-01-01T00:00:00Z", "10.00"),
    ] {
        assert_eq!(price(gpu_count, at), dec(expected), "{gpu_count} GPUs at {at}");
    }
    assert_eq!(book.id(), "cn-2026@1");
    assert_eq!(book.rows().count(), 6);
}

#[test]
fn the_order_of_rows_is_irrelevant() {
    let mut rows: Vec<PriceRow> = book().rows().cloned().collect();
    rows.reverse();
    let turned = try_book(rows).unwrap();
    for gpu_count in [1, 8, 64] {
        for at in [JANUARY, MARCH] {
            let query = query("A100", "cn-east-1", gpu_count, at);
            assert_eq!(turned.resolve(query), book().resolve(query));
        }
    }
}

#[test]
fn two_rows_for_one_key_are_refused_by_their_positions() {
    let rows = vec![
        row("A100", "cn-east-1", 1, JANUARY, "12.00"),
        row("A100", "cn-east-1", 2, JANUARY, "12.00"),
        row("A100", "cn-east-1", 1, JANUARY, "12.50"),
    ];
    let error = try_book(rows).unwrap_err();
    assert_eq!(error, DuplicateRow { first: 0, second: 2 });
    assert_eq!(error.to_string(), "row 2 repeats row 0: same model, region, market, `min_gpus` and `effective_from`");
}

#[test]
fn a_refusal_says_what_there_is() {
    let refusal = |query: PriceQuery<'_>| book().resolve(query).unwrap_err().to_string();
    assert_eq!(
        refusal(query("H200", "cn-east-1", 1, MARCH)),
        "price book `cn-2026` has no GPU model `H200`; it has `A100`, `V100`"
    );
    assert_eq!(
        refusal(query("A100", "eu-2", 1, MARCH)),
        "price book `cn-2026` has no price for `A100` in region `eu-2`; it has `cn-east-1`, `cn-west-1`"
    );
    assert_eq!(
        refusal(query("V100", "cn-east-1", 1, MARCH)),
        "price book `cn-2026` does not sell `V100` in `cn-east-1` as `on_demand`; it sells `spot`"
    );
    assert_eq!(
        refusal(query("A100", "cn-west-1", 3, MARCH)),
        "price book `cn-2026` sells `A100` in `cn-west-1` from 4 GPUs on, not 3"
    );
    assert_eq!(
        refusal(query("A100", "cn-west-1", 4, JANUARY)),
        "price book `cn-2026` prices `A100` in `cn-west-1` only from 2026-03-01T00:00:00Z on"
    );
    // No GPUs at all: not a division by zero, not the cheapest row.
    assert_eq!(
        refusal(query("A100", "cn-east-1", 0, JANUARY)),
        "price book `cn-2026` sells `A100` in `cn-east-1` from 1 GPUs on, not 0"
    );
}

#[test]
fn a_long_list_is_cut_and_an_empty_book_says_so() {
    let rows = (0..11).map(|number| row(&format!("M{number:02}"), "r", 1, JANUARY, "1")).collect();
    let refusal = try_book(rows).unwrap().resolve(query("A100", "r", 1, MARCH)).unwrap_err().to_string();
    assert!(refusal.ends_with("it has `M00`, `M01`, `M02`, `M03`, `M04`, `M05`, `M06`, `M07` and 3 more"), "{refusal}");
    let refusal = try_book(Vec::new()).unwrap().resolve(query("A100", "r", 1, MARCH)).unwrap_err().to_string();
    assert_eq!(refusal, "price book `cn-2026` has no GPU model `A100`; it has nothing");
}
