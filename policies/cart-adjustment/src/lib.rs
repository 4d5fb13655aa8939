//! Amounts on the whole quote: a volume discount, a credit, a minimum charge, in this order.

use farebox_sdk::prelude::*;

parameters! {
    /// What happens to the quote as a whole. Everything is optional; thresholds are of the sum of all lines as they enter
    /// the step.
    pub struct CartAdjustment {
        /// Tiers of one rate on the whole sum. The highest threshold that the sum reaches counts.
        pub volume: Vec<Tier> = Vec::new(),
        /// An amount off.
        pub credit: Option<Credit> = None,
        /// The least that the quote comes to, after volume and credit. Not below 0.
        pub minimum: Option<Price> = None,
    }

    pub struct Tier {
        /// The sum from which the tier holds, itself included. Thresholds ascend.
        pub from: Price,
        /// On the whole sum: -0.05 is 5 % off.
        pub rate: Rate,
    }

    pub struct Credit {
        /// Above 0. What the lines cannot take of it lapses, visibly.
        pub amount: Price,
        /// The sum from which it holds, itself included. Left out: any.
        pub from: Option<Price>,
        /// Shown to the customer; default `Credit`.
        #[schemars(length(min = 1, max = 200))]
        pub label: Option<String>,
    }
}

policy! {
    name: "cart-adjustment",
    scope: quote,
    reads: ["amounts"],
    produces: ["volume", "credit", "minimum"],
    parameters: CartAdjustment,
    evaluate: cart_adjustment,
    validate: validate,
    narrow_reads: reads,
    narrow_produces: produces,
    // One more hour can reach a tier that makes all of them cheaper.
    claims: [("not_monotone", "hours"), ("not_monotone", "gpu_count")],
}

/// Characters of a label, as in the contract.
const MAX_LABEL: usize = 200;

impl CartAdjustment {
    fn thresholds(&self) -> impl Iterator<Item = Price> {
        self.volume.iter().map(|tier| tier.from).chain(self.credit.iter().filter_map(|credit| credit.from))
    }

    /// The highest tier that `sum` reaches.
    fn tier(&self, sum: Decimal) -> Option<&Tier> {
        self.volume.iter().rev().find(|tier| sum >= tier.from.value())
    }
}

/// Amounts only where a threshold lies above 0, which every sum reaches.
fn reads(parameters: &CartAdjustment) -> Vec<String> {
    let looks_at_sum = parameters.thresholds().any(|threshold| threshold > Price::ZERO);
    if looks_at_sum { vec!["amounts".to_owned()] } else { Vec::new() }
}

fn produces(parameters: &CartAdjustment) -> Vec<String> {
    let CartAdjustment { volume, credit, minimum } = parameters;
    let codes = [("volume", !volume.is_empty()), ("credit", credit.is_some()), ("minimum", minimum.is_some())];
    codes.into_iter().filter(|(_, in_use)| *in_use).map(|(code, _)| code.to_owned()).collect()
}

fn validate(parameters: &CartAdjustment) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let mut refuse = |code: &str, detail: String, pointer: String| {
        refusals.push(Refusal::new(code, detail).at(pointer));
    };
    let mut below: Option<Price> = None;
    for (index, tier) in parameters.volume.iter().enumerate() {
        let Tier { from, rate } = *tier;
        if from < Price::ZERO {
            refuse("negative", format!("`{from}` must not be negative"), format!("/volume/{index}/from"));
        } else if let Some(below) = below.filter(|below| from <= *below) {
            let detail = format!("`{from}` is not above `{below}`, the threshold before it");
            refuse("tiers_not_ascending", detail, format!("/volume/{index}/from"));
        }
        if rate < Rate::percent(-100) {
            let detail = format!("`{rate}` is more than all of it; -1 is the lowest");
            refuse("more_than_all", detail, format!("/volume/{index}/rate"));
        }
        below = Some(from);
    }
    if let Some(Credit { amount, from, label }) = &parameters.credit {
        if *amount <= Price::ZERO {
            refuse("not_positive", format!("`{amount}` must be above 0"), "/credit/amount".to_owned());
        }
        if let Some(from) = from.filter(|from| *from < Price::ZERO) {
            refuse("negative", format!("`{from}` must not be negative"), "/credit/from".to_owned());
        }
        if label.as_ref().is_some_and(|label| !(1..=MAX_LABEL).contains(&label.chars().count())) {
            refuse("invalid_label", format!("a label has 1 to {MAX_LABEL} characters"), "/credit/label".to_owned());
        }
    }
    if let Some(minimum) = parameters.minimum.filter(|minimum| *minimum < Price::ZERO) {
        refuse("negative", format!("`{minimum}` must not be negative"), "/minimum".to_owned());
    }
    refusals
}

