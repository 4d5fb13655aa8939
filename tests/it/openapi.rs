//! The OpenAPI document is checked in, so that a change of the API is seen in review, and it tells the truth.

use std::collections::BTreeSet;

use serde_json::Value;

use farebox::catalog::wire::{WirePlan, WirePriceBook, WireTenant};
use farebox::schema::{Schema, document_of};

use crate::conformance::Document;
use crate::harness::{TestGateway, root, updates_cases};

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
    if updates_cases() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &text).unwrap();
    }
    let checked_in = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(checked_in == text, "{path} is out of date; run `UPDATE_CASES=1 make test` and read the diff");
}

/// Against the schema of the OpenAPI Initiative (`tests/schemas/README.md`).
#[test]
fn the_document_is_valid_openapi_3_1() {
    let read =
        |path: &str| -> Value { serde_json::from_str(&std::fs::read_to_string(root().join(path)).unwrap()).unwrap() };
    let official = Schema::compile(&read("tests/schemas/openapi-3.1.json")).unwrap();
    let document = read("docs/openapi.json");
    assert_eq!(official.violations(&document), []);
    let mut broken = document.clone();
    broken["paths"]["/v1/quotes"]["post"]["responses"]["201"]["description"] = Value::Null;
    broken["surprise"] = 1.into();
    assert!(official.violations(&broken).len() >= 2, "the schema finds nothing");
    // What it leaves open: that every reference leads somewhere, and that operations have names of their own.
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(document.pointer(reference).is_some(), "{reference}");
    }
    let names: Vec<_> = text.split("\"operationId\":\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(names.len() >= 9 && names.iter().collect::<BTreeSet<_>>().len() == names.len(), "{names:?}");
}

/// Every example is a request that is answered as documented, or an answer that fits its schema.
#[test]
fn examples_are_requests_that_work_and_answers_that_fit() {
    let gateway = TestGateway::start();
    let json = gateway.get("/openapi.json").json();
    let document = Document::new(json.clone());
    let mut sent = 0;
    for (path, operations) in json["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let at = |rest: &str| format!("/paths/{}/{method}/{rest}", escape(path));
            let request = "requestBody/content/application~1json";
            for example in examples(&json, &at(request)) {
                document.check_value(&at(&format!("{request}/schema")), &example).unwrap();
                let first = *statuses(operation).first().unwrap();
                assert_eq!(gateway.post(path, &example).status, first, "{method} {path}");
                sent += 1;
            }
            for status in statuses(operation) {
                for media_type in ["application~1json", "application~1problem+json"] {
                    let content = at(&format!("responses/{status}/content/{media_type}"));
                    for example in examples(&json, &content) {
                        let fits = document.check_value(&format!("{content}/schema"), &example);
                        assert_eq!(fits, Ok(()), "{method} {path} {status}");
                        sent += 1;
                    }
                }
            }
        }
    }
    assert_eq!(sent, 6, "two requests and four answers");
}

fn examples(document: &Value, content: &str) -> Vec<Value> {
    let named = document.pointer(&format!("{content}/examples")).and_then(Value::as_object);
    named.into_iter().flatten().map(|(_, example)| example["value"].clone()).collect()
}

fn statuses(operation: &Value) -> Vec<u16> {
    operation["responses"].as_object().unwrap().keys().map(|status| status.parse().unwrap()).collect()
}

/// The answers among the examples are those that the gateway gives, but for what differs each time.
#[test]
fn example_answers_are_what_the_example_requests_get() {
    let gateway = TestGateway::start();
    gateway.observe("steady-82");
    let file = |name: &str| root().join("gateway/src/api/openapi").join(name);
    let read = |name: &str| -> Value { serde_json::from_str(&std::fs::read_to_string(file(name)).unwrap()).unwrap() };
    let request = read("quote_request.json");
    let mut wrong = request.clone();
    wrong["currency"] = "yuan".into();
    wrong["items"][0]["gpu_count"] = 0.into();
    let catalogue = "/v1/catalog?gpu_model=A100&currency=CNY&market=on_demand&region=cn-east-1";
    let answers = [
        ("quote_answer.json", gateway.post("/v1/quotes", &request).json()),
        ("quote_problem.json", gateway.post("/v1/quotes", &wrong).json()),
        ("catalog_answer.json", gateway.get(catalogue).json()),
    ];
    for (name, mut answer) in answers {
        settle(&mut answer);
        if updates_cases() {
            std::fs::write(file(name), format!("{answer:#}\n")).unwrap();
        }
        assert_eq!(read(name), answer, "{name} is out of date; run `UPDATE_CASES=1 make test` twice and read the diff");
    }
}

/// Puts one value in the place of each that differs from run to run.
fn settle(value: &mut Value) {
    const ID: &str = "01kbbq3f6xk2e4s8vw2x7c9t5m";
    let fixed = [
        ("/id", format!("q_{ID}")),
        ("/decision_id", format!("d_{ID}")),
        ("/links/self", format!("/v1/quotes/q_{ID}")),
        ("/links/accept", format!("/v1/quotes/q_{ID}/accept")),
        ("/created_at", "2026-12-01T00:00:00Z".to_owned()),
        ("/expires_at", "2026-12-01T00:15:00Z".to_owned()),
        ("/inputs/snapshot/observed_at", "2026-11-30T23:59:59.15Z".to_owned()),
        ("/token", "header.claims.signature".to_owned()),
        ("/trace_id", "4bf92f3577b34da6a3ce929d0e0e4736".to_owned()),
    ];
    for (pointer, text) in fixed {
        if let Some(found) = value.pointer_mut(pointer).filter(|found| found.is_string()) {
            *found = text.into();
        }
    }
    if let Some(age) = value.pointer_mut("/inputs/snapshot/age_ms") {
        *age = 850.into();
    }
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
