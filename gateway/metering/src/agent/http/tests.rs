//! The calls over real sockets, against a meter that these tests play.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream as Stream};

use crossbeam_channel::bounded;
use serde_json::{Value, json};

use super::*;
use crate::agent::jobs::{Aftermath, Command};
use crate::agent::metrics::Observed;
use crate::agent::seen::Seen;
use crate::agent::state::{Kept, State};
use crate::clock::Now;
use crate::tick::{Library, Tick};

struct Agent {
    control: SocketAddr,
    metrics: SocketAddr,
    published: Arc<Published>,
}

fn agent() -> Agent {
    agent_with(None)
}

fn agent_with(token: Option<Token>) -> Agent {
    let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = Ports { control: bind(), metrics: Some(bind()) };
    let (control, metrics) =
        (ports.control.local_addr().unwrap(), ports.metrics.as_ref().unwrap().local_addr().unwrap());
    let (desk, published) = desk(token);
    serve(ports, Arc::new(desk), bounded(1).0).unwrap();
    Agent { control, metrics, published }
}

fn desk(token: Option<Token>) -> (Desk, Arc<Published>) {
    let (commands, received) = bounded(1);
    thread::spawn(move || {
        for command in received {
            match command {
                Command::Start { answer, .. } => drop(answer.send(Ok(()))),
                Command::End { answer, .. } => drop(answer.send(true)),
            }
        }
    });
    let published = Arc::new(Published::default());
    let clock = Clock::from_fn(|| Now { wall_us: 0, mono_us: 5_000_000 });
    let seen = Arc::clone(&published);
    let observe = move || Observed { seen: seen.get(), now_us: 5_000_000, delivery: None, log_lines_dropped: 3 };
    let book = JobBook::new(Kept::default(), Arc::new(State::nowhere()), commands, Aftermath::default());
    let desk = Desk {
        book: Arc::new(Mutex::new(book)),
        assignments: Vec::new(),
        published: Arc::clone(&published),
        delivery: None,
        metrics: Metrics::new(observe),
        token,
        clock,
        node: "gpu-07".to_owned(),
        tick: Duration::from_secs(1),
    };
    (desk, published)
}

/// Sends bytes as they are, and reads to the end.
fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = Stream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // An answer may come before all is sent.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}");
    let answer = exchange(address, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
}

const BODY: &str = r#"{"parts":[{"gpu":"GPU-1","instance":"1/0","share":"0.25"}]}"#;

