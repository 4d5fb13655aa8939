//! Exact decimals on the wire.

use std::borrow::Cow;

use farebox_pricing::exact;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value, json};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An exact decimal, in a string or as a plain number, digit for digit.
#[derive(Clone, Debug)]
pub struct WireDecimal(pub String);

impl<'de> Deserialize<'de> for WireDecimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self(text)),
            Value::Number(number) => Ok(Self(digits(&number))),
            other => Err(serde::de::Error::custom(format!("`{other}` is not a decimal"))),
        }
    }
}

/// As it was written. serde_json hands `0.000001` over as a float, because that prints the same, and would spell it `1e-6`;
/// a number that was written with an exponent was told before anything was read from it.
fn digits(number: &Number) -> String {
    let text = number.to_string();
    let is_respelt =
        |short: &_| text.contains('e') && Number::from_f64(*short).is_some_and(|it| it.to_string() == text);
    number.as_f64().filter(is_respelt).map_or_else(|| text.clone(), |short| short.to_string())
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
    fn numbers_keep_their_digits_also_where_a_float_would_do() {
        for text in [
            "0.000001",
            "0.0000001",
            "-0.00000025",
            "72",
            "0.10",
            "0.1234567890123456789012345678",
            "1000000000000000000000",
        ] {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            let read: WireDecimal = serde::Deserialize::deserialize(&value).unwrap();
            assert_eq!(read.0, text);
        }
    }

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
