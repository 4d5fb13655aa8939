//! What browsers and proxies expect (`shared/cases/http.md` 10): CORS, `Vary`, `HEAD`, `OPTIONS`, `405`, gzip, `Host`.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::json;

use farebox::clock::Clock;
use farebox::serving::Origins;

use crate::harness::{Answer, TestGateway, fixture, text};

const SHOP: &str = "https://shop.example";

fn shared_with_the_shop() -> TestGateway {
    let origins = Origins::These(vec![SHOP.parse().unwrap(), "http://127.0.0.1:5173".parse().unwrap()]);
    TestGateway::start_with(Clock::system(), |config| config.http.origins = origins)
}

fn preflight(gateway: &TestGateway, origin: &str) -> Answer {
    let headers = [
        ("Origin", origin),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type,if-match"),
    ];
    gateway.send("OPTIONS", "/v1/quotes", &headers, &[])
}

/// The words of a header that is a list, lower-case.
fn list(answer: &Answer, name: &str) -> Vec<String> {
    let words = answer.headers.get_all(name).iter().flat_map(|value| value.to_str().unwrap().split(','));
    words.map(|word| word.trim().to_ascii_lowercase()).collect()
}

#[test]
fn the_pages_of_a_configured_origin_may_call() {
    let gateway = shared_with_the_shop();
    let allowed = preflight(&gateway, SHOP);
    assert_eq!(allowed.status, 200);
    assert_eq!(allowed.header("access-control-allow-origin"), Some(SHOP));
    assert!(list(&allowed, "access-control-allow-methods").contains(&"post".to_owned()));
    for header in ["content-type", "authorization", "if-match", "if-none-match", "idempotency-key", "traceparent"] {
        assert!(list(&allowed, "access-control-allow-headers").contains(&header.to_owned()), "{header}");
    }
    assert_eq!(allowed.header("access-control-max-age"), Some("3600"));
    let quote = gateway.send(
        "POST",
        "/v1/quotes",
        &[("Origin", SHOP), ("Content-Type", "application/json")],
        fixture("requests/w1.json").to_string().as_bytes(),
    );
    assert_eq!((quote.status, quote.header("access-control-allow-origin")), (201, Some(SHOP)));
    for header in ["location", "etag", "retry-after", "traceparent"] {
        assert!(list(&quote, "access-control-expose-headers").contains(&header.to_owned()), "{header}");
    }
    assert!(list(&quote, "vary").contains(&"origin".to_owned()));
    // A page reads its mistakes as well: problems carry the headers too.
    let problem = gateway.send("GET", "/v1/quotes/q_none", &[("Origin", SHOP)], &[]);
    assert_eq!((problem.status, problem.header("access-control-allow-origin")), (404, Some(SHOP)));
}

#[test]
fn other_pages_may_not_and_cookies_are_never_asked_for() {
    let gateway = shared_with_the_shop();
    for stranger in ["https://evil.example", "https://shop.example.evil.example", "http://shop.example", "null"] {
        let refused = preflight(&gateway, stranger);
        assert_eq!(refused.header("access-control-allow-origin"), None, "{stranger}");
        let read = gateway.send("GET", "/healthz", &[("Origin", stranger)], &[]);
        assert_eq!((read.status, read.header("access-control-allow-origin")), (200, None));
        assert!(list(&read, "vary").contains(&"origin".to_owned()), "or a cache would mix the two up");
    }
    assert_eq!(preflight(&gateway, SHOP).header("access-control-allow-credentials"), None);
    let closed = TestGateway::start();
    let refused = preflight(&closed, SHOP);
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (204, None), "none is the default");
    let open = TestGateway::start_with(Clock::system(), |config| config.http.origins = Origins::Any);
    assert_eq!(preflight(&open, "https://any.example").header("access-control-allow-origin"), Some("*"));
}

#[test]
fn options_and_405_say_what_is_allowed() {
    for gateway in [TestGateway::start(), shared_with_the_shop()] {
        for (path, allowed) in [
            ("/v1/quotes", "POST,OPTIONS"),
            ("/v1/quotes/q_1", "GET,HEAD,OPTIONS"),
            ("/v1/catalog", "GET,HEAD,OPTIONS"),
            ("/v1/tenants/acme/usage", "GET,HEAD,OPTIONS"),
            ("/healthz", "GET,HEAD,OPTIONS"),
            ("/docs", "GET,HEAD,OPTIONS"),
        ] {
            let options = gateway.send("OPTIONS", path, &[], &[]);
            assert_eq!((options.status, options.header("allow"), options.body.as_str()), (204, Some(allowed), ""));
            for method in ["DELETE", "PUT", "PATCH", "TRACE", "BREW"] {
                let refused = gateway.send(method, path, &[], &[]);
                assert_eq!((refused.status, refused.header("allow")), (405, Some(allowed)), "{method} {path}");
                assert_eq!(refused.problem(), "invalid-request");
            }
        }
        assert_eq!(gateway.send("OPTIONS", "/nowhere", &[], &[]).status, 404);
    }
}

