//! A price table: rules from parameters alone, so that an analyst changes prices without programming.
//!
//! What is written (`written`) is validated and compiled (`compiled`) once for each plan version; an evaluation
//! walks the compiled rules.

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
use std::fmt;

use farebox_sdk::prelude::*;
use farebox_sdk::schemars::{JsonSchema, Schema, SchemaGenerator};
use farebox_sdk::serde::de::{Error, Visitor};
use farebox_sdk::serde::{Deserialize, Deserializer, Serialize, Serializer};

use compiled::{Action, Rule, Rules};
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
    Compiled(Vec<u8>),
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Form::Written(written) => {
                let bytes = compiled::encoded(written).map_err(farebox_sdk::serde::ser::Error::custom)?;
                serializer.serialize_bytes(&bytes)
            }
            Form::Compiled(bytes) => serializer.serialize_bytes(bytes),
        }
    }
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return RateTable::deserialize(deserializer).map(|written| Self(Form::Written(written)));
        }
        deserializer.deserialize_byte_buf(Bytes).map(|bytes| Self(Form::Compiled(bytes)))
    }
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a configuration")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
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

/// What the rules name, each once. Only `configure` asks, of what was written.
fn reads(table: &Table) -> Vec<String> {
    let Form::Written(written) = &table.0 else { return Vec::new() };
    let mut reads = Vec::new();
    for rule in written.rules.iter().map(compiled::conditions) {
        reads.extend(rule.facts.iter().map(|condition| condition.key.to_owned()));
        reads.extend(rule.usage.as_ref().map(|usage| {
            let (statistic, window) = (usage.statistic.as_str(), usage.window.as_str());
            format!("usage/{}/{statistic}/{window}", usage.metric)
        }));
        reads.extend(rule.time.as_ref().map(|_| "time".to_owned()));
        if rule.of_quantity {
            reads.extend(["amounts".to_owned(), "portions".to_owned()]);
        }
    }
    once(reads)
}

fn produces(table: &Table) -> Vec<String> {
    let Form::Written(written) = &table.0 else { return Vec::new() };
    once(written.rules.iter().flat_map(written::Rule::codes).collect())
}

fn once(mut words: Vec<String>) -> Vec<String> {
    words.sort_unstable();
    words.dedup();
    words
}

#[expect(
    clippy::panic,
    reason = "the SDK evaluates only what is configured: a trap is a fault, never a price without the step"
)]
fn rate_table(table: &Table, line: Line) -> Result<Vec<Adjustment>, Refusal> {
    match &table.0 {
        Form::Compiled(bytes) => walk(Rules::of(bytes), line),
        Form::Written(_) => panic!("the table is not one that `configure` made"),
    }
}

fn walk(rules: Rules<'_>, line: Line) -> Result<Vec<Adjustment>, Refusal> {
    let matching = rules.matching;
    let mut said = Vec::new();
    for (conditions, action) in rules {
        if !conditions.matches(line)? {
            continue;
        }
        let rule = Rule { conditions: &conditions, action: Action::decoded(action) };
        let mut outcome = rule.outcome(line)?;
        if matching == Matching::First {
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

    #[test]
    fn a_table_is_bounded() {
        let refusals = |rules: usize, values: usize| {
            let values: Vec<String> = (0..values).map(|value| format!(r#""v{value}""#)).collect();
            let rule = |number| {
                let when = format!(
                    r#"{{"workload.image": [{}], "line.gpu_count": {{"above": "{number}"}}}}"#,
                    values.join(",")
                );
                format!(r#"{{"code": "r{number}", "label": "R", "when": {when}, "rate": "0"}}"#)
            };
            let rules: Vec<String> = (0..rules).map(rule).collect();
            let json = format!(r#"{{"matching": "first", "rules": [{}]}}"#, rules.join(","));
            let told = POLICY.configure(&json).err().unwrap_or_default();
            told.into_iter().map(|refusal| refusal.code).collect::<Vec<_>>()
        };
        assert_eq!(refusals(100, 8), Vec::<String>::new());
        assert_eq!(refusals(101, 1), ["too_many_rules"]);
        assert_eq!(refusals(1, 998), Vec::<String>::new());
        assert_eq!(refusals(1, 999), ["too_many_values"]);
    }

    #[test]
    fn rules_that_all_count_say_no_more_than_a_line_has_room_for() {
        let refusals = |matching: &str, noted: usize, refusing: usize| {
            let noted = (0..noted).map(|number| {
                format!(
                    r#"{{"code": "r{number}", "label": "R", "rate": "0", "when": {{"line.region": "{number}"}},
                    "note": {{"text": "why", "code": "n{number}"}}}}"#
                )
            });
            let refusing = (0..refusing).map(|number| {
                format!(
                    r#"{{"code": "no{number}", "refuse": {{"detail": "no"}}, "when": {{"line.market": "{number}"}}}}"#
                )
            });
            let rules: Vec<String> = noted.chain(refusing).collect();
            let json = format!(r#"{{"matching": "{matching}", "rules": [{}]}}"#, rules.join(","));
            let told = POLICY.configure(&json).err().unwrap_or_default();
            told.into_iter().map(|refusal| refusal.code).collect::<Vec<_>>()
        };
        assert_eq!(refusals("all", 32, 20), Vec::<String>::new(), "a refusal is no row");
        assert_eq!(refusals("all", 33, 0), ["too_many_rows"]);
        assert_eq!(refusals("first", 33, 0), Vec::<String>::new());
    }

    #[test]
    #[should_panic(expected = "not one that `configure` made")]
    fn a_table_that_is_not_configured_prices_nothing() {
        let context = Context { lines: vec![line()], ..Context::default() };
        let written = RateTable { matching: Matching::First, rules: Vec::new() };
        let _ = rate_table(&Table(Form::Written(written)), context.lines().next().unwrap());
    }

    fn line() -> farebox_sdk::contract::Line {
        let (facts, segments, portions) = (Vec::new(), Vec::new(), Vec::new());
        farebox_sdk::contract::Line { key: 0, facts, amounts: None, segments, portions, usage: None }
    }

    #[test]
    fn what_is_wrong_all_over_is_told_a_hundred_times() {
        let rules = vec![r#"{"code": "A", "rate": "20"}"#; 90].join(",");
        let told = POLICY.configure(&format!(r#"{{"matching": "all", "rules": [{rules}]}}"#)).unwrap_err();
        assert_eq!(told.len(), 100);
    }
}
