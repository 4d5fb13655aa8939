//! A quote as an itemised table for a terminal: each line with its adjustments, the totals, the messages, and what it
//! was priced on. Meaning is in words; colour only repeats it.

use farebox_pricing::exact;
use rust_decimal::Decimal;
use serde_json::Value;

use super::columns::{Page, Row};
use super::terminal::{Style, Styles};
use crate::printable::printable;

/// The quote as text, from the body that the API answers.
pub(super) fn render(quote: &Value, styles: Styles) -> String {
    let mut page = Page::default();
    heading(&mut page, quote);
    for line in array(quote, "/lines") {
        page.paragraph(0, "", Style::Plain);
        show_line(&mut page, line);
    }
    totals(&mut page, quote);
    inputs(&mut page, quote);
    messages(&mut page, quote);
    page.render(styles)
}

fn heading(page: &mut Page, quote: &Value) {
    let is_preview = word(quote, "/status") == "preview";
    let title = format!(
        "{} for tenant {} under plan {}, in {}",
        if is_preview { "Preview" } else { "Quote" },
        word(quote, "/tenant_id"),
        word(quote, "/plan/name"),
        word(quote, "/currency")
    );
    page.paragraph(0, &title, Style::Bold);
    let standing = if is_preview {
        format!("priced as of {}; a preview is no offer and cannot be accepted", word(quote, "/created_at"))
    } else {
        format!("{}, {} until {}", word(quote, "/id"), word(quote, "/status"), word(quote, "/expires_at"))
    };
    page.paragraph(0, &standing, Style::Dim);
    if let Some(reference) = text(quote, "/client_reference") {
        page.paragraph(0, &format!("reference {reference}"), Style::Dim);
    }
    if quote.pointer("/price_locked").and_then(Value::as_bool) == Some(false) {
        page.paragraph(0, "the price is not locked: a charge uses its own period's utilisation", Style::Yellow);
    }
}

/// `A100, cn-east-1, on demand (l1, ref a)`
pub(super) fn title(line: &Value) -> String {
    let mut names = vec![word(line, "/id")];
    names.extend(text(line, "/ref").map(|reference| format!("ref {reference}")));
    names.extend(text(line, "/parent").map(|parent| format!("part of {parent}")));
    format!("{} ({})", word(line, "/description"), names.join(", "))
}

/// `576 gpu_hour at 12.00`; the price of a GPU-second is that of an hour.
pub(super) fn quantity(line: &Value) -> String {
    let unit = word(line, "/quantity/unit");
    let per = if unit == "gpu_second" { " per gpu_hour" } else { "" };
    format!("{} {unit} at {}{per}", word(line, "/quantity/value"), word(line, "/list_unit_price"))
}

fn show_line(page: &mut Page, line: &Value) {
    page.paragraph(0, &title(line), Style::Bold);
    page.row(Row::new(2, &quantity(line), "list", &word(line, "/list_amount")));
    for adjustment in array(line, "/adjustments") {
        show_adjustment(page, adjustment);
    }
    page.row(Row::new(2, "amount", "", &word(line, "/amount")).styled(Style::Bold));
    if let Some(usage) = line.get("usage").filter(|usage| usage.is_object()) {
        page.paragraph(2, &format!("usage: {}", snapshot(usage)), Style::Dim);
    }
}

fn show_adjustment(page: &mut Page, adjustment: &Value) {
    let (kind, amount) = (word(adjustment, "/kind"), word(adjustment, "/amount"));
    let rate = text(adjustment, "/rate").map_or(String::new(), |rate| percent(&rate));
    let label = text(adjustment, "/label").unwrap_or_else(|| word(adjustment, "/code"));
    let style = match amount.starts_with('-') {
        true => Style::Green,
        false if ["premium", "surcharge", "fee"].contains(&kind.as_str()) && !is_zero(&amount) => Style::Yellow,
        false => Style::Plain,
    };
    page.row(Row { rate: &rate, ..Row::new(2, &label, &kind, &amount) }.styled(style));
    for portion in array(adjustment, "/portions") {
        page.paragraph(4, &show_portion(portion), Style::Plain);
    }
    let share = if word(adjustment, "/scope") == "quote" { "share of the whole quote; " } else { "" };
    page.paragraph(4, &format!("{}: {share}{}", word(adjustment, "/step"), word(adjustment, "/reason")), Style::Dim);
}

/// `500 gpu_second at 8.40: Committed, from commitment c1`
fn show_portion(portion: &Value) -> String {
    let drawn = text(portion, "/draws").map_or(String::new(), |balance| format!(", from {balance}"));
    let label = text(portion, "/label").unwrap_or_else(|| word(portion, "/code"));
    format!(
        "{} {} at {}: {label}{drawn}",
        word(portion, "/quantity"),
        word(portion, "/unit"),
        word(portion, "/unit_price")
    )
}

