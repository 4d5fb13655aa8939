//! The words for an observed statistic: which figure, over which window.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A figure over a window; means are weighted by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    Mean,
    P50,
    P95,
    Min,
    Max,
}

/// The windows that are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Window {
    #[serde(rename = "10s")]
    S10,
    #[serde(rename = "1m")]
    M1,
    #[serde(rename = "5m")]
    M5,
    #[serde(rename = "15m")]
    M15,
    #[serde(rename = "24h")]
    H24,
    #[serde(rename = "7d")]
    D7,
    #[serde(rename = "30d")]
    D30,
}

impl Statistic {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

impl Window {
    /// As in `reads`: `7d`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::S10 => "10s",
            Self::M1 => "1m",
            Self::M5 => "5m",
            Self::M15 => "15m",
            Self::H24 => "24h",
            Self::D7 => "7d",
            Self::D30 => "30d",
        }
    }

    /// For people: `7 d`.
    pub fn label(self) -> &'static str {
        match self {
            Self::S10 => "10 s",
            Self::M1 => "1 min",
            Self::M5 => "5 min",
            Self::M15 => "15 min",
            Self::H24 => "24 h",
            Self::D7 => "7 d",
            Self::D30 => "30 d",
        }
    }

    pub fn seconds(self) -> u32 {
        match self {
            Self::S10 => 10,
            Self::M1 => 60,
            Self::M5 => 300,
            Self::M15 => 900,
            Self::H24 => 86_400,
            Self::D7 => 604_800,
            Self::D30 => 2_592_000,
        }
    }
}
