//! Two gateways on a real Redis, one of which is restarted half-way, come to the same.

use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farebox_servers::RedisServer;
use serde_json::json;

use super::*;
use crate::delivery::mac::{self, MacKey};
use crate::mirror::{MirrorLimits, Newest};
use crate::redis::keys::{Whose, order};

const PATIENCE: Duration = Duration::from_secs(60);
const SCRIPT: &str = include_str!("../write.lua");

struct Gateway {
    mirror: Arc<Mirror>,
    feed: Feed,
}

fn key() -> MacKey {
    MacKey::parse(&STANDARD.encode([7; 32])).unwrap()
}

fn now() -> Timestamp {
    Timestamp::from_microsecond(Clock::system().now().wall_us).unwrap()
}

impl Gateway {
    fn start(redis: &RedisServer) -> Self {
        let mut agents = AgentKeys::default();
        agents.add("*", AgentKey { key: key(), tenants: None });
        let settings = FeedSettings {
            redis: RedisSettings::parse_url(&redis.url()).unwrap(),
            agents,
            seal: SealKeys::new(vec![[1; 32]]).unwrap(),
        };
        let mirror = Arc::new(Mirror::new(MirrorLimits::default()));
        let feed = Feed::start(settings, Arc::clone(&mirror), Arc::new(now)).unwrap();
        Self { mirror, feed }
    }

    /// What it holds of each holding: where it stands.
    fn newest(&self) -> Vec<(String, u64)> {
        let newest = self.mirror.newest(now()).into_iter();
        newest.map(|Newest { tenant, seq, .. }| (tenant, seq)).collect()
    }

    fn wait_until(&self, tick: u64) {
        let expected: Vec<_> = TENANTS.iter().map(|tenant| ((*tenant).to_owned(), tick)).collect();
        let began = Instant::now();
        while self.newest() != expected {
            assert!(began.elapsed() < PATIENCE, "{:?} instead of {expected:?}", self.newest());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

const TENANTS: [&str; 3] = ["acme", "globex", "initech"];

/// An hour of a GPU each tick, a per cent higher each time: each comes into the bucket of its instant.
fn tell(redis: &RedisServer, tick: u64) {
    let keyspace = Keyspace::default();
    for tenant in TENANTS {
        let mut bins = [0_u32; 101];
        bins.iter_mut().skip(1).take(usize::try_from(tick).unwrap()).for_each(|bin| *bin = 3_500_000);
        let observed_at = now() - jiff::SignedDuration::from_hours(40 - i64::try_from(tick).unwrap());
        let snapshot = json!({
            "schema": 1, "node": "gpu-01", "boot_epoch": "1", "seq": tick, "observed_at": observed_at.to_string(),
            "tick_ms": 1000, "health": "ok", "reasons": [], "tenant": tenant, "gpu_model": "A100",
            "devices": [{"gpu_uuid": "GPU-1", "share": "1", "method": "exclusive"}], "windows": {},
            "counters": {"held_us": (tick * 3_600_000_000).to_string()},
            "histograms": {"gpu_util": {"bins": STANDARD.encode(bins.map(u32::to_le_bytes).as_flattened())}},
        });
        let body = mac::sign(&key(), snapshot.to_string().as_bytes()).unwrap();
        let whose = Whose { tenant, node: "gpu-01", gpu_model: "A100", job: None };
        let words = [
            "EVAL".to_owned(),
            SCRIPT.to_owned(),
            "4".to_owned(),
            keyspace.stream(0),
            keyspace.count(0),
            keyspace.index(0),
            keyspace.snapshot(whose),
            "1800000".to_owned(),
            "1800000".to_owned(),
            "1000".to_owned(),
            order(1, tick),
            String::from_utf8(body).unwrap(),
        ];
        let answer = redis.command(&words.each_ref().map(String::as_str));
        assert!(answer.ends_with('1'), "{answer}");
    }
}

#[test]
fn a_gateway_that_was_away_comes_to_the_buckets_of_the_one_that_was_not() {
    let redis = RedisServer::start();
    let lasting = Gateway::start(&redis);
    let first = Gateway::start(&redis);
    for tick in 1..=9 {
        tell(&redis, tick);
        lasting.wait_until(tick);
    }
    first.wait_until(9);
    first.feed.stop();
    // Nobody but the lasting one sees these as they come.
    for tick in 10..=19 {
        tell(&redis, tick);
    }
    let second = Gateway::start(&redis);
    for gateway in [&lasting, &second] {
        gateway.wait_until(19);
    }
    assert_eq!(second.feed.watch().observed().roll_ups_restored, 3);
    let (of_lasting, of_second) =
        (lasting.mirror.roll_ups_changed(Some(0)).0, second.mirror.roll_ups_changed(Some(0)).0);
    assert_eq!(of_lasting.len(), 3);
    for (one, other) in of_lasting.iter().zip(&of_second) {
        let windows = |gateway: &Gateway, tenant: &str| gateway.mirror.usage(tenant, now()).unwrap()[0].windows.clone();
        assert_eq!(windows(&lasting, &one.tenant), windows(&second, &other.tenant));
    }
    assert!(!windows_are_empty(&lasting), "nothing was rolled up");
    // A stop ends it within a second, also while it waits for entries.
    let began = Instant::now();
    second.feed.stop();
    assert!(began.elapsed() < PATIENCE);
    lasting.feed.stop();
}

fn windows_are_empty(gateway: &Gateway) -> bool {
    gateway.mirror.usage("acme", now()).unwrap()[0].windows.is_empty()
}
