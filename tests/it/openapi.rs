//! The OpenAPI document is checked in, so that a change of the API is seen in review, and it tells the truth.

use serde_json::Value;

use farebox::catalog::wire::{WirePlan, WirePriceBook, WireTenant};
use farebox::schema::document_of;

use crate::harness::{TestGateway, fixture, root};

#[test]
fn the_document_is_the_one_checked_in() {
    let served = TestGateway::start().get("/openapi.json").json();
    assert_is_checked_in("docs/openapi.json", &served);
    assert!(served["openapi"].as_str().unwrap().starts_with("3.1"));
}

/// The schemas of the data directory's files, for editors.
#[test]
fn the_schemas_of_files_are_the_ones_checked_in() {
    assert_is_checked_in("docs/schemas/plan.json", &document_of::<WirePlan>());
    assert_is_checked_in("docs/schemas/price-book.json", &document_of::<WirePriceBook>());
    assert_is_checked_in("docs/schemas/tenant.json", &document_of::<WireTenant>());
}

fn assert_is_checked_in(path: &str, document: &Value) {
    let file = root().join(path);
    let text = format!("{document:#}\n");
    if std::env::var_os("UPDATE_CASES").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &text).unwrap();
    }
    let checked_in = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(checked_in == text, "{path} is out of date; run `UPDATE_CASES=1 make test` and read the diff");
}

/// Each answer is valid against the schema that the document gives for it.
#[test]
fn answers_fit_the_document() {
    let gateway = TestGateway::start();
    gateway.observe("steady-82");
    let document = gateway.get("/openapi.json").json();
    let quote = gateway.post("/v1/quotes", &fixture("requests/w1.json")).json();
    assert_fits(&document, "Quote", &quote);
    let problem = gateway.post_text("/v1/quotes", "{}").json();
    assert_fits(&document, "Problem", &problem);
    assert_fits(&document, "QuoteRequest", &fixture("requests/w1.json"));
}

fn assert_fits(document: &Value, name: &str, value: &Value) {
    let schema = serde_json::json!({
        "$ref": format!("#/components/schemas/{name}"),
        "components": document["components"],
    });
    let violations = farebox::schema::Schema::compile(&schema).unwrap().violations(value);
    assert_eq!(violations, [], "{value}");
}
