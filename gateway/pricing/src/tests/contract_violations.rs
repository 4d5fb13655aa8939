//! Policies that break the contract, one way each: a fault under `refuse`, and under `skip` a step that never was.

use rust_decimal::Decimal;

use crate::pipeline::PricingError;
use crate::plan::{OnFault, Step};
use crate::policy::{
    AddedLine, Adjustment, Advice, Balance, Fact, Fault, Measurement, Method, Outcome, Portion, Scope,
};
use crate::reads::Reads;
use crate::settle::Settled;

use super::stage::{
    Stage, adjust, balance, dec, drawn, fact, flat, measure, minimum, note, on_line, on_quote, percent, portion,
    reprice, says, step,
};

/// A step that answers `outcome` for one line (or for all, with scope `quote`), after one that made `before`.
struct Case {
    expected: &'static str,
    target: &'static str,
    step: Step,
    before: Vec<Adjustment>,
    outcome: Outcome,
    /// GPU-seconds on `pb-1`.
    remaining: &'static str,
}

fn case(expected: &'static str, adjustments: Vec<Adjustment>) -> Case {
    let outcome = Outcome { adjustments, ..Outcome::default() };
    Case { expected, target: "a", step: step("faulty"), before: Vec::new(), outcome, remaining: "36000" }
}

fn quote_case(expected: &'static str, adjustments: Vec<Adjustment>) -> Case {
    let step = Step { scope: Scope::Quote, ..step("faulty") };
    Case { step, ..case(expected, adjustments) }
}

fn adding(expected: &'static str, change: impl FnOnce(&mut AddedLine)) -> Case {
    let mut line = storage();
    change(&mut line);
    let outcome = Outcome { added: vec![line], ..Outcome::default() };
    Case { outcome, ..case(expected, Vec::new()) }
}

fn storage() -> AddedLine {
    AddedLine {
        parent: Some(0),
        code: "storage".to_owned(),
        label: "Storage".to_owned(),
        unit: "gib_month".to_owned(),
        quantity: dec("10"),
        unit_price: dec("0.35"),
        facts: Vec::new(),
    }
}

/// Ten A100-hours at 12.00, one at 6.00 and a task; the faulty step stands between one before and two after it.
fn stage(case: &Case, faulty: Option<OnFault>) -> Stage {
    let target = case.target;
    let mut stage = Stage::new("CNY").gpu("a", "12.00", 36_000).gpu("b", "6.00", 3600).task("t");
    stage.balances = vec![balance("pb-1", "prepaid_block", case.remaining), balance("w-1", "wallet", "36000")];
    let before = case.before.clone();
    stage = stage.step(step("before"), move |context| {
        says(if fact(&context.lines[0], "line.ref") == target { before.clone() } else { Vec::new() })
    });
    if let Some(on_fault) = faulty {
        let outcome = case.outcome.clone();
        stage = stage.step(Step { on_fault, ..case.step.clone() }, move |context| {
            let concerned = context.lines.len() > 1 || fact(&context.lines[0], "line.ref") == target;
            Ok(if concerned { outcome.clone() } else { Outcome::default() })
        });
    }
    stage
        .step(step("tasks"), |context| {
            let unmeasured = context.lines[0].amounts.unwrap().unit == "task";
            says(if unmeasured { vec![measure("units", "4", "2.5")] } else { Vec::new() })
        })
        .each_line("after", vec![percent("tenth", "0.1")])
}

fn shown(quote: &Settled) -> Vec<(Vec<String>, String)> {
    (0..quote.lines.len()).map(|line| (quote.rows(line), quote.line(line))).collect()
}

