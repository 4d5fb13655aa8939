//! Bad input over HTTP: `shared/cases/http.md` 1–3, 9, 10, 13 and `money.md` 7, 9, 11.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, TestGateway, fixture, text};

/// W1 with one member of its item replaced.
fn w1_with(member: &str, value: Value) -> Value {
    let mut request = fixture("requests/w1.json");
    request["items"][0][member] = value;
    request
}

fn assert_problem(answer: &Answer, status: u16, problem: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert_eq!(answer.problem(), problem);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let json = answer.json();
    for member in ["type", "title", "status", "detail", "instance", "trace_id"] {
        assert!(json.get(member).is_some(), "no {member} in {json}");
    }
    assert_eq!(json["status"], status);
}

#[test]
fn every_violation_comes_in_one_answer_with_its_pointer() {
    let gateway = TestGateway::start();
    let body = json!({
        "tenant_id": "acme", "currency": "yuan", "surprise": 1,
        "items": [
            {"ref":"a","gpu_model":"A100","region":"cn-east-1","gpu_count":0,"hours":"72"},
            {"ref":"a","gpu_model":"A100","region":"cn-east-1","gpu_count":1,"hours":"1","seconds":3600},
            {"ref":"c","region":7,"gpu_count":"8","hours":"1e3","workload":{"execution":"fast","features":["fsdp","fsdp"]}},
        ],
    });
    let answer = gateway.post("/v1/quotes", &body);
    assert_problem(&answer, 422, "invalid-request");
    let pointers = answer.pointers();
    for pointer in [
        "/surprise",
        "/currency",
        "/items/0/gpu_count",
        "/items/2/gpu_model",
        "/items/2/region",
        "/items/2/gpu_count",
        "/items/2/hours",
        "/items/2/workload/execution",
    ] {
        assert!(pointers.iter().any(|found| found == pointer), "no {pointer} in {pointers:?}");
    }
    // What no schema can state is told together as well, once the shape is right.
    let body = json!({
        "tenant_id": "acme", "currency": "CNY",
        "items": [
            {"ref":"a","gpu_model":"A100","region":"cn-east-1","gpu_count":1,"hours":"0.0001"},
            {"ref":"a","gpu_model":"A100","region":"cn-east-1","gpu_count":1,"hours":"1","seconds":3600},
            {"ref":"c","gpu_model":"A100","region":"cn-east-1","gpu_count":1,"hours":"1","workload":{"features":["fsdp","fsdp"]}},
            {"ref":"d","gpu_model":"A100","region":"cn-east-1","gpu_count":1,"billing":"task"},
        ],
    });
    let answer = gateway.post("/v1/quotes", &body);
    assert_problem(&answer, 422, "invalid-request");
    let expected =
        ["/items/0/hours", "/items/1/ref", "/items/1/seconds", "/items/2/workload/features/1", "/items/3/task"];
    assert_eq!(answer.pointers(), expected);
}

#[test]
fn impossible_requests_are_422_and_say_what_is_possible() {
    let gateway = TestGateway::start();
    let cases = [
        (w1_with("gpu_model", json!("Z9000")), "unknown-price", "/items/0/gpu_model"),
        (w1_with("region", json!("mars-1")), "unknown-price", "/items/0/region"),
        (w1_with("hours", json!("0")), "invalid-request", "/items/0/hours"),
        (w1_with("hours", json!("-1")), "invalid-request", "/items/0/hours"),
        (w1_with("hours", json!("87601")), "invalid-request", "/items/0/hours"),
        (w1_with("gpu_count", json!(1_000_000_000)), "invalid-request", "/items/0/gpu_count"),
        (w1_with("gpu_count", json!(-1)), "invalid-request", "/items/0/gpu_count"),
        (w1_with("memory_gib", json!("12345678901234567890123456789")), "invalid-request", "/items/0/memory_gib"),
        (w1_with("workload", json!({"image":"v9.9"})), "policy-refused", "/items/0/workload/image"),
        (w1_with("workload", json!({"features":["fsdp","warp"]})), "policy-refused", "/items/0/workload/features/1"),
    ];
    for (body, problem, pointer) in cases {
        let answer = gateway.post("/v1/quotes", &body);
        assert_problem(&answer, 422, problem);
        assert_eq!(answer.pointers(), [pointer], "{}", answer.body);
    }
    let mut other_currency = fixture("requests/w1.json");
    other_currency["currency"] = "USD".into();
    other_currency["plan"] = "gpu-standard".into();
    let answer = gateway.post("/v1/quotes", &other_currency);
    assert_problem(&answer, 422, "invalid-request");
    assert_eq!(answer.pointers(), ["/currency"]);
    let mut stranger = fixture("requests/w1.json");
    stranger["tenant_id"] = "nobody".into();
    assert_eq!(gateway.post("/v1/quotes", &stranger).pointers(), ["/tenant_id"]);
}

