//! Golden cases: `fixtures/cases/<name>/` holds a request, the snapshots before it and the answer, whole.
//!
//! `UPDATE_CASES=1` writes the answers anew; a person reads the diff. The totals in `case.json` were worked out by hand
//! and are never rewritten.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Answer, TestGateway, fixture, root, updates_cases};

#[test]
fn every_case_answers_as_recorded() {
    let mut names: Vec<String> = std::fs::read_dir(root().join("fixtures/cases"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 15, "only {} cases", names.len());
    let wrong: Vec<String> = names.iter().filter_map(|name| check(name).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn check(name: &str) -> Result<(), String> {
    // A gateway of its own: a case sees its own snapshots only.
    let gateway = TestGateway::start();
    let case = fixture(&format!("cases/{name}/case.json"));
    for snapshot in case["snapshots"].as_array().into_iter().flatten() {
        gateway.observe(snapshot.as_str().unwrap());
    }
    let answer = gateway.post("/v1/quotes", &fixture(&format!("cases/{name}/request.json")));
    by_hand(name, &case, &answer)?;
    let file = if answer.status == 201 { "quote.json" } else { "problem.json" };
    recorded(name, &root().join("fixtures/cases").join(name).join(file), &redacted(answer.json()))
}

/// What was worked out by hand: the status, and the total, the lines' amounts and message codes, or the problem and its
/// pointers.
fn by_hand(name: &str, case: &Value, answer: &Answer) -> Result<(), String> {
    let json = answer.json();
    let list = |pointer: &str, member: &str| -> Value {
        let items = json.pointer(pointer).and_then(Value::as_array);
        items.into_iter().flatten().map(|item| item[member].clone()).collect()
    };
    let found = [
        ("status", answer.status.into()),
        ("total", json.pointer("/totals/total").cloned().unwrap_or_default()),
        ("amounts", list("/lines", "amount")),
        ("messages", list("/messages", "code")),
        ("problem", json["type"].as_str().unwrap_or_default().trim_start_matches("/problems/").into()),
        ("pointers", list("/errors", "pointer")),
    ];
    for (what, found) in found {
        match case.get(what) {
            Some(expected) if *expected != found => {
                return Err(format!("{name}: {what} is {found} and not {expected}: {}", answer.body));
            }
            _ => {}
        }
    }
    Ok(())
}

fn recorded(name: &str, file: &Path, answer: &Value) -> Result<(), String> {
    let text = format!("{answer:#}\n");
    if updates_cases() {
        std::fs::write(file, text).unwrap();
        return Ok(());
    }
    let expected = std::fs::read_to_string(file).map_err(|error| format!("{name}: {}: {error}", file.display()))?;
    if expected == text {
        return Ok(());
    }
    let differs = expected.lines().zip(text.lines()).find(|(old, new)| old != new);
    Err(format!("{name}: answers other than {}: {differs:?}", file.display()))
}

/// Ids, instants, ages and the token differ from run to run; everything else is the same.
pub fn redacted(mut answer: Value) -> Value {
    redact(&mut answer);
    answer
}

fn redact(value: &mut Value) {
    const CHANGING: [&str; 12] = [
        "id",
        "decision_id",
        "created_at",
        "expires_at",
        "observed_at",
        "age_ms",
        "token",
        "self",
        "accept",
        "trace_id",
        "digest",
        "fuel",
    ];
    match value {
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                let is_line_id = member.as_str().is_some_and(|text| text.starts_with('l'));
                if CHANGING.contains(&key.as_str()) && !is_line_id {
                    *member = format!("<{key}>").into();
                } else {
                    redact(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}
