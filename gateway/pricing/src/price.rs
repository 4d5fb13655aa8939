//! The one pricing function: "price these inputs under this plan" (SPEC §4.8).

use crate::offer::PricedInput;
use crate::pipeline::{self, PricingError};
use crate::policy::RunPolicy;
use crate::settle::{Settled, settle};

/// Prices these inputs under their plan: its steps in order, then guards, then one rounding of each line.
///
/// `policies` runs one evaluation of one step. Quotes, previews, comparisons, charges, backtests and shadows all come
/// here, so that a quote and the charge for exactly that use are equal to the last digit. There is no example here: the
/// smallest plan and offer take some fifty lines, which `tests/stage.rs` has.
pub fn price(input: &PricedInput, policies: &mut impl RunPolicy) -> Result<Settled, PricingError> {
    settle(pipeline::run(input, policies)?)
}
