//! S5: a discount for GPUs that are used well, a surcharge for GPUs that are not.
//!
//! Either steps (above 70 %, below 30 %, 20 %, 10 %) or a curve with straight lines between its points. What was not
//! observed changes nothing: the statistic is then not in the context.

mod curve;
mod steps;
mod validation;

use farebox_sdk::prelude::*;

parameters! {
    /// Which statistic counts, and what it costs or saves.
    pub struct UtilisationAdjustment {
        /// A metric that is a share of 1, such as `gpu_util` or `sm_util`.
        pub metric: String = "gpu_util".to_owned(),
        pub statistic: Statistic = Statistic::Mean,
        pub window: Window = Window::D7,
        /// Steps that hold above their share. The highest that holds counts.
        pub above: Vec<Step> = vec![Step::percent(70, -10)],
        /// Steps that hold below their share. The lowest that holds counts.
        pub below: Vec<Step> = vec![Step::percent(30, 5), Step::percent(20, 10), Step::percent(10, 20)],
        /// In place of both kinds of steps where it is not empty: straight lines between the points, constant outside.
        pub curve: Vec<Point> = Vec::new(),
    }

    pub struct Step {
        /// 0 to 1, itself excluded.
        pub share: Rate,
        /// On the amount that enters the step.
        pub rate: Rate,
    }

    pub struct Point {
        /// 0 to 1, ascending.
        pub at: Rate,
        /// On the amount that enters the step.
        pub rate: Rate,
    }
}

policy! {
    name: "utilisation-adjustment",
    scope: line,
    reads: ["usage/*"],
    produces: ["*"],
    parameters: UtilisationAdjustment,
    evaluate: utilisation_adjustment,
    validate: validation::validate,
    narrow_reads: reads,
    narrow_produces: produces,
}

/// A rule that holds: its code, and the rate that goes with it.
struct Hit {
    code: String,
    label: String,
    rate: Rate,
}

impl Step {
    const fn percent(share: i32, rate: i32) -> Self {
        Self { share: Rate::percent(share), rate: Rate::percent(rate) }
    }
}

fn reads(parameters: &UtilisationAdjustment) -> Vec<String> {
    let UtilisationAdjustment { metric, statistic, window, .. } = parameters;
    vec![format!("usage/{metric}/{}/{}", statistic.as_str(), window.as_str())]
}

fn produces(parameters: &UtilisationAdjustment) -> Vec<String> {
    if parameters.curve.is_empty() { steps::codes(parameters) } else { curve::codes() }
}

fn utilisation_adjustment(parameters: &UtilisationAdjustment, line: Line) -> Result<Option<Adjustment>, Refusal> {
    let UtilisationAdjustment { metric, statistic, window, .. } = parameters;
    let (Some(usage), Some(stat)) = (line.usage(), line.stat(metric, *statistic, *window)) else { return Ok(None) };
    let Some(share) = stat.value.exact() else { return Ok(None) };
    let hit =
        if parameters.curve.is_empty() { steps::hit(parameters, share) } else { curve::hit(&parameters.curve, share) };
    let Some(Hit { code, label, rate }) = hit else { return Ok(None) };
    if rate > Rate::ZERO && !usage.surcharge_allowed {
        return Ok(None);
    }
    let reason = format!("{} {} {} over {}", statistic.as_str(), name(metric), observed(share), window.label());
    Ok(Some(Adjustment::percent(code, label, rate).because(reason)))
}

/// What people call a metric.
fn name(metric: &str) -> &str {
    match metric {
        "gpu_util" => "GPU utilisation",
        "sm_util" => "SM utilisation",
        other => other,
    }
}

/// `81.8929 %`: a mean over days has more digits than anybody reads; cut, so that 69.999 never reads as 70.
fn observed(share: Decimal) -> String {
    format!("{} %", (share * Decimal::ONE_HUNDRED).trunc_with_scale(4).normalize())
}

/// `82 %`, with as many digits as the share has.
fn percentage(share: Decimal) -> String {
    format!("{} %", (share * Decimal::ONE_HUNDRED).normalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_cases() {
        farebox_sdk::testing::golden_cases(&POLICY);
    }

    #[test]
    fn one_statistic_is_read_and_codes_follow_the_parameters() {
        let configuration = POLICY.configure("{}").unwrap();
        assert_eq!(configuration.reads, ["usage/gpu_util/mean/7d"]);
        assert_eq!(configuration.produces, ["above_70", "below_30", "below_20", "below_10"]);
        let json = r#"{"metric":"sm_util","statistic":"p95","window":"24h","curve":[{"at":"0.5","rate":"0.1"}]}"#;
        let configuration = POLICY.configure(json).unwrap();
        assert_eq!(configuration.reads, ["usage/sm_util/p95/24h"]);
        assert_eq!(configuration.produces, ["ramp_discount", "ramp_surcharge"]);
    }
}
