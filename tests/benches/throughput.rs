//! `POST /v1/quotes` over HTTP beside a static route of the same server and body sizes, by wrk, in one run.
//!
//! `make throughput`; the figures are in docs/performance.md. wrk runs on the same cores, so rates only mean something as
//! ratios of one run; CPU a request is this process's own, wrk's is not in it.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a bench that meets the unexpected ends there")]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use farebox::app::{App, Listeners};
use farebox::catalog::Catalog;
use farebox::clock::Clock;
use farebox::config::Config;
use farebox::serving::{self, Service, TurnedAway};
use farebox_sandbox::{Limits, MemoLimits, Sandbox};
use farebox_tests::book::Book;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const CONNECTIONS: [u32; 3] = [1, 16, 64];
const SECONDS: u32 = 5;
const REQUESTS: usize = 2_000;

/// Sends the lines of a file as bodies, one after another, and says what came of it in one line.
const SCRIPT: &str = r#"
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local bodies, next = {}, 0
for line in io.lines(os.getenv("BOOK")) do bodies[#bodies + 1] = line end
request = function()
  next = next % #bodies + 1
  return wrk.format(nil, nil, nil, bodies[next])
end
done = function(summary, latency)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  io.write(string.format("result %d %d %d %d\n", summary.requests, summary.duration, latency:percentile(99), failed))
end
"#;

/// One run of wrk against one route.
struct Run {
    requests_a_second: f64,
    cpu_us: f64,
    p99_us: u64,
}

fn main() {
    assert!(Command::new("wrk").arg("--version").output().is_ok(), "wrk is missing: apt-get install wrk");
    let files = Files::write();
    let runtime = Runtime::new().unwrap();
    let (fresh, memo) = (gateway(&runtime, None), gateway(&runtime, Some(MemoLimits::standard())));
    let size = mean_answer_bytes(fresh, &files.bodies);
    let fixed = static_route(&runtime, size);
    println!(
        "{REQUESTS} requests of the generated book in turn; answers of {size} bytes in the mean; {SECONDS} s a run\n"
    );
    println!("| connections | route | requests/s | of static | CPU µs a request | p99 µs |\n|---|---|---|---|---|---|");
    let routes = [
        ("static", fixed, "/static"),
        ("quotes, every step in the sandbox", fresh, "/v1/quotes"),
        ("quotes, memo", memo, "/v1/quotes"),
    ];
    // `-- --only memo` for a profiler.
    let arguments: Vec<String> = std::env::args().collect();
    if let Some([_, only]) = arguments.array_windows().find(|[option, _]| option == "--only") {
        for (name, server, path) in routes.into_iter().filter(|(name, ..)| name.contains(only.as_str())) {
            println!("{name}: {:.1} CPU µs a request", files.run(server, path, 16).cpu_us);
        }
        return;
    }
    for connections in CONNECTIONS {
        let runs = routes.map(|(name, server, path)| (name, files.run(server, path, connections)));
        let base = runs.first().unwrap().1.requests_a_second;
        for (name, Run { requests_a_second, cpu_us, p99_us }) in runs {
            let share = requests_a_second / base * 100.0;
            println!("| {connections} | {name} | {requests_a_second:.0} | {share:.0} % | {cpu_us:.0} | {p99_us} |");
        }
    }
}

/// What wrk reads.
struct Files {
    book: PathBuf,
    script: PathBuf,
    bodies: Vec<String>,
}

impl Files {
    fn write() -> Self {
        let folder = root().join("target/throughput");
        std::fs::create_dir_all(&folder).unwrap();
        let (book, script) = (folder.join("book.jsonl"), folder.join("post.lua"));
        let mut pages = Book::new(1);
        let bodies: Vec<String> = (0..REQUESTS).map(|_| pages.request().to_string()).collect();
        let text = bodies.iter().fold(String::new(), |mut text, body| {
            let _ = writeln!(text, "{body}");
            text
        });
        std::fs::write(&book, text).unwrap();
        std::fs::write(&script, SCRIPT).unwrap();
        Self { book, script, bodies }
    }

    fn run(&self, server: SocketAddr, path: &str, connections: u32) -> Run {
        let before = cpu_us();
        let output = Command::new("wrk")
            .args(["-t1", &format!("-c{connections}"), &format!("-d{SECONDS}s"), "-s"])
            .arg(&self.script)
            .arg(format!("http://{server}{path}"))
            .env("BOOK", &self.book)
            .output()
            .unwrap();
        let used = cpu_us() - before;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find_map(|line| line.strip_prefix("result ")).expect("wrk says no result");
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [requests, duration_us, p99_us, failed] = numbers[..] else { unreachable!("four numbers") };
        assert_eq!(failed, 0, "some of {requests} requests to {path} failed");
        Run { requests_a_second: requests as f64 / (duration_us as f64 / 1e6), cpu_us: used / requests as f64, p99_us }
    }
}

/// CPU time of this process so far, all threads, in microseconds.
fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // utime and stime, in ticks of a hundredth of a second (proc(5)).
    fields.iter().skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap() * 10_000.0).sum()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A gateway over the fixtures that has seen usage of one tenant.
fn gateway(runtime: &Runtime, memo: Option<MemoLimits>) -> SocketAddr {
    let settings = [
        ("FAREBOX_DATA_DIR", root().join("fixtures").display().to_string()),
        ("FAREBOX_POLICIES_DIR", root().join("target/policies").display().to_string()),
        ("FAREBOX_TOKENS_KEYS", "test:YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE=".to_owned()),
    ];
    let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value));
    let config = Config { memo, ..Config::load(None, settings).unwrap() };
    let sandbox = Sandbox::new(Limits::standard()).unwrap();
    let catalog = Catalog::load(&config.data_dir, &config.policies_dir, &sandbox);
    assert!(catalog.problems.is_empty(), "run `make policies` first: {:?}", catalog.problems);
    let app = App::over(catalog, &config, Clock::system()).unwrap();
    let main = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let address = main.local_addr().unwrap();
    runtime.spawn(app.serve(Listeners { main, metrics: None }, std::future::pending()));
    let text = std::fs::read_to_string(root().join("fixtures/snapshots/steady-82.json")).unwrap();
    let snapshot = text.replace("@now", &Clock::system().now().to_string());
    let answer = post_json(address, "/v1/usage-snapshots", &snapshot);
    assert_eq!(answer.status(), 202);
    address
}

/// The gateway's own server around a route that takes a body and answers always the same.
fn static_route(runtime: &Runtime, bytes: usize) -> SocketAddr {
    let body = Bytes::from(vec![b'x'; bytes]);
    let route = post(move |_: Bytes| {
        let body = body.clone();
        async move { ([("content-type", "application/json")], body) }
    });
    let refusal = |_: &axum::http::Uri| axum::response::Response::default();
    let service = Service {
        router: Router::new().route("/static", route),
        too_many_connections: refusal,
        limits: serving::Limits::standard(),
        turned_away: Arc::new(TurnedAway::default()),
    };
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(serving::serve(listener, service, std::future::pending()));
    address
}

fn post_json(server: SocketAddr, path: &str, body: &str) -> ureq::http::Response<ureq::Body> {
    let request = ureq::post(format!("http://{server}{path}")).header("Content-Type", "application/json");
    request.send(body).unwrap()
}

fn mean_answer_bytes(server: SocketAddr, bodies: &[String]) -> usize {
    let sample = bodies.iter().take(500);
    let bytes = sample.map(|body| post_json(server, "/v1/quotes", body).body_mut().read_to_vec().unwrap().len());
    bytes.sum::<usize>() / 500
}