fn assert_violates(cases: Vec<Case>) {
    for case in cases {
        let (expected, told) = (case.expected, format!("{:?}", case.outcome).chars().take(300).collect::<String>());
        for on_fault in [OnFault::Refuse, OnFault::PreviousVersion] {
            match stage(&case, Some(on_fault)).try_price() {
                Err(PricingError::Faulted { fault: Fault::ContractViolation(text), step, .. }) => {
                    assert!(text.contains(expected), "`{text}` does not say `{expected}`: {told}");
                    assert_eq!(step, "faulty");
                    assert!(text.chars().count() < 120 && !text.contains(char::is_control), "{text}");
                }
                other => panic!("`{expected}` is not found in {told}: {:?}", other.map(|quote| shown(&quote))),
            }
        }
        let skipped = stage(&case, Some(OnFault::Skip)).price();
        let without = stage(&case, None).price();
        assert_eq!(shown(&skipped), shown(&without), "{expected}: {told}");
        assert_eq!(skipped.totals, without.totals);
        let notes = skipped.notes.iter().skip(without.notes.len());
        let codes: Vec<&str> = notes.map(|note| note.code.as_str()).collect();
        assert_eq!(codes, ["step_skipped"], "{expected}");
        assert_eq!(skipped.skipped.len(), 1);
    }
}

#[test]
fn the_stage_without_a_violation_has_a_price() {
    let quote = stage(&case("", vec![percent("fine", "0.5")]), Some(OnFault::Refuse)).price();
    assert_eq!(quote.rows(0), ["faulty fine 60.00", "after tenth 18.00"]);
    assert_eq!(quote.total(), "215.60");
}

#[test]
fn words() {
    let kind = |kind: &str| Adjustment { kind: kind.to_owned(), ..percent("p", "0") };
    let produces =
        |codes: &[&str]| Step { produces: codes.iter().map(|&it| it.to_owned()).collect(), ..step("faulty") };
    let long = "é".repeat(201);
    let wide = percent("p", "0");
    assert_violates(vec![
        case("unknown kind `bonus`", vec![kind("bonus")]),
        case("unknown kind ``", vec![kind("")]),
        case("unknown kind `cap`", vec![kind("cap")]),
        case("unknown kind `rounding`", vec![kind("rounding")]),
        case("unknown kind `[2J`", vec![kind("\u{1b}[2J")]),
        case("unknown level `error`", vec![note("n", "error")]),
        case("unknown level ``", vec![note("n", "")]),
        Case { step: produces(&["p", "q.*"]), ..case("code `r` is not among", vec![percent("r", "0")]) },
        Case { step: produces(&["p", "q.*"]), ..case("code `qx` is not among", vec![note("qx", "info")]) },
        Case { step: produces(&[]), ..case("code `p` is not among", vec![percent("p", "0")]) },
        case("`` is not a code", vec![percent("", "0")]),
        case("`p[0m` is not a code", vec![percent("p\u{1b}[0m", "0")]),
        case("code `p` twice", vec![percent("p", "0"), flat("p", "1")]),
        case("code `p` twice", vec![percent("p", "0"), note("p", "info")]),
        quote_case("code `p` twice", vec![on_quote(percent("p", "0")), on_quote(minimum("p", "1"))]),
        case("more than 200 characters", vec![percent(&long, "0")]),
        case("more than 200 characters", vec![Adjustment { label: long.clone(), ..wide.clone() }]),
        case("more than 200 characters", vec![Adjustment { reason: long.clone(), ..wide.clone() }]),
        case("more than 200 characters", vec![Adjustment { reason: "x".repeat(10_000_000), ..wide }]),
        case("more than 200 characters", vec![Adjustment { reason: long, ..note("n", "info") }]),
    ]);
}

#[test]
fn lines_that_are_not_there() {
    assert_violates(vec![
        case("names a line that is not there", vec![on_line(1, percent("p", "0"))]),
        case("names a line that is not there", vec![on_line(u32::MAX, note("n", "info"))]),
        quote_case("names a line that is not there", vec![on_line(3, percent("p", "0"))]),
        case("the whole quote with scope `line`", vec![on_quote(percent("p", "0"))]),
        case("the whole quote with scope `line`", vec![on_quote(note("n", "info"))]),
        adding("names a line that is not there", |line| line.parent = Some(1)),
    ]);
}