fn cart_adjustment(parameters: &CartAdjustment, context: &Context) -> Result<Outcome, Refusal> {
    let amounts = context.lines.iter().filter_map(|line| line.amounts.as_ref()?.amount.exact());
    let sum: Decimal = amounts.sum();
    let currency = &context.currency;
    let volume = parameters.tier(sum).map(|tier| {
        let label = if tier.rate > Rate::ZERO { "Volume surcharge" } else { "Volume discount" };
        Adjustment::percent("volume", label, tier.rate)
            .because(format!("whole quote, from {} {currency} on", tier.from))
    });
    let reached = |credit: &&Credit| credit.from.is_none_or(|from| sum >= from.value());
    let credit = parameters.credit.as_ref().filter(reached).map(|credit| {
        let label = credit.label.as_deref().unwrap_or("Credit");
        let off = Method::Amount((-credit.amount.value()).into());
        let reason = match credit.from {
            Some(from) => format!("{} {currency} off the whole quote, from {from} {currency} on", credit.amount),
            None => format!("{} {currency} off the whole quote", credit.amount),
        };
        Adjustment::new("credit", "credit", label, off).because(reason)
    });
    let minimum = parameters.minimum.map(|least| {
        let reason = format!("the whole quote comes to {least} {currency} at least");
        Adjustment::new("fee", "minimum", "Minimum charge", Method::Minimum(least.value().into())).because(reason)
    });
    Ok(Outcome::from(Vec::from_iter([volume, credit, minimum].into_iter().flatten())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_cases() {
        farebox_sdk::testing::golden_cases(&POLICY);
    }

    #[test]
    fn amounts_are_read_only_where_a_threshold_looks_at_them() {
        let reads = |json: &str| POLICY.configure(json).unwrap().reads;
        for blind in [
            "{}",
            r#"{"minimum":"100"}"#,
            r#"{"credit":{"amount":"50"}}"#,
            r#"{"credit":{"amount":"50","from":"0"}}"#,
            r#"{"volume":[{"from":"0","rate":"-0.01"}]}"#,
        ] {
            assert_eq!(reads(blind), Vec::<String>::new(), "{blind}");
        }
        for looking in [
            r#"{"credit":{"amount":"50","from":"0.01"}}"#,
            r#"{"volume":[{"from":"0","rate":"0"},{"from":"10","rate":"-0.01"}]}"#,
        ] {
            assert_eq!(reads(looking), ["amounts"], "{looking}");
        }
    }

    #[test]
    fn only_what_is_set_is_produced() {
        let produces = |json: &str| POLICY.configure(json).unwrap().produces;
        assert_eq!(produces("{}"), Vec::<String>::new());
        assert_eq!(produces(r#"{"minimum":"1"}"#), ["minimum"]);
        let all = r#"{"volume":[{"from":"1","rate":"0"}],"credit":{"amount":"1"},"minimum":"0"}"#;
        assert_eq!(produces(all), ["volume", "credit", "minimum"]);
    }
}
