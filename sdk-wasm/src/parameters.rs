//! Parameters: how a plan's JSON becomes a typed struct, and the struct a configuration.
//!
//! The configuration is postcard, so a parameter type must not depend on reading ahead: no `flatten`, no `untagged`, no
//! `skip_serializing_if`. [`parameters!`](crate::parameters!) writes none of these.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use crate::contract::Refusal;

/// What every parameter struct can do.
pub trait Parameters: Serialize + DeserializeOwned + JsonSchema {}

impl<P: Serialize + DeserializeOwned + JsonSchema> Parameters for P {}

/// JSON Schema 2020-12 of the parameters.
pub(crate) fn schema<P: Parameters>() -> String {
    schemars::schema_for!(P).as_value().to_string()
}

/// Reads the plan's JSON; a refusal points to what is wrong in it. The host has checked the schema before: serde alone
/// would take a list of values for a struct.
pub(crate) fn read<P: Parameters>(json: &str) -> Result<P, Refusal> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let parameters = serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| refuse(error.inner(), pointer(error.path())))?;
    deserializer.end().map_err(|error| refuse(&error, String::new()))?;
    Ok(parameters)
}

pub(crate) fn encode<P: Parameters>(parameters: &P) -> Result<Vec<u8>, Refusal> {
    postcard::to_allocvec(parameters).map_err(|error| {
        Refusal::new("invalid_parameters", format!("the parameters cannot be encoded: {error}")).at("")
    })
}

/// The parameters back from what [`encode`] made of them.
#[expect(
    clippy::panic,
    reason = "only a broken host passes other bytes: a trap is a fault, never a price or a refusal"
)]
pub(crate) fn decode<P: Parameters>(configuration: &[u8]) -> P {
    match postcard::from_bytes(configuration) {
        Ok(parameters) => parameters,
        Err(_) => panic!("the configuration is not one that `configure` made"),
    }
}

fn refuse(error: &serde_json::Error, pointer: String) -> Refusal {
    Refusal::new("invalid_parameters", error.to_string()).at(pointer)
}

/// RFC 6901.
fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path.iter() {
        let name = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key } => key.replace('~', "~0").replace('/', "~1"),
            Segment::Enum { variant } => variant.clone(),
            Segment::Unknown => break,
        };
        pointer.push('/');
        pointer.push_str(&name);
    }
    pointer
}

/// Declares parameter structs. With a default for every field (`pub shared: Rate = Rate::percent(0),`) a plan may leave
/// out any of them; without defaults every field that is not an `Option` is required. Unknown fields are refused. Doc
/// comments become descriptions in the schema.
#[macro_export]
macro_rules! parameters {
    ($($(#[$meta:meta])* $visibility:vis struct $name:ident { $($fields:tt)* })+) => {
        $($crate::__parameters! { [$(#[$meta])*] $visibility $name { $($fields)* } })+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __parameters {
    ([$(#[$meta:meta])*] $visibility:vis $name:ident {
        $($(#[$field_meta:meta])* $field_visibility:vis $field:ident: $type:ty = $default:expr),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(
            Clone, Debug, $crate::serde::Serialize, $crate::serde::Deserialize, $crate::schemars::JsonSchema,
        )]
        #[serde(crate = "farebox_sdk::serde", deny_unknown_fields, default)]
        #[schemars(crate = "farebox_sdk::schemars")]
        $visibility struct $name {
            $($(#[$field_meta])* $field_visibility $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }
    };
    ([$(#[$meta:meta])*] $visibility:vis $name:ident {
        $($(#[$field_meta:meta])* $field_visibility:vis $field:ident: $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(
            Clone, Debug, $crate::serde::Serialize, $crate::serde::Deserialize, $crate::schemars::JsonSchema,
        )]
        #[serde(crate = "farebox_sdk::serde", deny_unknown_fields)]
        #[schemars(crate = "farebox_sdk::schemars")]
        $visibility struct $name {
            $($(#[$field_meta])* $field_visibility $field: $type,)*
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Rate;

    crate::parameters! {
        /// Rates by channel.
        pub(crate) struct Channels {
            /// Applied first.
            pub(crate) first: Rate = Rate::percent(5),
            pub(crate) by_name: BTreeMap<String, Channel> = BTreeMap::new(),
            pub(crate) ladder: Vec<Channel> = Vec::new(),
        }

        pub(crate) struct Channel {
            pub(crate) rate: Rate,
            pub(crate) label: Option<String>,
        }
    }

    #[test]
    fn defaults_fill_what_is_left_out_and_the_configuration_carries_the_rest() {
        let json = r#"{"by_name":{"a/b":{"rate":-0.125}}}"#;
        let bytes = encode(&read::<Channels>(json).unwrap()).unwrap();
        let channels: Channels = decode(&bytes);
        assert_eq!(channels.first.to_string(), "0.05");
        assert_eq!(channels.by_name["a/b"].rate.to_string(), "-0.125");
        assert_eq!(channels.by_name["a/b"].label, None);
        assert!(channels.ladder.is_empty());
    }

    #[test]
    fn a_refusal_points_to_what_is_wrong() {
        for (json, pointer) in [
            (r#"{"first":"5 %"}"#, "/first"),
            (r#"{"first":1e2}"#, "/first"),
            (r#"{"by_name":{"a/b~":{"rate":true}}}"#, "/by_name/a~1b~0/rate"),
            (r#"{"ladder":[{"rate":"0"},{"label":"x"}]}"#, "/ladder/1"),
            (r#"{"ladder":{}}"#, "/ladder"),
            (r#"{"frist":"0.1"}"#, "/frist"),
            ("7", ""),
            ("{", ""),
            ("{} {}", ""),
        ] {
            let refusal = read::<Channels>(json).unwrap_err();
            assert_eq!(refusal.pointer.as_deref(), Some(pointer), "{json}: {}", refusal.detail);
            assert_eq!(refusal.code, "invalid_parameters");
        }
    }

    #[test]
    fn the_schema_has_descriptions_defaults_and_no_unknown_fields() {
        let schema: serde_json::Value = serde_json::from_str(&schema::<Channels>()).unwrap();
        assert_eq!(schema["description"], "Rates by channel.");
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["first"]["default"], "0.05");
        assert_eq!(schema["properties"]["first"]["description"], "Applied first.");
        assert_eq!(schema["$defs"]["Channel"]["required"], serde_json::json!(["rate"]));
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }

    #[test]
    #[should_panic(expected = "not one that `configure` made")]
    fn foreign_bytes_are_a_fault() {
        decode::<Channels>(&[1, 2, 3]);
    }
}
