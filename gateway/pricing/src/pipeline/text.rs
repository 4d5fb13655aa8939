//! Words by policies on their way to people: whatever a module says, a terminal, a log line or a page shows plain text.

use crate::policy::Fault;

use super::MAX_TEXT;

/// A label or reason as it will be shown: without control characters, at most [`MAX_TEXT`] characters.
pub(super) fn shown(text: String) -> Result<String, Fault> {
    let text = plain(text);
    if text.chars().count() > MAX_TEXT { Err(too_long()) } else { Ok(text) }
}

/// The text without control characters.
pub(super) fn plain(text: String) -> String {
    if text.chars().any(is_control) { text.chars().filter(|it| !is_control(*it)).collect() } else { text }
}

/// A code or unit, which programs compare: as it is, or not at all.
pub(super) fn check_code(code: &str) -> Result<(), Fault> {
    if code.chars().count() > MAX_TEXT {
        return Err(too_long());
    }
    if code.is_empty() || code.chars().any(is_control) {
        return Err(Fault::violation(format!("`{}` is not a code", excerpt(code, 40))));
    }
    Ok(())
}

/// The beginning of a text, without control characters, for messages about it.
pub(super) fn excerpt(text: &str, characters: usize) -> String {
    text.chars().filter(|it| !is_control(*it)).take(characters).collect()
}

/// A JSON Pointer, within the length of a text; anything else points nowhere.
pub(super) fn is_pointer(text: &str) -> bool {
    text.starts_with('/') && text.chars().count() <= MAX_TEXT && !text.chars().any(is_control)
}

fn too_long() -> Fault {
    Fault::violation(format!("a text of more than {MAX_TEXT} characters"))
}

/// C0 and C1 (so that no ANSI escape survives), line separators, and what turns the direction of the text around it.
fn is_control(character: char) -> bool {
    let turns_direction =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    character.is_control() || turns_direction || matches!(character, '\u{2028}' | '\u{2029}')
}
