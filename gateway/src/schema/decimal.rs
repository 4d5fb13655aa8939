//! Exact decimals on the wire.

use std::borrow::Cow;

use farebox_pricing::exact;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An exact decimal, in a string or as a plain number, digit for digit.
#[derive(Clone, Debug)]
pub struct WireDecimal(pub String);

impl<'de> Deserialize<'de> for WireDecimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(number.to_string())),
            other => Err(serde::de::Error::custom(format!("`{other}` is not a decimal"))),
        }
    }
}

impl PartialSchema for WireDecimal {
    fn schema() -> RefOr<Schema> {
        let schema = json!({
            "description": "exact decimal, as a string or a plain number: no exponent, at most 28 digits",
            "type": ["string", "number"],
            "pattern": exact::PATTERN,
            "examples": ["0.25"],
        });
        // INVARIANT: the literal above is a schema; a test reads it back.
        serde_json::from_value(schema).unwrap_or_default()
    }
}

impl ToSchema for WireDecimal {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Decimal")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::WireDecimal;
    use crate::schema::Schema;

    #[test]
    fn the_schema_holds_and_its_violations_say_what_is_meant() {
        let schema = Schema::of::<WireDecimal>().unwrap();
        for good in [json!("0.25"), json!(72), json!("-4.77001111111111111111107306")] {
            assert_eq!(schema.violations(&good), []);
        }
        for bad in [json!("1e3"), json!("01"), json!(".5"), json!("1."), json!(""), json!("七")] {
            let violations = schema.violations(&bad);
            assert_eq!(violations[0].code, "not_a_plain_decimal", "{violations:?}");
        }
        assert_eq!(schema.violations(&json!(true))[0].code, "type");
    }
}