fn totals(page: &mut Page, quote: &Value) {
    page.rule();
    page.row(Row::new(2, "list", "", &word(quote, "/totals/list")));
    page.row(Row::new(2, "adjustments", "", &word(quote, "/totals/adjustments")));
    if let Some(tax) = text(quote, "/totals/tax").filter(|tax| !is_zero(tax)) {
        page.row(Row::new(2, "tax", "", &tax));
    }
    let total = format!("total {}", word(quote, "/currency"));
    page.row(Row::new(2, &total, "", &word(quote, "/totals/total")).styled(Style::Bold));
    page.paragraph(0, "", Style::Plain);
}

fn inputs(page: &mut Page, quote: &Value) {
    page.paragraph(0, &format!("price book: {}", word(quote, "/inputs/price_book")), Style::Plain);
    match quote.pointer("/inputs/snapshot").filter(|usage| usage.is_object()) {
        Some(usage) => page.paragraph(0, &format!("usage: {}", snapshot(usage)), Style::Plain),
        None if array(quote, "/lines").iter().any(|line| line.get("usage").is_some()) => {
            page.paragraph(0, "usage: differs by line, see there", Style::Plain);
        }
        None => page.paragraph(0, "usage: none observed", Style::Plain),
    }
    if let Some(expected) = quote.get("effective_utilisation").filter(|expected| expected.is_object()) {
        page.paragraph(0, &effective_utilisation(expected), Style::Plain);
    }
}

/// `expected effective utilisation: 82 % (77 % to 86 %), from your last 7d, gpu_util`
fn effective_utilisation(expected: &Value) -> String {
    let share = |pointer: &str| text(expected, pointer).map(|share| percent(&share).trim_start_matches('+').to_owned());
    let band = share("/low").zip(share("/high")).map_or(String::new(), |(low, high)| format!(" ({low} to {high})"));
    let basis = word(expected, "/basis");
    let basis = match basis.rsplit_once('_') {
        Some(("tenant", window)) => format!("your last {window}"),
        Some(("job_kind", window)) => format!("your last {window} of this kind of job"),
        _ => basis,
    };
    let expected_share = share("/expected").unwrap_or_else(|| "–".to_owned());
    format!("expected effective utilisation: {expected_share}{band}, from {basis}, {}", word(expected, "/metric"))
}

/// `gpu_util mean over 7d is 0.82, of the gpu_model; coverage 0.99, 120 ms old, ok`
fn snapshot(usage: &Value) -> String {
    let value = text(usage, "/value").map_or("is not reported".to_owned(), |value| format!("is {value}"));
    let coverage = text(usage, "/coverage").map_or(String::new(), |coverage| format!("coverage {coverage}, "));
    format!(
        "{} {} over {} {value}, of the {}; {coverage}{} old, quality {}",
        word(usage, "/metric"),
        word(usage, "/statistic"),
        word(usage, "/window"),
        word(usage, "/scope"),
        age(usage.get("age_ms").and_then(Value::as_u64)),
        word(usage, "/quality"),
    )
}

/// Whole seconds from one second on: what matters is whether it is stale.
fn age(ms: Option<u64>) -> String {
    match ms {
        None => "an unknown time".to_owned(),
        Some(ms) if ms < 1_000 => format!("{ms} ms"),
        Some(ms) => format!("{} s", ms.div_euclid(1_000)),
    }
}

fn messages(page: &mut Page, quote: &Value) {
    for message in array(quote, "/messages") {
        let level = word(message, "/level");
        let style = if level == "warning" { Style::Yellow } else { Style::Plain };
        let line = text(message, "/line").map_or(String::new(), |line| format!("{line}: "));
        let saves = text(message, "/saves")
            .map_or(String::new(), |saves| format!("; saves {saves} {}", word(quote, "/currency")));
        let said = format!("{level}: {line}{} ({}){saves}", word(message, "/text"), word(message, "/code"));
        page.paragraph(0, &said, style);
    }
}

pub(super) fn array<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text at a pointer, printable: it may come from a policy, a tenant, a request or a stranger's server.
pub(super) fn word(value: &Value, pointer: &str) -> String {
    text(value, pointer).unwrap_or_else(|| "–".to_owned())
}

/// Like [`word`], if there is one.
pub(super) fn text(value: &Value, pointer: &str) -> Option<String> {
    match value.pointer(pointer) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(printable(text)),
        Some(other) => Some(printable(&other.to_string())),
    }
}

fn is_zero(amount: &str) -> bool {
    amount.chars().all(|letter| matches!(letter, '-' | '0' | '.'))
}

/// `+15 %` for `0.15`
pub(super) fn percent(rate: &str) -> String {
    match hundredfold(rate) {
        Some(share) if share.is_sign_negative() || share.is_zero() => format!("{} %", exact::print(share)),
        Some(share) => format!("+{} %", exact::print(share)),
        None => rate.to_owned(),
    }
}