#[test]
fn head_is_get_without_the_body() {
    let gateway = TestGateway::start();
    let quote = gateway.post("/v1/quotes", &fixture("requests/w1.json"));
    let paths = [quote.header("location").unwrap(), "/v1/catalog", "/healthz", "/readyz", "/openapi.json", "/docs"];
    for path in paths {
        let (get, head) = (gateway.get(path), gateway.send("HEAD", path, &[], &[]));
        assert_eq!((head.status, head.bytes.len()), (200, 0), "{path}");
        for name in ["content-type", "content-length", "etag", "cache-control"] {
            assert_eq!(head.header(name), get.header(name), "{name} of {path}");
        }
        assert!(head.header("content-length").is_some());
    }
    let missing = gateway.send("HEAD", "/v1/quotes/q_none", &[], &[]);
    assert_eq!((missing.status, missing.bytes.len()), (404, 0));
    assert_eq!(gateway.send("HEAD", "/v1/quotes", &[], &[]).status, 405);
}

#[test]
fn long_answers_are_compressed_for_those_who_ask() {
    let gateway = TestGateway::start();
    let json = ("Content-Type", "application/json");
    let item = fixture("requests/w1.json")["items"][0].clone();
    let items: Vec<_> = (0..20)
        .map(|index| {
            let mut item = item.clone();
            item["ref"] = format!("r{index}").into();
            item
        })
        .collect();
    let long = json!({"tenant_id":"acme","currency":"CNY","items":items}).to_string();
    let ask =
        |accepted: &str| gateway.send("POST", "/v1/quotes", &[json, ("Accept-Encoding", accepted)], long.as_bytes());
    let (plain, packed) = (ask("identity"), ask("br, gzip;q=0.8"));
    assert_eq!((plain.header("content-encoding"), packed.header("content-encoding")), (None, Some("gzip")));
    for answer in [&plain, &packed] {
        assert!(list(answer, "vary").contains(&"accept-encoding".to_owned()));
        assert_eq!(answer.header("content-length").unwrap(), answer.bytes.len().to_string());
    }
    let tag = plain.header("etag").unwrap().trim_end_matches('"').to_owned();
    assert_eq!(packed.header("etag"), Some(format!("{tag}-gzip\"").as_str()), "another encoding, another tag");
    let unpacked: serde_json::Value = serde_json::from_slice(&gunzip(&packed.bytes)).unwrap();
    assert_eq!(unpacked["totals"], plain.json()["totals"]);
    assert_eq!(text(&unpacked, "/lines/19/ref"), "r19");
    let short = gateway.send(
        "POST",
        "/v1/quotes",
        &[json, ("Accept-Encoding", "gzip")],
        fixture("requests/w1.json").to_string().as_bytes(),
    );
    assert_eq!((short.header("content-encoding"), short.header("vary")), (None, None));
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut child = Command::new("gzip").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, sent) = (child.stdin.take().unwrap(), bytes.to_vec());
    let writer = std::thread::spawn(move || stdin.write_all(&sent).unwrap());
    let mut plain = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut plain).unwrap();
    writer.join().unwrap();
    assert!(child.wait().unwrap().success());
    plain
}

#[test]
fn a_request_names_one_host() {
    let gateway = TestGateway::start();
    for head in [
        "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n",
        "POST /v1/quotes HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        "GET /nowhere HTTP/1.1\r\nConnection: close\r\n\r\n",
    ] {
        let refused = gateway.send_raw(head);
        assert_eq!((refused.status, refused.problem().as_str()), (400, "invalid-request"), "{head}");
    }
    for head in ["GET /healthz HTTP/1.0\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"] {
        assert_eq!(gateway.send_raw(head).status, 200, "{head}");
    }
}

#[test]
fn a_trace_is_carried_on() {
    let gateway = TestGateway::start();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let answer = gateway.send("GET", "/v1/quotes/q_none", &[("traceparent", parent)], &[]);
    assert_eq!(text(&answer.json(), "/trace_id"), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(answer.header("x-trace-id"), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
    let carried = answer.header("traceparent").unwrap();
    assert!(carried.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && carried != parent, "{carried}");
}
