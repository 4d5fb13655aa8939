//! A rule may be about any fact of the contract.

use crate::harness::root;

/// The keys of the table of facts, with a word in place of what an author fills in.
fn documented() -> Vec<String> {
    let document = std::fs::read_to_string(root().join("docs/contract.md")).unwrap();
    let section = document.split("\n## ").find(|section| section.starts_with("Facts")).unwrap();
    let cells = section.lines().filter_map(|row| row.strip_prefix("| ")?.split(" | ").next());
    let keys = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    keys.map(|key| key.replace(['<', '>'], "").replace(' ', "-")).collect()
}

#[test]
fn every_fact_of_the_contract_can_be_a_condition() {
    let keys = documented();
    assert!(keys.len() >= 29 && keys.iter().any(|key| key == "step.step-id.key"), "{keys:?}");
    for key in keys {
        let rule = serde_json::json!({"code": "a", "label": "A", "rate": "0", "when": {&key: {"present": true}}});
        let table = serde_json::json!({"matching": "first", "rules": [rule]}).to_string();
        let configuration = rate_table::POLICY.configure(&table).unwrap_or_else(|refusals| panic!("{refusals:?}"));
        assert_eq!(configuration.reads, [key]);
    }
}
