//! The documents of the data directory as they are written, in TOML or as JSON over HTTP, and their schemas.
//!
//! What a schema can say is said here; the rest is said by the module that reads the document.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema::WireDecimal;

/// A plan: an ordered list of steps, with everything that decides a price beside them. Version and digest are assigned.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Plan)]
pub struct WirePlan {
    #[schema(pattern = "^[a-z][a-z0-9-]{0,63}$", example = "gpu-standard")]
    pub name: String,
    /// ISO 4217; the price book's.
    #[schema(pattern = "^[A-Z]{3}$", example = "CNY")]
    pub currency: String,
    /// A price book by name.
    #[schema(min_length = 1, max_length = 64, example = "cn-2026")]
    pub price_book: String,
    /// IANA name; days and months of the plan are this zone's. Default `UTC`.
    #[schema(max_length = 64, example = "Asia/Shanghai")]
    #[serde(default = "utc")]
    pub time_zone: String,
    /// Held time is billed in whole granules, rounded up. Default `second`.
    #[serde(default)]
    pub granule: WireGranule,
    /// How a line is rounded to minor units, once. Default `half_away_from_zero`.
    #[serde(default)]
    pub rounding: WireRounding,
    /// How long a quote can be accepted: 1 s to 30 days. Default `15m`.
    #[schema(nullable = false)]
    pub quote_lifetime: Option<WireDuration>,
    /// The utilisation that a charge uses; with `period` the price is not locked. Default `quote`.
    #[serde(default)]
    pub utilisation_basis: WireUtilisationBasis,
    /// Bounds of a GPU line, measured against list. Default: none.
    #[serde(default)]
    pub guards: WireGuards,
    /// When live usage may move a price.
    #[serde(default)]
    pub usage: WireUsageRules,
    /// When a quote gives advice. None of it moves a price.
    #[serde(default)]
    pub advice: WireAdviceRules,
    /// Idle protection of interactive sessions. Checked, without effect as yet.
    #[schema(nullable = false)]
    pub idle: Option<WireIdle>,
    /// What spot capacity is expected to cost in time. Checked, without effect as yet.
    #[schema(nullable = false)]
    pub spot: Option<WireSpot>,
    /// What a credit of task billing costs. Checked, without effect as yet.
    #[schema(nullable = false)]
    pub credit: Option<WireCredit>,
    /// Run in this order, each once, over all lines. At most 16.
    #[schema(min_items = 1)]
    pub steps: Vec<WireStep>,
}

fn utc() -> String {
    "UTC".to_owned()
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Granule)]
pub enum WireGranule {
    #[default]
    Second,
    Minute,
    Hour,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Rounding)]
pub enum WireRounding {
    #[default]
    HalfAwayFromZero,
    HalfEven,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = UtilisationBasis)]
pub enum WireUtilisationBasis {
    /// That of the quote, also in its charges.
    #[default]
    Quote,
    /// The charged period's mean.
    Period,
}

/// A whole number of seconds, minutes or hours: `30s`, `15m`, `24h`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(as = Duration, pattern = "^[0-9]{1,9}[smh]$", example = "15m")]
pub struct WireDuration(pub String);

/// Bounds of a GPU line. What is absent does not bound.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Guards)]
pub struct WireGuards {
    /// Largest total discount as a share of list, 0 to 1.
    #[schema(nullable = false)]
    pub max_discount: Option<WireDecimal>,
    /// Largest total surcharge as a share of list, 0 or more.
    #[schema(nullable = false)]
    pub max_surcharge: Option<WireDecimal>,
    /// Lowest price per GPU-hour; wins over the other two.
    #[schema(nullable = false)]
    pub floor_unit_price: Option<WireDecimal>,
}

/// When live usage may move a price.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UsageRules)]
pub struct WireUsageRules {
    /// Older than this: no surcharge. Default `30s`.
    #[schema(nullable = false)]
    pub soft_stale: Option<WireDuration>,
    /// Older than this: no adjustment. Default `10m`.
    #[schema(nullable = false)]
    pub hard_stale: Option<WireDuration>,
    /// Less observed than this share of held time: no adjustment. 0 to 1, default 0.8.
    #[schema(nullable = false)]
    pub min_coverage: Option<WireDecimal>,
    /// Less GPU time held than this in the window: no adjustment. Default `1h`.
    #[schema(nullable = false)]
    pub thin: Option<WireDuration>,
    /// A job younger than this: no surcharge. Default `15m`.
    #[schema(nullable = false)]
    pub grace: Option<WireDuration>,
}

/// When a quote gives advice (docs/advice.md). None of it moves a price.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AdviceRules)]
pub struct WireAdviceRules {
    /// Advice that quotes under this plan never give. Default: none.
    #[serde(default)]
    pub never: Vec<AdviceCode>,
    /// `idle_hold`: the mean GPU utilisation of 24 h is below this. 0 to 1, default 0.05.
    #[schema(nullable = false)]
    pub idle_below: Option<WireDecimal>,
    /// `stall_io`: the mean GPU utilisation of 24 h is below this. 0 to 1, default 0.5.
    #[schema(nullable = false)]
    pub stall_mean_below: Option<WireDecimal>,
    /// `stall_io`: and its 95th percentile is at least this. 0 to 1, default 0.8.
    #[schema(nullable = false)]
    pub stall_p95_from: Option<WireDecimal>,
    /// `memory_bound`: of what memory bandwidth can be reached, the share used over 24 h is at least this. 0 to 1, default
    /// 0.8.
    #[schema(nullable = false)]
    pub memory_bound_from: Option<WireDecimal>,
    /// `enable_mixed_precision`: where it is measured, the mean tensor activity of 24 h is below this. 0 to 1, default 0.05.
    #[schema(nullable = false)]
    pub tensor_below: Option<WireDecimal>,
}

