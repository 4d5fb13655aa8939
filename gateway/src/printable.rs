//! Words of others on their way to a terminal: requests, documents, policies and servers may hold anything.

use farebox_pricing::pipeline::is_control;

/// The text in one line, without what a terminal would obey. A line break or a tab becomes a space.
pub(crate) fn printable(text: &str) -> String {
    let space_for_break =
        |letter| if matches!(letter, '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}') { ' ' } else { letter };
    text.chars().map(space_for_break).filter(|letter| !is_control(*letter)).collect()
}

/// Like [`printable`], but line by line: for sentences of our own that hold words of others.
pub(crate) fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// JSON that says the same without a character that a terminal would obey: each becomes its escape. Between the values of
/// a document there are none, so only texts change.
pub(crate) fn printable_json(json: &str) -> String {
    let mut printable = String::with_capacity(json.len());
    for letter in json.chars() {
        let is_space = matches!(letter, '\n' | '\t' | '\r');
        if !is_space && is_control(letter) {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                printable.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            printable.push(letter);
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::{printable, printable_json, printable_lines};

    #[test]
    fn nothing_that_a_terminal_obeys_survives() {
        let hostile =
            "a\u{1b}[31mred\u{1b}[0m\r\nb\u{202e}c\u{2066}d\u{9b}2Je\u{7}f\u{2028}g\u{feff}h\u{e0041}i\u{200f}";
        assert_eq!(printable(hostile), "a[31mred[0m  bcd2Jef ghi");
        assert_eq!(printable("形 — ü ✓ 👩‍💻"), "形 — ü ✓ 👩‍💻");
        assert_eq!(printable_lines("a\u{1b}\nb\r"), "a\nb ");
    }

    #[test]
    fn json_says_the_same_to_a_program() {
        let json = serde_json::json!({ "a": "\u{9b}2J\u{202e}\u{e0041} 形 \u{1b}" }).to_string();
        let printable = printable_json(&json);
        assert_eq!(printable, r#"{"a":"\u009b2J\u202e\udb40\udc41 形 \u001b"}"#);
        let read: serde_json::Value = serde_json::from_str(&printable).unwrap();
        assert_eq!(read.to_string(), json);
        assert_eq!(printable_json("{\n\t}"), "{\n\t}");
    }
}