#[test]
fn repricing() {
    let whole = || vec![portion("all", "36000", "10")];
    let of = |portions: Vec<Portion>| vec![reprice("r", portions)];
    let blind = Step { reads: Reads::parse(&["line.ref", "balance.wallet"]).unwrap(), ..step("faulty") };
    let in_units = Portion { unit: "task_unit".to_owned(), ..portion("p", "36000", "1") };
    let long_label = Portion { label: "x".repeat(201), ..portion("p", "36000", "1") };
    assert_violates(vec![
        case("do not sum", of(vec![portion("p", "35999", "1")])),
        case("do not sum", of(vec![portion("p", "36000", "1"), portion("q", "1", "1")])),
        case("do not sum", of(Vec::new())),
        case("do not sum", of(vec![Portion { quantity: Decimal::MAX, ..portion("p", "0", "0") }; 3])),
        case("not in the line's unit", of(vec![in_units])),
        Case { target: "t", ..case("not in the line's unit", of(vec![portion("p", "1", "1")])) },
        Case {
            target: "t",
            ..case("not in the line's unit", of(vec![Portion { unit: "task".to_owned(), ..portion("p", "1", "1") }]))
        },
        case("`p` is negative", of(vec![portion("p", "-1", "1"), portion("q", "36001", "1")])),
        case("`p` is negative", of(vec![portion("p", "36000", "-0.01")])),
        case("not in whole seconds", of(vec![portion("p", "0.5", "1"), portion("q", "35999.5", "1")])),
        case("draws on a balance that is not there", of(vec![drawn("p", "36000", "0", "pb-2")])),
        case("draws on a balance that is not there", of(vec![drawn("p", "36000", "0", "")])),
        Case {
            step: blind,
            ..case("draws on a balance that is not there", of(vec![drawn("p", "36000", "0", "pb-1")]))
        },
        case("`` is not a code", of(vec![portion("", "36000", "1")])),
        case("more than 200 characters", of(vec![long_label])),
        case("repriced twice", vec![reprice("r", whole()), reprice("s", whole())]),
        case("one line in one step", vec![reprice("r", whole()), percent("p", "0")]),
        case("one line in one step", vec![percent("p", "0"), reprice("r", whole())]),
        quote_case("one line in one step", vec![reprice("r", whole()), on_quote(percent("p", "0.1"))]),
        Case { before: vec![percent("p", "0")], ..case("a reprice after a percentage", of(whole())) },
        quote_case("a quote-level reprice", vec![on_quote(reprice("r", whole()))]),
        quote_case("a quote-level reprice", vec![on_quote(measure("m", "1", "1"))]),
    ]);
}

#[test]
fn repricing_keeps_what_was_drawn() {
    let earlier = |portions: Vec<Portion>| vec![reprice("earlier", portions)];
    let after = |before: Vec<Portion>, portions: Vec<Portion>| Case {
        before: earlier(before),
        ..case("of an earlier step is not kept", vec![reprice("r", portions)])
    };
    let (half, free) = (drawn("prepaid", "18000", "3", "pb-1"), drawn("free", "18000", "0", "w-1"));
    let rest = || portion("rest", "18000", "12");
    assert_violates(vec![
        after(vec![half.clone(), rest()], vec![portion("all", "36000", "12")]),
        after(vec![half.clone(), rest()], vec![drawn("prepaid", "18000", "2.99", "pb-1"), rest()]),
        after(vec![half.clone(), rest()], vec![drawn("prepaid", "18000", "3", "w-1"), rest()]),
        after(vec![half.clone(), rest()], vec![drawn("prepaid", "17999", "3", "pb-1"), portion("q", "18001", "12")]),
        after(vec![free.clone(), rest()], vec![drawn("free", "18000", "0.01", "w-1"), rest()]),
        // Two equal draws are two draws.
        after(vec![half.clone(), half.clone()], vec![half, rest()]),
        after(vec![free.clone(), free.clone()], vec![free, rest()]),
    ]);
}

