//! `GET /v1/tenants/{id}/usage` as events: that they come and end, how many there may be, and what a stalled reader costs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use farebox::clock::Clock;
use farebox::config::Config;
use farebox::serving::Origins;
use serde_json::{Value, json};

use crate::harness::{TestGateway, snapshot};

const PATH: &str = "/v1/tenants/acme/usage";
const EVENTS: &[(&str, &str)] = &[("Accept", "text/event-stream")];

/// A client that reads an answer as it comes.
struct Stream {
    reader: BufReader<TcpStream>,
    head: Vec<String>,
}

impl Stream {
    fn open(gateway: &TestGateway, headers: &str) -> Self {
        let mut stream = TcpStream::connect(gateway.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {PATH} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n{headers}\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        while head.last().is_none_or(|line: &String| !line.is_empty()) {
            let mut line = String::new();
            assert!(reader.read_line(&mut line).unwrap() > 0, "{head:?}");
            head.push(line.trim_end().to_ascii_lowercase());
        }
        Self { reader, head }
    }

    fn has(&self, line: &str) -> bool {
        self.head.iter().any(|found| found == line)
    }

    /// The next chunk; `None` after the last one, which is an empty one. A connection that is cut has no last one.
    fn chunk(&mut self) -> Option<String> {
        let mut length = String::new();
        self.reader.read_line(&mut length).unwrap();
        let length = usize::from_str_radix(length.trim_end(), 16).unwrap_or_else(|_| panic!("the stream was cut"));
        let mut bytes = vec![0; length + 2];
        self.reader.read_exact(&mut bytes).unwrap();
        bytes.truncate(length);
        (length > 0).then(|| String::from_utf8(bytes).unwrap())
    }

    /// The document of the next event.
    fn event(&mut self) -> Option<Value> {
        let chunk = self.chunk()?;
        let event = chunk.strip_prefix("retry: 2000\n\n").unwrap_or(&chunk);
        let data = event.strip_prefix("event: usage\ndata: ").unwrap_or_else(|| panic!("{event}"));
        let document = data.strip_suffix("\n\n").unwrap_or_else(|| panic!("{data}"));
        assert!(!document.contains('\n'), "one line");
        Some(serde_json::from_str(document).unwrap())
    }
}

fn gateway(change: impl FnOnce(&mut Config)) -> TestGateway {
    let gateway = TestGateway::start_with(Clock::system(), change);
    gateway.observe("steady-82");
    gateway
}

fn until_open(gateway: &TestGateway, count: usize) {
    let line = format!("farebox_http_streams_open {count}");
    for _ in 0..6_000 {
        if gateway.get("/metrics").body.lines().any(|found| found == line) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("there never were {count} streams");
}

#[test]
fn events_come_each_second_with_what_is_known_then() {
    // A stream outlasts what limits a request and the wait for one.
    let gateway = gateway(|config| {
        config.http.serving.header_read_timeout = Duration::from_secs(1);
        config.http.serving.keep_alive_timeout = Duration::from_secs(1);
        config.http.bounds.request_timeout = Duration::from_secs(3);
        config.http.bounds.requests = 1;
        config.http.origins = Origins::Any;
    });
    let mut stream = Stream::open(&gateway, "Accept-Encoding: gzip\r\nOrigin: https://shop.example\r\n");
    for line in [
        "http/1.1 200 ok",
        "content-type: text/event-stream",
        "cache-control: no-store",
        "x-accel-buffering: no",
        "access-control-allow-origin: *",
    ] {
        assert!(stream.has(line), "no {line} in {:?}", stream.head);
    }
    assert!(!stream.head.iter().any(|line| line.starts_with("content-encoding")), "{:?}", stream.head);
    until_open(&gateway, 1);
    let first = stream.chunk().unwrap();
    assert!(first.starts_with("retry: 2000\n\nevent: usage\ndata: {\"tenant_id\":\"acme\","), "{first}");
    let age = |event: &Value| event["models"][0]["age_ms"].as_u64().unwrap();
    let events: Vec<_> = (0..5).map(|_| stream.event().unwrap()).collect();
    assert!(events.iter().map(age).is_sorted_by(|one, next| one < next), "{events:?}");
    // What it says is what a reader is told, and a new snapshot is in the event after it.
    let read = gateway.get(PATH).json();
    assert_eq!(events[4]["models"][0]["windows"], read["models"][0]["windows"]);
    let mut later = snapshot("steady-82");
    later["windows"]["15m"]["gpu_util"]["mean"] = "0.5".into();
    assert_eq!(gateway.post("/v1/usage-snapshots", &later).status, 202);
    let seen = |event: Value| event["models"][0]["windows"]["15m"]["gpu_util"]["mean"] == "0.5";
    assert!((0..20).any(|_| seen(stream.event().unwrap())));
    drop(stream);
    until_open(&gateway, 0);
}

#[test]
fn watchers_of_one_tenant_are_told_the_same() {
    let gateway = gateway(|_| {});
    let (mut one, mut other) = (Stream::open(&gateway, ""), Stream::open(&gateway, ""));
    let of = |stream: &mut Stream| (0..4).map(|_| stream.event().unwrap()).collect::<Vec<_>>();
    let (one, other) = (of(&mut one), of(&mut other));
    let shared = one.iter().filter(|event| other.contains(event)).count();
    assert!(shared >= 2, "{one:?} {other:?}");
}

#[test]
fn a_stop_ends_streams_at_once_and_cleanly() {
    let mut gateway = gateway(|_| {});
    let mut streams: Vec<_> = (0..3).map(|_| Stream::open(&gateway, "")).collect();
    streams.iter_mut().for_each(|stream| assert!(stream.event().is_some()));
    gateway.stop();
    for stream in &mut streams {
        while stream.event().is_some() {}
        assert_eq!(stream.reader.read_to_end(&mut Vec::new()).unwrap(), 0, "and its connection is closed");
    }
}

#[test]
fn there_are_so_many_places_and_one_that_leaves_frees_its_own() {
    let gateway = gateway(|config| config.http.bounds.streams = 1);
    let mut first = Stream::open(&gateway, "");
    let refused = gateway.send("GET", PATH, EVENTS, &[]);
    assert_eq!((refused.status, refused.problem().as_str()), (503, "overloaded"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(gateway.get(PATH).status, 200, "without a stream there is room");
    assert!(first.event().is_some(), "and the one that is open goes on");
    drop(first);
    until_open(&gateway, 0);
    for _ in 0..3 {
        let head = gateway.send("HEAD", PATH, EVENTS, &[]);
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        until_open(&gateway, 0);
    }
    assert!(Stream::open(&gateway, "").event().is_some());
}

#[test]
fn a_stream_is_for_those_who_ask_for_one_and_for_tenants_that_are() {
    let gateway = gateway(|config| config.http.bounds.streams = 1);
    for accepts in ["*/*", "application/json, text/event-stream", "text/html, */*;q=0.8", "text/event-stream;q=0"] {
        let answer = gateway.send("GET", PATH, &[("Accept", accepts)], &[]);
        assert_eq!(answer.header("content-type"), Some("application/json"), "{accepts}");
        assert_eq!(answer.header("vary").map(|vary| vary.contains("accept")), Some(true), "{accepts}");
    }
    for path in ["/v1/tenants/nobody/usage", "/v1/tenants/%ff/usage"] {
        let answer = gateway.send("GET", path, EVENTS, &[]);
        assert_eq!((answer.status, answer.problem().as_str()), (404, "not-found"));
    }
    until_open(&gateway, 0);
}

/// Twenty models of which much is told, so that what is not read soon fills every buffer on the way.
#[test]
fn a_stalled_reader_is_cut_and_holds_up_nobody() {
    let gateway = gateway(|config| config.http.serving.write_timeout = Duration::from_secs(1));
    for model in 0..20 {
        let mut sent = snapshot("steady-82");
        let device = |index: usize| json!({"gpu_uuid": format!("GPU-{model}-{index:0>100}"), "share": "1", "method": "exclusive"});
        sent["gpu_model"] = format!("M{model}").into();
        sent["node"] = format!("{:n<100}", "node").into();
        sent["devices"] = (0..128).map(device).collect();
        assert_eq!(gateway.post("/v1/usage-snapshots", &sent).status, 202);
    }
    let stalled = Stream::open(&gateway, "");
    let mut reading = Stream::open(&gateway, "");
    until_open(&gateway, 2);
    let mut events = 0;
    let open = |count: usize| {
        let line = format!("farebox_http_streams_open {count}");
        gateway.get("/metrics").body.lines().any(|found| found == line)
    };
    while !open(1) {
        assert!(events < 120, "it is never cut");
        assert_eq!(reading.event().unwrap()["models"].as_array().unwrap().len(), 21);
        events += 1;
    }
    assert!(reading.event().is_some(), "the other one goes on");
    drop(stalled);
}
