//! A TOML file as a JSON document that still knows where everything stood.
//!
//! Numbers keep their digits: nothing passes through a float.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{CatalogProblem, Place};
use crate::schema::{Schema, child};

/// One file of the data directory.
#[derive(Debug)]
pub(super) struct Document {
    path: String,
    value: Value,
    places: BTreeMap<String, Places>,
}

/// Where a value stands, and the key that names it.
#[derive(Clone, Copy, Debug)]
struct Places {
    key: Place,
    value: Place,
}

const START: Place = Place { line: 1, column: 1 };

impl Document {
    /// Reads a file, and every syntax error at once. Where there is one, the document is what could be read beside it:
    /// enough to know its name.
    pub(super) fn read(path: &str, text: &str) -> (Self, Vec<CatalogProblem>) {
        let lines = Lines::of(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut reader = Reader { lines: &lines, places: BTreeMap::new(), wrong: Vec::new() };
        let value = reader.table("", table.get_ref());
        let syntax = errors.iter().map(|error| {
            let place = error.span().map_or(START, |span| lines.place(&span));
            (place, format!("this is not TOML: {}", error.message()))
        });
        let wrong = syntax.chain(reader.wrong);
        let problems = wrong.map(|(place, message)| CatalogProblem::at(path, place, "", &message)).collect();
        (Self { path: path.to_owned(), value, places: reader.places }, problems)
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    /// The document as its wire type, once it fits the schema; else every violation.
    pub(super) fn typed<Wire: DeserializeOwned>(&self, schema: &Schema) -> Result<Wire, Vec<CatalogProblem>> {
        let violations = self.violations(schema, "", &self.value);
        if !violations.is_empty() {
            return Err(violations);
        }
        Wire::deserialize(&self.value).map_err(|error| vec![self.problem("", error.to_string())])
    }

    /// Violations of a schema by `value`, which stands at `pointer`.
    pub(super) fn violations(&self, schema: &Schema, pointer: &str, value: &Value) -> Vec<CatalogProblem> {
        let violations = schema.violations(value).into_iter();
        violations
            .map(|violation| {
                let pointer = format!("{pointer}{}", violation.pointer);
                match violation.code.as_str() {
                    "unknown_field" => self.key_problem(&pointer, violation.detail),
                    _ => self.problem(&pointer, violation.detail),
                }
            })
            .collect()
    }

    /// A problem with the value at `pointer`, or with the nearest value that holds what is missing there.
    pub(super) fn problem(&self, pointer: &str, message: impl Into<String>) -> CatalogProblem {
        let place = self.nearest(pointer).map_or(START, |places| places.value);
        CatalogProblem::at(&self.path, place, pointer, &message.into())
    }

    /// A problem with the key at `pointer`.
    pub(super) fn key_problem(&self, pointer: &str, message: impl Into<String>) -> CatalogProblem {
        let place = self.nearest(pointer).map_or(START, |places| places.key);
        CatalogProblem::at(&self.path, place, pointer, &message.into())
    }

    /// The line of the value at `pointer`, from 1.
    pub(super) fn line(&self, pointer: &str) -> usize {
        self.nearest(pointer).map_or(START, |places| places.value).line
    }

    fn nearest(&self, pointer: &str) -> Option<Places> {
        let mut pointer = pointer;
        loop {
            if let Some(places) = self.places.get(pointer) {
                return Some(*places);
            }
            (pointer, _) = pointer.rsplit_once('/')?;
        }
    }
}

/// Starts of the lines of a text.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(index, _)| index.saturating_add(1));
        Self { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    fn place(&self, span: &Range<usize>) -> Place {
        let line = self.starts.partition_point(|start| *start <= span.start);
        let start = line.checked_sub(1).and_then(|index| self.starts.get(index)).copied().unwrap_or(0);
        let before = self.text.get(start..span.start).unwrap_or_default();
        Place { line, column: before.chars().count().saturating_add(1) }
    }
}

struct Reader<'a> {
    lines: &'a Lines<'a>,
    places: BTreeMap<String, Places>,
    /// What TOML can say and JSON cannot.
    wrong: Vec<(Place, String)>,
}

impl Reader<'_> {
    fn table(&mut self, pointer: &str, table: &DeTable<'_>) -> Value {
        let members = table.iter().map(|(key, value)| {
            let pointer = child(pointer, key.get_ref());
            let places = Places { key: self.lines.place(&key.span()), value: self.lines.place(&value.span()) };
            self.places.insert(pointer.clone(), places);
            (key.get_ref().clone().into_owned(), self.value(&pointer, value))
        });
        Value::Object(members.collect::<Map<_, _>>())
    }