#[test]
fn drawing_more_than_remains() {
    let of = |portions: Vec<Portion>| vec![reprice("r", portions)];
    let rest = |seconds: &str| portion("rest", seconds, "12");
    let units = Portion { unit: "task_unit".to_owned(), ..drawn("p", "4", "0", "pb-1") };
    let earlier = || vec![reprice("earlier", vec![drawn("p", "12000", "0", "pb-1"), rest("24000")])];
    let more = |seconds: &str, left: &str| {
        of(vec![drawn("p", "12000", "0", "pb-1"), drawn("q", seconds, "3", "pb-1"), rest(left)])
    };
    let lacking = |case: Case| Case { remaining: "20000", ..case };
    let two_lines = |seconds: &str, left: &str| {
        vec![
            on_line(0, reprice("r", vec![drawn("p", seconds, "0", "pb-1"), rest(left)])),
            on_line(1, reprice("r", vec![drawn("p", "3600", "0", "pb-1")])),
        ]
    };
    assert_violates(vec![
        lacking(case("draws more on a prepaid_block", of(vec![drawn("p", "20001", "0", "pb-1"), rest("15999")]))),
        lacking(Case { before: earlier(), ..case("draws more on a prepaid_block", more("8001", "15999")) }),
        lacking(quote_case("draws more on a prepaid_block", two_lines("16401", "19599"))),
        Case {
            target: "t",
            before: vec![measure("units", "4", "1")],
            ..case("something else than GPU time", of(vec![units]))
        },
    ]);
    // Just what remains, on one line, after an earlier step and over two lines.
    for within in [
        lacking(case("", of(vec![drawn("p", "20000", "0", "pb-1"), rest("16000")]))),
        lacking(Case { before: earlier(), ..case("", more("8000", "16000")) }),
        lacking(quote_case("", two_lines("16400", "19600"))),
    ] {
        assert!(stage(&within, Some(OnFault::Refuse)).try_price().is_ok());
    }
}

#[test]
fn drawing_more_money_than_remains() {
    let quote = |price: &str, unit_price: &str| {
        let portions = vec![drawn("p", "1800", price, "w-1"), portion("rest", "1800", unit_price)];
        let mut stage = Stage::new("CNY").gpu("a", "12.00", 3600).gpu("b", "12.00", 3600);
        stage.balances = vec![Balance { unit: "money".to_owned(), ..balance("w-1", "wallet", "12.5") }];
        stage.each_line("wallet", vec![reprice("r", portions)]).try_price()
    };
    // Two lines of half an hour: 12.50 is 12.5 per GPU-hour; what is not drawn may cost anything.
    assert_eq!(quote("12.5", "99").unwrap().total(), "111.50");
    let error = quote("12.50000001", "0").unwrap_err();
    assert!(error.to_string().ends_with("draws more on a wallet than remains"), "{error}");
}

#[test]
fn a_price_of_0_that_a_policy_set_may_be_set_again() {
    let free = case("", vec![reprice("r", vec![portion("all", "36000", "12")])]);
    let given_away = vec![portion("gift", "18000", "0"), portion("rest", "18000", "12")];
    let quote = stage(&Case { before: vec![reprice("gift", given_away)], ..free }, Some(OnFault::Refuse)).price();
    assert_eq!(quote.rows(0)[..2], ["before gift -60.00", "faulty r 60.00"]);
}

#[test]
fn more_than_three_what_ifs() {
    let asking = |count: usize, of: &str| {
        let what_if = vec![Fact::new("/workload/execution", "compiled")];
        let advice = Advice { level: "advice".to_owned(), what_if };
        (0..count).map(|it| adjust(&format!("{of}{it}"), Method::Note(advice.clone()))).collect::<Vec<_>>()
    };
    assert_violates(vec![
        case("more than 3 notes with a what-if", asking(4, "n")),
        Case { before: asking(2, "m"), ..case("more than 3 notes with a what-if", asking(2, "n")) },
        quote_case("more than 3 notes with a what-if", asking(4, "n").into_iter().map(on_quote).collect()),
    ]);
    let quote = stage(&case("", [asking(3, "n"), vec![note("m", "info")]].concat()), Some(OnFault::Refuse)).price();
    let asked: Vec<_> = quote.notes.iter().map(|note| note.what_if.as_slice()).collect();
    let compiled = [Fact::new("/workload/execution", "compiled")];
    assert_eq!(asked, [&compiled[..], &compiled, &compiled, &[]]);
}

