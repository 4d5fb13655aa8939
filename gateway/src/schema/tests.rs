//! Many violations at once.

use super::*;

#[test]
fn of_many_unknown_members_the_first_are_compared_and_a_thousand_told() {
    let schema = json!({"type": "object", "properties": {"gpu_model_of_item": {}}, "additionalProperties": false});
    // Five letters from the known one, and a third of eighteen may differ.
    let names = (0..20_000).map(|number| (format!("gpu_model_of_{number:05}"), Value::Null));
    let document = Value::Object(names.collect());
    let violations = Schema::compile(&schema).unwrap().violations(&document);
    assert_eq!(violations.len(), MAX_VIOLATIONS);
    let is_compared = |violation: &&Violation| violation.detail.ends_with("; did you mean `gpu_model_of_item`?");
    assert_eq!(violations.iter().filter(is_compared).count(), MOST_SUGGESTIONS);
}
