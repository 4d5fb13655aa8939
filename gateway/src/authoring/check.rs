//! Everything that can be said of a component without a plan.

use farebox_pricing::policy::Scope;
use farebox_sandbox::{Limits, LoadError, Policy, Sandbox};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::cases::Case;
use super::declared::beyond_declared;
use super::lint::lint;
use super::trial::{Tried, try_case};
use crate::causes::with_causes;
use crate::hex::hex;
use crate::schema::Schema;

/// Of the fuel of one evaluation, what the worst case may burn; above it the policy will not be activated (SPEC §7).
pub const FUEL_SHARE_PERCENT: u64 = 25;

/// What was found of one component.
#[derive(Debug, Serialize)]
pub struct Report {
    /// `name@version`; `None` where it is no policy.
    pub policy: Option<String>,
    pub sha256: String,
    pub bytes: usize,
    pub worst_fuel: Option<u64>,
    pub checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub level: Level,
    pub what: &'static str,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Ok,
    /// Could not be looked at.
    Note,
    Warning,
    Error,
}

impl Report {
    pub fn count(&self, level: Level) -> usize {
        self.checks.iter().filter(|check| check.level == level).count()
    }

    fn say(&mut self, level: Level, what: &'static str, text: impl Into<String>) {
        self.checks.push(Check { level, what, text: text.into() });
    }
}

/// Looks at everything: the component itself, and the cases beside it where there are any.
pub fn check(sandbox: &Sandbox, bytes: &[u8], cases: Option<&[Case]>) -> Report {
    let sha256 = hex(&Sha256::digest(bytes));
    let mut report = Report { policy: None, sha256, bytes: bytes.len(), worst_fuel: None, checks: Vec::new() };
    let policy = match sandbox.load(bytes) {
        Ok(policy) => policy,
        Err(error) => {
            report.say(Level::Error, subject(&error), with_causes(&error));
            return report;
        }
    };
    component(&mut report, &policy, sandbox.limits());
    let schema = schema(&mut report, &policy, sandbox.limits());
    match cases {
        Some(cases) => by_cases(&mut report, &policy, cases, schema.as_ref(), sandbox.limits()),
        None => report.say(
            Level::Note,
            "cases",
            "none were named, so answers, determinism, fuel and reads are not checked; add `--cases DIR`",
        ),
    }
    report
}

/// Which check a component fails that cannot be loaded.
fn subject(error: &LoadError) -> &'static str {
    match error {
        LoadError::Import { .. } => "imports",
        LoadError::NoContract { .. } | LoadError::OtherVersion { .. } | LoadError::OtherTypes { .. } => "contract",
        LoadError::OverLimit { .. } => "limits",
        LoadError::Manifest(_) | LoadError::Describe(_) => "manifest",
        LoadError::Empty
        | LoadError::NativeCode
        | LoadError::Text
        | LoadError::NotWasm
        | LoadError::Malformed(_)
        | LoadError::NotWrappable(_)
        | LoadError::NotCompilable(_)
        | LoadError::Compiler => "module",
    }
}

/// What loading has proved.
fn component(report: &mut Report, policy: &Policy, limits: &Limits) {
    let manifest = policy.manifest();
    report.policy = Some(format!("{}@{}", manifest.name, manifest.version));
    let size = format!(
        "{} of {} bytes; functions, memory and tables are within their limits",
        report.bytes, limits.artefact_bytes
    );
    report.say(Level::Ok, "limits", size);
    report.say(Level::Ok, "imports", "none");
    report.say(Level::Ok, "contract", "farebox:policy/pricing@1.0.0");
    let scope = match manifest.scope {
        Scope::Line => "line",
        Scope::Quote => "quote",
    };
    let list = |words: &[String]| if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    let (reads, produces) = (list(&manifest.reads), list(&manifest.produces));
    report.say(Level::Ok, "manifest", format!("scope {scope}; reads {reads}; produces {produces}"));
}

fn schema(report: &mut Report, policy: &Policy, limits: &Limits) -> Option<Schema> {
    let text = &policy.manifest().parameters_schema;
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => {
            report.say(Level::Error, "schema", format!("the schema of the parameters is not JSON: {error}"));
            return None;
        }
    };
    if let Some(reference) = remote_reference(&document) {
        let reference: String = reference.chars().take(80).collect();
        let text = format!("`$ref` to `{}` leaves the schema; put that under `$defs`", reference.escape_debug());
        report.say(Level::Error, "schema", text);
        return None;
    }
    match Schema::compile(&document) {
        Ok(schema) => {
            let limit = limits.counts.schema_bytes;
            let text = format!("{} of {limit} bytes; no remote `$ref`; every pattern in linear time", text.len());
            report.say(Level::Ok, "schema", text);
            Some(schema)
        }
        Err(error) => {
            report.say(Level::Error, "schema", with_causes(&error));
            None
        }
    }
}

/// The first reference that is not into the document itself.
fn remote_reference(document: &Value) -> Option<&str> {
    match document {
        Value::Object(members) => members.iter().find_map(|(name, member)| match member {
            Value::String(target) if matches!(name.as_str(), "$ref" | "$dynamicRef") => {
                (!target.starts_with('#')).then_some(target.as_str())
            }
            member => remote_reference(member),
        }),
        Value::Array(items) => items.iter().find_map(remote_reference),
        _ => None,
    }
}

