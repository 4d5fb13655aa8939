//! The port to a policy: what a step passes to it and what it may answer.
//!
//! These types mirror `sdk-wasm/wit/policy.wit` one to one; the sandbox translates them and knows no money. The port is
//! declared here because it is called here. It has two implementations: the sandbox, and the native twin of the tests.

use rust_decimal::Decimal;

/// Runs one evaluation of one step. `step` is the step's index in its plan; `Context` is all that the policy sees.
pub trait RunPolicy {
    fn evaluate(&mut self, step: usize, context: &Context<'_>) -> Result<Evaluation, Halt>;
}

/// A named value, typed by agreement on its key (see docs/contract.md).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fact {
    pub key: String,
    pub value: String,
}

impl Fact {
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into() }
    }
}

// === What a policy sees ===

/// Everything that one evaluation may depend on. Built by `pipeline::context` from exactly what the step reads.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// ISO 4217 code, and its minor-unit exponent.
    pub currency: &'a str,
    pub exponent: u8,
    pub at: Option<Instant>,
    pub tenant: Vec<&'a Fact>,
    pub lines: Vec<LineView<'a>>,
    pub usages: Vec<UsageView<'a>>,
    pub balances: Vec<&'a Balance>,
    pub facts: Vec<&'a Fact>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    pub unix_s: i64,
    pub utc_offset_s: i32,
}

#[derive(Clone, Debug)]
pub struct LineView<'a> {
    pub key: u32,
    pub facts: Vec<&'a Fact>,
    pub amounts: Option<AmountsView<'a>>,
    pub segments: &'a [Segment],
    pub portions: &'a [Portion],
    /// Index into `Context::usages`.
    pub usage: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub struct AmountsView<'a> {
    pub unit: &'a str,
    pub quantity: Decimal,
    /// Per GPU-hour for GPU time, else per unit.
    pub unit_price: Decimal,
    pub list_amount: Decimal,
    pub amount: Decimal,
}

/// Part of a line's quantity in one state: `running`, `idle`, `hibernated`, `preempted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub state: String,
    pub quantity: Decimal,
}

/// A part of a line at a price of its own; `draws` names the balance that it comes out of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion {
    pub code: String,
    pub label: String,
    pub unit: String,
    pub quantity: Decimal,
    pub unit_price: Decimal,
    pub draws: Option<String>,
}

#[derive(Clone, Debug)]
pub struct UsageView<'a> {
    pub scope: &'a str,
    pub age_ms: Option<u64>,
    pub quality: &'a str,
    pub surcharge_allowed: bool,
    pub stats: Vec<&'a Stat>,
}

/// One observed statistic. `value` is a share of 1 for utilisations; `coverage` is observed ÷ held GPU-time, 0 to 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub metric: String,
    pub statistic: String,
    pub window_s: u32,
    pub value: Decimal,
    pub coverage: Decimal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    pub scope: Vec<Fact>,
    pub unit_price: Decimal,
    pub overage_price: Option<Decimal>,
}

/// What the tenant may draw on: `kind` is `commitment`, `prepaid_block` or `wallet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    pub id: String,
    pub kind: String,
    pub unit: String,
    pub scope: Vec<Fact>,
    pub rates: Vec<Rate>,
    pub remaining: Decimal,
    pub expires_unix_s: Option<i64>,
}

// === What a policy answers ===

/// An outcome and what it cost. `fuel` is reproducible; `memory_bytes` is the guest's linear memory at the end;
/// `nanoseconds` is wall time, for metrics only, never for a price. `reused`: nothing ran; the outcome and its cost are
/// those of an earlier evaluation of exactly this input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    pub outcome: Outcome,
    pub fuel: u64,
    pub memory_bytes: u64,
    pub nanoseconds: u64,
    pub reused: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub adjustments: Vec<Adjustment>,
    pub added: Vec<AddedLine>,
    pub facts: Vec<Fact>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adjustment {
    pub line: Option<u32>,
    pub kind: String,
    pub code: String,
    pub label: String,
    pub reason: String,
    pub method: Method,
    pub facts: Vec<Fact>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    Percent(Decimal),
    Amount(Decimal),
    Reprice(Vec<Portion>),
    Measure(Measurement),
    Minimum(Decimal),
    Note(Advice),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    pub unit: String,
    pub quantity: Decimal,
    pub unit_price: Decimal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub level: String,
    pub what_if: Vec<Fact>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedLine {
    pub parent: Option<u32>,
    pub code: String,
    pub label: String,
    pub unit: String,
    pub quantity: Decimal,
    pub unit_price: Decimal,
    pub facts: Vec<Fact>,
}

// === How an evaluation can end without an outcome ===

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    Refused(Refusal),
    Faulted(Fault),
}

/// A business answer by a policy: 422 to the caller, never counted as a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: String,
    pub detail: String,
    pub line: Option<u32>,
    /// JSON Pointer into the item of `line`, or into the parameters.
    pub pointer: Option<String>,
}

/// Why a policy gave no answer. Closed: every caller decides for each case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The module's own doing; the step's `on_fault` rule decides.
    #[error("trapped: {0}")]
    Trapped(&'static str),
    #[error("ran out of fuel")]
    OutOfFuel,
    #[error("wanted more memory than its limit")]
    OutOfMemory,
    #[error("overflowed its stack")]
    StackOverflow,
    #[error("broke the contract: {0}")]
    ContractViolation(String),
    /// The host's doing: always 503 and worth a retry, never a price and never counted against the policy.
    #[error("the deadline passed")]
    Deadline,
    #[error("no free sandbox")]
    PoolExhausted,
    #[error("the host ran out of memory")]
    HostMemory,
}

impl Fault {
    pub fn violation(what: impl Into<String>) -> Self {
        Self::ContractViolation(what.into())
    }

    /// True where the host, not the policy, is to blame.
    pub fn is_host(&self) -> bool {
        match self {
            Self::Deadline | Self::PoolExhausted | Self::HostMemory => true,
            Self::Trapped(_)
            | Self::OutOfFuel
            | Self::OutOfMemory
            | Self::StackOverflow
            | Self::ContractViolation(_) => false,
        }
    }
}

// === What a policy is ===

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Line,
    Quote,
}

/// What a policy says of itself, whatever its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub name: String,
    pub version: String,
    pub scope: Scope,
    pub reads: Vec<String>,
    pub produces: Vec<String>,
    /// JSON Schema 2020-12.
    pub parameters_schema: String,
    pub facts: Vec<Fact>,
}
