//! JSON as it is written: numbers keep their digits, and what two readers could read differently is refused.
//!
//! Refused as malformed: duplicate keys, a byte order mark, invalid UTF-8, lone surrogates, more than 128 levels, anything
//! after the value, more values than any request has. A number with an exponent, or with more digits than are priced, is well-formed and a violation.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr as _;

use farebox_pricing::exact;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::schema::{MAX_VIOLATIONS, Violation, child};

/// A JSON text, and the numbers in it that are not plain decimals.
#[derive(Debug)]
pub struct Document {
    pub value: Value,
    pub violations: Vec<Violation>,
}

#[derive(Debug, thiserror::Error)]
#[error("the body is not the JSON that it must be: {message}")]
pub struct MalformedJson {
    message: String,
    /// Line and column, both as serde_json counts them.
    pub place: Option<(usize, usize)>,
}

impl MalformedJson {
    fn of(error: &serde_json::Error) -> Self {
        Self { message: error.to_string(), place: (error.line() > 0).then(|| (error.line(), error.column())) }
    }

    /// The message without its place.
    pub fn reason(&self) -> &str {
        let place = self.place.map(|(line, column)| format!(" at line {line} column {column}"));
        place.and_then(|place| self.message.strip_suffix(&place)).unwrap_or(&self.message)
    }
}

/// Most values of a text, members and items at every level. A legal request of 100 items has about 4,000; checking many
/// more only costs time.
const MAX_VALUES: u32 = 20_000;

/// serde_json hands a number of arbitrary precision to a visitor as a map with this one key. A body that spells it is
/// refused; one that spells it in escapes has sent a number, which is then checked like any other.
const NUMBER_KEY: &str = "$serde_json::private::Number";

pub fn read(bytes: &[u8]) -> Result<Document, MalformedJson> {
    if bytes.windows(NUMBER_KEY.len()).any(|window| window == NUMBER_KEY.as_bytes()) {
        return Err(MalformedJson { message: format!("`{NUMBER_KEY}` is no key of anything"), place: None });
    }
    let odd_number = Cell::new(false);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let values = Cell::new(0);
    let strict = Strict { odd_number: &odd_number, values: &values };
    let value = strict.deserialize(&mut deserializer).map_err(|error| MalformedJson::of(&error))?;
    deserializer.end().map_err(|error| MalformedJson::of(&error))?;
    let mut violations = Vec::new();
    if odd_number.get() {
        find_odd_numbers(&value, "", &mut violations);
    }
    Ok(Document { value, violations })
}

/// Builds a value like serde_json's own visitor, but refuses duplicate keys.
#[derive(Clone, Copy)]
struct Strict<'a> {
    /// Set when a number is met that is no plain decimal, so that only then the value is searched for it.
    odd_number: &'a Cell<bool>,
    values: &'a Cell<u32>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let count = self.values.get().saturating_add(1);
        if count > MAX_VALUES {
            return Err(D::Error::custom(format!("more than {MAX_VALUES} values")));
        }
        self.values.set(count);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if key == NUMBER_KEY && members.is_empty() {
                return self.number(&access.next_value::<String>()?);
            }
            if members.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{}` stands twice", key.escape_debug())));
            }
            members.insert(key, access.next_value_seed(self)?);
        }
        Ok(Value::Object(members))
    }
}

impl Strict<'_> {
    fn number<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        if exact::parse(text).is_err() {
            self.odd_number.set(true);
        }
        Number::from_str(text).map(Value::Number).map_err(|_| E::custom("a number that is none"))
    }
}

/// The first thousand; of a text that is wrong all over nobody reads more.
fn find_odd_numbers(value: &Value, pointer: &str, violations: &mut Vec<Violation>) {
    if violations.len() >= MAX_VIOLATIONS {
        return;
    }
    match value {
        Value::Number(number) => {
            if let Err(error) = exact::parse(number.as_str()) {
                violations.push(Violation::new(pointer, "not_a_plain_decimal", error.to_string()));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find_odd_numbers(item, &format!("{pointer}/{index}"), violations);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                find_odd_numbers(member, &child(pointer, key), violations);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn numbers_keep_their_digits() {
        let document = read(br#"{"a":72,"b":0.10,"c":-4.77001111111111111111107306}"#).unwrap();
        assert_eq!(document.value.to_string(), r#"{"a":72,"b":0.10,"c":-4.77001111111111111111107306}"#);
        assert_eq!(document.violations, []);
    }

    #[test]
    fn exponents_and_long_numbers_are_violations_at_their_place() {
        let document = read(br#"{"a":[1e400, 1],"b/c":0.1e-400,"d":12345678901234567890123456789}"#).unwrap();
        let pointers: Vec<_> = document.violations.iter().map(|violation| violation.pointer.as_str()).collect();
        assert_eq!(pointers, ["/a/0", "/b~1c", "/d"]);
    }

    #[test]
    fn what_can_be_read_two_ways_is_malformed() {
        let deep = "[".repeat(100_000);
        let many = format!("[{}0]", "0,".repeat(20_000));
        let malformed: [&[u8]; 13] = [
            many.as_bytes(),
            br#"{"a":1,"a":2}"#,
            br#"{"a":{"b":1,"b":1}}"#,
            "\u{feff}{}".as_bytes(),
            b"{\"a\":\"\xff\"}",
            br#""\ud800""#,
            b"NaN",
            b"{} {}",
            b"",
            b"{\"a\":1",
            b"01",
            br#"{"$serde_json::private::Number":"8"}"#,
            deep.as_bytes(),
        ];
        for bytes in malformed {
            assert!(read(bytes).is_err(), "{}", String::from_utf8_lossy(bytes.get(..40).unwrap_or(bytes)));
        }
    }
}