#[test]
fn measuring() {
    let unit = |unit: &str| {
        let (quantity, unit_price) = (dec("1"), dec("1"));
        adjust("m", Method::Measure(Measurement { unit: unit.to_owned(), quantity, unit_price }))
    };
    let task = |expected, adjustments| Case { target: "t", ..case(expected, adjustments) };
    assert_violates(vec![
        case("not an unmeasured task", vec![measure("m", "1", "1")]),
        task("measured twice", vec![measure("m", "1", "1"), measure("n", "1", "1")]),
        Case {
            before: vec![measure("first", "1", "1")],
            ..task("not an unmeasured task", vec![measure("m", "1", "1")])
        },
        task("a unit other than GPU time", vec![unit("gpu_second")]),
        task("a unit other than GPU time", vec![unit("gpu_hour")]),
        task("a unit other than GPU time", vec![unit("task")]),
        task("`` is not a code", vec![unit("")]),
        task("nothing negative", vec![measure("m", "-1", "1")]),
        task("nothing negative", vec![measure("m", "1", "-1")]),
    ]);
}

#[test]
fn added_lines() {
    let long = "x".repeat(201);
    let none = Step { produces: Vec::new(), ..step("faulty") };
    let many = |count| Outcome { added: vec![storage(); count], ..Outcome::default() };
    assert_violates(vec![
        adding("a unit other than GPU time", |line| line.unit = "gpu_second".to_owned()),
        adding("a unit other than GPU time", |line| line.unit = "gpu_hour".to_owned()),
        adding("a unit other than GPU time", |line| line.unit = "task".to_owned()),
        adding("`` is not a code", |line| line.unit = String::new()),
        adding("nothing negative", |line| line.quantity = dec("-1")),
        adding("nothing negative", |line| line.unit_price = dec("-0.01")),
        adding("`` is not a code", |line| line.code = String::new()),
        adding("more than 200 characters", |line| line.label = long),
        Case { step: none, ..adding("code `storage` is not among", |_| ()) },
        Case { outcome: many(100), ..case("more than 100 lines", Vec::new()) },
        Case { outcome: many(100_000), ..case("more than 100 lines", Vec::new()) },
    ]);
}

#[test]
fn more_than_64_adjustments() {
    let many = |count: usize| (0..count).map(|number| flat(&format!("c{number}"), "0")).collect::<Vec<_>>();
    let notes = |count: usize| (0..count).map(|number| note(&format!("n{number}"), "info")).collect::<Vec<_>>();
    assert_violates(vec![
        case("more than 64 adjustments", many(65)),
        case("more than 64 adjustments", many(10_000)),
        case("more than 64 adjustments", notes(65)),
        case("more than 64 adjustments", [many(32), notes(33)].concat()),
        Case { before: many(63), ..case("more than 64 adjustments", vec![flat("p", "0"), note("n", "info")]) },
        quote_case("more than 64 adjustments of the quote", many(65).into_iter().map(on_quote).collect()),
        quote_case("more than 64 adjustments of the quote", many(50_000).into_iter().map(on_quote).collect()),
        quote_case("more than 64 adjustments of the quote", notes(65).into_iter().map(on_quote).collect()),
    ]);
}

#[test]
fn amounts_that_no_line_can_hold() {
    let largest = || Decimal::MAX;
    let by = |rate: Decimal| adjust("p", Method::Percent(rate));
    let million = dec("999999999999999");
    assert_violates(vec![
        case("10¹⁵", vec![by(largest())]),
        case("10¹⁵", vec![by(-largest())]),
        case("10¹⁵", vec![adjust("a", Method::Amount(largest()))]),
        case("10¹⁵", vec![adjust("a", Method::Amount(-largest()))]),
        case("10¹⁵", vec![flat("a", "1000000000000000")]),
        case("10¹⁵", vec![adjust("a", Method::Minimum(largest()))]),
        // Each fits, the line does not.
        case("10¹⁵", vec![adjust("a", Method::Amount(million)), adjust("b", Method::Amount(million))]),
        case("10¹⁵", vec![reprice("r", vec![Portion { unit_price: largest(), ..portion("p", "36000", "0") }])]),
        Case { target: "t", ..case("10¹⁵", vec![measure("m", "9999999999999999", "9999999999999999")]) },
        adding("10¹⁵", |line| (line.quantity, line.unit_price) = (largest(), largest())),
        quote_case("10¹⁵", vec![on_quote(by(largest()))]),
        quote_case("10¹⁵", vec![on_quote(flat("a", "-1000000000000000"))]),
        quote_case("10¹⁵", vec![on_quote(adjust("a", Method::Minimum(largest())))]),
    ]);
}
