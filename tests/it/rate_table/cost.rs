//! What the table costs beside the coded policies, in fuel, which is the same on any machine.

use farebox::intake::Intake;
use farebox_pricing::policy::RunPolicy;
use farebox_pricing::price::price;
use farebox_sandbox::{Limits, Sandbox, Session};

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

/// A table decodes all its rules to apply one, so it costs more; as long as that is a few times a coded step, and one in a
/// hundred of the limit, nobody has to choose between price lists and programs by what they cost.
#[test]
fn a_step_by_rules_costs_a_few_times_a_coded_one() {
    let (coded, table) = (costs(CODED), costs(TABLE));
    println!("coded {coded:?}\ntable {table:?}");
    for ((step, coded, _), (_, table, _)) in coded.iter().zip(&table) {
        assert!(*table < 3 * coded, "{step}: {table} against {coded}");
        assert!(*table < 40_000, "{step}: {table}");
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
    let limits = Limits::standard();
    let bytes = std::fs::read(policies().join("rate-table.wasm")).unwrap();
    let configured = Sandbox::new(limits).unwrap().load(&bytes).unwrap().configure(&parameters).unwrap();
    let context = serde_json::json!({
        "currency": "CNY", "exponent": 2,
        "lines": [{"key": 0, "facts": [{"key": "line.market", "value": "spot"}, {"key": "workload.image", "value": "v2.6"}],
            "amounts": {"unit": "gpu_second", "quantity": "3600", "unit_price": "1", "list_amount": "1", "amount": "1"}}],
    });
    let context = serde_json::from_value(context).unwrap();
    let host = HostContext::of(&context);
    let evaluation = Session::new(&[configured]).evaluate(0, &host.view()).unwrap();
    println!("a hundred rules: {} of {} fuel", evaluation.fuel, limits.evaluate_fuel);
    assert_eq!(evaluation.outcome.adjustments[0].code, "rest");
    assert!(evaluation.fuel < limits.evaluate_fuel / 4, "{}", evaluation.fuel);
}
