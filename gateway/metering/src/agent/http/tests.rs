//! The calls over real sockets, against a meter that these tests play.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream as Stream};

use crossbeam_channel::bounded;
use serde_json::{Value, json};

use super::*;
use crate::agent::jobs::Command;
use crate::agent::metrics::Observed;
use crate::agent::seen::Seen;
use crate::agent::state::State;
use crate::clock::Now;
use crate::tick::{Library, Tick};

struct Agent {
    control: SocketAddr,
    metrics: SocketAddr,
    published: Arc<Published>,
}

fn agent() -> Agent {
    let (commands, received) = bounded(1);
    thread::spawn(move || {
        for command in received {
            match command {
                Command::Start { answer, .. } => drop(answer.send(Ok(()))),
                Command::End { answer, .. } => drop(answer.send(true)),
            }
        }
    });
    let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = Ports { control: bind(), metrics: Some(bind()) };
    let (control, metrics) =
        (ports.control.local_addr().unwrap(), ports.metrics.as_ref().unwrap().local_addr().unwrap());
    let published = Arc::new(Published::default());
    let clock = Clock::from_fn(|| Now { wall_us: 0, mono_us: 5_000_000 });
    let seen = Arc::clone(&published);
    let observe = move || Observed { seen: seen.get(), now_us: 5_000_000, delivery: None, log_lines_dropped: 3 };
    let desk = Desk {
        book: Arc::new(Mutex::new(JobBook::new(Vec::new(), Arc::new(State::nowhere()), commands))),
        assignments: Vec::new(),
        published: Arc::clone(&published),
        delivery: None,
        metrics: Metrics::new(observe),
        clock,
        node: "gpu-07".to_owned(),
        tick: Duration::from_secs(1),
    };
    serve(ports, Arc::new(desk), bounded(1).0).unwrap();
    Agent { control, metrics, published }
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
    let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
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
        "PUT /jobs/acme/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n{}",
        "x".repeat(0x20000)
    );
    assert!(exchange(control, chunk.as_bytes()).starts_with("HTTP/1.1 413 "));
    let head = format!("GET /jobs HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
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
