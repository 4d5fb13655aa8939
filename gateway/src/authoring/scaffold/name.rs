//! What a policy may be called: a name that is an address in plans, a Cargo package and a Rust crate at once.

/// More is no name but a sentence.
const LONGEST: usize = 40;
/// Keywords of Rust, and crates that every build has.
const TAKEN: [&str; 49] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "type",
    "unsafe",
    "use",
    "while",
];

/// Why a name will not do, as the end of a sentence that begins with it; `None` if it will. `crates` are those that a
/// policy is built with.
pub(super) fn objection(name: &str, crates: &[String]) -> Option<String> {
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let has_form = name.starts_with(|first: char| first.is_ascii_lowercase()) && name.split('-').all(is_word);
    if !has_form {
        return Some("is not lower-case words joined by `-`".to_owned());
    }
    if name.len() > LONGEST {
        return Some(format!("is longer than {LONGEST} letters"));
    }
    if TAKEN.contains(&name) || name.starts_with("farebox") {
        return Some("has a meaning of its own in Rust or Farebox".to_owned());
    }
    if crates.iter().any(|other| *other == name) {
        return Some("is also a crate that policies are built with".to_owned());
    }
    None
}

/// A name that will do and is near to the one that will not.
pub(super) fn suggestion(name: &str, crates: &[String]) -> String {
    let letters =
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' });
    let letters: String = letters.collect();
    let mut words: Vec<&str> = letters.split('-').filter(|word| !word.is_empty()).collect();
    if words.first().is_none_or(|first| first.starts_with(|digit: char| digit.is_ascii_digit())) {
        words.insert(0, "policy");
    }
    let mut suggested = String::new();
    for word in words {
        if suggested.len().saturating_add(word.len()) < LONGEST - "-rate".len() {
            suggested.push_str(if suggested.is_empty() { "" } else { "-" });
            suggested.push_str(word);
        }
    }
    if suggested.is_empty() {
        suggested.push_str("policy");
    }
    if objection(&suggested, crates).is_some() {
        suggested.push_str("-rate");
    }
    if objection(&suggested, crates).is_some() { "my-rate".to_owned() } else { suggested }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_will_do_and_names_that_will_not() {
        let crates = ["serde".to_owned(), "serde-json".to_owned()];
        for name in ["night-rate", "a", "s3", "gold-2026"] {
            assert_eq!(objection(name, &crates), None, "{name}");
        }
        for (name, suggested) in [
            ("Night Rate", "night-rate"),
            ("night_rate", "night-rate"),
            ("-night--rate-", "night-rate"),
            ("3rd-party", "policy-3rd-party"),
            ("match", "match-rate"),
            ("serde", "serde-rate"),
            ("farebox-discount", "my-rate"),
            ("夜间", "policy"),
            ("", "policy"),
            ("..", "policy"),
            (&"word-".repeat(20), "word-word-word-word-word-word-word"),
            (&"w".repeat(80), "policy"),
        ] {
            assert!(objection(name, &crates).is_some(), "{name}");
            assert_eq!(suggestion(name, &crates), suggested, "{name}");
            assert_eq!(objection(suggested, &crates), None, "{suggested}");
        }
    }
}
