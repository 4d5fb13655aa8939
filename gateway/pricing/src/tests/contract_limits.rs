//! What lies just inside the contract: as far as a policy may go.

use rust_decimal::Decimal;

use crate::pipeline::{MethodUsed, PricingError};
use crate::plan::{BASE_STEP, OnFault, Step};
use crate::policy::{AddedLine, Adjustment, Fact, Method, Outcome, Portion, Scope};

use super::stage::{
    Stage, adjust, balance, dec, drawn, flat, measure, minimum, note, on_line, on_quote, percent, portion, reprice,
    says, step,
};

fn ten_hours() -> Stage {
    let mut stage = Stage::new("CNY").gpu("a", "12.00", 36_000);
    stage.balances = vec![balance("pb-1", "prepaid_block", "600")];
    stage
}

#[test]
fn sixty_four_adjustments_on_a_line_and_the_engines_own_on_top() {
    let many = (0..62).map(|number| flat(&format!("c{number}"), "0")).collect();
    let quote =
        ten_hours().each_line("first", many).each_line("second", vec![flat("all", "-500"), note("n", "info")]).price();
    assert_eq!((quote.lines[0].adjustments.len(), quote.notes.len()), (64, 1));
    assert_eq!(quote.rows(0)[62..], ["second all -500.00", "second cap 380.00"]);
    // What the engine adds does not use up what policies may say: 64 shares, each of them capped.
    let shares = (0..64).map(|number| on_quote(flat(&format!("c{number}"), "-120"))).collect();
    let quote = ten_hours().guards(Some("0.5"), None, None).whole_cart("coupons", shares).price();
    assert_eq!((quote.lines[0].adjustments.len(), quote.total()), (128, "60.00".to_owned()));
}

#[test]
fn a_hundred_lines() {
    let added = AddedLine {
        parent: None,
        code: "storage".to_owned(),
        label: "Storage".to_owned(),
        unit: "gib".to_owned(),
        quantity: dec("1"),
        unit_price: dec("1"),
        facts: Vec::new(),
    };
    let outcome = Outcome { added: vec![added; 99], ..Outcome::default() };
    let quote = ten_hours().step(step("storage"), move |_| Ok(outcome.clone())).each_line("s", Vec::new()).price();
    assert_eq!((quote.lines.len(), quote.total()), (100, "219.00".to_owned()));
    assert_eq!(quote.costs[1].evaluations, 100);
}

/// 50 items with a line of storage each fit; one more does not, and no fault rule makes a price of it.
#[test]
fn a_cart_too_long_for_what_is_added_to_it_is_no_fault_of_the_policy() {
    let cart = |items: usize, on_fault: OnFault| {
        let mut stage = Stage::new("CNY");
        for item in 0..items {
            stage = stage.gpu(&format!("r{item}"), "12", 3600);
        }
        let storage = Step { on_fault, ..step("storage") };
        stage.step(storage, |_| {
            let added = AddedLine {
                parent: Some(0),
                code: "storage".to_owned(),
                label: "Storage".to_owned(),
                unit: "gib".to_owned(),
                quantity: dec("1"),
                unit_price: dec("1"),
                facts: Vec::new(),
            };
            Ok(Outcome { added: vec![added], ..Outcome::default() })
        })
    };
    for on_fault in [OnFault::Refuse, OnFault::PreviousVersion, OnFault::Skip] {
        let quote = cart(50, on_fault).price();
        assert_eq!((quote.lines.len(), quote.total()), (100, "650.00".to_owned()));
        let expected = PricingError::TooManyLines { step: "storage".to_owned(), lines: 102 };
        assert_eq!(cart(51, on_fault).try_price().unwrap_err(), expected);
    }
}

#[test]
fn texts_of_200_characters_lose_what_a_terminal_would_obey() {
    let text = |ending: &str| {
        format!("\u{1b}[31m{}\u{7}\r\n\u{9b}\u{202e}\u{2066}\u{2028}\u{feff}\u{e0041}{ending}", "好".repeat(190))
    };
    let shown = |ending: &str| format!("[31m{}{ending}", "好".repeat(190));
    let fact = Fact::new("region", text("f"));
    let adjustment =
        Adjustment { label: text("label"), reason: text("reason"), facts: vec![fact], ..percent("p", "0.1") };
    let told = Adjustment { reason: text("note"), ..note("n", "info") };
    let labelled = Adjustment { label: text("why"), reason: String::new(), ..note("o", "info") };
    let relabelled = Portion { label: text("part"), ..portion("part", "36000", "12") };
    let added = AddedLine {
        parent: Some(0),
        code: "storage".to_owned(),
        label: text("line"),
        unit: "gib".to_owned(),
        quantity: dec("0"),
        unit_price: dec("0"),
        facts: Vec::new(),
    };
    let outcome = Outcome { adjustments: vec![adjustment, told, labelled], added: vec![added], facts: Vec::new() };
    let quote = ten_hours()
        .each_line("first", vec![reprice("r", vec![relabelled])])
        .step(step("second"), move |_| Ok(outcome.clone()))
        .price();
    let made = &quote.lines[0].adjustments[1];
    assert_eq!((&made.label, &made.reason, &made.facts[0].value), (&shown("label"), &shown("reason"), &shown("f")));
    assert_eq!((&quote.notes[0].text, &quote.lines[1].description), (&shown("note"), &shown("line")));
    assert_eq!(quote.notes[1].text, shown("why"));
    let MethodUsed::Reprice(portions) = &quote.lines[0].adjustments[0].method else { panic!("a reprice") };
    assert_eq!(portions[0].label, shown("part"));
}

