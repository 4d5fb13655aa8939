//! What the table costs beside the coded policies, in fuel, which is the same on any machine.

use farebox::intake::Intake;
use farebox_pricing::price::price;
use farebox_sandbox::Session;

use super::equal_plans::{CODED, TABLE, input, observed};
use crate::harness::fixture;

/// Fuel and memory of each step of W1.
fn costs(plan: &str) -> Vec<(String, u64, u64)> {
    let body = fixture("requests/w1.json").to_string();
    let request = Intake::new().unwrap().read(body.as_bytes()).unwrap().request;
    let (input, version) = input(&request, plan, Some(&observed("0.82", 850, "0.99", true)));
    let settled = price(&input, &mut Session::new(&version.policies)).unwrap();
    settled.costs.into_iter().map(|cost| (cost.step, cost.fuel, cost.memory_bytes_max)).collect()
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
