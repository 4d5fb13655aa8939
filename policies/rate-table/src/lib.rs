//! A price table: rules from parameters alone, so that an analyst changes prices without programming.
//!
//! What is written ([`written`]) is validated and compiled ([`compiled`]) once for each plan version; an evaluation
//! decodes the compiled form and walks its rules.

mod clock;
mod compiled;
mod facts;
mod matching;
mod outcome;
mod ramp;
mod tiers;
mod validation;
mod wanted;
mod wording;
mod written;

use std::borrow::Cow;

use farebox_sdk::prelude::*;
use farebox_sdk::schemars::{JsonSchema, Schema, SchemaGenerator};
use farebox_sdk::serde::{Deserialize, Deserializer, Serialize, Serializer};

use written::{Matching, RateTable};

policy! {
    name: "rate-table",
    scope: line,
    reads: [
        "line.*", "book.*", "workload.*", "task.*", "added.*", "tenant.*", "step.*",
        "amounts", "portions", "time", "usage/*",
    ],
    produces: ["*"],
    parameters: Table,
    evaluate: rate_table,
    validate: validate,
    narrow_reads: reads,
    narrow_produces: produces,
}

/// The parameters of a plan.
#[derive(Debug)]
pub struct Table(Form);

/// JSON is what was written, a configuration is compiled.
#[derive(Debug)]
enum Form {
    Written(RateTable),
    Compiled(compiled::Table),
}

impl Table {
    fn compiled(&self) -> Cow<'_, compiled::Table> {
        match &self.0 {
            Form::Written(written) => Cow::Owned(compiled::Table::of(written)),
            Form::Compiled(table) => Cow::Borrowed(table),
        }
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.compiled().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            RateTable::deserialize(deserializer).map(|table| Self(Form::Written(table)))
        } else {
            compiled::Table::deserialize(deserializer).map(|table| Self(Form::Compiled(table)))
        }
    }
}

impl JsonSchema for Table {
    fn schema_name() -> Cow<'static, str> {
        RateTable::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        RateTable::json_schema(generator)
    }
}

fn validate(table: &Table) -> Vec<Refusal> {
    match &table.0 {
        Form::Written(written) => validation::validate(written),
        Form::Compiled(_) => Vec::new(),
    }
}

/// What the rules name, each once.
fn reads(table: &Table) -> Vec<String> {
    let table = table.compiled();
    let mut reads = Vec::new();
    for rule in &table.rules {
        reads.extend(rule.facts.iter().map(|condition| condition.key.clone()));
        reads.extend(rule.usage.as_ref().map(|usage| {
            let (statistic, window) = (usage.statistic.as_str(), usage.window.as_str());
            format!("usage/{}/{statistic}/{window}", usage.metric)
        }));
        reads.extend(rule.time.as_ref().map(|_| "time".to_owned()));
        if rule.effect.reprices() {
            reads.extend(["amounts".to_owned(), "portions".to_owned()]);
        }
    }
    once(reads)
}

fn produces(table: &Table) -> Vec<String> {
    match &table.0 {
        Form::Written(written) => once(written.rules.iter().flat_map(written::Rule::codes).collect()),
        Form::Compiled(_) => vec!["*".to_owned()],
    }
}

fn once(mut words: Vec<String>) -> Vec<String> {
    words.sort_unstable();
    words.dedup();
    words
}

fn rate_table(table: &Table, line: Line) -> Result<Vec<Adjustment>, Refusal> {
    let table = table.compiled();
    let mut said = Vec::new();
    for rule in &table.rules {
        if !rule.matches(line)? {
            continue;
        }
        let mut outcome = rule.outcome(line)?;
        if table.matching == Matching::First {
            return Ok(outcome);
        }
        said.append(&mut outcome);
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_cases() {
        farebox_sdk::testing::golden_cases(&POLICY);
    }

    #[test]
    fn only_what_the_rules_name_is_read_and_produced() {
        let narrowed = |json: &str| {
            let configuration = POLICY.configure(json).unwrap();
            (configuration.reads.join(" "), configuration.produces.join(" "))
        };
        let all_kinds = r#"{"matching": "first", "rules": [
            {"code": "a", "label": "A", "when": {"workload.image": "v1", "tenant.tier": "gold"}, "rate": "0.1"},
            {"code": "b", "label": "B", "usage": {"window": "24h", "below": "0.2"}, "rate": "0.1"},
            {"code": "c", "label": "C", "time": {"weekdays": ["sun"]}, "rate": "0"},
            {"code": "d", "when": {"line.region": "x"}, "refuse": {"detail": "no"}},
            {"code": "e", "label": "E", "when": {"line.region": "y"}, "volume": [{"unit_price": "1", "flat_fee": "2"}]},
            {"code": "f", "note": {"text": "the rest"}}]}"#;
        assert_eq!(
            narrowed(all_kinds),
            (
                "amounts line.region portions tenant.tier time usage/gpu_util/mean/24h workload.image".to_owned(),
                "a b c e e_fee f".to_owned()
            )
        );
        let one = r#"{"matching": "all", "rules": [{"code": "a", "label": "A", "rate": "0.1"}]}"#;
        assert_eq!(narrowed(one), (String::new(), "a".to_owned()));
    }
}
