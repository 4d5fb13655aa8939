//! S4: what the features of a workload add; the rates of one workload's features add up.

use farebox_sdk::prelude::*;

parameters! {
    /// Rates by feature, on the amount that enters the step. A feature that is not listed is refused.
    pub struct FeatureSurcharge {
        pub features: BTreeMap<String, Rate> = BTreeMap::from([
            ("fsdp".to_owned(), Rate::percent(20)),
            ("cuda_graphs".to_owned(), Rate::percent(10)),
        ]),
    }
}

policy! {
    name: "feature-surcharge",
    scope: line,
    reads: ["workload.feature"],
    produces: ["*"],
    parameters: FeatureSurcharge,
    evaluate: feature_surcharge,
    narrow_produces: produces,
}

fn produces(parameters: &FeatureSurcharge) -> Vec<String> {
    parameters.features.keys().cloned().collect()
}

fn feature_surcharge(parameters: &FeatureSurcharge, line: Line) -> Result<Vec<Adjustment>, Refusal> {
    let mut adjustments: Vec<Adjustment> = Vec::new();
    for (index, feature) in line.facts("workload.feature").enumerate() {
        let Some(rate) = parameters.features.get(feature) else {
            return Err(unknown(parameters, feature).at(format!("/workload/features/{index}")));
        };
        // Asked for twice is asked for: a feature is used or not.
        if adjustments.iter().all(|earlier| earlier.code != feature) {
            adjustments.push(Adjustment::percent(feature, label(feature), *rate).because(format!("feature {feature}")));
        }
    }
    Ok(adjustments)
}

fn unknown(parameters: &FeatureSurcharge, feature: &str) -> Refusal {
    let known: Vec<String> = parameters.features.keys().map(|name| format!("`{name}`")).collect();
    Refusal::new("unknown_feature", format!("feature `{feature}` is not offered; known are {}", known.join(", ")))
}

fn label(feature: &str) -> &str {
    match feature {
        "fsdp" => "FSDP",
        "cuda_graphs" => "CUDA Graphs",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_cases() {
        farebox_sdk::testing::golden_cases(&POLICY);
    }

    #[test]
    fn only_listed_features_are_produced() {
        assert_eq!(POLICY.configure("{}").unwrap().produces, ["cuda_graphs", "fsdp"]);
        assert_eq!(POLICY.configure(r#"{"features":{"amp":"0.01"}}"#).unwrap().produces, ["amp"]);
    }
}
