//! A fleet at 1 Hz: what the mirror's feed costs, how far it lags, and what it takes in memory.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farebox_metering::clock::Clock;
use farebox_metering::delivery::mac::{MacKey, sign};
use farebox_metering::redis::keys::{Whose, order};
use farebox_metering::redis::link::RedisSettings;
use farebox_metering::redis::writer::{Signed, WriteLimits, Writer};
use farebox_servers::RedisServer;
use jiff::Timestamp;

use super::fleet::{Folder, Gateway, cpu, key, resident};

/// Snapshots of one call, as an agent of a large host would write them.
const BATCH: u64 = 100;
/// Writers, each with a connection of its own.
const WRITERS: u64 = 4;
const EPOCH_US: u64 = 1_796_083_200_000_000;

pub(crate) fn run(tenants: u64, seconds: u64) {
    let folder = Folder::new("load");
    let redis = RedisServer::start();
    let gateway = Gateway::start("gateway", &redis.url(), &folder.0);
    let (pid, url) = (gateway.process.pid(), redis.url());
    let (before, resident_before) = (cpu(pid, None), resident(pid));
    let feed_before = cpu(pid, Some("usage-feed"));
    let began = Instant::now();
    let written: Vec<u64> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let url = &url;
                scope.spawn(move || {
                    write(url, (writer * tenants / WRITERS)..((writer + 1) * tenants / WRITERS), seconds)
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let wall = began.elapsed();
    thread::sleep(Duration::from_secs(2));
    let percent = |used: Duration| 100.0 * used.as_secs_f64() / wall.as_secs_f64();
    let written: u64 = written.iter().sum();
    let metrics = gateway.get("/metrics").unwrap();
    let lag = Lag::read(&metrics);
    println!(
        "{tenants} tenants at 1 Hz for {seconds} s (took {:.1} s): {written} snapshots written",
        wall.as_secs_f64()
    );
    println!("  applied by the mirror: {}", total(&metrics, "farebox_mirror_snapshots_applied_total"));
    println!(
        "  feed thread: {:.1} % of a core; whole gateway {:.1} %",
        percent(cpu(pid, Some("usage-feed")) - feed_before),
        percent(cpu(pid, None) - before)
    );
    println!(
        "  lag: p50 ≤ {} s, p99 ≤ {} s; gaps {}",
        lag.at(0.50),
        lag.at(0.99),
        total(&metrics, "farebox_mirror_feed_gaps_total")
    );
    println!("  resident: {} MiB, before {resident_before}", resident(pid));
    println!(
        "  redis-server: {}",
        redis.command(&["INFO", "memory"]).lines().find(|line| line.starts_with("used_memory_human")).unwrap()
    );
}

/// Each tenant once a second, as late as it gets; returns how many were taken.
fn write(url: &str, tenants: std::ops::Range<u64>, seconds: u64) -> u64 {
    let settings = RedisSettings::parse_url(url).unwrap();
    let mut writer = Writer::new(&settings, WriteLimits::standard(), Clock::system()).unwrap();
    let key = MacKey::parse(&key()).unwrap();
    let (began, mut taken) = (Instant::now(), 0);
    let tenants: Vec<(u64, String)> = tenants.map(|tenant| (tenant, format!("tenant-{tenant:05}"))).collect();
    for seq in 1..=seconds {
        for batch in tenants.chunks(BATCH as usize) {
            let bodies: Vec<Vec<u8>> = batch
                .iter()
                .map(|(number, name)| sign(&key, snapshot(*number, name, seq).as_bytes()).unwrap())
                .collect();
            let order = order(EPOCH_US, seq);
            let signed: Vec<Signed<'_>> = batch
                .iter()
                .zip(&bodies)
                .map(|((_, tenant), body)| Signed {
                    whose: Whose { tenant, node: "gpu-01", gpu_model: "A100", job: Some("train-7") },
                    order: &order,
                    body,
                })
                .collect();
            let outcome = writer.write(&signed);
            assert_eq!(outcome.away, None);
            taken += outcome.taken.iter().filter(|taken| **taken == Some(true)).count() as u64;
        }
        thread::sleep(Duration::from_secs(seq).saturating_sub(began.elapsed()));
    }
    taken
}

/// As large as an agent's of eight GPUs: four short windows of the usual metrics, counters and a histogram.
fn snapshot(number: u64, tenant: &str, seq: u64) -> String {
    let devices: Vec<String> = (0..8)
        .map(|index| {
            format!(
                r#"{{"gpu_uuid":"GPU-00000000-0000-0000-0000-{number:08}{index:04}","share":"1","method":"exclusive"}}"#
            )
        })
        .collect();
    let metric = |name: &str| {
        format!(r#""{name}":{{"mean":"0.8215","p50":"0.82","p95":"0.97","min":"0.1","max":"1","coverage":"0.998"}}"#)
    };
    let metrics: Vec<String> =
        ["gpu_util", "mem_util", "mem_used_bytes", "power_w"].iter().map(|name| metric(name)).collect();
    let windows: Vec<String> =
        ["10s", "1m", "5m", "15m"].iter().map(|window| format!(r#""{window}":{{{}}}"#, metrics.join(","))).collect();
    let mut bins = [0_u32; 101];
    for (bin, ms) in bins.iter_mut().enumerate().skip(70).take(25) {
        *ms = seq as u32 * (200 + bin as u32);
    }
    format!(
        r#"{{"schema":1,"node":"gpu-01","boot_epoch":"{EPOCH_US}","seq":{seq},"observed_at":"{}","tick_ms":1000,"health":"ok","reasons":[],"tenant":"{tenant}","job":"train-7","gpu_model":"A100","devices":[{}],"windows":{{{}}},"counters":{{"held_us":"{}"}},"histograms":{{"gpu_util":{{"bins":"{}"}}}}}}"#,
        Timestamp::now(),
        devices.join(","),
        windows.join(","),
        seq * 8_000_000,
        STANDARD.encode(bins.map(u32::to_le_bytes).as_flattened())
    )
}

fn total(metrics: &str, name: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(name) && !line.starts_with('#'));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// The histogram of lags: the bounds of its buckets, with how many are at most as long.
struct Lag(BTreeMap<u64, (String, f64)>);

impl Lag {
    fn read(metrics: &str) -> Self {
        let lines = metrics.lines().filter_map(|line| line.strip_prefix("farebox_mirror_feed_lag_seconds_bucket{"));
        let mut buckets = BTreeMap::new();
        for line in lines {
            let Some((labels, count)) = line.rsplit_once("} ") else { continue };
            let bound = labels.split("le=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("+Inf");
            let place = bound.parse::<f64>().map_or(u64::MAX, |bound| (bound * 1e6) as u64);
            let entry = buckets.entry(place).or_insert((bound.to_owned(), 0.0));
            entry.1 += count.split(' ').next().unwrap().parse::<f64>().unwrap();
        }
        Self(buckets)
    }

    fn at(&self, share: f64) -> &str {
        let all = self.0.last_key_value().map_or(0.0, |(_, (_, count))| *count);
        let reached = self.0.values().find(|(_, count)| *count >= share * all);
        reached.map_or("unknown", |(bound, _)| bound)
    }
}
