//! Reading a JSON document from a file or from stdin, as strictly as the gateway reads a body.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;

use serde_json::Value;

use super::Failure;
use super::exit::Exit;
use crate::intake::json;

/// As much as a gateway takes unless it was told otherwise.
const MOST_BYTES: u64 = 1 << 20;

/// A document that is JSON, as its bytes and as a value.
#[derive(Debug)]
pub(super) struct JsonFile {
    /// The path, or `stdin`.
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) value: Value,
}

impl JsonFile {
    /// Reads a file; `-` is stdin.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Self::of("stdin".to_owned(), stdin().lock());
        }
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| unreadable(&name, &error))?;
        Self::of(name, file)
    }

    fn of(name: String, source: impl Read) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        let most = MOST_BYTES.saturating_add(1);
        source.take(most).read_to_end(&mut bytes).map_err(|error| unreadable(&name, &error))?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length >= most) {
            return Err(Failure::saying(format!("{name} is larger than {MOST_BYTES} bytes")).ending(Exit::Refused));
        }
        let malformed = |error: json::MalformedJson| {
            let place = error.place.map_or(String::new(), |(line, column)| format!("{line}:{column}:"));
            Failure::saying(format!("{name}:{place} this is not JSON: {}", error.reason())).ending(Exit::Refused)
        };
        let value = json::read(&bytes).map_err(malformed)?.value;
        Ok(Self { name, bytes, value })
    }

    /// Puts a member in place of what is there. Anything but an object stays as it is, for the schema to refuse.
    pub(super) fn set(&mut self, member: &str, value: Value) {
        let Some(members) = self.value.as_object_mut() else { return };
        members.insert(member.to_owned(), value);
        self.bytes = self.value.to_string().into_bytes();
    }

    /// The text at a member of the document.
    pub(super) fn text(&self, member: &str) -> Option<&str> {
        self.value.get(member).and_then(Value::as_str)
    }
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    let remedy = if error.kind() == std::io::ErrorKind::NotFound { "; is the path right from here?" } else { "" };
    Failure::saying(format!("{name} cannot be read: {error}{remedy}")).ending(Exit::NoInput)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<JsonFile, String> {
        JsonFile::of("r.json".to_owned(), text.as_bytes()).map_err(|failure| failure.sentence)
    }

    #[test]
    fn what_is_not_json_is_placed() {
        for (text, sentence) in [
            ("{\n  \"a\": 1,\n}", "r.json:3:1: this is not JSON: trailing comma"),
            ("", "r.json:1:0: this is not JSON: EOF while parsing a value"),
            ("{} x", "r.json:1:4: this is not JSON: trailing characters"),
            ("{\"a\":1,\"a\":2}", "r.json:1:10: this is not JSON: the key `a` stands twice"),
        ] {
            assert_eq!(read(text).unwrap_err(), sentence, "{text}");
        }
        let large = format!("\"{}\"", "a".repeat(1 << 20));
        assert_eq!(read(&large).unwrap_err(), "r.json is larger than 1048576 bytes");
    }

    #[test]
    fn digits_survive_a_change_of_a_member() {
        let mut file = read("{\"plan\": 1, \"hours\": 72.10}").unwrap();
        file.set("plan", "b".into());
        assert_eq!(file.bytes, b"{\"hours\":72.10,\"plan\":\"b\"}");
        let mut list = read("[ 1 ]").unwrap();
        list.set("plan", "b".into());
        assert_eq!(list.bytes, b"[ 1 ]");
    }
}
