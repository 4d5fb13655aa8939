//! The body of a quote request on the wire, and its schema.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::schema::WireDecimal;

/// What a storefront asks a price for.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QuoteRequest)]
pub struct QuoteBody {
    /// The tenant that will pay.
    #[schema(min_length = 1, max_length = 64, example = "acme")]
    pub tenant_id: String,
    /// ISO 4217 code; must be the plan's.
    #[schema(pattern = "^[A-Z]{3}$", example = "CNY")]
    pub currency: String,
    /// A plan by name, of those that the tenant may ask for; without it, the tenant's plan for the currency.
    #[schema(min_length = 1, max_length = 64, example = "gpu-standard")]
    pub plan: Option<String>,
    /// Comes back on the quote as it is.
    #[schema(max_length = 128, pattern = r"^[^\x00-\x1f\x7f]*$", example = "cart-17")]
    pub client_reference: Option<String>,
    #[schema(min_items = 1, max_items = 100)]
    pub items: Vec<ItemBody>,
}

/// One thing to price: GPU time (exactly one of `hours` and `seconds`) or, with `billing` `task`, a task.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QuoteItem)]
pub struct ItemBody {
    /// The caller's name for the item, unique in the request.
    #[serde(rename = "ref")]
    #[schema(min_length = 1, max_length = 64, pattern = r"^[^\x00-\x1f\x7f]*$", example = "a")]
    pub reference: String,
    #[schema(min_length = 1, max_length = 64, example = "A100")]
    pub gpu_model: String,
    #[schema(min_length = 1, max_length = 64, example = "cn-east-1")]
    pub region: String,
    /// Default `on_demand`.
    pub market: Option<MarketBody>,
    /// Default `hourly`.
    pub billing: Option<BillingBody>,
    /// Default `normal`.
    pub priority: Option<PriorityBody>,
    #[schema(minimum = 1, maximum = 100_000, example = 8)]
    pub gpu_count: u32,
    /// Wall time in hours; must be whole seconds, at most ten years.
    pub hours: Option<WireDecimal>,
    /// Wall time in seconds, at most ten years.
    #[schema(minimum = 1, maximum = 315_360_000, example = 259_200)]
    pub seconds: Option<u64>,
    /// GPU memory asked for, GiB; default what the price book lists.
    pub memory_gib: Option<WireDecimal>,
    /// Network bandwidth asked for, Gbit/s; default what the price book lists.
    pub network_gbps: Option<WireDecimal>,
    /// Snapshot storage, GiB.
    pub storage_gib: Option<WireDecimal>,
    pub workload: Option<WorkloadBody>,
    pub task: Option<TaskBody>,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Market)]
pub enum MarketBody {
    Guaranteed,
    OnDemand,
    Spot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Billing)]
pub enum BillingBody {
    Hourly,
    Task,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Priority)]
pub enum PriorityBody {
    Low,
    Normal,
    High,
}

/// What runs on the GPUs. What is not stated is unknown and moves no price, unless the plan's policy says otherwise.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Workload)]
pub struct WorkloadBody {
    #[schema(min_length = 1, max_length = 64, example = "pytorch")]
    pub framework: Option<String>,
    pub execution: Option<ExecutionBody>,
    /// Features that the plan's policy knows, e.g. `fsdp`, `cuda_graphs`; each once.
    #[serde(default)]
    #[schema(max_items = 32, example = json!(["fsdp", "cuda_graphs"]))]
    pub features: Vec<String>,
    /// Image channel, e.g. `v2.6`.
    #[schema(min_length = 1, max_length = 64, example = "v2.6")]
    pub image: Option<String>,
    pub session: Option<SessionBody>,
    pub isolation: Option<IsolationBody>,
    #[schema(min_length = 1, max_length = 16, example = "fp32")]
    pub precision: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Execution)]
pub enum ExecutionBody {
    Eager,
    Compiled,
    Torchscript,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Session)]
pub enum SessionBody {
    Interactive,
    Batch,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Isolation)]
pub enum IsolationBody {
    Shared,
    Hardened,
    Dedicated,
}

/// Inputs of the task formula, in place of `hours`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Task)]
pub struct TaskBody {
    /// A job template that fills in what is not stated.
    #[schema(min_length = 1, max_length = 64, example = "image-classification-v1")]
    pub template: Option<String>,
    /// Parameters of the model.
    #[schema(maximum = 1_000_000_000_000_000u64, example = 11_173_962)]
    pub parameters: Option<u64>,
    #[schema(maximum = 1_000_000_000_000_000u64, example = 50_000)]
    pub samples: Option<u64>,
    /// Bytes of one sample.
    #[schema(maximum = 1_000_000_000_000u64, example = 3_072)]
    pub sample_bytes: Option<u64>,
    /// Passes over the samples.
    pub iterations: Option<WireDecimal>,
    #[schema(min_length = 1, max_length = 16, example = "fp32")]
    pub precision: Option<String>,
    #[schema(minimum = 1, maximum = 1_000_000, example = 1)]
    pub gradient_accumulation: Option<u64>,
}
