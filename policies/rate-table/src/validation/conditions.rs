//! Conditions: facts that exist, bands that hold something, windows that begin and end.

use std::collections::BTreeSet;

use farebox_sdk::prelude::*;

use super::{Findings, Place};
use crate::clock::TimeOfDay;
use crate::facts;
use crate::wanted::{Test, Wanted};
use crate::wording::pieces;
use crate::written::{Time, Usage};

pub(super) fn check(place: Place<'_>, findings: &mut Findings) {
    for (key, wanted) in place.rule.when.iter().flatten() {
        let pointer = place.at(&format!("/when/{}", key.replace('~', "~0").replace('/', "~1")));
        check_key(key, &pointer, findings);
        match wanted {
            Wanted::OneOf(values) => check_values(values, &pointer, findings),
            Wanted::Test(test) => check_test(key, test, &pointer, findings),
        }
    }
    if let Some(usage) = &place.rule.usage {
        check_usage(place, usage, findings);
    }
    if let Some(time) = &place.rule.time {
        check_time(place, time, findings);
    }
    check_templates(place, findings);
}

fn check_key(key: &str, pointer: &str, findings: &mut Findings) {
    let is_key = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
    };
    let is_sound = key.contains('.') && key.split('.').all(is_key);
    if facts::known(key).is_some() || (is_sound && facts::is_open(key)) {
        return;
    }
    let alike = facts::of_family(key);
    let known = if alike.is_empty() {
        "facts begin with `line.`, `book.`, `workload.`, `task.`, `added.`, `tenant.` or `step.`".to_owned()
    } else {
        format!("there are {}", list(&alike))
    };
    findings.wrong(pointer, "unknown_fact", format!("there is no fact `{key}`; {known}"));
}

