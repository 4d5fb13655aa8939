//! Words by policies on their way to people: whatever a module says, a terminal, a log line or a page shows plain text.

use crate::policy::Fault;

use super::MAX_TEXT;

/// A label or reason as it will be shown: without control characters, at most [`MAX_TEXT`] characters.
pub(super) fn shown(text: String) -> Result<String, Fault> {
    let text = plain(text);
    if is_too_long(&text) { Err(too_long()) } else { Ok(text) }
}

/// The text without control characters.
pub(super) fn plain(text: String) -> String {
    if has_control(&text) { text.chars().filter(|it| !is_control(*it)).collect() } else { text }
}

/// A code or unit, which programs compare: as it is, or not at all.
pub(super) fn check_code(code: &str) -> Result<(), Fault> {
    if is_too_long(code) {
        return Err(too_long());
    }
    if code.is_empty() || has_control(code) {
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
    text.starts_with('/') && !is_too_long(text) && !has_control(text)
}

fn too_long() -> Fault {
    Fault::violation(format!("a text of more than {MAX_TEXT} characters"))
}

/// Characters are never more than bytes, and few texts are long enough to be counted.
fn is_too_long(text: &str) -> bool {
    text.len() > MAX_TEXT && text.chars().count() > MAX_TEXT
}

/// Most texts are ASCII, where a look at the bytes tells.
fn has_control(text: &str) -> bool {
    let is_printable = |byte: u8| matches!(byte, b' '..=b'~');
    !text.bytes().all(is_printable) && text.chars().any(is_control)
}

/// What a terminal or a page obeys instead of showing it: C0 and C1 (so that no ANSI escape survives), line separators, and
/// what turns the direction of the text around it. Tags are invisible, and so is a byte order mark within a text.
pub fn is_control(character: char) -> bool {
    let turns_direction =
        matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_invisible = matches!(character, '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    character.is_control() || turns_direction || is_invisible || matches!(character, '\u{2028}' | '\u{2029}')
}
