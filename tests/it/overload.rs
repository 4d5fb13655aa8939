//! More than there is room for, and an end in the middle of it (`shared/cases/http.md` 6, 7, 9). Counted, not timed.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use farebox::clock::Clock;

use crate::harness::{TestGateway, fixture};

/// The head of a quote request and the first byte of its body.
fn begin(gateway: &TestGateway, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    write!(stream, "{}{}", head(body.len()), &body[..1]).unwrap();
    stream
}

fn head(length: usize) -> String {
    format!(
        "POST /v1/quotes HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Waits until so many requests are in work beside the one that asks.
fn until_in_flight(gateway: &TestGateway, count: usize) {
    let line = format!("farebox_http_requests_in_flight {}", count + 1);
    for _ in 0..2_000 {
        if gateway.get("/metrics").body.lines().any(|found| found == line) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("there never were {count} requests in work");
}

#[test]
fn beyond_capacity_the_answer_is_503_and_the_accepted_go_on() {
    let gateway = TestGateway::start_with(Clock::system(), |config| config.http.bounds.requests = 2);
    let body = fixture("requests/w1.json").to_string();
    let mut accepted = [begin(&gateway, &body), begin(&gateway, &body)];
    until_in_flight(&gateway, 2);
    // Both places are held until we say so; whatever else comes has its answer although nothing can have ended.
    for _ in 0..50 {
        let refused = gateway.post_text("/v1/quotes", &body);
        assert_eq!((refused.status, refused.problem().as_str()), (503, "overloaded"));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    assert_eq!(gateway.get("/v1/catalog").status, 503);
    assert_eq!((gateway.get("/healthz").status, gateway.get("/readyz").status), (200, 200), "watchers get through");
    let metrics = gateway.get("/metrics").body;
    for line in ["farebox_http_requests_shed_total{reason=\"busy\"} 51", "farebox_http_requests_in_flight 3"] {
        assert!(metrics.lines().any(|found| found == line), "no {line} in\n{metrics}");
    }
    for stream in &mut accepted {
        stream.write_all(&body.as_bytes()[1..]).unwrap();
        assert_eq!(gateway.read_raw(stream, &head(0)).status, 201);
    }
    assert_eq!(gateway.post_text("/v1/quotes", &body).status, 201, "and their places are free again");
}

#[test]
fn a_client_that_leaves_costs_nothing_and_what_was_issued_before_stays() {
    let gateway = TestGateway::start_with(Clock::system(), |config| config.http.bounds.requests = 1);
    let body = fixture("requests/w1.json").to_string();
    let gone = begin(&gateway, &body);
    until_in_flight(&gateway, 1);
    assert_eq!(gateway.post_text("/v1/quotes", &body).status, 503);
    gone.shutdown(Shutdown::Both).unwrap();
    drop(gone);
    until_in_flight(&gateway, 0);
    let issued = gateway.post_text("/v1/quotes", &body);
    assert_eq!(issued.status, 201, "its place is free again");
    let metrics = gateway.get("/metrics").body;
    let quotes: Vec<_> = metrics.lines().filter(|line| line.starts_with("farebox_quotes_total")).collect();
    assert_eq!(quotes, ["farebox_quotes_total{plan=\"gpu-standard\",outcome=\"issued\"} 1"], "and nothing was priced");
    // Whether its request is priced depends on how soon it is missed.
    let unread = TcpStream::connect(gateway.address).map(|mut stream| {
        write!(stream, "{}{body}", head(body.len())).unwrap();
        stream
    });
    drop(unread);
    let read = || gateway.get(issued.header("location").unwrap());
    // Until it has left its place.
    let status = (0..1_000).map(|_| read().status).find(|status| *status != 503);
    assert_eq!(status, Some(200));
}

/// Clients on many threads, each with a connection for each request, while the gateway is told to stop.
#[test]
fn a_stop_under_load_answers_all_that_was_sent_before_it() {
    let mut gateway = TestGateway::start();
    let body = fixture("requests/w1.json").to_string();
    let request = format!("{}{body}", head(body.len()));
    let (stopping, issued) = (AtomicBool::new(false), AtomicUsize::new(0));
    let address = gateway.address;
    let client = || -> Result<(), String> {
        loop {
            let Ok(mut stream) = TcpStream::connect(address) else { return Ok(()) };
            let sent = stream.write_all(request.as_bytes());
            let was_before = sent.is_ok() && !stopping.load(Ordering::SeqCst);
            let mut answer = Vec::new();
            let read = stream.read_to_end(&mut answer);
            let text = String::from_utf8_lossy(&answer);
            match text.split(' ').nth(1) {
                // A 503 is an answer: two cores price what they can.
                Some("201" | "503") if read.is_ok() && text.ends_with('}') => {
                    issued.fetch_add(1, Ordering::SeqCst);
                }
                None if !was_before => return Ok(()),
                _ => return Err(format!("sent before the stop: {was_before}, answered: `{text}`, {read:?}")),
            }
        }
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(client)).collect();
        while issued.load(Ordering::SeqCst) < 100 && clients.iter().any(|client| !client.is_finished()) {
            std::thread::yield_now();
        }
        stopping.store(true, Ordering::SeqCst);
        gateway.stop();
        let wrong: Vec<_> = clients.into_iter().filter_map(|client| client.join().unwrap().err()).collect();
        assert_eq!(wrong, Vec::<String>::new());
    });
    assert!(issued.load(Ordering::SeqCst) >= 100);
    assert!(TcpStream::connect(address).is_err(), "the socket is closed");
}
