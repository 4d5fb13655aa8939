//! Real sockets on port 0, a client made of bytes, and a clock to hold the server to its word.

mod heads;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream as Client};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::body::to_bytes;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;

/// Nothing runs out but what a test is about.
const PATIENT: Limits = Limits {
    header_read_timeout: Duration::from_secs(60),
    keep_alive_timeout: Duration::from_secs(60),
    body_read_timeout: Duration::from_secs(60),
    write_timeout: Duration::from_secs(60),
    max_connections: 3,
    drain_timeout: Duration::from_secs(60),
};
const SHORT: Duration = Duration::from_millis(300);
/// What a loaded machine may add.
const SLACK: Duration = Duration::from_secs(10);
const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const GET_HELD: &str = "GET /held HTTP/1.1\r\nhost: a\r\n\r\n";

struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<Drained>,
    runtime: Runtime,
    held: Arc<Held>,
    turned_away: Arc<TurnedAway>,
}

/// The handlers of `/held`, which wait until they are released.
struct Held {
    started: AtomicUsize,
    dropped: AtomicUsize,
    gate: Semaphore,
}

struct CountDrop(Arc<Held>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

fn too_many_connections(uri: &Uri) -> Response {
    let headers = [(header::RETRY_AFTER, "1")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, format!("too many connections: {uri}")).into_response()
}

fn service(held: &Arc<Held>, limits: Limits) -> Service {
    let (router, turned_away) = (router(held), Arc::default());
    Service { router, too_many_connections, limits, turned_away }
}

impl Held {
    fn new() -> Arc<Self> {
        Arc::new(Self { started: AtomicUsize::new(0), dropped: AtomicUsize::new(0), gate: Semaphore::new(0) })
    }

    fn release(&self) {
        self.gate.add_permits(1_000);
    }
}

fn router(held: &Arc<Held>) -> Router {
    let held = Arc::clone(held);
    let read = async |body: Body| match to_bytes(body, 1000).await {
        Ok(bytes) => bytes.len().to_string().into_response(),
        Err(error) => {
            let mut source: Option<&dyn std::error::Error> = Some(&error);
            while let Some(cause) = source {
                if cause.is::<BodyTooSlow>() {
                    return StatusCode::REQUEST_TIMEOUT.into_response();
                }
                source = cause.source();
            }
            StatusCode::BAD_REQUEST.into_response()
        }
    };
    let wait = async move || {
        let _count = CountDrop(Arc::clone(&held));
        held.started.fetch_add(1, Ordering::SeqCst);
        let _pass = held.gate.acquire().await;
        "held"
    };
    Router::new()
        .route("/", get("hello"))
        .route("/held", get(wait))
        .route("/large", get(async || vec![b'x'; 64 << 20]))
        .route("/read", post(read))
        .route("/panic", get(async || if true { panic!("on purpose") } else { "" }))
}

impl Running {
    fn start(limits: Limits) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let held = Held::new();
        let stopped = async {
            let _ = stopped.await;
        };
        let service = service(&held, limits);
        let turned_away = Arc::clone(&service.turned_away);
        let server = runtime.spawn(serve(listener, service, stopped));
        Self { address, stop: Some(stop), server, runtime, held, turned_away }
    }

    fn connect(&self) -> Client {
        let client = Client::connect(self.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client
    }

    fn send(&self, request: &str) -> Client {
        let mut client = self.connect();
        client.write_all(request.as_bytes()).unwrap();
        client
    }

    fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    fn drained(self) -> Drained {
        self.runtime.block_on(self.server).unwrap()
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&Held) -> bool) {
        let begin = Instant::now();
        while !holds(&self.held) {
            assert!(begin.elapsed() < SLACK, "{what}: not within {SLACK:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// One answer with a length, read to its end and no further.
fn answer_of(client: &mut Client) -> String {
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        assert_eq!(client.read(&mut byte).unwrap(), 1, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    client.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

/// Everything up to the end of the connection, and how long that took.
fn rest_of(client: &mut Client) -> (String, Duration) {
    let begin = Instant::now();
    let mut rest = Vec::new();
    match client.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "still open"),
    }
    (String::from_utf8_lossy(&rest).into_owned(), begin.elapsed())
}

#[test]
fn answers_several_requests_on_one_connection() {
    let running = Running::start(PATIENT);
    let mut client = running.send(GET);
    for _ in 0..3 {
        let answer = answer_of(&mut client);
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"), "{answer}");
        client.write_all(GET.as_bytes()).unwrap();
    }
}

#[test]
fn a_body_may_take_longer_than_a_head() {
    let running = Running::start(Limits { header_read_timeout: SHORT, ..PATIENT });
    let mut client = running.send("POST /read HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\na");
    std::thread::sleep(SHORT * 2);
    client.write_all(b"b").unwrap();
    std::thread::sleep(SHORT * 2);
    client.write_all(b"c").unwrap();
    assert!(answer_of(&mut client).ends_with("\r\n\r\n3"));
}

#[test]
fn a_chunked_body_that_never_ends_is_a_4xx() {
    let running = Running::start(Limits { body_read_timeout: SHORT, ..PATIENT });
    let mut client = running.send("POST /read HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n");
    let mut writer = client.try_clone().unwrap();
    let begin = Instant::now();
    let trickle = std::thread::spawn(move || {
        while writer.write_all(b"1\r\nx\r\n").is_ok() && begin.elapsed() < SLACK {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let answer = answer_of(&mut client);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(begin.elapsed() >= SHORT, "too early");
    assert!(begin.elapsed() < SHORT + SLACK, "too late");
    let (_, took) = rest_of(&mut client);
    assert!(took < SLACK, "the connection ends with its body");
    trickle.join().unwrap();
}

#[test]
fn a_body_that_ends_in_time_is_read() {
    let running = Running::start(PATIENT);
    let mut client = running.send("POST /read HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n");
    std::thread::sleep(Duration::from_millis(100));
    client.write_all(b"0\r\n\r\n").unwrap();
    assert!(answer_of(&mut client).ends_with("\r\n\r\n3"));
}

#[test]
fn a_client_that_goes_away_takes_its_handler_with_it() {
    let running = Running::start(PATIENT);
    let client = running.send(GET_HELD);
    running.wait_until("its handler starts", |held| held.started.load(Ordering::SeqCst) == 1);
    client.shutdown(Shutdown::Both).unwrap();
    drop(client);
    running.wait_until("its handler is dropped", |held| held.dropped.load(Ordering::SeqCst) == 1);
}

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let running = Running::start(Limits { max_connections: 1, write_timeout: SHORT, ..PATIENT });
    let mut deaf = running.send("GET /large HTTP/1.1\r\nhost: a\r\n\r\n");
    std::thread::sleep(SHORT * 2);
    // Its place is free again, though it never closed.
    let begin = Instant::now();
    loop {
        let mut client = running.send(GET);
        if answer_of(&mut client).starts_with("HTTP/1.1 200 ") {
            break;
        }
        assert!(begin.elapsed() < SLACK, "still held");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(rest_of(&mut deaf).0.len() < 64 << 20);
}

#[test]
fn connections_beyond_the_limit_are_answered_503_at_once() {
    let running = Running::start(PATIENT);
    let mut held: Vec<_> = (0..PATIENT.max_connections).map(|_| running.send(GET_HELD)).collect();
    running.wait_until("all are served", |held| held.started.load(Ordering::SeqCst) == PATIENT.max_connections);
    let refuse = || {
        let begin = Instant::now();
        let mut client = running.send("POST /read HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc");
        let answer = answer_of(&mut client);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("retry-after: 1") && answer.contains("connection: close"), "{answer}");
        assert!(answer.ends_with("too many connections: /read"), "{answer}");
        begin.elapsed()
    };
    let fastest = (0..20).map(|_| refuse()).min().unwrap();
    assert!(fastest < Duration::from_millis(50), "{fastest:?}");
    assert_eq!(running.turned_away.connections_refused(), 20);
    running.held.release();
    for client in &mut held {
        assert!(answer_of(client).ends_with("held"));
    }
}

#[test]
fn a_panic_ends_its_own_connection_only() {
    let running = Running::start(PATIENT);
    let mut other = running.send(GET_HELD);
    for _ in 0..PATIENT.max_connections * 2 {
        let mut client = running.send("GET /panic HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(rest_of(&mut client).0, "");
    }
    running.held.release();
    assert!(answer_of(&mut other).ends_with("held"));
    assert!(answer_of(&mut running.send(GET)).ends_with("hello"), "and its place is free again");
}

#[test]
fn a_drain_answers_what_was_accepted_and_refuses_the_rest() {
    let mut running = Running::start(PATIENT);
    let mut idle = running.send(GET);
    answer_of(&mut idle);
    let mut busy = running.send(GET_HELD);
    running.wait_until("it is served", |held| held.started.load(Ordering::SeqCst) == 1);
    running.stop();
    assert_eq!(rest_of(&mut idle).0, "", "idle ones close before busy ones end");
    assert!(Client::connect(running.address).is_err(), "the socket is closed while the drain goes on");
    running.held.release();
    assert!(answer_of(&mut busy).ends_with("held"));
    assert_eq!(rest_of(&mut busy).0, "", "and then it closes");
    assert_eq!(running.drained(), Drained { aborted: 0 });
}

#[test]
fn a_drain_answers_what_the_socket_had_queued() {
    // A runtime of one thread that is not running yet: both connections wait in the socket's queue when it is stopped.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let mut clients = [0, 1].map(|_| Client::connect(address).unwrap());
    for client in &mut clients {
        client.write_all(GET.as_bytes()).unwrap();
    }
    let drained = runtime.block_on(serve(listener, service(&Held::new(), PATIENT), std::future::ready(())));
    for client in &mut clients {
        assert!(answer_of(client).ends_with("hello"));
    }
    assert_eq!(drained, Drained { aborted: 0 });
}

#[test]
fn a_drain_has_a_deadline() {
    let mut running = Running::start(Limits { drain_timeout: SHORT, ..PATIENT });
    let mut client = running.send(GET_HELD);
    running.wait_until("it is served", |held| held.started.load(Ordering::SeqCst) == 1);
    let begin = Instant::now();
    running.stop();
    assert_eq!(rest_of(&mut client).0, "");
    assert!(begin.elapsed() < SHORT + SLACK);
    assert_eq!(running.drained(), Drained { aborted: 1 });
}

#[test]
fn the_stop_signal_is_ready_when_the_process_is_asked_to_end() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for name in ["TERM", "INT"] {
            let stop = stop_signal().unwrap();
            let pid = std::process::id().to_string();
            assert!(std::process::Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
            timeout(SLACK, stop).await.unwrap();
        }
    });
}
