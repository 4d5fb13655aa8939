//! The digest of a plan: the same for the same content, whatever its layout.
//!
//! SHA-256 over `{"document":…,"policies":[…]}`: the document as it is given, keys sorted, numbers and strings digit for
//! digit, and the digests of its policies by step. Defaults are not filled in, so that a field that a later gateway adds
//! does not change the digest of a plan that never named it; writing a default out makes a new version of equal price.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::hex::hex;

/// Lower-case hex.
pub(super) fn of_plan(document: &Value, policies: &[&str]) -> String {
    let content = sorted(&json!({ "document": document, "policies": policies }));
    hex(&Sha256::digest(content.to_string()))
}

/// The same value with the keys of all objects in order, whatever map serde_json was built with.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<&String> = members.keys().collect();
            keys.sort();
            let in_order = keys.into_iter().filter_map(|key| Some((key.clone(), sorted(members.get(key)?))));
            Value::Object(in_order.collect::<Map<_, _>>())
        }
        Value::Array(elements) => Value::Array(elements.iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str, policies: &[&str]) -> String {
        of_plan(&serde_json::from_str(text).unwrap(), policies)
    }

    #[test]
    fn layout_does_not_count_and_content_does() {
        let one = digest(r#"{"a":0.10,"b":[{"c":"x","d":true}]}"#, &["p"]);
        assert_eq!(one.len(), 64);
        assert_eq!(one, digest(r#"{ "b": [{"d": true, "c": "x"}], "a": 0.10 }"#, &["p"]));
        for (text, policies) in [
            (r#"{"a":0.11,"b":[{"c":"x","d":true}]}"#, ["p"]),
            (r#"{"a":"0.10","b":[{"c":"x","d":true}]}"#, ["p"]),
            (r#"{"a":0.10,"b":[{"c":"x","d":true}]}"#, ["q"]),
        ] {
            assert_ne!(one, digest(text, &policies), "{text}");
        }
    }

    #[test]
    fn the_digest_is_the_same_on_any_machine() {
        // printf '{"document":{"a":0.10},"policies":["p"]}' | sha256sum
        let expected = "918009a29f2a0963e90e2e0e8f731de3cd04da273e010dec0f3d7aedb17cf1dc";
        assert_eq!(digest(r#"{"a":0.10}"#, &["p"]), expected);
    }
}
