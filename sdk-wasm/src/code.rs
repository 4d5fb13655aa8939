//! What names a row, a message or a refusal, for programs.

/// Characters of a code. With an ending of a policy's own it is still well within what the host takes.
const MAX_CHARS: usize = 64;

/// True of `v2.8-nightly`: words of lower-case letters, digits, `_` and `-` with single dots between them, 64 characters at
/// most, of which the first is a letter or a digit. The host takes no other in `produces`, so a policy that has codes from
/// its parameters refuses the rest in its `validate`.
pub fn is_code(text: &str) -> bool {
    let is_of_word = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    text.len() <= MAX_CHARS
        && text.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && text.split('.').all(|word| !word.is_empty() && word.bytes().all(is_of_word))
}

#[cfg(test)]
mod tests {
    use super::is_code;

    #[test]
    fn codes_are_dotted_lower_case_words() {
        for code in ["a", "7", "pytorch_eager", "v2.8-nightly", "a.b.c", "a-", &"a".repeat(64)] {
            assert!(is_code(code), "{code}");
        }
        for text in
            ["", "A", "aB", "_a", "-a", ".a", "a.", "a..b", "a b", "é", "*", "a.*", "\u{1b}[31m", &"a".repeat(65)]
        {
            assert!(!is_code(text), "{text}");
        }
    }
}