fn list(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

fn check_values(values: &[String], pointer: &str, findings: &mut Findings) {
    if values.is_empty() || values.iter().any(String::is_empty) {
        findings.wrong(pointer, "no_value", "name at least one value, and none that is empty");
    }
    let mut earlier = BTreeSet::new();
    for value in values {
        if !earlier.insert(value) {
            findings.wrong(pointer, "repeated_value", format!("value `{value}` is there twice"));
        }
    }
}

fn check_test(key: &str, test: &Test, pointer: &str, findings: &mut Findings) {
    let bounds = [test.above, test.at_least, test.below, test.at_most];
    let has_bounds = bounds.iter().any(Option::is_some);
    let tests = [test.other_than.is_some(), test.present.is_some(), has_bounds];
    if tests.iter().filter(|is_given| **is_given).count() != 1 {
        findings.wrong(pointer, "not_one_test", "give one of `other_than`, `present` and bounds");
        return;
    }
    if let Some(values) = &test.other_than {
        check_values(values, &format!("{pointer}/other_than"), findings);
    }
    if has_bounds && facts::known(key).is_some_and(|known| !known.is_number) {
        findings.wrong(pointer, "not_a_number", format!("`{key}` is text, which has no bounds; name its values"));
    }
    check_band(bounds, pointer, findings);
}

/// `above`, `at_least`, `below`, `at_most`.
fn check_band([above, at_least, below, at_most]: [Option<Quantity>; 4], pointer: &str, findings: &mut Findings) {
    for (one, other, first, second) in [(above, at_least, "above", "at_least"), (below, at_most, "below", "at_most")] {
        if one.is_some() && other.is_some() {
            findings.wrong(pointer, "two_bounds", format!("`{first}` and `{second}` bound the same side; keep one"));
            return;
        }
    }
    let (Some(lower), Some(upper)) = (above.or(at_least), below.or(at_most)) else { return };
    let holds_its_end = at_least.is_some() && at_most.is_some();
    if lower > upper || (lower == upper && !holds_its_end) {
        findings.wrong(pointer, "empty_band", format!("nothing lies between `{lower}` and `{upper}`"));
    }
}

fn check_usage(place: Place<'_>, usage: &Usage, findings: &mut Findings) {
    let metric = &usage.metric;
    let is_word = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    if metric.is_empty() || metric.len() > 64 || !metric.bytes().all(is_word) {
        let detail = format!("metric `{metric}` is not a lower-case word such as `gpu_util`");
        findings.wrong(place.at("/usage/metric"), "invalid_metric", detail);
    }
    let pointer = place.at("/usage");
    check_band([usage.above, usage.at_least, usage.below, usage.at_most], &pointer, findings);
    // What may raise a price is dropped where only a discount is fair, so it must be clear which way a rule goes.
    for effect in place.rule.effects() {
        if !["rate", "amount", "ramp"].contains(&effect) {
            let detail =
                format!("a rule with `usage` has a `rate`, an `amount`, a `ramp` or a `note`, and no `{effect}`");
            findings.wrong(place.at(&format!("/{effect}")), "not_by_usage", detail);
        }
    }
}

fn check_time(place: Place<'_>, time: &Time, findings: &mut Findings) {
    let pointer = place.at("/time");
    let Time { weekdays, from, to, first_day, last_day } = time;
    if weekdays.is_none() && from.is_none() && to.is_none() && first_day.is_none() && last_day.is_none() {
        findings.wrong(pointer, "empty_time", "give `weekdays`, `from` and `to`, `first_day` or `last_day`");
        return;
    }
    match (from, to) {
        (Some(_), None) | (None, Some(_)) => {
            findings.wrong(pointer, "half_a_window", "`from` and `to` go together; a day ends at `24:00`");
        }
        (Some(from), Some(to)) if from == to => {
            let detail = "`from` and `to` are the same; leave both out for the whole day";
            findings.wrong(place.at("/time/to"), "empty_window", detail);
        }
        (Some(TimeOfDay::END), Some(_)) => {
            findings.wrong(place.at("/time/from"), "empty_window", "`24:00` only ends a window; one begins at `00:00`");
        }
        (Some(_), Some(TimeOfDay(0))) => {
            findings.wrong(place.at("/time/to"), "empty_window", "a window that ends with the day ends at `24:00`");
        }
        _ => {}
    }
    let days = weekdays.as_deref().unwrap_or_default();
    let repeats = |(index, day)| days.iter().take(index).any(|earlier| earlier == day);
    if weekdays.as_ref().is_some_and(Vec::is_empty) || days.iter().enumerate().any(repeats) {
        findings.wrong(place.at("/time/weekdays"), "invalid_weekdays", "name at least one day, and none twice");
    }
    if first_day.zip(*last_day).is_some_and(|(first, last)| first > last) {
        findings.wrong(place.at("/time/last_day"), "empty_range", "`last_day` is before `first_day`");
    }
}

/// `{key}` must be a fact of the rule that has a value where the rule matches.
fn check_templates(place: Place<'_>, findings: &mut Findings) {
    let rule = place.rule;
    let templates = [
        (rule.reason.as_ref(), "/reason"),
        (rule.note.as_ref().map(|note| &note.text), "/note/text"),
        (rule.refuse.as_ref().map(|refuse| &refuse.detail), "/refuse/detail"),
    ];
    for (template, field) in templates {
        let Some(template) = template else { continue };
        let Some(pieces) = pieces(template) else {
            let detail = "braces enclose a fact of `when`, such as `{workload.image}`";
            findings.wrong(place.at(field), "unpaired_brace", detail);
            continue;
        };
        for key in pieces.iter().filter_map(|(_, key)| *key) {
            let wanted = rule.when.as_ref().and_then(|when| when.get(key));
            if wanted.is_none_or(is_absence) {
                let detail = format!("`{{{key}}}` stands for nothing: `when` does not ask for a value of `{key}`");
                findings.wrong(place.at(field), "unknown_placeholder", detail);
            }
        }
    }
}

pub(super) fn is_absence(wanted: &Wanted) -> bool {
    matches!(wanted, Wanted::Test(Test { present: Some(false), .. }))
}
