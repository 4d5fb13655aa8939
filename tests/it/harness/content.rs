//! What two quotes of the same things have in common.

use serde_json::Value;

/// Without what differs between any two answers: ids, the token, which holds one, and links.
pub fn unnamed(answer: Value) -> Value {
    without(answer, &["id", "decision_id", "links", "token", "trace_id"])
}

/// Without what differs from one moment to the next either; digests and fuel stay.
pub fn lasting(answer: Value) -> Value {
    let mut answer = without(unnamed(answer), &["created_at", "expires_at"]);
    if let Some(snapshot) = answer.pointer_mut("/inputs/snapshot") {
        *snapshot = without(snapshot.take(), &["observed_at", "age_ms"]);
    }
    answer
}

fn without(mut value: Value, names: &[&str]) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, _| !names.contains(&name.as_str()));
    }
    value
}
