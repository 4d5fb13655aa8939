//! Where settings come from: a TOML file below, `FAREBOX_…` variables above. Remembers what was asked for, so that the
//! rest can be told to be unknown.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, ConfigErrors, Place, Problem};
use super::rule::Rule;
use crate::suggestion::nearest;

const PREFIX: &str = "FAREBOX_";
/// What Kubernetes sets for a service called `farebox`: `FAREBOX_SERVICE_HOST`, `FAREBOX_PORT`, `FAREBOX_PORT_80_TCP` …
const KUBERNETES: &[&str] = &["FAREBOX_SERVICE_", "FAREBOX_PORT"];

/// A value in the file, and where its key and itself stand (bytes).
pub(super) struct Leaf<'a> {
    pub(super) value: DeValue<'a>,
    pub(super) span: Range<usize>,
    key_span: Range<usize>,
}

pub(super) struct Source<'a> {
    file: Option<&'a Path>,
    text: &'a str,
    /// By path (`http.max_connections`), what has not been asked for yet.
    leaves: BTreeMap<String, Leaf<'a>>,
    /// By name, what has not been asked for yet.
    variables: BTreeMap<String, String>,
    asked: Vec<&'static str>,
    errors: Vec<ConfigError>,
}

impl<'a> Source<'a> {
    pub(super) fn new(file: Option<(&'a Path, &'a str)>, environment: impl Iterator<Item = (String, String)>) -> Self {
        let is_ours =
            |name: &str| name.starts_with(PREFIX) && !KUBERNETES.iter().any(|prefix| name.starts_with(prefix));
        let variables = environment.filter(|(name, _)| is_ours(name)).collect();
        let (path, text) = file.unzip();
        let text = text.unwrap_or_default();
        let mut source =
            Self { file: path, text, leaves: BTreeMap::new(), variables, asked: Vec::new(), errors: Vec::new() };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            // Its message, not its `Display`, which quotes the line, and with it perhaps a secret.
            source.report_at(error.span().unwrap_or(0..0), Problem::Syntax(error.message().to_owned()));
        }
        flatten("", table.into_inner(), &mut source.leaves);
        source
    }

    /// The setting at `path`: from the environment, else from the file, else the default. Both are checked.
    pub(super) fn setting<T>(&mut self, path: &'static str, rule: &Rule<T>, default: T) -> T {
        self.optional(path, rule).unwrap_or(default)
    }

    pub(super) fn optional<T>(&mut self, path: &'static str, rule: &Rule<T>) -> Option<T> {
        let in_file = self.take_leaf(path).and_then(|leaf| {
            let found = text_of(&leaf.value, rule.is_number);
            let value = found.as_deref().ok().and_then(&rule.parse);
            if value.is_none() {
                let found = found.map_or_else(|other| other, |text| format!("`{text}`"));
                self.report_at(leaf.span, invalid(path, found, &rule.expected));
            }
            value
        });
        let in_environment = self.take_variable(path).and_then(|(name, text)| {
            let value = (rule.parse)(&text);
            if value.is_none() {
                self.report(Place::Variable(name), invalid(path, format!("`{text}`"), &rule.expected));
            }
            value
        });
        in_environment.or(in_file)
    }

    pub(super) fn take_leaf(&mut self, path: &'static str) -> Option<Leaf<'a>> {
        self.asked.push(path);
        self.leaves.remove(path)
    }

    pub(super) fn take_variable(&mut self, path: &str) -> Option<(String, String)> {
        self.variables.remove_entry(&variable_of(path))
    }

    pub(super) fn report(&mut self, place: Place, problem: Problem) {
        self.errors.push(ConfigError { place, problem });
    }

    /// Reports a problem at a span of the file.
    pub(super) fn report_at(&mut self, span: Range<usize>, problem: Problem) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |position| position.saturating_add(1));
        let column = before.get(line_start..).unwrap_or_default().chars().count().saturating_add(1);
        let line = before.matches('\n').count().saturating_add(1);
        let path = self.file.unwrap_or(Path::new("")).to_owned();
        self.report(Place::File { path, line, column }, problem);
    }

    /// Reports what nobody asked for; then all that was reported.
    pub(super) fn finish(mut self) -> Option<ConfigErrors> {
        for (path, leaf) in std::mem::take(&mut self.leaves) {
            let is_table_of_settings =
                |asked: &&str| asked.strip_prefix(&*path).is_some_and(|rest| rest.starts_with('.'));
            let is_empty = matches!(&leaf.value, DeValue::Table(table) if table.is_empty());
            if !(is_empty && self.asked.iter().any(is_table_of_settings)) {
                let tables = self.asked.iter().filter_map(|asked| asked.split_once('.').map(|(table, _)| table));
                let meant = nearest(&path, self.asked.iter().copied().chain(tables)).map(str::to_owned);
                self.report_at(leaf.key_span, Problem::Unknown { name: path, meant });
            }
        }
        for name in std::mem::take(&mut self.variables).into_keys() {
            // Without what all of them have in common.
            let known: Vec<String> = self.asked.iter().map(|path| variable_of(path).split_off(PREFIX.len())).collect();
            let written = name.strip_prefix(PREFIX).unwrap_or(&name);
            let meant = nearest(written, known.iter().map(String::as_str)).map(|meant| format!("{PREFIX}{meant}"));
            self.report(Place::Variable(name.clone()), Problem::Unknown { name, meant });
        }
        self.errors.sort_by(|one, other| one.place.cmp(&other.place));
        (!self.errors.is_empty()).then_some(ConfigErrors(self.errors))
    }
}

/// `FAREBOX_HTTP_MAX_CONNECTIONS` of `http.max_connections`
fn variable_of(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', "_").to_ascii_uppercase())
}

pub(super) fn invalid(path: &str, found: impl Into<String>, expected: &str) -> Problem {
    Problem::Invalid { setting: path.to_owned(), found: found.into(), expected: expected.to_owned() }
}

/// The text of a value of the wanted type, else what it is instead.
pub(super) fn text_of(value: &DeValue<'_>, is_number: bool) -> Result<String, String> {
    match value {
        DeValue::String(text) if !is_number => Ok(text.to_string()),
        DeValue::Integer(integer) if is_number => {
            let decimal = u64::from_str_radix(integer.as_str(), integer.radix()).map(|number| number.to_string());
            Ok(decimal.unwrap_or_else(|_| integer.to_string()))
        }
        other => Err(format!("of type {}", other.type_str())),
    }
}

fn flatten<'a>(prefix: &str, table: DeTable<'a>, leaves: &mut BTreeMap<String, Leaf<'a>>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.get_ref().to_string() } else { format!("{prefix}.{}", key.get_ref()) };
        let (key_span, span) = (key.span(), value.span());
        match Spanned::into_inner(value) {
            DeValue::Table(inner) if !inner.is_empty() => flatten(&path, inner, leaves),
            value => {
                leaves.insert(path, Leaf { value, span, key_span });
            }
        }
    }
}