#[test]
fn a_reprice_may_follow_the_base_and_divide_what_is_left() {
    let quote = ten_hours()
        .each_line(BASE_STEP, vec![percent("bandwidth", "0.5")])
        .each_line(
            "prepaid",
            vec![reprice("prepaid", vec![drawn("block", "600", "0", "pb-1"), portion("rest", "35400", "12")])],
        )
        .step(step("commitment"), |context| {
            let mut portions = context.lines[0].portions[..1].to_vec();
            portions.push(portion("committed", "35400", "8.40"));
            says(vec![reprice("committed", portions)])
        })
        .each_line("features", vec![percent("fsdp", "0.2")])
        .price();
    assert_eq!(
        quote.rows(0),
        ["base bandwidth 60.00", "prepaid prepaid -62.00", "commitment committed -35.40", "features fsdp 16.52",]
    );
    assert_eq!(quote.total(), "99.12");
}

#[test]
fn a_reprice_is_one_product_sum_rounded_once() {
    // Three thirds of a second-price that 12 decimals do not hold: 3 × (1 ÷ 3600) is 1 ÷ 1200, not three roundings.
    let parts = ["p", "q", "r"].map(|code| portion(code, "1", "1"));
    let quote = Stage::new("CNY").gpu("a", "1", 3).each_line("s", vec![reprice("thirds", parts.to_vec())]).price();
    assert_eq!(quote.rows(0)[0], "s thirds 0.00");
}

#[test]
fn a_measured_task_is_repriced_in_its_own_unit() {
    let in_units = |code: &str, quantity: &str, price: &str| Portion {
        unit: "task_unit".to_owned(),
        ..portion(code, quantity, price)
    };
    let quote = Stage::new("CNY")
        .task("t")
        .each_line("tasks", vec![measure("units", "1435.84", "5")])
        .each_line(
            "tiers",
            vec![reprice("tiers", vec![in_units("first", "1000.5", "5"), in_units("next", "435.34", "4")])],
        )
        .price();
    assert_eq!(quote.rows(0), ["tasks units 0.00", "tiers tiers -435.34"]);
    assert_eq!(quote.total(), "6743.86");
}

#[test]
fn rates_of_one_step_add_and_of_two_steps_multiply() {
    let rates = || vec![percent("p", "0.2"), percent("q", "0.1")];
    assert_eq!(ten_hours().each_line("s", rates()).price().total(), "156.00");
    let [p, q] = [percent("p", "0.2"), percent("q", "0.1")];
    assert_eq!(ten_hours().each_line("s", vec![p]).each_line("r", vec![q]).price().total(), "158.40");
    // `percent` means: of what entered the step, whatever else the step does first.
    let mixed = vec![flat("fee", "80"), percent("p", "0.1"), minimum("m", "300")];
    assert_eq!(ten_hours().each_line("s", mixed).price().rows(0), ["s fee 80.00", "s p 12.00", "s m 88.00"]);
}

#[test]
fn a_minimum_is_what_is_missing_where_it_stands() {
    for (least, row) in [("119.99", "0.00"), ("120", "0.00"), ("120.01", "0.01"), ("-5", "0.00")] {
        let quote = ten_hours().each_line("s", vec![minimum("m", least)]).price();
        assert_eq!(quote.rows(0), [format!("s m {row}")], "{least}");
    }
    // Against the discount of its own step, which it is there to bound; also below 0.
    let bounded = |rate| ten_hours().each_line("s", vec![percent("p", rate), minimum("m", "50")]).price();
    assert_eq!(bounded("-0.75").rows(0), ["s p -90.00", "s m 20.00"]);
    assert_eq!(bounded("-2").rows(0), ["s p -240.00", "s m 170.00"]);
    let cart = vec![on_line(0, percent("p", "-0.75")), on_quote(flat("coupon", "-20")), on_quote(minimum("m", "50"))];
    let quote = ten_hours().whole_cart("s", cart).price();
    assert_eq!(quote.rows(0), ["s p -90.00", "s coupon -20.00", "s m 40.00"]);
    assert_eq!(quote.total(), "50.00");
    // A measured task counts with what it measured.
    let task = Stage::new("CNY").task("t").each_line("s", vec![measure("u", "2", "5"), minimum("m", "12")]).price();
    assert_eq!((task.rows(0), task.total()), (vec!["s u 0.00".to_owned(), "s m 2.00".to_owned()], "12.00".to_owned()));
}

#[test]
fn a_step_says_one_code_on_many_lines_and_on_the_quote() {
    let cart = vec![on_line(0, percent("p", "0.1")), on_line(1, percent("p", "0.1")), on_quote(percent("p", "0.1"))];
    let quote = ten_hours().gpu("b", "6.00", 3600).whole_cart("s", cart).price();
    assert_eq!(quote.rows(0), ["s p 12.00", "s p 12.00"]);
    assert_eq!(quote.rows(1), ["s p 0.60", "s p 0.60"]);
}

#[test]
fn the_finest_and_the_largest_numbers_are_exact() {
    let finest = adjust("finest", Method::Percent(Decimal::new(1, 28)));
    let largest = adjust("largest", Method::Amount(dec("999999999999000")));
    let quote = ten_hours()
        .step(Step { scope: Scope::Line, ..step("s") }, move |_| says(vec![finest.clone(), largest.clone()]))
        .price();
    assert_eq!(quote.rows(0), ["s finest 0.00", "s largest 999999999999000.00"]);
    assert_eq!(quote.total(), "999999999999120.00");
}
