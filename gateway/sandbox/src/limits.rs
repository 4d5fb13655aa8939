//! Every limit of the sandbox, in one place.

use std::time::Duration;

/// What a policy may use. All limits are reproducible (the same module meets them at the same instruction on any
/// machine) apart from `deadline` and `sessions`, which are the host's own and never decide a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fuel of one evaluation, from the start function to the result. About one unit an instruction; `memory.grow` and
    /// `table.grow` cost 100.
    pub evaluate_fuel: u64,
    /// Fuel of `describe`, and of `configure`: JSON and its schema are handled there.
    pub setup_fuel: u64,
    /// Linear memory of an instance, in bytes; whole 64 KiB pages count.
    pub memory_bytes: usize,
    /// Elements of all tables of an instance.
    pub table_elements: usize,
    /// Native stack that a guest may use, in bytes. The calling thread needs four times that.
    pub stack_bytes: usize,
    /// Bytes that the host lifts out of one result, counted as they lie in host memory (a list element counts whole).
    pub output_bytes: usize,
    /// Sessions that may hold instances at once; one more meets `PoolExhausted`.
    pub sessions: u32,
    /// Wall time of one call, a backstop behind fuel: passing it is the host's fault. At least 100 ms, so that a busy
    /// machine does not refuse what fuel allows; `describe` and `configure`, off the road and with more fuel, get ten
    /// times that.
    pub deadline: Duration,
    /// An uploaded module or component, in bytes.
    pub artefact_bytes: usize,
    pub counts: Counts,
}

/// Bounds on what an outcome, a refusal or a manifest may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Adjustments on one line, and on the whole quote.
    pub adjustments_per_line: usize,
    /// Items of any other list: facts, portions, added lines, reads, refusals.
    pub items: usize,
    /// Characters of a label or a reason.
    pub text_chars: usize,
    /// Bytes of a code, a key, a unit, a kind or a pointer.
    pub name_bytes: usize,
    /// Bytes of a fact's value, or of a refusal's detail.
    pub value_bytes: usize,
    /// Bytes of a parameter schema.
    pub schema_bytes: usize,
}

/// What one call may use up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) fuel: u64,
    pub(crate) deadline: Duration,
}

impl Limits {
    /// The limits that the gateway ships with. A usual evaluation burns about 25,000 units of fuel, 1 % of its limit.
    pub const fn standard() -> Self {
        Self {
            evaluate_fuel: 2_000_000,
            setup_fuel: 50_000_000,
            memory_bytes: 4 << 20,
            table_elements: 10_000,
            stack_bytes: 256 << 10,
            output_bytes: 256 << 10,
            sessions: 16,
            deadline: Duration::from_millis(200),
            artefact_bytes: 4 << 20,
            counts: Counts {
                adjustments_per_line: 64,
                items: 256,
                text_chars: 200,
                name_bytes: 256,
                value_bytes: 4096,
                schema_bytes: 64 << 10,
            },
        }
    }

    pub(crate) fn evaluate(&self) -> Budget {
        Budget { fuel: self.evaluate_fuel, deadline: self.deadline }
    }

    pub(crate) fn setup(&self) -> Budget {
        Budget { fuel: self.setup_fuel, deadline: self.deadline.saturating_mul(10) }
    }
}