#[test]
fn a_job_is_started_once_and_ended_once() {
    let control = agent().control;
    let (status, body) = call(control, "PUT", "/jobs/acme/job%2F9%20%C3%BC", BODY);
    assert_eq!((status, &body["job"]), (201, &json!("job/9 ü")));
    assert_eq!(call(control, "PUT", "/jobs/acme/job%2f9%20%c3%bc", BODY).0, 200);
    let (status, problem) = call(control, "PUT", "/jobs/acme/job%2F9%20%C3%BC", r#"{"parts":[{"gpu":"GPU-1"}]}"#);
    assert_eq!((status, &problem["type"]), (409, &json!("/problems/job-conflict")));
    let (_, jobs) = call(control, "GET", "/jobs", "");
    assert_eq!(jobs["jobs"][0]["parts"], json!([{"gpu":"GPU-1","instance":"1/0","share":"0.25"}]));
    let (status, body) = call(control, "DELETE", "/jobs/acme/job%2F9%20%C3%BC?reason=preempted", "");
    assert_eq!((status, &body["reason"]), (200, &json!("preempted")));
    assert_eq!(call(control, "DELETE", "/jobs/acme/job%2F9%20%C3%BC", "").0, 404);
}

#[test]
fn what_cannot_be_is_refused_as_a_problem() {
    let control = agent().control;
    let nested = "[".repeat(1000);
    for (method, path, body, status) in [
        ("PUT", "/jobs/acme/1", "", 400),
        ("PUT", "/jobs/acme/1", "{", 400),
        ("PUT", "/jobs/acme/1", nested.as_str(), 400),
        ("PUT", "/jobs/acme/1", "{}", 422),
        ("PUT", "/jobs/_idle/1", BODY, 422),
        ("PUT", "/jobs/acme/", BODY, 422),
        ("PUT", "/jobs/acme/%ff", BODY, 400),
        ("PUT", "/jobs/acme/%4", BODY, 400),
        ("PUT", "/jobs/acme/1/2", BODY, 404),
        ("POST", "/jobs/acme/1", BODY, 405),
        ("DELETE", "/jobs", "", 405),
        ("POST", "/healthz", "", 405),
        ("DELETE", "/jobs/acme/1?reason=bored", "", 400),
        ("DELETE", "/jobs/acme/1?reason=ended&reason=preempted", "", 400),
        ("GET", "/", "", 404),
        ("GET", "/debug", "", 404),
    ] {
        let (answered, problem) = call(control, method, path, body);
        assert_eq!(answered, status, "{method} {path} {body}");
        assert_eq!(problem["status"], json!(status));
        assert!(problem["type"].as_str().unwrap().starts_with("/problems/"), "{problem}");
        assert!(problem["detail"].is_string() && problem["title"].is_string() && problem["instance"].is_string());
    }
    let (_, problem) = call(control, "PUT", "/jobs/acme/1", r#"{"parts":[{"gpu":"0","share":"2"}]}"#);
    assert_eq!(problem["errors"].as_array().unwrap().len(), 2);
}

#[test]
fn bodies_and_heads_are_bounded() {
    let control = agent().control;
    let body = format!(r#"{{"pods":["{}"]}}"#, "x".repeat(64 << 10));
    assert_eq!(call(control, "PUT", "/jobs/acme/1", &body).0, 413);
    // Though it does not say how long it is.
    let chunk = format!(
        "PUT /jobs/acme/1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n{}",
        "x".repeat(0x20000)
    );
    assert!(exchange(control, chunk.as_bytes()).starts_with("HTTP/1.1 413 "));
    let head = format!("GET /jobs HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    assert!(exchange(control, head.as_bytes()).starts_with("HTTP/1.1 431 "));
    assert!(exchange(control, b"\x16\x03\x01 not HTTP\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

#[test]
fn connections_beyond_the_limit_are_closed_and_the_other_port_answers() {
    let agent = agent();
    let idle: Vec<_> = (0..MOST_CONNECTIONS + 8).map(|_| Stream::connect(agent.control).unwrap()).collect();
    // Accepting goes on, so that those beyond are seen and closed: the last ends, the first waits.
    let mut last = idle.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(last.read(&mut [0]).unwrap_or_default(), 0);
    assert_eq!(call(agent.metrics, "GET", "/metrics", "").0, 200);
}

#[test]
fn the_metrics_port_takes_no_job_calls() {
    let agent = agent();
    assert_eq!(call(agent.metrics, "PUT", "/jobs/acme/1", BODY).0, 404);
    assert_eq!(call(agent.metrics, "GET", "/jobs", "").0, 404);
    let (status, text) = call(agent.metrics, "GET", "/metrics", "");
    assert_eq!(status, 200);
    assert!(text.as_str().unwrap().contains("farebox_agent_log_lines_dropped_total 3\n"));
}

#[test]
fn health_is_503_until_ticks_come() {
    let agent = agent();
    let (status, body) = call(agent.control, "GET", "/healthz", "");
    assert_eq!((status, &body["status"], &body["last_tick_age_ms"]), (503, &json!("starting"), &json!(null)));
    let (devices, xids) = (Vec::new(), Vec::new());
    let tick = Tick { wall_us: 0, mono_us: 0, library_run: 1, library: Library::Present, devices, xids };
    agent.published.set(Seen { tick: Some(Arc::new(tick)), at_us: 4_000_000, ..Seen::default() });
    let (status, body) = call(agent.metrics, "GET", "/healthz", "");
    assert_eq!((status, &body["status"], &body["last_tick_age_ms"]), (200, &json!("ok"), &json!(1000)));
}

#[test]
fn job_calls_need_the_token_where_there_is_one() {
    let agent = agent_with(Some(Token::parse("0123456789abcdef").unwrap()));
    let send = |method: &str, path: &str, authorization: &str| {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:9411\r\n{authorization}Content-Length: {}\r\n\r\n{BODY}",
            BODY.len()
        );
        exchange(agent.control, request.as_bytes())
    };
    for authorization in ["", "Authorization: Bearer 0123456789abcdeg\r\n", "Authorization: Basic eDp5\r\n"] {
        for (method, path) in
            [("PUT", "/jobs/acme/1"), ("DELETE", "/jobs/acme/1"), ("GET", "/jobs"), ("GET", "/jobs/acme/1")]
        {
            let answer = send(method, path, authorization);
            assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("www-authenticate: Bearer"), "{answer}");
            assert!(answer.contains("/problems/unauthenticated"), "{answer}");
        }
    }
    let right = "Authorization: Bearer 0123456789abcdef\r\n";
    assert!(send("PUT", "/jobs/acme/1", right).starts_with("HTTP/1.1 201 "));
    assert!(send("GET", "/metrics", "").starts_with("HTTP/1.1 200 "));
    assert!(send("GET", "/healthz", "").starts_with("HTTP/1.1 503 "), "health needs none");
}

#[test]
fn what_a_web_page_makes_a_browser_send_is_refused() {
    let agent = agent();
    let send = |address, uri: &str, headers: &str| {
        let answer = exchange(address, format!("GET {uri} HTTP/1.1\r\n{headers}\r\n").as_bytes());
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    for host in ["localhost", "LOCALHOST:9411", "127.0.0.1:9411", "127.8.0.1", "[::1]", "[::1]:9411"] {
        assert_eq!(send(agent.control, "/jobs", &format!("Host: {host}\r\n")), 200, "{host}");
    }
    for host in ["evil.example:9411", "localhost.evil.example", "10.0.0.7", "[::2]:9411", "", "\u{fc}"] {
        assert_eq!(send(agent.control, "/jobs", &format!("Host: {host}\r\n")), 403, "{host}");
    }
    assert_eq!(send(agent.control, "http://evil.example/jobs", "Host: localhost\r\n"), 403);
    assert_eq!(send(agent.control, "/jobs", "Host: localhost\r\nOrigin: http://localhost:9411\r\n"), 403);
    assert_eq!(send(agent.metrics, "/metrics", "Host: gpu-07:9412\r\n"), 200, "scrapers are on other hosts");
}

#[test]
fn calls_keep_their_order_and_one_that_was_abandoned_before_it_began_is_not_done() {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    let (desk, _) = desk(None);
    let desk = Arc::new(desk);
    runtime.block_on(async {
        let (order, done) = crossbeam_channel::unbounded();
        let (begin, begun) = bounded::<()>(1);
        let (first, at_once) = (order.clone(), Arc::clone(&desk));
        let waiting = tokio::spawn(async move {
            let work = move |_: &mut JobBook| {
                begun.recv().unwrap();
                first.send(1).unwrap();
                Ok(())
            };
            calls::with_book(&at_once, work).await.is_ok()
        });
        tokio::task::yield_now().await;
        let work = |number: u32| {
            let order = order.clone();
            move |_: &mut JobBook| {
                order.send(number).unwrap();
                Ok(())
            }
        };
        // Asked for, and dropped before the first has ended.
        assert!(timeout(Duration::ZERO, calls::with_book(&desk, work(2))).await.is_err());
        begin.send(()).unwrap();
        calls::with_book(&desk, work(3)).await.unwrap();
        assert!(waiting.await.unwrap());
        assert_eq!(done.try_iter().collect::<Vec<_>>(), [1, 3]);
    });
}
