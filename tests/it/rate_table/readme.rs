//! The policy's README is a reference by examples: each of its TOML blocks is a step that a plan takes.

use farebox::catalog::Catalog;
use farebox_sandbox::{Limits, Sandbox};

use crate::harness::{Folder, policies, root};

#[test]
fn every_example_of_the_readme_is_a_step_without_problems() {
    let readme = std::fs::read_to_string(root().join("policies/rate-table/README.md")).unwrap();
    let blocks: Vec<&str> = readme.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 6, "only {} examples", blocks.len());
    let directory = Folder::with("rate-table-readme", &["plans", "price-books", "tenants", "policies"]);
    let book = "price-books/cn-2026.toml";
    std::fs::copy(root().join("fixtures").join(book), directory.join(book)).unwrap();
    for (number, block) in blocks.iter().enumerate() {
        let step = "[[steps]]\nid = \"table\"\npolicy = \"rate-table@1.0.0\"\n";
        let step = if block.contains("[[steps]]") { "" } else { step };
        let matching = if block.contains("matching") { "" } else { "[steps.parameters]\nmatching = \"first\"\n" };
        let head = format!("name = \"example-{number}\"\ncurrency = \"CNY\"\nprice_book = \"cn-2026\"\n");
        std::fs::write(directory.join(format!("plans/{number}.toml")), format!("{head}{step}{matching}{block}"))
            .unwrap();
    }
    let only = directory.join("policies");
    std::fs::copy(policies().join("rate-table.wasm"), only.join("rate-table.wasm")).unwrap();
    let catalog = Catalog::load(&directory, &only, &Sandbox::new(Limits::standard()).unwrap());
    let problems: Vec<String> = catalog.problems.iter().map(ToString::to_string).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(catalog.plans.len(), blocks.len());
}
