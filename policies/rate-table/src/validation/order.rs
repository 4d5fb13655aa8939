//! Rules beside each other: codes that would meet, rules that never come up, prices that undo each other.

use super::{Findings, Place};
use crate::written::{Matching, RateTable, Rule};

pub(super) fn check(table: &RateTable, findings: &mut Findings) {
    for (index, rule) in table.rules.iter().enumerate() {
        let place = Place { rule, index };
        let earlier = table.rules.iter().take(index);
        check_codes(table.matching, place, earlier.clone(), findings);
        match table.matching {
            Matching::First => check_reachable(place, earlier, findings),
            Matching::All => check_repricing(place, earlier, findings),
        }
    }
}

/// On one line a code stands once. Where the first rule wins, only those of one rule can meet.
fn check_codes<'a>(
    matching: Matching,
    place: Place<'_>,
    earlier: impl Iterator<Item = &'a Rule>,
    findings: &mut Findings,
) {
    let mut taken: Vec<String> = match matching {
        Matching::First => Vec::new(),
        Matching::All => earlier.flat_map(Rule::codes).collect(),
    };
    for code in place.rule.codes() {
        if taken.contains(&code) {
            let is_of_note = place.rule.note.as_ref().is_some_and(|note| {
                note.code.as_ref().unwrap_or(&place.rule.code) == &code && place.rule.effects().len() == 1
            });
            let (field, advice) = if is_of_note {
                ("/note", "; give the note a `code` of its own")
            } else {
                ("/code", "; where rules exclude each other, match the `first`")
            };
            findings.wrong(place.at(field), "repeated_code", format!("code `{code}` is there twice{advice}"));
        }
        taken.push(code);
    }
}

/// A rule is never reached if all that an earlier one asks for is among what it asks for.
fn check_reachable<'a>(place: Place<'_>, earlier: impl Iterator<Item = &'a Rule>, findings: &mut Findings) {
    let Some((number, covering)) = (1..).zip(earlier).find(|(_, earlier)| covers(earlier, place.rule)) else { return };
    let detail = format!(
        "this rule is never reached: rule {number} (`{}`) matches all that it matches; put the narrower one first",
        covering.code
    );
    findings.wrong(place.at(""), "unreachable_rule", detail);
}

fn covers(wide: &Rule, narrow: &Rule) -> bool {
    let has_fact = |(key, wanted): (&String, &_)| narrow.when.as_ref().and_then(|when| when.get(key)) == Some(wanted);
    // A line of an unmeasured task is passed over by prices of quantities, so it may still reach a later rule.
    let passes_tasks_over = wide.reprices() && !narrow.reprices();
    !passes_tasks_over
        && wide.when.iter().flatten().all(has_fact)
        && (wide.usage.is_none() || wide.usage == narrow.usage)
        && (wide.time.is_none() || wide.time == narrow.time)
}

/// A line takes a new price once in a step, and no rate beside it.
fn check_repricing<'a>(place: Place<'_>, earlier: impl Iterator<Item = &'a Rule>, findings: &mut Findings) {
    let is_rate = |rule: &Rule| rule.rate.is_some() || rule.ramp.is_some();
    let rule = place.rule;
    let opponent = |other: &&Rule| {
        (rule.reprices() && (other.reprices() || is_rate(other))) || (is_rate(rule) && other.reprices())
    };
    if let Some(other) = earlier.into_iter().find(opponent) {
        let detail = format!(
            "a new price beside rule `{}`: a step sets one price and no rates; match the `first`, or take two steps",
            other.code
        );
        findings.wrong(place.at(""), "second_price", detail);
    }
}
