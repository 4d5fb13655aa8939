//! What the table costs beside the coded policies, in fuel, which is the same on any machine.

use farebox::intake::Intake;
use farebox_pricing::pipeline::MAX_ADJUSTMENTS_PER_LINE;
use farebox_pricing::policy::{Evaluation, RunPolicy};
use farebox_pricing::price::price;
use farebox_sandbox::{ConfigureError, Limits, Policy, Sandbox, Session};

use super::equal_plans::{CODED, TABLE, input, observed};
use crate::harness::{fixture, policies};
use crate::twin_context::HostContext;

/// Fuel and memory of each step of W1.
fn costs(plan: &str) -> Vec<(String, u64, u64)> {
    let body = fixture("requests/w1.json").to_string();
    let request = Intake::new().unwrap().read(body.as_bytes()).unwrap().request;
    let (input, version) = input(&request, plan, Some(&observed("0.82", 850, "0.99", true)));
    let settled = price(&input, &mut Session::new(&version.policies)).unwrap();
    let steps = version.plan.steps.iter().map(|step| step.id.clone());
    steps.zip(settled.costs).map(|(step, cost)| (step, cost.fuel, cost.memory_bytes_max)).collect()
}

/// A table decodes the conditions of its rules up to the one that counts, so it costs more. As long as that is less than
/// three times a coded step, and a fiftieth of the limit, nobody has to choose between price lists and programs by cost.
#[test]
fn a_step_by_rules_costs_a_few_times_a_coded_one() {
    let (coded, table) = (costs(CODED), costs(TABLE));
    println!("coded {coded:?}\ntable {table:?}");
    for ((step, coded, _), (_, table, _)) in coded.iter().zip(&table) {
        assert!(*table < 3 * coded, "{step}: {table} against {coded}");
        assert!(*table < Limits::standard().evaluate_fuel / 50, "{step}: {table}");
    }
}

/// The largest table, of which only the last rule matches: an activation would be refused above a quarter of the limit.
#[test]
fn a_hundred_rules_stay_far_below_the_limit() {
    // With `line.market` and its value ten names a rule, and nearly as many in all as a table may have.
    let images = |number: usize| (0..7).map(|image| format!("image-{number}-{image}")).collect::<Vec<_>>();
    let mut rules: Vec<serde_json::Value> = (0..99)
        .map(|number| {
            serde_json::json!({
                "code": format!("rule-{number}"), "label": "One of many", "reason": "a sentence that says why in some words",
                "when": {"workload.image": images(number), "line.market": "spot"},
                "graduated": [{"up_to": "10", "unit_price": "1.5"}, {"unit_price": "1.25"}],
            })
        })
        .collect();
    rules.push(serde_json::json!({"code": "rest", "label": "The rest", "rate": "0.1"}));
    let parameters = serde_json::json!({"matching": "first", "rules": rules}).to_string();
    let evaluation = evaluated(&parameters, &[("line.market", "spot"), ("workload.image", "v2.6")]);
    assert_eq!(evaluation.outcome.adjustments[0].code, "rest");
    assert!(evaluation.fuel < Limits::standard().evaluate_fuel / 4, "{}", evaluation.fuel);
}

/// As many rows and notes as a line has room for, each rule's words made from its conditions, its value the last of many:
/// the dearest of tables, which has fuel to spare, if less than one of which a single rule counts.
#[test]
fn rules_that_all_count_and_all_match_stay_below_the_limit() {
    let count = MAX_ADJUSTMENTS_PER_LINE / 2;
    let facts: Vec<(&str, String)> =
        ["line.region", "line.market", "line.gpu_model", "workload.image", "tenant.segment"]
            .map(|key| (key, format!("the value of {key}")))
            .to_vec();
    let rules: Vec<serde_json::Value> = (0..count)
        .map(|number| {
            // Thirty names a rule: five facts, four with one value and one with twenty-one.
            let mut when: serde_json::Map<_, _> = facts.iter().map(|(key, value)| ((*key).to_owned(), value.clone().into())).collect();
            let others = (0..20).map(|image| format!("image-{number}-{image}"));
            when["workload.image"] = others.chain([facts[3].1.clone()]).collect();
            let note = serde_json::json!({"code": format!("note-{number}"), "text": "{workload.image} in {line.region}"});
            serde_json::json!({"code": format!("rule-{number}"), "label": "One of many", "when": when, "rate": "0.01", "note": note})
        })
        .collect();
    let parameters = serde_json::json!({"matching": "all", "rules": rules}).to_string();
    let facts: Vec<(&str, &str)> = facts.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let evaluation = evaluated(&parameters, &facts);
    assert_eq!(evaluation.outcome.adjustments.len(), MAX_ADJUSTMENTS_PER_LINE);
    assert!(evaluation.fuel < Limits::standard().evaluate_fuel / 4 * 3, "{}", evaluation.fuel);
}

/// In the sandbox, so that the answer is not that fuel ran out. The schema is the host's to check, and bypassed here.
#[test]
fn a_table_of_far_too_many_values_is_told_so() {
    let values: Vec<String> = (0..20_000).map(|value| format!("value-{value}")).collect();
    let rule = serde_json::json!({"code": "a", "label": "A", "when": {"workload.image": values}, "rate": "0"});
    let parameters = serde_json::json!({"matching": "first", "rules": [rule]}).to_string();
    match loaded().configure(&parameters) {
        Err(ConfigureError::Refused(refusals)) => {
            let told: Vec<&str> = refusals.iter().map(|refusal| refusal.code.as_str()).collect();
            assert_eq!(told, ["too_many_values"]);
        }
        other => panic!("{other:?}"),
    }
}

fn loaded() -> Policy {
    let bytes = std::fs::read(policies().join("rate-table.wasm")).unwrap();
    Sandbox::new(Limits::standard()).unwrap().load(&bytes).unwrap()
}

/// What the table says of one line with these facts.
fn evaluated(parameters: &str, facts: &[(&str, &str)]) -> Evaluation {
    let facts: Vec<_> = facts.iter().map(|(key, value)| serde_json::json!({"key": key, "value": value})).collect();
    let context = serde_json::json!({
        "currency": "CNY", "exponent": 2,
        "lines": [{"key": 0, "facts": facts,
            "amounts": {"unit": "gpu_second", "quantity": "3600", "unit_price": "1", "list_amount": "1", "amount": "1"}}],
    });
    let context = serde_json::from_value(context).unwrap();
    let host = HostContext::of(&context);
    let evaluation = Session::new(&[loaded().configure(parameters).unwrap()]).evaluate(0, &host.view()).unwrap();
    println!("{} of {} fuel", evaluation.fuel, Limits::standard().evaluate_fuel);
    evaluation
}
