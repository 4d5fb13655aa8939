//! What an operator sees: one log line a request without a secret in it, and metrics whose labels nobody else can make grow.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::{SECRET, TestGateway, fixture, text};
use crate::log_of_run;

/// The lines of one trace that say how its request ended.
fn answered(trace_id: &str) -> Vec<Value> {
    let lines = log_of_run::with(trace_id);
    let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["message"] == "answered").collect()
}

#[test]
fn each_request_is_one_line_that_says_what_it_was() {
    let gateway = TestGateway::start();
    let mut request = fixture("requests/w1.json");
    request["client_reference"] = "told-to-nobody".into();
    let quote = gateway.post("/v1/quotes", &request);
    let id = text(&quote.json(), "/id");
    let lines = answered(quote.header("x-trace-id").unwrap());
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!(
        (&line["level"], &line["method"], &line["route"]),
        (&"INFO".into(), &"POST".into(), &"/v1/quotes".into())
    );
    assert_eq!((line["status"].as_u64(), line["bytes"].as_u64()), (Some(201), Some(quote.bytes.len() as u64)));
    assert_eq!(line["quote"], id);
    // Under the one name that every line of a request has it by.
    assert_eq!((line.get("trace_id"), line["span"]["trace_id"].as_str()), (None, quote.header("x-trace-id")));
    assert!(line["duration_us"].as_u64().is_some() && line["timestamp"].is_string(), "{line}");
    assert!(log_of_run::with("told-to-nobody").is_empty(), "a body is in the log");
    let read = gateway.get(&format!("/v1/quotes/{id}?told-to-nobody=1"));
    let line = answered(read.header("x-trace-id").unwrap()).remove(0);
    assert_eq!((&line["route"], line["quote"].as_str()), (&"/v1/quotes/{id}".into(), Some(id.as_str())));
    let head = gateway.send("HEAD", "/v1/catalog", &[("Accept-Encoding", "gzip")], &[]);
    let line = answered(head.header("x-trace-id").unwrap()).remove(0);
    assert_eq!((line["bytes"].as_u64(), head.header("content-encoding")), (Some(0), None), "{line}");
    let lost = gateway.get("/v1/nothing-told-to-nobody");
    let line = answered(lost.header("x-trace-id").unwrap()).remove(0);
    assert_eq!((line["status"].as_u64(), line.get("route"), line.get("quote")), (Some(404), None, None), "{line}");
    assert!(log_of_run::with("told-to-nobody").is_empty(), "a path or a query is in the log");
}

/// Each gateway of this run looks for leaks when it stops; here, that it would find them.
#[test]
fn the_log_of_the_run_holds_no_key_and_no_token() {
    let gateway = TestGateway::start();
    let quote = gateway.post("/v1/quotes", &fixture("requests/w1.json")).json();
    let token = text(&quote, "/token");
    assert!(token.starts_with("eyJ"), "tokens begin otherwise: look for that");
    let signature = token.rsplit('.').next().unwrap();
    gateway.post_text("/v1/quotes", &format!("{{\"token\":\"{token}\"}}"));
    gateway.get(&format!("/v1/quotes/{token}"));
    for secret in [SECRET, &token, signature, "eyJ"] {
        assert_eq!(log_of_run::with(secret), Vec::<String>::new());
    }
    assert_eq!(log_of_run::leak(), None);
}

#[test]
fn hostile_paths_methods_and_names_make_no_series() {
    let gateway = TestGateway::start();
    gateway.post("/v1/quotes", &fixture("requests/w1.json"));
    for index in 0..100 {
        gateway.get(&format!("/nothing/{index}/\"}} 1").replace([' ', '"', '}'], "%22"));
        gateway.get(&format!("/v1/quotes/q_{index}"));
        gateway.send(&format!("BREW{index}"), "/healthz", &[], &[]);
        let mut request = fixture("requests/w1.json");
        request["plan"] = format!("plan-{index}").into();
        request["tenant_id"] = format!("tenant-{index}").into();
        gateway.post("/v1/quotes", &request);
    }
    let metrics = gateway.get("/metrics").body;
    let values = |label: &str| -> BTreeSet<String> {
        let pattern = format!("{label}=\"");
        let found = metrics.split(&pattern).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
        // Which gateway of the run was asked for the document is chance.
        found.filter(|value| value != "/openapi.json").collect()
    };
    let expected = ["/healthz", "/v1/quotes", "/v1/quotes/{id}", "unmatched"];
    assert_eq!(values("route").into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(values("method").into_iter().collect::<Vec<_>>(), ["GET", "POST", "other"]);
    assert_eq!(values("plan").into_iter().collect::<Vec<_>>(), ["gpu-standard", "none"]);
    assert_eq!(values("policy").len(), 6);
    let series = metrics.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < 400, "{series} series");
    for line in [
        "farebox_http_requests_total{route=\"unmatched\",method=\"GET\",status=\"404\"} 100",
        "farebox_http_requests_in_flight 1",
    ] {
        assert!(metrics.lines().any(|found| found == line), "no {line} in\n{metrics}");
    }
}
