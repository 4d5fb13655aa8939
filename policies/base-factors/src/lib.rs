//! S1: what memory and network bandwidth add to the price of a GPU.

use farebox_sdk::prelude::*;

parameters! {
    /// Bands of a GPU's memory and network bandwidth; a quantity in none of a list's bands is refused.
    pub struct BaseFactors {
        /// By `line.memory_gib`. Empty: memory changes nothing.
        pub memory_gib: Vec<Band> = Vec::new(),
        /// By `line.network_gbps`. Empty: bandwidth changes nothing.
        pub network_gbps: Vec<Band> = Vec::new(),
    }

    /// Quantities above the band before and up to this bound. Bands ascend.
    pub struct Band {
        /// Inclusive. The last band may leave it out: everything above.
        pub up_to: Option<Quantity>,
        /// On the amount that enters the step.
        pub rate: Rate,
    }
}

policy! {
    name: "base-factors",
    scope: line,
    reads: ["line.memory_gib", "line.network_gbps"],
    produces: ["memory", "network"],
    parameters: BaseFactors,
    evaluate: base_factors,
    validate: validate,
    narrow_reads: reads,
    narrow_produces: produces,
}

/// One of the two lists, and the words that go with it.
struct Factor<'a> {
    bands: &'a [Band],
    /// The parameter, and the field of the item.
    field: &'static str,
    fact: &'static str,
    code: &'static str,
    label: &'static str,
    unit: &'static str,
}

impl BaseFactors {
    fn factors(&self) -> [Factor<'_>; 2] {
        [
            Factor {
                bands: &self.memory_gib,
                field: "memory_gib",
                fact: "line.memory_gib",
                code: "memory",
                label: "GPU memory",
                unit: "GiB",
            },
            Factor {
                bands: &self.network_gbps,
                field: "network_gbps",
                fact: "line.network_gbps",
                code: "network",
                label: "Network bandwidth",
                unit: "Gbit/s",
            },
        ]
    }

    fn in_use(&self) -> impl Iterator<Item = Factor<'_>> {
        self.factors().into_iter().filter(|factor| !factor.bands.is_empty())
    }
}

fn reads(parameters: &BaseFactors) -> Vec<String> {
    parameters.in_use().map(|factor| factor.fact.to_owned()).collect()
}

fn produces(parameters: &BaseFactors) -> Vec<String> {
    parameters.in_use().map(|factor| factor.code.to_owned()).collect()
}

fn validate(parameters: &BaseFactors) -> Vec<Refusal> {
    parameters.in_use().flat_map(|factor| unordered(&factor)).collect()
}

fn unordered(factor: &Factor<'_>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for (index, pair) in factor.bands.windows(2).enumerate() {
        let [lower, upper] = pair else { continue };
        let (at, detail) = match (lower.up_to, upper.up_to) {
            (None, _) => (index, "only the last band may be without a bound".to_owned()),
            (Some(below), Some(above)) if above <= below => {
                (index + 1, format!("`{above}` is not above `{below}`, the bound before it"))
            }
            _ => continue,
        };
        refusals.push(Refusal::new("bands_not_ascending", detail).at(format!("/{}/{at}/up_to", factor.field)));
    }
    refusals
}

fn base_factors(parameters: &BaseFactors, line: Line) -> Result<Vec<Adjustment>, Refusal> {
    parameters.in_use().filter_map(|factor| adjust(&factor, line).transpose()).collect()
}

fn adjust(factor: &Factor<'_>, line: Line) -> Result<Option<Adjustment>, Refusal> {
    let Some(quantity) = line.number(factor.fact)? else { return Ok(None) };
    let unit = factor.unit;
    let shown = Quantity::from(quantity);
    let holds = |band: &&Band| band.up_to.is_none_or(|bound| quantity <= bound.value());
    let Some(band) = factor.bands.iter().find(holds) else {
        let detail = format!("{shown} {unit} is above the last band");
        return Err(Refusal::new("no_band", detail).at(format!("/{}", factor.field)));
    };
    let reason = match band.up_to {
        Some(bound) => format!("{shown} {unit}, in the band up to {bound} {unit}"),
        None => format!("{shown} {unit}, in the last band"),
    };
    Ok(Some(Adjustment::percent(factor.code, factor.label, band.rate).because(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_cases() {
        farebox_sdk::testing::golden_cases(&POLICY);
    }

    #[test]
    fn only_lists_in_use_are_read() {
        let narrowed = |json: &str| {
            let configuration = POLICY.configure(json).unwrap();
            (configuration.reads, configuration.produces)
        };
        assert_eq!(narrowed("{}"), (vec![], vec![]));
        let network = r#"{"network_gbps":[{"rate":"0.1"}]}"#;
        assert_eq!(narrowed(network), (vec!["line.network_gbps".to_owned()], vec!["network".to_owned()]));
    }
}