#[test]
fn decimals_are_read_digit_for_digit_as_strings_and_as_numbers() {
    let gateway = TestGateway::start();
    gateway.observe("steady-82");
    let with_hours = |literal: &str| {
        let request = w1_with("hours", json!("HOURS")).to_string().replace("\"HOURS\"", literal);
        gateway.post_text("/v1/quotes", &request)
    };
    for literal in ["72", "72.0", "\"72\"", "\"72.00\"", "72.000000000000"] {
        assert_eq!(with_hours(literal).total(), "9300.10", "{literal}");
    }
    assert_eq!(text(&with_hours("0.25").json(), "/lines/0/quantity/value"), "2");
    for literal in [
        "7.2e1",
        "0.1e-400",
        "1e400",
        "\"7.2e1\"",
        "\"072\"",
        "\"+72\"",
        "\" 72\"",
        "\"\"",
        "\"72.\"",
        "\"七\"",
        "0.00000000000000000000000000001",
    ] {
        let answer = with_hours(literal);
        assert_problem(&answer, 422, "invalid-request");
        assert_eq!(answer.pointers(), ["/items/0/hours"], "{literal}");
    }
    assert_problem(&with_hours("NaN"), 400, "malformed-json");
}

#[test]
fn malformed_and_hostile_bodies_are_refused_in_bounded_time() {
    let gateway = TestGateway::start();
    let w1 = fixture("requests/w1.json").to_string();
    let depth_bomb = "[".repeat(200_000);
    let duplicate = w1.replacen("{", "{\"tenant_id\":\"globex\",", 1);
    let malformed: [&[u8]; 8] = [
        b"",
        b"{",
        b"\xff\xfe",
        depth_bomb.as_bytes(),
        duplicate.as_bytes(),
        b"{\"tenant_id\":\"\\ud800\"}",
        "\u{feff}{}".as_bytes(),
        b"{} trailing",
    ];
    for body in malformed {
        assert_problem(&gateway.post_bytes("/v1/quotes", body), 400, "malformed-json");
    }
    for body in [b"null".as_slice(), b"[]", b"7", b"\"quote\"", b"{}"] {
        assert_problem(&gateway.post_bytes("/v1/quotes", body), 422, "invalid-request");
    }
    let wrong_type = gateway.send("POST", "/v1/quotes", &[("Content-Type", "text/plain")], w1.as_bytes());
    assert_problem(&wrong_type, 415, "invalid-request");
    let many = vec![fixture("requests/w1.json")["items"][0].clone(); 101];
    let answer = gateway.post("/v1/quotes", &json!({"tenant_id":"acme","currency":"CNY","items":many}));
    assert_problem(&answer, 422, "invalid-request");
    assert_eq!(gateway.post("/v1/quotes", &fixture("requests/w1.json")).status, 201, "it still quotes");
}