    fn value(&mut self, pointer: &str, value: &Spanned<DeValue<'_>>) -> Value {
        match value.get_ref() {
            DeValue::String(text) => Value::String(text.clone().into_owned()),
            DeValue::Integer(integer) if integer.radix() == 10 => self.number(value.span(), integer.as_str()),
            DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
                Ok(number) => Value::from(number),
                Err(_) => self.number(value.span(), &integer.to_string()),
            },
            DeValue::Float(float) => self.number(value.span(), float.as_str()),
            DeValue::Boolean(boolean) => Value::Bool(*boolean),
            DeValue::Datetime(time) => Value::String(time.to_string()),
            DeValue::Array(elements) => {
                let elements = elements.iter().enumerate().map(|(index, element)| {
                    let pointer = format!("{pointer}/{index}");
                    let place = self.lines.place(&element.span());
                    self.places.insert(pointer.clone(), Places { key: place, value: place });
                    self.value(&pointer, element)
                });
                Value::Array(elements.collect())
            }
            DeValue::Table(table) => self.table(pointer, table),
        }
    }

    /// The digits as they are written. `inf` and `nan` are no numbers of JSON.
    fn number(&mut self, span: Range<usize>, text: &str) -> Value {
        let unsigned = text.strip_prefix('+').unwrap_or(text);
        unsigned.parse::<Number>().map_or_else(
            |_| {
                self.wrong.push((self.lines.place(&span), format!("`{text}` is not a number that can be read")));
                Value::Null
            },
            Value::Number,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
name = "a"
rates = { "x/y" = 0.10, "é" = 12345678901234567890.1234567890 }
when = 2026-01-01T00:00:00Z
[[steps]]
id = "one"
[[steps]]
id = "two"
[steps.parameters]
list = [ 1,
  1e3 ]
"#;

    #[test]
    fn digits_and_places_survive() {
        let (document, problems) = Document::read("plans/a.toml", TEXT);
        assert_eq!(problems, []);
        let value = document.value();
        assert_eq!(value["rates"]["x/y"].to_string(), "0.10");
        assert_eq!(value["rates"]["é"].to_string(), "12345678901234567890.1234567890");
        assert_eq!(value["when"], "2026-01-01T00:00:00Z");
        let place = |pointer: &str| {
            let (value, key) = (document.problem(pointer, ""), document.key_problem(pointer, ""));
            [value, key].map(|problem| problem.place.map(|place| (place.line, place.column)).unwrap())
        };
        assert_eq!(place("/rates/x~1y"), [(3, 19), (3, 11)]);
        assert_eq!(place("/rates/é"), [(3, 31), (3, 25)]);
        assert_eq!(place("/steps/1"), [(7, 1), (7, 1)]);
        assert_eq!(place("/steps/1/parameters/list/1"), [(11, 3), (11, 3)]);
        // What is missing is where its parent stands.
        assert_eq!(place("/steps/1/policy"), [(7, 1), (7, 1)]);
        assert_eq!(place("/granule"), [(1, 1), (1, 1)]);
    }

    #[test]
    fn every_syntax_error_is_told() {
        let (document, problems) = Document::read("plans/a.toml", "name = \"a\"\nb = \nc = 1\nc = 2\n[d\n");
        let mut lines: Vec<_> = problems.iter().map(|problem| problem.place.unwrap().line).collect();
        lines.sort_unstable();
        assert_eq!(lines, [2, 4, 5], "{problems:?}");
        assert_eq!(document.value()["name"], "a");
        let (_, infinite) = Document::read("plans/a.toml", "d = [1, inf]\ne = -nan\n");
        let shown: Vec<_> = infinite.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "plans/a.toml:1:9: `inf` is not a number that can be read",
                "plans/a.toml:2:5: `-nan` is not a number that can be read"
            ]
        );
    }
}
