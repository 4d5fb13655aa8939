//! Exact numbers in parameters: what they look like in JSON, and how few bytes they take in a configuration.

use std::fmt;

use rust_decimal::Decimal;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Digits that a number may have, before and after the point together; a lone zero before the point does not count (SPEC
/// §5). The gateway counts alike.
const MAX_DIGITS: usize = 28;

/// Why a text is no exact number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotExact {
    /// Not `-?(0|[1-9][0-9]*)(\.[0-9]+)?`: an exponent, a plus sign, a missing digit, a space.
    NotPlain,
    TooManyDigits,
}

impl fmt::Display for NotExact {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotPlain => "not a plain decimal such as `0.15`; an exponent is not allowed",
            Self::TooManyDigits => "more than 28 digits",
        })
    }
}

impl std::error::Error for NotExact {}

/// Reads a plain decimal digit for digit: nothing is rounded, and trailing zeros stay in the scale.
pub(crate) fn parse(text: &str) -> Result<Decimal, NotExact> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((_, "")) => return Err(NotExact::NotPlain),
        Some(parts) => parts,
        None => (unsigned, ""),
    };
    let digits = || whole.bytes().chain(fraction.bytes());
    let leads_with_zero = whole.len() > 1 && whole.starts_with('0');
    if whole.is_empty() || leads_with_zero || !digits().all(|byte| byte.is_ascii_digit()) {
        return Err(NotExact::NotPlain);
    }
    let whole_digits = if whole == "0" { 0 } else { whole.len() };
    if whole_digits + fraction.len() > MAX_DIGITS {
        return Err(NotExact::TooManyDigits);
    }
    let magnitude = digits().fold(0, |magnitude: i128, byte| magnitude * 10 + i128::from(byte - b'0'));
    let signed = if text.len() > unsigned.len() { -magnitude } else { magnitude };
    let scale = u32::try_from(fraction.len()).map_err(|_| NotExact::TooManyDigits)?;
    Decimal::try_from_i128_with_scale(signed, scale).map_err(|_| NotExact::TooManyDigits)
}

/// JSON: a string or a plain number, read from its own text, so that no float is ever in between. Other formats (the
/// configuration): 16 bytes.
fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
    if !deserializer.is_human_readable() {
        return <[u8; 16]>::deserialize(deserializer).map(Decimal::deserialize);
    }
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    let text = raw.get();
    let digits = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
    parse(digits).map_err(serde::de::Error::custom)
}

fn write<S: Serializer>(value: Decimal, serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        serializer.collect_str(&value.normalize())
    } else {
        value.serialize().serialize(serializer)
    }
}

fn schema(what: &str) -> Schema {
    json_schema!({
        "description": what,
        "type": ["string", "number"],
        "pattern": r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$",
        "maxLength": "-0.".len() + MAX_DIGITS,
    })
}

macro_rules! exact_number {
    ($(#[$meta:meta])* $name:ident, $what:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Decimal);

        impl $name {
            pub const ZERO: Self = Self(Decimal::ZERO);

            pub const fn value(self) -> Decimal {
                self.0
            }
        }

        impl From<Decimal> for $name {
            fn from(value: Decimal) -> Self {
                Self(value)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NotExact;

            fn from_str(text: &str) -> Result<Self, NotExact> {
                parse(text).map(Self)
            }
        }

        /// Without trailing zeros.
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.normalize(), formatter)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                write(self.0, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                read(deserializer).map(Self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                schema($what)
            }
        }
    };
}

exact_number! {
    /// A ratio: 0.15 is fifteen per cent.
    Rate, "A ratio, digit for digit and without an exponent: 0.15 is 15 %. At most 28 digits."
}

exact_number! {
    /// Money per unit in major units of the plan's currency; per GPU-hour for GPU time.
    Price, "Money per unit in major units of the currency, digit for digit and without an exponent. At most 28 digits."
}

exact_number! {
    /// An amount of something that is not money: GiB, Gbit/s, hours.
    Quantity, "A quantity, digit for digit and without an exponent. At most 28 digits."
}

impl Rate {
    /// `Rate::percent(5)` is 0.05.
    pub const fn percent(percent: i32) -> Self {
        Self(Decimal::from_parts(percent.unsigned_abs(), 0, 0, percent < 0, 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `plain`, `long` or `other`, then the text; the gateway's parser is held to the same table.
    const CASES: &str = include_str!("../../gateway/pricing/src/tests/decimals.txt");

    #[test]
    fn reads_plain_decimals_digit_for_digit_and_refuses_everything_else() {
        for (kind, text) in CASES.lines().filter_map(|line| line.split_once(' ')) {
            match (kind, parse(text)) {
                ("plain", Ok(value)) => assert_eq!(value.to_string(), text),
                ("long", Err(NotExact::TooManyDigits)) | ("other", Err(NotExact::NotPlain)) => {}
                (_, said) => panic!("`{text}` should be {kind}, not {said:?}"),
            }
        }
        for text in ["", "1 ", "1\0", "12\n", "1\u{200b}"] {
            assert_eq!(parse(text), Err(NotExact::NotPlain), "{text:?}");
        }
        assert!(!parse("-0.0").unwrap().is_sign_negative());
    }

    #[test]
    fn json_takes_strings_and_numbers_without_a_float_between() {
        let long = "0.1234567890123456789012345";
        for json in [format!("\"{long}\""), long.to_owned()] {
            assert_eq!(serde_json::from_str::<Rate>(&json).unwrap().to_string(), long);
        }
        for json in ["1e3", "null", "true", "[1]", "\"0x1\"", "\"\\u0031\""] {
            assert!(serde_json::from_str::<Rate>(json).is_err(), "{json}");
        }
        assert_eq!(serde_json::to_string(&Rate::percent(-10)).unwrap(), "\"-0.1\"");
    }

    #[test]
    fn sixteen_bytes_in_a_configuration() {
        for rate in [Rate::ZERO, Rate::percent(-10), "9999999999999999999999999999".parse().unwrap()] {
            let bytes = postcard::to_allocvec(&rate).unwrap();
            assert_eq!(bytes.len(), 16);
            assert_eq!(postcard::from_bytes::<Rate>(&bytes).unwrap(), rate);
        }
    }
}
