//! The contract as Rust types, generated from `wit/policy.wit`, and how its decimals become exact numbers.
//!
//! Native builds read and write these types as JSON too, for golden cases: field names in snake case, decimals as
//! strings, empty lists and absent values left out.

use rust_decimal::Decimal as Exact;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use generated::exports::farebox::policy::pricing::*;
#[doc(hidden)]
pub use generated::{__export_policy, exports};

use crate::exact;

mod generated {
    wit_bindgen::generate!({
        path: "wit",
        world: "policy",
        pub_export_macro: true,
        export_macro_name: "__export_policy",
        default_bindings_module: "farebox_sdk::contract",
        additional_derives: [PartialEq, Eq, serde::Serialize, serde::Deserialize],
        additional_derives_ignore: ["decimal"],
        additional_type_attributes: {
            "farebox:policy/pricing@1.0.0/decimal": [#[derive(PartialEq, Eq)]],
            "farebox:policy/pricing@1.0.0/fact": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/stat": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/usage": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/segment": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/portion": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/amounts": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/line": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/rate": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/balance": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/instant": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/context": [#[derive(Default)] #[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/measurement": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/advice": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/method": [#[serde(rename_all = "snake_case")]],
            "farebox:policy/pricing@1.0.0/adjustment": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/added-line": [#[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/outcome": [#[derive(Default)] #[serde(deny_unknown_fields)]],
            "farebox:policy/pricing@1.0.0/refusal": [#[serde(deny_unknown_fields)]],
        },
        additional_member_attributes: {
            "farebox:policy/pricing@1.0.0/usage.age-ms": [#[serde(default, skip_serializing_if = "Option::is_none")]],
            "farebox:policy/pricing@1.0.0/usage.stats": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/portion.draws": [#[serde(default, skip_serializing_if = "Option::is_none")]],
            "farebox:policy/pricing@1.0.0/line.facts": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/line.amounts": [#[serde(default, skip_serializing_if = "Option::is_none")]],
            "farebox:policy/pricing@1.0.0/line.segments": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/line.portions": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/line.usage": [#[serde(default, skip_serializing_if = "Option::is_none")]],
            "farebox:policy/pricing@1.0.0/rate.scope": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/rate.overage-price": [#[serde(default, skip_serializing_if = "Option::is_none")]],
            "farebox:policy/pricing@1.0.0/balance.scope": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/balance.rates": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/balance.expires-unix-s": [#[serde(default, skip_serializing_if = "Option::is_none")]],
            "farebox:policy/pricing@1.0.0/context.at": [#[serde(default, skip_serializing_if = "Option::is_none")]],
            "farebox:policy/pricing@1.0.0/context.tenant": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/context.lines": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/context.usages": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/context.balances": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/context.facts": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/advice.what-if": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/adjustment.line": [#[serde(default, skip_serializing_if = "Option::is_none")]],
            "farebox:policy/pricing@1.0.0/adjustment.facts": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/added-line.parent": [#[serde(default, skip_serializing_if = "Option::is_none")]],
            "farebox:policy/pricing@1.0.0/added-line.facts": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/outcome.adjustments": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/outcome.added": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/outcome.facts": [#[serde(default, skip_serializing_if = "Vec::is_empty")]],
            "farebox:policy/pricing@1.0.0/refusal.line": [#[serde(default, skip_serializing_if = "Option::is_none")]],
            "farebox:policy/pricing@1.0.0/refusal.pointer": [#[serde(default, skip_serializing_if = "Option::is_none")]],
        },
    });
}

impl Decimal {
    /// The number for arithmetic. `None` only where the scale exceeds 28, which the host never sends.
    pub fn exact(self) -> Option<Exact> {
        let negative = self.negative;
        (self.scale <= 28).then(|| Exact::from_parts(self.lo, self.mid, self.hi, negative, self.scale.into()))
    }
}

/// Digit for digit, trailing zeros included; zero is never negative, as the contract demands.
impl From<Exact> for Decimal {
    fn from(value: Exact) -> Self {
        let parts = value.unpack();
        let scale = u8::try_from(parts.scale).unwrap_or(u8::MAX);
        Self { lo: parts.lo, mid: parts.mid, hi: parts.hi, scale, negative: parts.negative && !value.is_zero() }
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.exact() {
            Some(value) => serializer.collect_str(&value),
            None => Err(serde::ser::Error::custom("a decimal's scale is at most 28")),
        }
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        exact::parse(&text).map(Self::from).map_err(serde::de::Error::custom)
    }
}

impl Fact {
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into() }
    }
}
