//! Quotes while Redis is well, frozen, slow and dead, in turns, so that what else the machine does hits all alike.

use std::time::{Duration, Instant};
use std::{io::Write as _, thread};

use farebox_servers::{Fault, Proxy, RedisServer};
use jiff::Timestamp;

use super::fleet::{Folder, Gateway, agent, root};

const ROUNDS: usize = 5;
const QUOTES: usize = 400;
const STATES: [&str; 4] = ["healthy", "frozen", "slow by 2 s", "dead"];

#[derive(Default)]
struct Measured {
    micros: Vec<u128>,
    /// ms by which an age on a quote differed from what `observed_at` says.
    age_errors: Vec<i64>,
    oldest_ms: i64,
}

pub(crate) fn run() {
    let folder = Folder::new("latency");
    let mut redis = RedisServer::start();
    let proxy = Proxy::to(redis.address());
    let gateway = Gateway::start("gateway", &format!("redis://{}", proxy.address()), &folder.0);
    let _agent = agent("gpu-07", &redis.url(), &folder.0);
    let body = std::fs::read_to_string(root().join("fixtures/requests/w1.json")).unwrap();
    wait_for_usage(&gateway, &body);
    for _ in 0..QUOTES {
        gateway.quote(&body);
    }
    let mut measured = STATES.map(|_| Measured::default());
    for _ in 0..ROUNDS {
        for (state, measured) in STATES.iter().zip(&mut measured) {
            match *state {
                "frozen" => redis.freeze(),
                "slow by 2 s" => proxy.set(Fault::Delay(Duration::from_secs(2))),
                "dead" => redis.kill(),
                _ => {}
            }
            thread::sleep(Duration::from_secs(3));
            measure(&gateway, &body, measured);
            match *state {
                "frozen" => redis.thaw(),
                "slow by 2 s" => proxy.set(Fault::Pass),
                "dead" => redis.restart(),
                _ => {}
            }
            recover(&gateway, &body);
            print!(".");
            let _ = std::io::stdout().flush();
        }
    }
    println!("\n| Redis | quotes | p50 µs | p99 µs | p50 of healthy | age told − age, ms (least, most) | oldest, s |");
    println!("|---|---|---|---|---|---|---|");
    let base = percentile(&mut measured[0].micros, 50);
    for (state, mut measured) in STATES.iter().zip(measured) {
        let (p50, p99) = (percentile(&mut measured.micros, 50), percentile(&mut measured.micros, 99));
        let (least, most) = (measured.age_errors.iter().min().unwrap(), measured.age_errors.iter().max().unwrap());
        println!(
            "| {state} | {} | {p50} | {p99} | {:.2} | {least}, {most} | {:.1} |",
            measured.micros.len(),
            p50 as f64 / base as f64,
            measured.oldest_ms as f64 / 1e3
        );
    }
}

fn measure(gateway: &Gateway, body: &str, measured: &mut Measured) {
    for _ in 0..QUOTES {
        let asked = Instant::now();
        let quote = gateway.quote(body);
        measured.micros.push(asked.elapsed().as_micros());
        let snapshot = &quote["inputs"]["snapshot"];
        let instant =
            |value: &serde_json::Value| value.as_str().unwrap().parse::<Timestamp>().unwrap().as_millisecond();
        let age_ms = instant(&quote["created_at"]) - instant(&snapshot["observed_at"]);
        let told_ms = snapshot["age_ms"].as_i64().unwrap();
        measured.age_errors.push(told_ms - age_ms);
        measured.oldest_ms = measured.oldest_ms.max(told_ms);
    }
}

fn wait_for_usage(gateway: &Gateway, body: &str) {
    let began = Instant::now();
    while gateway.quote(body)["inputs"]["snapshot"].is_null() {
        assert!(began.elapsed() < Duration::from_secs(60), "no usage reaches the gateway");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Until what quotes see is fresh again.
fn recover(gateway: &Gateway, body: &str) {
    let began = Instant::now();
    while gateway.quote(body)["inputs"]["snapshot"]["age_ms"].as_i64().is_none_or(|age_ms| age_ms > 2_500) {
        assert!(began.elapsed() < Duration::from_secs(60), "the mirror does not recover");
        thread::sleep(Duration::from_millis(100));
    }
}

pub(crate) fn percentile(values: &mut [u128], percent: usize) -> u128 {
    values.sort_unstable();
    values[(values.len() * percent / 100).min(values.len() - 1)]
}
