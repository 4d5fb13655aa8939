//! What the schema cannot say of a table: everything that is wrong, each with its place.

mod conditions;
mod effects;
mod order;

use farebox_sdk::is_code;
use farebox_sdk::prelude::*;

use crate::written::{Matching, RateTable, Rule};

/// Most mistakes that one table is told; the host takes 256.
const MAX_TOLD: usize = 100;
/// Bounded, so that a table that passes costs a fraction of an evaluation's fuel.
const MAX_RULES: usize = 100;
/// Facts and values that all rules name together, for the same reason.
pub(crate) const MAX_NAMED: usize = 1000;
/// Rows and messages on one line, of all steps, as in the contract.
const MAX_SAID: usize = 64;

/// What was found wrong so far.
#[derive(Debug, Default)]
struct Findings(Vec<Refusal>);

impl Findings {
    fn wrong(&mut self, pointer: impl Into<String>, code: &str, detail: impl Into<String>) {
        self.0.push(Refusal::new(code, detail).at(pointer));
    }
}

/// A rule, and where it stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    rule: &'a Rule,
    index: usize,
}

impl Place<'_> {
    fn at(self, field: &str) -> String {
        format!("/rules/{}{field}", self.index)
    }
}

pub(crate) fn validate(table: &RateTable) -> Vec<Refusal> {
    let mut findings = Findings::default();
    match table.rules.len() {
        0 => findings.wrong("/rules", "no_rules", "a table has at least one rule"),
        count if count > MAX_RULES => {
            findings.wrong("/rules", "too_many_rules", format!("a table has at most {MAX_RULES} rules, not {count}"));
        }
        _ => {}
    }
    let conditions = table.rules.iter().flat_map(|rule| rule.when.iter().flatten());
    let named: usize = conditions.map(|(_, wanted)| 1 + wanted.values().len()).sum();
    if named > MAX_NAMED {
        let detail = format!("a table names at most {MAX_NAMED} facts and values in all, not {named}");
        findings.wrong("/rules", "too_many_values", detail);
    }
    // To look at each part of what is too large would burn the fuel that tells so.
    if !findings.0.is_empty() {
        return findings.0;
    }
    check_said(table, &mut findings);
    for (index, rule) in table.rules.iter().enumerate() {
        let place = Place { rule, index };
        check_code(place, &rule.code, "/code", &mut findings);
        if let Some(code) = rule.note.as_ref().and_then(|note| note.code.as_ref()) {
            check_code(place, code, "/note/code", &mut findings);
        }
        conditions::check(place, &mut findings);
        effects::check(place, &mut findings);
    }
    order::check(table, &mut findings);
    findings.0.truncate(MAX_TOLD);
    findings.0
}

/// Where all rules count, all of them may match one line.
fn check_said(table: &RateTable, findings: &mut Findings) {
    let said: usize = table.rules.iter().map(|rule| rule.codes().len()).sum();
    if table.matching == Matching::All && said > MAX_SAID {
        let detail = format!(
            "a line has at most {MAX_SAID} rows and notes, and these rules together {said}; match the `first`, or take \
             fewer rules"
        );
        findings.wrong("/rules", "too_many_rows", detail);
    }
}

fn check_code(place: Place<'_>, code: &str, field: &str, findings: &mut Findings) {
    if !is_code(code) {
        let detail =
            format!("code `{code}` is not a word of at most 64 lower-case letters, digits, `_`, `-` and dots between");
        findings.wrong(place.at(field), "invalid_code", detail);
    }
}
