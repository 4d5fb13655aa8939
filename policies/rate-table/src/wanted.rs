//! What a fact must be: `"v2.6"`, `["v2.4", "v2.6"]`, or a table for everything else.

use std::borrow::Cow;
use std::fmt;

use farebox_sdk::prelude::*;
use farebox_sdk::schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use farebox_sdk::serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use farebox_sdk::serde::de::{Error, MapAccess, SeqAccess, Visitor};
use farebox_sdk::serde::{Deserialize, Deserializer, Serialize};

use crate::validation::MAX_NAMED;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(crate = "farebox_sdk::serde")]
pub(crate) enum Wanted {
    /// One of its values is one of these.
    OneOf(Vec<String>),
    Test(Test),
}

parameters! {
    /// One of `other_than`, `present` and a band.
    #[derive(PartialEq)]
    pub(crate) struct Test {
        /// One of its values is none of these.
        pub(crate) other_than: Option<Vec<String>> = None,
        /// It has a value, or none.
        pub(crate) present: Option<bool> = None,
        /// More than.
        pub(crate) above: Option<Quantity> = None,
        /// This or more.
        pub(crate) at_least: Option<Quantity> = None,
        /// Less than.
        pub(crate) below: Option<Quantity> = None,
        /// This or less.
        pub(crate) at_most: Option<Quantity> = None,
    }
}

impl Wanted {
    /// All that it names.
    pub(crate) fn values(&self) -> &[String] {
        match self {
            Self::OneOf(values) => values,
            Self::Test(test) => test.other_than.as_deref().unwrap_or_default(),
        }
    }
}

impl<'de> Deserialize<'de> for Wanted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Wanted;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value, a list of values or a table such as `{ present = true }`")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Wanted, E> {
        Ok(Wanted::OneOf(vec![value.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<Wanted, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(values)).map(Wanted::OneOf)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Wanted, A::Error> {
        Test::deserialize(MapAccessDeserializer::new(fields)).map(Wanted::Test)
    }
}

/// One schema for all three forms, so that a wrong field is told as such and not as "none of three schemas".
impl JsonSchema for Wanted {
    fn schema_name() -> Cow<'static, str> {
        "Wanted".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = json_schema!({ "type": "string", "minLength": 1 });
        let values = json_schema!({ "type": "array", "items": value, "minItems": 1, "maxItems": MAX_NAMED });
        let mut bound = |what: &str| {
            let quantity = generator.subschema_for::<Quantity>();
            json_schema!({ "description": what, "allOf": [quantity] })
        };
        json_schema!({
            "description": "A value; a list, one of which it must be; or a table for everything else.",
            "type": ["string", "array", "object"],
            "minLength": 1,
            "items": value,
            "minItems": 1,
            "maxItems": MAX_NAMED,
            "additionalProperties": false,
            "properties": {
                "other_than": { "description": "One of its values is none of these.", "allOf": [values] },
                "present": { "description": "It has a value, or none.", "type": "boolean" },
                "above": bound("More than."),
                "at_least": bound("This or more."),
                "below": bound("Less than."),
                "at_most": bound("This or less."),
            },
        })
    }
}
