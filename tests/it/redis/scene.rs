//! A Redis, a proxy before it, a gateway behind that, and an agent's writes.

use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farebox::clock::Clock;
use farebox::config::{Config, Redis};
use farebox_metering::delivery::mac::{self, MacKey};
use farebox_metering::redis::feed::{AgentKey, AgentKeys};
use farebox_metering::redis::keys::{Keyspace, Whose, order};
use farebox_metering::redis::link::RedisSettings;
use farebox_servers::{Proxy, RedisOptions, RedisServer};
use serde_json::{Value, json};

use crate::harness::{TestGateway, fixture, text};

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
pub const NODE: &str = "gpu-07";
const WRITE: &str = include_str!("../../../gateway/metering/src/redis/write.lua");

pub struct Scene {
    redis: Option<RedisServer>,
    pub proxy: Proxy,
    pub gateway: TestGateway,
}

/// What an agent writes: acme's steady snapshot of eight A100, told apart by what it has counted.
pub struct Sent {
    pub tenant: String,
    pub held_us: u64,
    pub order: (u64, u64),
    /// In the snapshot, where it is another than the order says.
    pub seq: Option<(u64, u64)>,
    pub health: &'static str,
    pub node: &'static str,
    /// `None`: without a MAC.
    pub key: Option<MacKey>,
    /// Most entries of the stream.
    pub entries: u64,
    pub change: fn(&mut Value),
}

pub fn key(letter: u8) -> MacKey {
    MacKey::parse(&STANDARD.encode([letter; 32])).unwrap()
}

/// One key for the node, good for all of its tenants but `not-its`.
fn agents() -> AgentKeys {
    let mut agents = AgentKeys::default();
    agents.add(NODE, AgentKey { key: key(b'k'), tenants: None });
    let tenants = Some(["acme".to_owned()].into());
    agents.add("acme-only", AgentKey { key: key(b'l'), tenants });
    agents
}

impl Sent {
    pub fn new(tenant: &str, held_us: u64) -> Self {
        Self {
            tenant: tenant.to_owned(),
            held_us,
            order: (1, held_us),
            seq: None,
            health: "ok",
            node: NODE,
            key: Some(key(b'k')),
            entries: 100_000,
            change: |_| {},
        }
    }

    pub fn body(&self) -> String {
        let (epoch, seq) = self.seq.unwrap_or(self.order);
        let mut snapshot = fixture("snapshots/steady-82.json");
        snapshot["node"] = self.node.into();
        snapshot["tenant"] = self.tenant.clone().into();
        snapshot["boot_epoch"] = epoch.to_string().into();
        snapshot["seq"] = seq.into();
        snapshot["observed_at"] = Clock::system().now().to_string().into();
        snapshot["health"] = self.health.into();
        snapshot["counters"] = json!({"held_us": self.held_us.to_string()});
        for window in ["7d", "15m"] {
            snapshot["windows"][window]["gpu_util"]["held_us"] = "7200000000".into();
        }
        (self.change)(&mut snapshot);
        let body = snapshot.to_string();
        match &self.key {
            Some(key) => String::from_utf8(mac::sign(key, body.as_bytes()).unwrap()).unwrap(),
            None => body,
        }
    }

    fn redis_key(&self) -> String {
        Keyspace::default().snapshot(Whose { tenant: &self.tenant, node: self.node, gpu_model: "A100", job: None })
    }
}

impl Scene {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::over(RedisServer::start_with(RedisOptions::default()), change)
    }

    pub fn over(redis: RedisServer, change: impl FnOnce(&mut Config)) -> Self {
        let proxy = Proxy::to(redis.address());
        let gateway = gateway_on(&proxy, change);
        Self { redis: Some(redis), proxy, gateway }
    }

    pub fn another_gateway(&self) -> TestGateway {
        gateway_on(&self.proxy, |_| {})
    }

    pub fn redis(&self) -> &RedisServer {
        self.redis.as_ref().unwrap()
    }

    pub fn redis_mut(&mut self) -> &mut RedisServer {
        self.redis.as_mut().unwrap()
    }

    /// From now on writes go to another server; the proxy is the test's to point.
    pub fn replace_redis(&mut self, other: RedisServer) -> RedisServer {
        self.redis.replace(other).unwrap()
    }

    pub fn send(&self, sent: &Sent) {
        let answer = send_to(self.redis(), sent);
        assert!(!answer.contains("error"), "{answer}");
    }

    pub fn wait_for(&self, tenant: &str, held_us: u64) {
        wait(&format!("{tenant} with {held_us}"), || (held(&self.gateway, tenant) == Some(held_us)).then_some(()));
    }

    /// Redis has been read to the end, and what is sent from now on comes by the stream.
    pub fn wait_until_read(&self) {
        wait("Redis to be read", || (self.gateway.get("/readyz").json()["usage"]["away"] == 0).then_some(()));
    }

    pub fn metric(&self, name: &str) -> f64 {
        metric(&self.gateway, name)
    }

    pub fn quote(&self) -> Value {
        let answer = self.gateway.post("/v1/quotes", &fixture("requests/w1.json"));
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()
    }

    pub fn quote_messages(&self) -> Vec<String> {
        let quote = self.quote();
        let messages = quote["messages"].as_array().unwrap().iter().filter(|message| message["level"] != "advice");
        messages.map(|message| text(message, "/code")).collect()
    }

    /// Every snapshot that Redis has is the one that the gateway has.
    pub fn assert_mirror_equals_redis(&self) {
        let index = Keyspace::default().index(0);
        let keys = self.redis().command(&["ZRANGE", &index, "0", "-1"]);
        let mut count = 0;
        for key in keys.lines().filter(|key| !key.is_empty()) {
            let body = self.redis().command(&["GETRANGE", key, "53", "-1"]);
            let stored: Value = serde_json::from_str(&body).unwrap();
            let held_us = text(&stored, "/counters/held_us").parse().unwrap();
            self.wait_for(&text(&stored, "/tenant"), held_us);
            count += 1;
        }
        assert!(count > 0, "Redis has nothing");
    }
}

pub fn gateway_on(proxy: &Proxy, change: impl FnOnce(&mut Config)) -> TestGateway {
    let url = format!("redis://{}", proxy.address());
    TestGateway::start_with(Clock::system(), |config| {
        config.redis = Some(Redis { settings: RedisSettings::parse_url(&url).unwrap(), agents: agents() });
        change(config);
    })
}

/// By the agents' own script.
pub fn send_to(redis: &RedisServer, sent: &Sent) -> String {
    let keyspace = Keyspace::default();
    let (epoch, seq) = sent.order;
    let words = [
        "EVAL".to_owned(),
        WRITE.to_owned(),
        "4".to_owned(),
        keyspace.stream(0),
        keyspace.count(0),
        keyspace.index(0),
        sent.redis_key(),
        "1800000".to_owned(),
        "3600000".to_owned(),
        sent.entries.to_string(),
        order(epoch, seq),
        sent.body(),
    ];
    redis.command(&words.each_ref().map(String::as_str))
}

/// What the gateway says that the tenant's A100 have counted.
pub fn held(gateway: &TestGateway, tenant: &str) -> Option<u64> {
    let usage = gateway.get(&format!("/v1/tenants/{tenant}/usage"));
    let held = usage.json().pointer("/models/0/counters/held_us")?.as_str()?.parse();
    held.ok()
}

pub fn metric(gateway: &TestGateway, name: &str) -> f64 {
    let text = gateway.get("/metrics").body;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

pub fn wait<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(POLL);
    }
}