/// A megabyte of small mistakes costs no more than one: values and violations are counted before anything is compared.
#[test]
fn a_body_that_is_wrong_all_over_is_refused_in_bounded_time_and_space() {
    let gateway = TestGateway::start();
    let zeros = format!(r#"{{"tenant_id":"acme","currency":"CNY","items":[{}0]}}"#, "0,".repeat(500_000));
    assert_problem(&gateway.post_text("/v1/quotes", &zeros), 400, "malformed-json");
    assert_problem(&gateway.post_text("/v1/usage-snapshots", &zeros), 400, "malformed-json");
    let many = format!(r#"{{"tenant_id":"acme","currency":"CNY","items":[{}0]}}"#, "0,".repeat(15_000));
    for body in [&many, &many.replace("0,", "1e5,")] {
        let answer = gateway.post_text("/v1/quotes", body);
        assert_problem(&answer, 422, "invalid-request");
        assert!(answer.pointers().len() <= 2_000 && answer.body.len() < 500_000, "{}", answer.body.len());
    }
}

#[test]
fn integers_are_written_without_a_point_and_the_pointer_says_where() {
    let gateway = TestGateway::start();
    let body = w1_with("gpu_count", json!(8)).to_string().replace("\"gpu_count\":8", "\"gpu_count\":8.0");
    let answer = gateway.post_text("/v1/quotes", &body);
    assert_problem(&answer, 422, "invalid-request");
    assert_eq!(answer.pointers(), ["/items/0/gpu_count"]);
}

#[test]
fn large_bodies_are_refused_with_and_without_a_declared_length() {
    let gateway = TestGateway::start();
    let mut declared = TcpStream::connect(gateway.address).unwrap();
    write!(
        declared,
        "POST /v1/quotes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10485760\r\n\r\n"
    )
    .unwrap();
    assert!(first_line(&mut declared).contains(" 413 "));
    let mut chunked = TcpStream::connect(gateway.address).unwrap();
    write!(
        chunked,
        "POST /v1/quotes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    .unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let mut sent = 0;
    // The server answers and closes long before this chunked body would end.
    while sent < 64 && chunked.write_all(chunk.as_bytes()).is_ok() {
        sent += 1;
    }
    assert!(first_line(&mut chunked).contains(" 413 "), "after {sent} chunks");
}

#[test]
fn slow_headers_and_a_client_that_leaves_cost_nothing() {
    let gateway = TestGateway::start_with(farebox::clock::Clock::system(), |config| {
        config.http.serving.header_read_timeout = Duration::from_millis(300);
        config.http.serving.body_read_timeout = Duration::from_millis(300);
    });
    let mut slow = TcpStream::connect(gateway.address).unwrap();
    write!(slow, "POST /v1/quotes HTTP/1.1\r\nHost: x\r\n").unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    slow.read_to_end(&mut answer).expect("the connection is closed before the client gives up");
    let mut endless = TcpStream::connect(gateway.address).unwrap();
    write!(
        endless,
        "POST /v1/quotes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    )
    .unwrap();
    assert!(first_line(&mut endless).contains(" 408 "));
    drop(TcpStream::connect(gateway.address).unwrap());
    assert_eq!(gateway.post("/v1/quotes", &fixture("requests/w1.json")).status, 201);
}

#[test]
fn shutdown_answers_what_was_accepted_and_refuses_the_rest() {
    let mut gateway = TestGateway::start();
    let mut accepted = TcpStream::connect(gateway.address).unwrap();
    let body = fixture("requests/w1.json").to_string();
    write!(
        accepted,
        "POST /v1/quotes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        body.len(),
        &body[..10]
    )
    .unwrap();
    // The request is on its way when the stop comes; the rest of its body follows a little later.
    std::thread::sleep(Duration::from_millis(200));
    let rest = body[10..].to_owned();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        accepted.write_all(rest.as_bytes()).unwrap();
        first_line(&mut accepted)
    });
    gateway.stop();
    assert!(sender.join().unwrap().contains(" 201 "));
    assert!(TcpStream::connect(gateway.address).is_err(), "the socket is closed");
}

#[test]
fn paths_that_are_not_there() {
    let gateway = TestGateway::start();
    assert_problem(&gateway.get("/v2/quotes"), 404, "not-found");
    assert_problem(&gateway.get("/v1/quotes/%ff"), 404, "not-found");
    assert_problem(&gateway.get("/v1/quotes/../../etc/passwd"), 404, "not-found");
}

/// A reference is the caller's own text: it comes back as it was, escaped as JSON, and control characters do not pass.
#[test]
fn text_from_the_caller_is_data() {
    let gateway = TestGateway::start();
    let mut request = fixture("requests/w1.json");
    request["client_reference"] = "<script>alert(1)</script> =HYPERLINK(\"x\") 価格".into();
    let quote = gateway.post("/v1/quotes", &request);
    assert_eq!(quote.json()["client_reference"], request["client_reference"]);
    for control in ["\u{1b}[31m", "a\u{0}b", "line\nbreak"] {
        request["client_reference"] = control.into();
        assert_eq!(gateway.post("/v1/quotes", &request).pointers(), ["/client_reference"]);
    }
}

fn first_line(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => answer.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}
