//! How a case file spells the contract's types: names in snake case, decimals as strings, what is absent left out.
//!
//! The SDK derives the same spelling from `policy.wit`. The gateway must not depend on the SDK, so it is written down
//! here once more; `farebox policy test` holds the two together byte for byte on every case.

use farebox_pricing::exact;
use rust_decimal::Decimal;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A decimal, digit for digit, trailing zeros included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact(pub Decimal);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        exact::parse(&text).map(Self).map_err(D::Error::custom)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    pub key: String,
    pub value: String,
}

// === What a policy sees ===

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    pub(crate) currency: String,
    pub(crate) exponent: u8,
    pub(crate) at: Option<Instant>,
    #[serde(default)]
    pub(crate) tenant: Vec<Fact>,
    #[serde(default)]
    pub(crate) lines: Vec<Line>,
    #[serde(default)]
    pub(crate) usages: Vec<Usage>,
    #[serde(default)]
    pub(crate) balances: Vec<Balance>,
    #[serde(default)]
    pub(crate) facts: Vec<Fact>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Instant {
    pub(crate) unix_s: i64,
    pub(crate) utc_offset_s: i32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) key: u32,
    #[serde(default)]
    pub(crate) facts: Vec<Fact>,
    pub(crate) amounts: Option<Amounts>,
    #[serde(default)]
    pub(crate) segments: Vec<Segment>,
    #[serde(default)]
    pub(crate) portions: Vec<Portion>,
    pub(crate) usage: Option<u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Amounts {
    pub(crate) unit: String,
    pub(crate) quantity: Exact,
    pub(crate) unit_price: Exact,
    pub(crate) list_amount: Exact,
    pub(crate) amount: Exact,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Segment {
    pub(crate) state: String,
    pub(crate) quantity: Exact,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Usage {
    pub(crate) scope: String,
    pub(crate) age_ms: Option<u64>,
    pub(crate) quality: String,
    pub(crate) surcharge_allowed: bool,
    #[serde(default)]
    pub(crate) stats: Vec<Stat>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stat {
    pub(crate) metric: String,
    pub(crate) statistic: String,
    pub(crate) window_s: u32,
    pub(crate) value: Exact,
    pub(crate) coverage: Exact,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rate {
    #[serde(default)]
    pub(crate) scope: Vec<Fact>,
    pub(crate) unit_price: Exact,
    pub(crate) overage_price: Option<Exact>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Balance {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) unit: String,
    #[serde(default)]
    pub(crate) scope: Vec<Fact>,
    #[serde(default)]
    pub(crate) rates: Vec<Rate>,
    pub(crate) remaining: Exact,
    pub(crate) expires_unix_s: Option<i64>,
}

// === What a policy answers; the order of members is the contract's ===

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adjustments: Vec<Adjustment>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<AddedLine>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adjustment {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    pub kind: String,
    pub code: String,
    pub label: String,
    pub reason: String,
    pub method: Method,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    Percent(Exact),
    Amount(Exact),
    Reprice(Vec<Portion>),
    Measure(Measurement),
    Minimum(Exact),
    Note(Advice),
}

/// Also a part of what a policy sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portion {
    pub code: String,
    pub label: String,
    pub unit: String,
    pub quantity: Exact,
    pub unit_price: Exact,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draws: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    pub unit: String,
    pub quantity: Exact,
    pub unit_price: Exact,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Advice {
    pub level: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<Fact>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    pub code: String,
    pub label: String,
    pub unit: String,
    pub quantity: Exact,
    pub unit_price: Exact,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Fact>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    pub code: String,
    pub detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}
