//! Quotes over HTTP: the worked example to the last digit, the same twice, and what surrounds a quote.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{TestGateway, fixture, text};

/// SPEC §4, W1, with exactly the rows of SHAPES.md.
#[test]
fn w1_is_9300_10_with_every_reason_for_it() {
    let gateway = TestGateway::start();
    gateway.observe("steady-82");
    let answer = gateway.post("/v1/quotes", &fixture("requests/w1.json"));
    assert_eq!(answer.status, 201, "{}", answer.body);
    let quote = answer.json();
    let rows: Vec<_> = quote["lines"][0]["adjustments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let word = |name: &str| row[name].as_str().unwrap_or("").to_owned();
            [word("step"), word("kind"), word("code"), word("method"), word("rate"), word("amount")].join(" ")
        })
        .collect();
    let expected = [
        "framework premium pytorch_eager percent 0.15 1036.80",
        "features surcharge fsdp percent 0.2 1589.76",
        "features surcharge cuda_graphs percent 0.1 794.88",
        "image standard v2.6 percent 0 0.00",
        "isolation standard shared percent 0 0.00",
        "utilisation discount above_70 percent -0.1 -1033.344",
        "rounding rounding currency_exponent amount  0.004",
    ];
    assert_eq!(rows, expected);
    assert_eq!(
        quote["totals"],
        json!({"list":"6912.00","adjustments":"2388.10","subtotal":"9300.10","tax":"0.00","total":"9300.10"})
    );
    assert_eq!(quote["lines"][0]["quantity"], json!({"value":"576","unit":"gpu_hour"}));
    assert_eq!(text(&quote, "/lines/0/adjustments/5/reason"), "mean GPU utilisation 82 % over 7 d");
    assert_eq!(text(&quote, "/lines/0/adjustments/0/policy"), "framework-premium@1.0.0");
    assert_eq!(text(&quote, "/inputs/price_book"), "cn-2026@1");
    assert_eq!(text(&quote, "/inputs/snapshot/value"), "0.82");
    assert_eq!(quote["price_locked"], true);
    assert!(text(&quote, "/plan/id").starts_with("pl_"));
}

#[test]
fn the_same_request_twice_is_the_same_quote_at_the_same_fuel() {
    let gateway = TestGateway::start();
    gateway.observe("steady-82");
    let request = fixture("requests/w1.json");
    let first = gateway.post("/v1/quotes", &request);
    let second = gateway.post("/v1/quotes", &request);
    assert_eq!(first.header("etag"), second.header("etag"));
    let (mut first, mut second) = (first.json(), second.json());
    assert!(first["lines"][0]["adjustments"][0]["fuel"].as_u64().unwrap() > 0);
    assert_ne!(first["id"], second["id"]);
    for quote in [&mut first, &mut second] {
        for name in ["id", "decision_id", "created_at", "expires_at", "token", "links"] {
            quote.as_object_mut().unwrap().remove(name).unwrap();
        }
        quote["inputs"]["snapshot"].as_object_mut().unwrap().remove("age_ms").unwrap();
    }
    assert_eq!(first.to_string(), second.to_string());
}

#[test]
fn a_quote_can_be_read_again_and_outlives_its_expiry() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    let later_s = Arc::new(AtomicI64::new(0));
    let clock = {
        let later_s = Arc::clone(&later_s);
        let system = farebox::clock::Clock::system();
        farebox::clock::Clock::from_fn(move || {
            system.now() + jiff::SignedDuration::from_secs(later_s.load(Ordering::Relaxed))
        })
    };
    let gateway = TestGateway::start_with(clock, |_| {});
    let issued = gateway.post("/v1/quotes", &fixture("requests/w1.json"));
    let location = issued.header("location").unwrap().to_owned();
    let read = gateway.get(&location);
    assert_eq!((read.status, read.body.as_str()), (200, issued.body.as_str()));
    assert_eq!(read.header("cache-control"), Some("private, no-store"));
    later_s.store(16 * 60, Ordering::Relaxed);
    let expired = gateway.get(&location);
    assert_eq!(text(&expired.json(), "/status"), "expired");
    assert_eq!(expired.header("etag"), issued.header("etag"), "the ETag does not change with the status");
    assert_eq!(gateway.get("/v1/quotes/q_01arz3ndektsv4rrffq69g5fav").problem(), "not-found");
}

#[test]
fn ids_are_prefixed_and_time_ordered() {
    let gateway = TestGateway::start();
    let ids: Vec<String> = (0..3)
        .map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            text(&gateway.post("/v1/quotes", &fixture("requests/w1.json")).json(), "/id")
        })
        .collect();
    assert!(ids.iter().all(|id| id.starts_with("q_")), "{ids:?}");
    assert!(ids.is_sorted(), "{ids:?}");
}

#[test]
fn the_order_of_items_moves_no_amount() {
    let gateway = TestGateway::start();
    gateway.observe("steady-82");
    let item = |reference: &str, count: u64, hours: &str| {
        let mut item = fixture("requests/w1.json")["items"][0].clone();
        item["ref"] = reference.into();
        item["gpu_count"] = count.into();
        item["hours"] = hours.into();
        item
    };
    let items = [item("a", 8, "72"), item("b", 1, "0.25"), item("c", 3, "7.5")];
    let mut request = fixture("requests/w1.json");
    let amounts = |order: &[usize]| -> BTreeSet<(String, String)> {
        let mut request = request.clone();
        request["items"] = order.iter().map(|index| items[*index].clone()).collect();
        let quote = gateway.post("/v1/quotes", &request).json();
        let lines = quote["lines"].as_array().unwrap();
        lines.iter().map(|line| (text(line, "/ref"), text(line, "/amount"))).collect()
    };
    assert_eq!(amounts(&[0, 1, 2]), amounts(&[2, 0, 1]));
    assert_eq!(amounts(&[0, 1, 2]), amounts(&[1, 2, 0]));
    request["items"] = Value::Array(vec![]);
    assert_eq!(gateway.post("/v1/quotes", &request).status, 422);
}

#[test]
fn probes_and_metrics_answer() {
    let gateway = TestGateway::start();
    gateway.post("/v1/quotes", &fixture("requests/w1.json"));
    assert_eq!(gateway.get("/healthz").json(), json!({"status":"ok"}));
    let ready = gateway.get("/readyz");
    assert_eq!((ready.status, ready.json()["problems"].clone()), (200, json!([])));
    let metrics = gateway.get("/metrics").body;
    for name in ["farebox_quotes_total", "farebox_http_request_duration_seconds", "farebox_policy_step_fuel"] {
        assert!(metrics.contains(name), "no {name} in\n{metrics}");
    }
    assert!(metrics.ends_with("# EOF\n"));
}
