//! The contract is frozen: a change of `sdk-wasm/wit/policy.wit` breaks every policy in the field.

use crate::harness::root;

/// Only what binds: comments may be made clearer.
fn signature() -> String {
    let wit = std::fs::read_to_string(root().join("sdk-wasm/wit/policy.wit")).unwrap();
    wit.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("///"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn version_1_0_0_is_as_it_was_frozen() {
    let file = root().join("tests/it/contract-1.0.0.txt");
    let frozen = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        frozen.trim_end() == signature(),
        "policy.wit differs from tests/it/contract-1.0.0.txt: version 1 cannot change; make a version 2 beside it"
    );
}
