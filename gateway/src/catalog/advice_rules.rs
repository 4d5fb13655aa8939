//! When quotes under a plan give advice: thresholds with their defaults. Nothing of it moves a price, so it is no part of
//! what pricing sees of a plan.

use rust_decimal::Decimal;

use super::findings::{Bound, Findings};
use super::wire::{AdviceCode, WireAdviceRules};
use crate::schema::WireDecimal;

/// The `[advice]` table of a plan; docs/advice.md says what each threshold is held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdviceRules {
    /// Advice that is never given.
    pub never: Vec<AdviceCode>,
    pub idle_below: Decimal,
    pub stall_mean_below: Decimal,
    pub stall_p95_from: Decimal,
    pub memory_bound_from: Decimal,
    pub tensor_below: Decimal,
}

impl Default for AdviceRules {
    fn default() -> Self {
        let hundredths = |share| Decimal::from_parts(share, 0, 0, false, 2);
        Self {
            never: Vec::new(),
            idle_below: hundredths(5),
            stall_mean_below: hundredths(50),
            stall_p95_from: hundredths(80),
            memory_bound_from: hundredths(80),
            tensor_below: hundredths(5),
        }
    }
}

impl AdviceRules {
    pub(super) fn read(findings: &mut Findings<'_>, wire: &WireAdviceRules) -> Self {
        let default = Self::default();
        let mut share = |field: &str, sent: Option<&WireDecimal>, default: Decimal| {
            findings.optional_decimal(&format!("/advice/{field}"), sent, Bound::Share).unwrap_or(default)
        };
        Self {
            never: wire.never.clone(),
            idle_below: share("idle_below", wire.idle_below.as_ref(), default.idle_below),
            stall_mean_below: share("stall_mean_below", wire.stall_mean_below.as_ref(), default.stall_mean_below),
            stall_p95_from: share("stall_p95_from", wire.stall_p95_from.as_ref(), default.stall_p95_from),
            memory_bound_from: share("memory_bound_from", wire.memory_bound_from.as_ref(), default.memory_bound_from),
            tensor_below: share("tensor_below", wire.tensor_below.as_ref(), default.tensor_below),
        }
    }

    pub(crate) fn gives(&self, code: AdviceCode) -> bool {
        !self.never.contains(&code)
    }
}
