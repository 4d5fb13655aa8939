//! Snapshots from files. Those of the fixtures have placeholders for instants, see `fixtures/snapshots/README.md`.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Failure;
use super::exit::Exit;
use super::json_file::JsonFile;

/// Reads the `nth` snapshot of several. A snapshot without placeholder stays as it is.
pub(super) fn read(path: &Path, now: Timestamp, nth: i64) -> Result<JsonFile, Failure> {
    let mut file = JsonFile::read(path)?;
    let Some(offset) = file.text("observed_at").and_then(|text| text.strip_prefix("@now")) else { return Ok(file) };
    let Some(observed_at) = before(now, offset) else {
        let sentence = format!(
            "{}: `observed_at` is `@now{offset}`; write `@now`, `@now-45s` or an instant such as `{now}`",
            file.name
        );
        return Err(Failure::saying(sentence).ending(Exit::Refused));
    };
    stamp(&mut file.value, observed_at, sequence(now, nth));
    file.bytes = file.value.to_string().into_bytes();
    Ok(file)
}

/// Numbers in sequence that rise with time, so that what is sent later is newer, whoever sends it.
pub(super) fn sequence(now: Timestamp, nth: i64) -> i64 {
    now.as_millisecond().saturating_add(nth)
}

/// Says when a snapshot was observed, and its place among others.
pub(super) fn stamp(snapshot: &mut Value, observed_at: Timestamp, sequence: i64) {
    let Some(members) = snapshot.as_object_mut() else { return };
    members.insert("observed_at".to_owned(), observed_at.to_string().into());
    members.insert("seq".to_owned(), sequence.into());
}

fn before(now: Timestamp, offset: &str) -> Option<Timestamp> {
    if offset.is_empty() {
        return Some(now);
    }
    let ago: SignedDuration = offset.strip_prefix('-')?.parse().ok()?;
    now.checked_sub(ago).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_instants_before_now() {
        let now: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        let shown = |offset| before(now, offset).map(|instant| instant.to_string());
        assert_eq!(shown("").as_deref(), Some("2026-12-01T00:00:00Z"));
        assert_eq!(shown("-45s").as_deref(), Some("2026-11-30T23:59:15Z"));
        assert_eq!(shown("-11m").as_deref(), Some("2026-11-30T23:49:00Z"));
        for wrong in ["+45s", "-", "-soon", "45s", "-999999999h"] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
    }
}