fn by_cases(report: &mut Report, policy: &Policy, cases: &[Case], schema: Option<&Schema>, limits: &Limits) {
    let errors_before = report.count(Level::Error);
    let mut tried = Vec::with_capacity(cases.len());
    for case in cases {
        match try_case(policy, case) {
            Ok(said) => {
                one_case(report, case, &said, schema);
                tried.push((case, said));
            }
            Err(fault) => report.say(Level::Error, "cases", format!("`{}`: {fault}", case.name)),
        }
    }
    if report.count(Level::Error) == errors_before {
        report.say(Level::Ok, "cases", format!("{} answer as their files say", cases.len()));
    }
    deterministic(report, policy, &tried);
    fuel(report, &tried, limits);
    let tried: Vec<(&Case, &Tried)> = tried.iter().map(|(case, tried)| (*case, tried)).collect();
    let found = lint(policy.manifest(), &tried);
    for (what, fine) in [("reads", "every word matters in a case"), ("produces", "every code is in a case")] {
        let mut of_it = found.iter().filter(|(about, _)| *about == what).peekable();
        if of_it.peek().is_none() {
            report.say(Level::Ok, what, fine);
        }
        of_it.for_each(|(what, text)| report.say(Level::Warning, what, text.as_str()));
    }
}

fn one_case(report: &mut Report, case: &Case, tried: &Tried, schema: Option<&Schema>) {
    let name = &case.name;
    match &case.expected {
        None => {
            let text =
                format!("`{name}` expects nothing yet; `farebox policy test --update` writes what the policy says");
            report.say(Level::Error, "cases", text);
        }
        Some(expected) if *expected != tried.answer => {
            let text = format!("`{name}` answers other than its file says; `farebox policy test` shows the difference");
            report.say(Level::Error, "cases", text);
        }
        Some(_) => {}
    }
    for what in beyond_declared(case, tried) {
        report.say(Level::Error, "cases", format!("`{name}`: {what}"));
    }
    // A plan's parameters meet the schema first, so a case that breaks it shows what no plan can get.
    let parameters = serde_json::from_str::<Value>(&case.parameters).unwrap_or_default();
    let violations = schema.map(|schema| schema.violations(&parameters)).unwrap_or_default();
    if let (Some(violation), true) = (violations.first(), tried.configured.is_some()) {
        let (pointer, detail) = (&violation.pointer, &violation.detail);
        let text = format!("`{name}` has parameters against the schema, at `{pointer}`: {detail}");
        report.say(Level::Error, "cases", text);
    }
}

/// Each case once more, in another order: equal bytes, equal fuel.
fn deterministic(report: &mut Report, policy: &Policy, tried: &[(&Case, Tried)]) {
    // Shuffled by a hash of the names: another order than theirs, and the same one in every run.
    let mut shuffled: Vec<_> = tried.iter().collect();
    shuffled.sort_by_key(|(case, _)| Sha256::digest(case.name.as_bytes()));
    let mut differ = Vec::new();
    for (case, first) in shuffled {
        let same = try_case(policy, case).is_ok_and(|second| {
            (second.answer.json(), second.spent) == (first.answer.json(), first.spent)
                && match (&second.configured, &first.configured) {
                    (Some(second), Some(first)) => {
                        (second.bytes(), second.reads(), second.produces())
                            == (first.bytes(), first.reads(), first.produces())
                            && second.configure_fuel() == first.configure_fuel()
                    }
                    (second, first) => second.is_none() == first.is_none(),
                }
        });
        if !same {
            differ.push(format!("`{}`", case.name));
        }
    }
    if differ.is_empty() {
        let text = format!("{} cases twice, in two orders: equal answers, equal fuel", tried.len());
        report.say(Level::Ok, "determinism", text);
    } else {
        let text = format!("other bytes or fuel at the second time: {}", differ.join(", "));
        report.say(Level::Error, "determinism", text);
    }
}

fn fuel(report: &mut Report, tried: &[(&Case, Tried)], limits: &Limits) {
    let spent = tried.iter().filter_map(|(case, tried)| Some((tried.spent?.fuel, &case.name)));
    let Some((worst, name)) = spent.max_by_key(|(fuel, _)| *fuel) else { return };
    report.worst_fuel = Some(worst);
    let most = limits.evaluate_fuel.saturating_mul(FUEL_SHARE_PERCENT).div_euclid(100);
    let text = format!("at most {worst} in a case (`{name}`) of {} in an evaluation", limits.evaluate_fuel);
    if worst > most {
        let text = format!("{text}; activation is refused above {FUEL_SHARE_PERCENT} %, which is {most}");
        report.say(Level::Error, "fuel", text);
    } else {
        report.say(Level::Ok, "fuel", text);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_that_leave_the_schema_are_found_however_deep() {
        assert_eq!(remote_reference(&json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}})), None);
        // A property of that name is no reference.
        assert_eq!(remote_reference(&json!({"properties": {"$ref": {"type": "string"}}})), None);
        let deep = json!({"allOf": [{}, {"properties": {"a": {"$dynamicRef": "https://example.org/x"}}}]});
        assert_eq!(remote_reference(&deep), Some("https://example.org/x"));
        assert_eq!(remote_reference(&json!({"$ref": "other.json#/a"})), Some("other.json#/a"));
    }

    #[test]
    fn what_is_no_policy_is_told_in_one_error() {
        let sandbox = Sandbox::new(Limits::standard()).unwrap();
        for (bytes, what) in [(&b"(module)"[..], "module"), (b"", "module"), (b"\0asm\x01\0\0\0", "contract")] {
            let report = check(&sandbox, bytes, None);
            assert_eq!((report.count(Level::Error), report.checks.len()), (1, 1), "{report:?}");
            assert_eq!(report.checks[0].what, what);
        }
        assert_eq!(subject(&LoadError::Import { name: String::new() }), "imports");
    }
}
