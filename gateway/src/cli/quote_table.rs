//! A quote as an itemised table for a terminal: each line with its adjustments, the totals, the messages, and what it
//! was priced on. Meaning is in words; colour only repeats it.

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

/// `576 gpu_hour at 12.00`
pub(super) fn quantity(line: &Value) -> String {
    format!("{} {} at {}", word(line, "/quantity/value"), word(line, "/quantity/unit"), word(line, "/list_unit_price"))
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
        page.paragraph(0, &format!("{level}: {line}{} ({})", word(message, "/text"), word(message, "/code")), style);
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
    use farebox_pricing::exact::{parse, print};
    let hundredfold = parse(rate).ok().and_then(|rate| rate.checked_mul(rust_decimal::Decimal::ONE_HUNDRED));
    match hundredfold {
        Some(share) if share.is_sign_negative() || share.is_zero() => format!("{} %", print(share)),
        Some(share) => format!("+{} %", print(share)),
        None => rate.to_owned(),
    }
}
