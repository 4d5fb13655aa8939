//! How a line's price came about: the amount that entered each step, what the step did, and what was left.
//!
//! Read from the quote itself, so it is the same offline and online. Sums are taken exactly.

use farebox_pricing::amount::Amount;
use farebox_pricing::exact;
use serde::Serialize;
use serde_json::Value;

use super::super::quote_table::{array, text, word};

/// One line, from list to its amount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fall {
    pub(super) line: String,
    pub(super) list: String,
    pub(super) steps: Vec<Stage>,
    pub(super) amount: String,
}

/// The adjustments of one step on one line. A step that said nothing of the line is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Stage {
    pub(super) step: String,
    pub(super) entered: String,
    pub(super) adjustments: Vec<Effect>,
    pub(super) left: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Effect {
    pub(super) code: String,
    pub(super) method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<String>,
    pub(super) reason: String,
    /// Not rounded to the currency: with all of its decimals.
    pub(super) amount: String,
    /// True for a share of an amount on the whole quote: its rate is not of what entered here.
    pub(super) is_share: bool,
}

pub(super) fn of(quote: &Value) -> Vec<Fall> {
    array(quote, "/lines").iter().map(fall).collect()
}

fn fall(line: &Value) -> Fall {
    let (list, amount) = (word(line, "/list_amount"), word(line, "/amount"));
    let mut steps: Vec<Stage> = Vec::new();
    for adjustment in array(line, "/adjustments") {
        let step = word(adjustment, "/step");
        let effect = Effect {
            code: word(adjustment, "/code"),
            method: word(adjustment, "/method"),
            rate: text(adjustment, "/rate"),
            reason: word(adjustment, "/reason"),
            amount: word(adjustment, "/amount"),
            is_share: word(adjustment, "/scope") == "quote",
        };
        let before = steps.last().map_or_else(|| list.clone(), |stage| stage.left.clone());
        let left = plus(&before, &effect.amount, &amount);
        match steps.last_mut().filter(|stage| stage.step == step) {
            Some(stage) => {
                stage.adjustments.push(effect);
                stage.left = left;
            }
            None => steps.push(Stage { step, entered: before, adjustments: vec![effect], left }),
        }
    }
    Fall { line: word(line, "/id"), list, steps, amount }
}

/// The exact sum, with at least the decimals of `rounded`; `?` of what is not an amount (no gateway of ours says that).
fn plus(one: &str, other: &str, rounded: &str) -> String {
    let read = |text: &str| Amount::from_decimal(exact::parse(text).ok()?).ok();
    let sum = || read(one)?.plus(read(other)?).ok();
    let exponent = rounded.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    sum().map_or_else(|| "?".to_owned(), |sum| sum.print(u8::try_from(exponent).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(list: &str, adjustments: &[(&str, &str)], amount: &str) -> Value {
        let adjustments: Vec<_> =
            adjustments.iter().map(|(step, amount)| json!({"step": step, "amount": amount, "code": "c"})).collect();
        json!({"id": "l1", "list_amount": list, "adjustments": adjustments, "amount": amount})
    }

    /// W1, worked out by hand in SPEC §4.
    #[test]
    fn what_enters_a_step_is_what_the_one_before_left() {
        let adjustments = [
            ("framework", "1036.80"),
            ("features", "1589.76"),
            ("features", "794.88"),
            ("utilisation", "-1033.344"),
            ("rounding", "0.004"),
        ];
        let fall = fall(&line("6912.00", &adjustments, "9300.10"));
        let steps: Vec<_> = fall.steps.iter().map(|it| [it.step.as_str(), &it.entered, &it.left]).collect();
        assert_eq!(
            steps,
            [
                ["framework", "6912.00", "7948.80"],
                ["features", "7948.80", "10333.44"],
                ["utilisation", "10333.44", "9300.096"],
                ["rounding", "9300.096", "9300.10"],
            ]
        );
        assert_eq!(fall.steps[1].adjustments.len(), 2);
    }

    #[test]
    fn sums_are_exact_and_have_the_decimals_of_their_currency() {
        assert_eq!(plus("1240", "186", "1854"), "1426");
        assert_eq!(plus("1.500", "0.075", "1.575"), "1.575");
        assert_eq!(plus("3.685", "0.005", "3.69"), "3.69");
        assert_eq!(plus("999999999999999.000000000001", "-0.000000000001", "1.00"), "999999999999999.00");
        assert_eq!(plus("x", "1", "1"), "?");
    }
}