/// Exactly: where there are decimals the point moves; a product would be rounded to 96 bits.
fn hundredfold(rate: &str) -> Option<Decimal> {
    let mut rate = exact::parse(rate).ok()?;
    match rate.scale().checked_sub(2) {
        Some(scale) => rate.set_scale(scale).ok().map(|()| rate),
        None => rate.checked_mul(Decimal::ONE_HUNDRED),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    const HOSTILE: &str = "\u{1b}[2Jone\u{202e}\r\ntwo\u{9b}1m\u{7}";

    fn adjustment(kind: &str, rest: &Value) -> Value {
        let mut adjustment = json!({"step": HOSTILE, "scope": "line", "kind": kind, "code": "c", "label": HOSTILE,
            "method": "amount", "amount": "-1.5", "reason": HOSTILE});
        adjustment.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        adjustment
    }

    fn quote() -> Value {
        let portions = json!([{"code": "p", "label": HOSTILE, "unit": "gpu_second", "quantity": "1800", "unit_price": "8.40",
            "draws": HOSTILE}]);
        json!({
            "id": HOSTILE, "status": "open", "tenant_id": HOSTILE, "currency": "CNY", "client_reference": HOSTILE,
            "expires_at": HOSTILE, "price_locked": false, "plan": {"name": HOSTILE},
            "lines": [
                {"id": "l1", "ref": HOSTILE, "description": HOSTILE, "quantity": {"value": "7", "unit": "gpu_second"},
                    "list_unit_price": "12.00", "list_amount": "0.023333333333", "amount": "0.02",
                    "adjustments": [
                        adjustment("commitment", &json!({"method": "reprice", "portions": portions})),
                        adjustment("fee", &json!({"scope": "quote", "amount": "0.25", "rate": "0.05"})),
                        adjustment("cap", &json!({"label": "Discount cap", "reason": "at most 60 % below list"})),
                        adjustment("floor", &json!({"label": "Price floor", "rate": "0.0123456789012345"})),
                    ]},
                {"id": "l2", "parent": "l1", "description": "Snapshot storage", "quantity": {"value": "1", "unit": "gib_month"},
                    "list_unit_price": "0.50", "list_amount": "0.50", "amount": "0.50", "adjustments": []},
            ],
            "totals": {"list": "0.52", "adjustments": "0.00", "tax": "0.05", "total": "0.57"},
            "inputs": {"price_book": HOSTILE, "snapshot": null},
            "messages": [{"level": "warning", "code": HOSTILE, "text": HOSTILE, "line": "l1", "saves": HOSTILE}],
            "effective_utilisation": {"expected": HOSTILE, "low": HOSTILE, "high": HOSTILE, "basis": HOSTILE, "metric": HOSTILE},
        })
    }

    #[test]
    fn every_kind_of_row_is_in_words_and_nothing_hostile_survives() {
        let text = render(&quote(), Styles::NONE);
        assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n' || letter == '\u{202e}'), "{text}");
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        for expected in [
            "[2Jone  two1m (l1, ref [2Jone  two1m)",
            "7 gpu_second at 12.00 per gpu_hour",
            "1800 gpu_second at 8.40: [2Jone two1m, from [2Jone two1m",
            "share of the whole quote",
            "Discount cap",
            "rate +1.23456789012345 %",
            "Snapshot storage (l2, part of l1)",
            "the price is not locked",
            "  tax ",
            "usage: none observed",
            "warning: l1: [2Jone two1m ([2Jone two1m); saves [2Jone two1m",
            "expected effective utilisation: [2Jone two1m ([2Jone two1m to [2Jone two1m), from [2Jone two1m",
        ] {
            let squeezed = expected.split_whitespace().collect::<Vec<_>>().join(" ");
            let found = text.split_whitespace().collect::<Vec<_>>().join(" ").contains(&squeezed);
            assert!(found, "no `{expected}` in\n{text}");
        }
    }

    /// Whatever a stranger's server answers, there is a table and no panic.
    #[test]
    fn an_answer_that_is_no_quote_is_shown_as_one_without_content() {
        for answer in [json!(null), json!([]), json!({"lines": [1, {}], "totals": 1, "messages": [[]]})] {
            assert!(render(&answer, Styles::NONE).contains("total –"), "{answer}");
        }
    }

    #[test]
    fn what_to_expect_is_one_line() {
        let mut expected =
            json!({"expected": "0.82", "low": "0.77", "high": "0.8602", "basis": "tenant_7d", "metric": "gpu_util"});
        let line = "expected effective utilisation: 82 % (77 % to 86.02 %), from your last 7d, gpu_util";
        assert_eq!(effective_utilisation(&expected), line);
        expected["low"] = Value::Null;
        expected["basis"] = "job_kind_30d".into();
        let line = "expected effective utilisation: 82 %, from your last 30d of this kind of job, gpu_util";
        assert_eq!(effective_utilisation(&expected), line);
    }

    #[test]
    fn rates_have_their_sign() {
        assert_eq!(
            ["0.15", "-0.1", "0", "0.0025", "x", "7922816251426433759354395033"].map(percent),
            ["+15 %", "-10 %", "0 %", "+0.25 %", "x", "7922816251426433759354395033"]
        );
        assert_eq!(percent("0.1234567890123456789012345678"), "+12.34567890123456789012345678 %");
    }
}
