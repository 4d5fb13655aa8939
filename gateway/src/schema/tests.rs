//! Many violations at once.

use super::*;

#[test]
fn of_many_unknown_members_the_first_are_compared_and_a_thousand_told() {
    let schema = json!({"type": "object", "properties": {"gpu_model": {}}, "additionalProperties": false});
    let document: serde_json::Map<_, _> =
        (0..20_000).map(|number| (format!("gpu_mode{number:05}"), Value::Null)).collect();
    // Within a third of its length: `gpu_model` and five letters.
    let slip = json!({"gpu_modell": null});
    let schema = Schema::compile(&schema).unwrap();
    assert!(schema.violations(&slip)[0].detail.ends_with("; did you mean `gpu_model`?"));
    let violations = schema.violations(&Value::Object(document));
    assert_eq!(violations.len(), MAX_VIOLATIONS);
    let compared = violations.iter().filter(|violation| violation.detail.contains("did you mean")).count();
    assert_eq!(compared, MOST_SUGGESTIONS);
}
