//! Steps: a rate above or below a share, the share itself excluded on both sides.

use farebox_sdk::prelude::*;

use crate::{Hit, Step, UtilisationAdjustment, percentage};

/// Above the highest share that is exceeded, else below the lowest that is not reached; never both, as no lower step
/// lies above an upper one.
pub(crate) fn hit(parameters: &UtilisationAdjustment, share: Decimal) -> Option<Hit> {
    let above = parameters.above.iter().filter(|step| share > step.share.value()).max_by_key(|step| step.share);
    let below = parameters.below.iter().filter(|step| share < step.share.value()).min_by_key(|step| step.share);
    above.map(|step| named("above", step)).or_else(|| below.map(|step| named("below", step)))
}

pub(crate) fn codes(parameters: &UtilisationAdjustment) -> Vec<String> {
    let above = parameters.above.iter().map(|step| named("above", step).code);
    let below = parameters.below.iter().map(|step| named("below", step).code);
    above.chain(below).collect()
}

/// `above_70`, from 0.70; `below_12.5`, from 0.125.
fn named(side: &str, step: &Step) -> Hit {
    let share = percentage(step.share.value());
    let code = format!("{side}_{}", share.trim_end_matches(" %"));
    Hit { code, label: format!("Utilisation {side} {share}"), rate: step.rate }
}
