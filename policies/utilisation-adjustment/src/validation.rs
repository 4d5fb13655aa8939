//! What the schema cannot say of the parameters.

use farebox_sdk::prelude::*;

use crate::{Point, Step, UtilisationAdjustment};

/// Decimals of a share or a rate of a curve, so that arithmetic on them stays exact.
const MAX_DECIMALS: u32 = 12;
const MAX_RATE: Rate = Rate::percent(1000);
const WHOLE: Rate = Rate::percent(100);

pub(crate) fn validate(parameters: &UtilisationAdjustment) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if !is_word(&parameters.metric) {
        let detail = format!("metric `{}` is not a lower-case word such as `gpu_util`", parameters.metric);
        refusals.push(Refusal::new("invalid_metric", detail).at("/metric"));
    }
    check_steps("above", &parameters.above, &mut refusals);
    check_steps("below", &parameters.below, &mut refusals);
    check_sides(parameters, &mut refusals);
    check_curve(&parameters.curve, &mut refusals);
    refusals
}

/// A metric is one part of `usage/<metric>/<statistic>/<window>`.
fn is_word(metric: &str) -> bool {
    !metric.is_empty() && metric.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

fn check_steps(side: &str, steps: &[Step], refusals: &mut Vec<Refusal>) {
    for (index, step) in steps.iter().enumerate() {
        let pointer = format!("/{side}/{index}/share");
        if !is_share(step.share) {
            refusals.push(no_share(step.share).at(pointer));
        } else if steps.iter().take(index).any(|earlier| earlier.share == step.share) {
            refusals.push(Refusal::new("repeated_share", format!("share `{}` is there twice", step.share)).at(pointer));
        }
    }
}

/// A share must not hold above one step and below another.
fn check_sides(parameters: &UtilisationAdjustment, refusals: &mut Vec<Refusal>) {
    let lowest_above = parameters.above.iter().map(|step| step.share).min();
    for (index, step) in parameters.below.iter().enumerate() {
        if let Some(limit) = lowest_above.filter(|limit| step.share > *limit) {
            let detail = format!("`{}` is above `{limit}`, where the upper steps begin", step.share);
            refusals.push(Refusal::new("overlapping_steps", detail).at(format!("/below/{index}/share")));
        }
    }
}

fn check_curve(points: &[Point], refusals: &mut Vec<Refusal>) {
    let mut before = None;
    for (index, point) in points.iter().enumerate() {
        let pointer = format!("/curve/{index}/at");
        if !is_share(point.at) || is_too_fine(point.at) {
            refusals.push(no_share(point.at).at(pointer));
        } else if before.is_some_and(|before| point.at <= before) {
            refusals.push(
                Refusal::new("points_not_ascending", format!("`{}` is not above the point before it", point.at))
                    .at(pointer),
            );
        }
        before = Some(point.at);
        if point.rate > MAX_RATE || point.rate.value() < -MAX_RATE.value() || is_too_fine(point.rate) {
            let detail = format!("rate `{}` is not within -10 and 10 with at most {MAX_DECIMALS} decimals", point.rate);
            refusals.push(Refusal::new("invalid_rate", detail).at(format!("/curve/{index}/rate")));
        }
    }
}

fn is_share(share: Rate) -> bool {
    share >= Rate::ZERO && share <= WHOLE
}

fn is_too_fine(rate: Rate) -> bool {
    rate.value().normalize().scale() > MAX_DECIMALS
}

fn no_share(share: Rate) -> Refusal {
    Refusal::new("invalid_share", format!("share `{share}` is not within 0 and 1 with at most {MAX_DECIMALS} decimals"))
}