/// What a quote can advise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdviceCode {
    EnableTorchCompile,
    EnableMixedPrecision,
    IdleHold,
    StallIo,
    MemoryBound,
}

impl AdviceCode {
    /// As on the quote.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EnableTorchCompile => "enable_torch_compile",
            Self::EnableMixedPrecision => "enable_mixed_precision",
            Self::IdleHold => "idle_hold",
            Self::StallIo => "stall_io",
            Self::MemoryBound => "memory_bound",
        }
    }
}

/// Idle protection: without work for this long, a session is hibernated and bills nothing.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = IdleRules)]
pub struct WireIdle {
    /// Observed time without work. Above 0.
    pub after: WireDuration,
}

/// What spot capacity is expected to cost in time.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SpotRules)]
pub struct WireSpot {
    /// Time lost to restarts as a share of the work, 0 or more.
    pub restart_overhead: WireDecimal,
}

/// What a credit of task billing costs.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CreditRules)]
pub struct WireCredit {
    /// Of one credit, in the plan's currency. Above 0.
    pub price: WireDecimal,
    /// Credits of one task unit. Above 0.
    pub per_unit: WireDecimal,
}

/// One step: a policy with parameters.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PlanStep)]
pub struct WireStep {
    /// Unique in its plan. `base` marks the first step as the base step, whose percentages do not bar a later
    /// reprice.
    #[schema(pattern = "^[a-z][a-z0-9_-]{0,63}$", example = "framework")]
    pub id: String,
    /// Name and version.
    #[schema(pattern = "^[a-z][a-z0-9-]*@[0-9A-Za-z.+-]+$", max_length = 128, example = "framework-premium@1.0.0")]
    pub policy: String,
    /// What a fault of the policy does. Default `refuse`.
    #[serde(default)]
    pub on_fault: WireOnFault,
    /// As the policy's own schema says. Default: none.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub parameters: serde_json::Map<String, Value>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = OnFault)]
pub enum WireOnFault {
    /// No quote.
    #[default]
    Refuse,
    /// The whole quote under the previous version of the plan: one hop, so falling back cannot go in a circle.
    PreviousVersion,
    /// The quote without this step, and a message that says so.
    Skip,
}

/// List prices in one currency.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PriceBook)]
pub struct WirePriceBook {
    #[schema(pattern = "^[a-z][a-z0-9-]{0,63}$", example = "cn-2026")]
    pub name: String,
    /// ISO 4217.
    #[schema(pattern = "^[A-Z]{3}$", example = "CNY")]
    pub currency: String,
    /// Where the prices come from.
    #[schema(max_length = 1000, nullable = false)]
    pub source: Option<String>,
    /// The prices are made up. Default `false`.
    #[serde(default)]
    pub invented: bool,
    #[schema(min_items = 1, max_items = 100_000)]
    pub rows: Vec<WirePriceRow>,
}

/// One list price.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PriceRow)]
pub struct WirePriceRow {
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", example = "A100")]
    pub gpu_model: String,
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,63}$", example = "cn-east-1")]
    pub region: String,
    pub market: WireMarket,
    /// Applies from this many GPUs on; the largest that is not above the asked count holds. Default 1.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub min_gpus: u32,
    /// Above 0, at any precision.
    pub unit_price: WireDecimal,
    /// What `unit_price` is for. Default `gpu_hour`.
    #[serde(default)]
    pub per: WirePer,
    /// Memory of one GPU, GiB. Above 0.
    #[schema(nullable = false)]
    pub memory_gib: Option<WireDecimal>,
    /// Network bandwidth of one GPU's node, Gbit/s. Above 0.
    #[schema(nullable = false)]
    pub network_gbps: Option<WireDecimal>,
    /// RFC 3339. The newest that is not after the priced instant holds.
    #[schema(max_length = 40, example = "2026-01-01T00:00:00Z")]
    pub effective_from: String,
    /// For people.
    #[schema(max_length = 500, nullable = false)]
    pub note: Option<String>,
}

fn one() -> u32 {
    1
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Market)]
pub enum WireMarket {
    Guaranteed,
    OnDemand,
    Spot,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PriceUnit)]
pub enum WirePer {
    #[default]
    GpuHour,
    /// Multiplied by 3,600 when it is read, exactly.
    GpuSecond,
}

/// Who pays.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Tenant)]
pub struct WireTenant {
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$", example = "acme")]
    pub id: String,
    /// For people.
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// IANA name. Default `UTC`. Checked, without effect as yet.
    #[schema(max_length = 64, example = "Asia/Shanghai")]
    #[serde(default = "utc")]
    pub time_zone: String,
    /// The plan of each currency that the tenant can be quoted in.
    #[schema(example = json!({"CNY": "gpu-standard"}))]
    pub plans: BTreeMap<String, String>,
    /// Plans that the tenant may ask for by name, beside those in `plans`; `*` stands for every plan. Any other is
    /// unknown to it. Default: none.
    #[serde(default)]
    #[schema(max_items = 1000, example = json!(["gpu-volume"]))]
    pub offered: Vec<String>,
    /// What policies may read of the tenant, as `tenant.<key>`; keys are lower-case words. Default: none.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}
