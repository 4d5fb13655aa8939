//! A quote as an itemised table for a terminal.

use serde_json::Value;

const WIDTH: usize = 64;

/// The quote as lines of text: each line with its adjustments, the totals, what it was priced on, and the messages.
pub(super) fn render(quote: &Value) -> String {
    let mut table = Table { text: String::new() };
    let currency = word(quote, "/currency");
    table.row(&format!("quote {}", word(quote, "/id")), &currency, "");
    table.rule();
    for line in array(quote, "/lines") {
        let quantity = format!("{} {}", word(line, "/quantity/value"), word(line, "/quantity/unit"));
        let list = format!("{}: {quantity} at {}", word(line, "/description"), word(line, "/list_unit_price"));
        table.row(&list, &word(line, "/list_amount"), "list");
        for adjustment in array(line, "/adjustments") {
            let rate = adjustment.get("rate").and_then(Value::as_str).map_or(String::new(), percent);
            let label = format!("  {:<12} {} {rate}", word(adjustment, "/step"), word(adjustment, "/label"));
            table.row(label.trim_end(), &word(adjustment, "/amount"), &word(adjustment, "/kind"));
        }
        table.row("", &word(line, "/amount"), "amount");
    }
    table.rule();
    table.row("total", &word(quote, "/totals/total"), &currency);
    if let Some(snapshot) = quote.pointer("/inputs/snapshot").filter(|snapshot| snapshot.is_object()) {
        table.text.push_str(&format!(
            "priced on {} {} over {}: {} (coverage {}, {} ms old, {})\n",
            word(snapshot, "/statistic"),
            word(snapshot, "/metric"),
            word(snapshot, "/window"),
            word(snapshot, "/value"),
            word(snapshot, "/coverage"),
            word(snapshot, "/age_ms"),
            word(snapshot, "/quality"),
        ));
    }
    table.text.push_str(&format!(
        "price book {}, open until {}\n",
        word(quote, "/inputs/price_book"),
        word(quote, "/expires_at")
    ));
    for message in array(quote, "/messages") {
        table.text.push_str(&format!(
            "{}: {} ({})\n",
            word(message, "/level"),
            word(message, "/text"),
            word(message, "/code")
        ));
    }
    table.text
}

struct Table {
    text: String,
}

impl Table {
    fn row(&mut self, left: &str, amount: &str, right: &str) {
        let row = format!("{left:<WIDTH$} {amount:>14}  {right}");
        self.text.push_str(row.trim_end());
        self.text.push('\n');
    }

    fn rule(&mut self) {
        self.text.push_str(&"─".repeat(WIDTH + 26));
        self.text.push('\n');
    }
}

fn array<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The text at a pointer, without control characters: it may come from a policy or a tenant.
fn word(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        Some(Value::String(text)) => text.chars().filter(|letter| !letter.is_control()).collect(),
        Some(other) => other.to_string(),
        None => "–".to_owned(),
    }
}

/// `+15 %` for `0.15`
fn percent(rate: &str) -> String {
    match farebox_pricing::exact::parse(rate).ok().and_then(|rate| rate.checked_mul(rust_decimal::Decimal::ONE_HUNDRED))
    {
        Some(hundredfold) => {
            let sign = if hundredfold.is_sign_negative() { "" } else { "+" };
            format!("{sign}{} %", farebox_pricing::exact::print(hundredfold))
        }
        None => rate.to_owned(),
    }
}
