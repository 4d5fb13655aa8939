//! Where settings come from: a TOML file below, `FAREBOX_AGENT_…` variables above, flags above both. Remembers what was asked
//! for, so that the rest can be told to be unknown.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, ConfigErrors, Place, Problem};
use super::rule::Rule;

const PREFIX: &str = "FAREBOX_AGENT_";
/// What Kubernetes sets for a service called `farebox-agent`.
const KUBERNETES: &[&str] = &["FAREBOX_AGENT_SERVICE_", "FAREBOX_AGENT_PORT"];

/// A value in the file, and where its key and itself stand (bytes).
pub(super) struct Leaf<'a> {
    pub(super) value: DeValue<'a>,
    pub(super) span: Range<usize>,
    key_span: Range<usize>,
}

pub(super) struct Source<'a> {
    file: Option<&'a Path>,
    text: &'a str,
    /// By path (`spool.entries`), what has not been asked for yet.
    leaves: BTreeMap<String, Leaf<'a>>,
    /// By name, what has not been asked for yet.
    variables: BTreeMap<String, String>,
    flags: BTreeMap<&'static str, String>,
    asked: Vec<&'static str>,
    /// Those of `asked` that only the file can have.
    of_the_file: Vec<&'static str>,
    errors: Vec<ConfigError>,
}

impl<'a> Source<'a> {
    /// `flags` by the setting that they set.
    pub(super) fn new(
        file: Option<(&'a Path, &'a str)>,
        environment: impl Iterator<Item = (String, String)>,
        flags: BTreeMap<&'static str, String>,
    ) -> Self {
        let is_ours =
            |name: &str| name.starts_with(PREFIX) && !KUBERNETES.iter().any(|prefix| name.starts_with(prefix));
        let variables = environment.filter(|(name, _)| is_ours(name)).collect();
        let (path, text) = file.unzip();
        let text = text.unwrap_or_default();
        let (leaves, asked, of_the_file, errors) = (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
        let mut source = Self { file: path, text, leaves, variables, flags, asked, of_the_file, errors };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            source.report_at(error.span().unwrap_or(0..0), Problem::Syntax(error.message().to_owned()));
        }
        flatten("", table.into_inner(), &mut source.leaves);
        source
    }

    /// The setting at `path`, else the default. Whatever is given is checked, even where something above it counts.
    pub(super) fn setting<T>(&mut self, path: &'static str, rule: &Rule<T>, default: T) -> T {
        self.optional(path, rule).unwrap_or(default)
    }

    pub(super) fn optional<T>(&mut self, path: &'static str, rule: &Rule<T>) -> Option<T> {
        self.asked.push(path);
        let in_file = self.leaves.remove(path).and_then(|leaf| {
            let found = text_of(&leaf.value, rule.is_number);
            let value = found.as_deref().ok().and_then(&rule.parse);
            if value.is_none() {
                let found = found.map_or_else(|other| other, |text| format!("`{text}`"));
                self.report_at(leaf.span, invalid(path, found, &rule.expected));
            }
            value
        });
        let variable = self.variables.remove_entry(&variable_of(path));
        let in_environment = variable.and_then(|(name, text)| self.parse(path, rule, &text, Place::Variable(name)));
        let flag = self.flags.remove(path);
        let on_command_line = flag.and_then(|text| {
            self.parse(path, rule, &text, Place::Flag(format!("--{}", path.replace(['.', '_'], "-"))))
        });
        on_command_line.or(in_environment).or(in_file)
    }

    fn parse<T>(&mut self, path: &str, rule: &Rule<T>, text: &str, place: Place) -> Option<T> {
        let value = (rule.parse)(text);
        if value.is_none() {
            self.report(place, invalid(path, format!("`{text}`"), &rule.expected));
        }
        value
    }

    /// A value that no variable can have.
    pub(super) fn take_leaf(&mut self, path: &'static str) -> Option<Leaf<'a>> {
        self.asked.push(path);
        self.of_the_file.push(path);
        self.leaves.remove(path)
    }

    /// Whatever the table at `path` holds, by name: its names are not ours.
    pub(super) fn take_table(&mut self, path: &'static str) -> Vec<(String, Leaf<'a>)> {
        self.asked.push(path);
        self.of_the_file.push(path);
        let prefix = format!("{path}.");
        let names: Vec<_> = self.leaves.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
        let name_of = |key: String| key.strip_prefix(&prefix).unwrap_or(&key).to_owned();
        names.into_iter().filter_map(|key| self.leaves.remove(&key).map(|leaf| (name_of(key), leaf))).collect()
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
            if !(is_empty && (self.asked.iter().any(is_table_of_settings) || self.asked.contains(&path.as_str()))) {
                let known = siblings(&path, &self.asked);
                self.report_at(leaf.key_span, Problem::Unknown { name: path, known });
            }
        }
        for name in std::mem::take(&mut self.variables).into_keys() {
            let has_variable = |path: &&&str| !self.of_the_file.contains(path);
            let known = self.asked.iter().filter(has_variable).map(|path| variable_of(path)).collect();
            self.report(Place::Variable(name.clone()), Problem::Unknown { name, known });
        }
        self.errors.sort_by(|one, other| one.place.cmp(&other.place));
        (!self.errors.is_empty()).then_some(ConfigErrors(self.errors))
    }
}

/// The settings of the same table, else of the root.
fn siblings(path: &str, asked: &[&str]) -> Vec<String> {
    let table = |path: &str| path.rsplit_once('.').map(|(table, _)| table.to_owned());
    let own = table(path);
    let beside: Vec<_> = asked.iter().filter(|asked| table(asked) == own).map(|asked| (*asked).to_owned()).collect();
    if !beside.is_empty() && own.is_some() {
        return beside;
    }
    let root = asked.iter().map(|asked| asked.split('.').next().unwrap_or(asked).to_owned());
    let mut root: Vec<_> = root.collect();
    root.dedup();
    root
}

/// `FAREBOX_AGENT_SPOOL_ENTRIES` of `spool.entries`
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
