//! What a storefront asks for, after intake: every field read, every bound held, nothing resolved yet.

use rust_decimal::Decimal;

use crate::currency::Currency;
use crate::price_book::Market;

/// Most GPUs of one item.
pub const MAX_GPU_COUNT: u32 = 100_000;
/// Longest wall time of one item: ten years of 365 days, in seconds.
pub const MAX_SECONDS: u64 = 315_360_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteRequest {
    pub tenant_id: String,
    pub currency: Currency,
    /// A plan by name; `None`: the tenant's plan for the currency.
    pub plan: Option<String>,
    pub client_reference: Option<String>,
    pub items: Vec<RequestedItem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedItem {
    /// Unique in its request.
    pub reference: String,
    pub gpu_model: String,
    pub region: String,
    pub market: Market,
    pub priority: String,
    pub gpu_count: u32,
    pub work: Work,
    /// `None`: what the price-book row says.
    pub memory_gib: Option<Decimal>,
    pub network_gbps: Option<Decimal>,
    pub storage_gib: Option<Decimal>,
    pub workload: Workload,
}

/// What is bought: GPU time, or a task that a policy measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Wall time in whole seconds, for `gpu_count` GPUs.
    Seconds(u64),
    Task(Task),
}

/// Inputs of the task formula (SPEC S11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub template: Option<String>,
    pub parameters: Option<u64>,
    pub samples: Option<u64>,
    pub sample_bytes: Option<u64>,
    pub iterations: Option<Decimal>,
    pub precision: Option<String>,
    pub gradient_accumulation: Option<u64>,
}

/// What runs on the GPUs. What is not stated is unknown, not a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    pub framework: Option<String>,
    pub execution: Option<String>,
    /// In the order of the request, each once.
    pub features: Vec<String>,
    pub image: Option<String>,
    pub session: Option<String>,
    pub isolation: Option<String>,
    pub precision: Option<String>,
}
