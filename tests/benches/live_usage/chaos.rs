//! Two gateways, three agents and Redis, each killed at random and started again: no snapshot may ever go backwards, and in the
//! end both mirrors are what Redis has.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use farebox_servers::RedisServer;
use jiff::Timestamp;
use serde_json::Value;

use super::fleet::{Folder, Gateway, agent};

/// Boot epoch and sequence.
type Order = (Timestamp, u64);
/// By node and job.
type Sources = BTreeMap<(String, String), Order>;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

pub(crate) fn run(minutes: u64) {
    let folder = Folder::new("chaos");
    let mut redis = RedisServer::start();
    let mut gateways = ["gateway 1", "gateway 2"].map(|name| Gateway::start(name, &redis.url(), &folder.0));
    let mut agents = ["gpu-01", "gpu-02", "gpu-03"].map(|node| agent(node, &redis.url(), &folder.0));
    let mut seen = [Sources::new(), Sources::new()];
    // Whether Redis has lost everything since the gateway was started. A gateway that starts after that may be told again, out of
    // an agent's spool, of what the one before it knew to be old: nobody is left who knows.
    let mut is_lost = [false, false];
    let (mut random, mut looks, mut kills) = (Random(20_261_201), 0_u64, BTreeMap::<String, u64>::new());
    // What is dead, and when it comes back.
    let mut dead: Vec<(usize, Instant)> = Vec::new();
    let (began, mut next_kill) = (Instant::now(), Instant::now() + Duration::from_secs(3));
    while began.elapsed() < Duration::from_secs(60 * minutes) {
        looks += look(&gateways, &mut seen);
        for (victim, back) in std::mem::take(&mut dead) {
            if back > Instant::now() {
                dead.push((victim, back));
                continue;
            }
            match victim {
                0 | 1 => {
                    if std::mem::take(&mut is_lost[victim]) {
                        seen[victim].clear();
                    }
                    gateways[victim].process.resume();
                }
                2..=4 => agents[victim - 2].resume(),
                _ => {
                    redis.restart();
                    is_lost = [true, true];
                }
            }
        }
        if Instant::now() >= next_kill {
            next_kill = Instant::now() + Duration::from_millis(2_000 + random.below(6_000));
            let victim = random.below(6) as usize;
            if dead.iter().all(|(other, _)| *other != victim) {
                let name = match victim {
                    0 | 1 => {
                        gateways[victim].process.kill();
                        gateways[victim].process.name.clone()
                    }
                    2..=4 => {
                        agents[victim - 2].kill();
                        agents[victim - 2].name.clone()
                    }
                    _ => {
                        redis.kill();
                        "redis".to_owned()
                    }
                };
                *kills.entry(name).or_default() += 1;
                dead.push((victim, Instant::now() + Duration::from_millis(200 + random.below(4_000))));
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
    for (victim, _) in dead {
        match victim {
            0 | 1 => gateways[victim].process.resume(),
            2..=4 => agents[victim - 2].resume(),
            _ => redis.restart(),
        }
    }
    gateways.iter().for_each(Gateway::wait);
    settle(&gateways, &redis, &mut agents);
    println!("{minutes} min, {looks} looks at sources, none went backwards; killed: {kills:?}");
}

/// How many sources were seen; each at least as new as the same gateway ever showed it.
fn look(gateways: &[Gateway; 2], seen: &mut [Sources; 2]) -> u64 {
    let mut looks = 0;
    for (gateway, seen) in gateways.iter().zip(seen) {
        for (source, order) in gateway.process.runs().then(|| sources(gateway)).flatten().unwrap_or_default() {
            looks += 1;
            let newest = seen.entry(source.clone()).or_insert(order);
            assert!(order >= *newest, "{}: {source:?} went back from {newest:?} to {order:?}", gateway.process.name);
            *newest = order;
        }
    }
    looks
}

fn sources(gateway: &Gateway) -> Option<Sources> {
    let usage = gateway.json("/v1/tenants/acme/usage")?;
    let models = usage["models"].as_array()?;
    let sources = models.iter().flat_map(|model| model["sources"].as_array().unwrap());
    Some(sources.map(|source| (holding(source), order(source))).collect())
}

fn holding(source: &Value) -> (String, String) {
    (source["node"].as_str().unwrap().to_owned(), source["job"].as_str().unwrap_or_default().to_owned())
}

fn order(source: &Value) -> Order {
    (source["boot_epoch"].as_str().unwrap().parse().unwrap(), source["seq"].as_u64().unwrap())
}

/// Once every agent has spoken again and then fallen silent, both gateways must come to show what Redis has.
fn settle(gateways: &[Gateway; 2], redis: &RedisServer, agents: &mut [super::fleet::Process; 3]) {
    let began = Instant::now();
    while in_redis(redis).len() < agents.len() || gateways.iter().any(|gateway| sources(gateway).is_none()) {
        assert!(began.elapsed() < Duration::from_secs(60), "the agents do not come back");
        thread::sleep(Duration::from_millis(100));
    }
    thread::sleep(Duration::from_secs(5));
    agents.iter_mut().for_each(super::fleet::Process::kill);
    let began = Instant::now();
    loop {
        let (stored, mirrors) = (in_redis(redis), gateways.each_ref().map(sources));
        if mirrors.iter().all(|mirror| mirror.as_ref() == Some(&stored)) {
            println!("in the end: {stored:?} in Redis and in both mirrors");
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "Redis has {stored:?}, the mirrors {mirrors:?}");
        thread::sleep(Duration::from_millis(200));
    }
}

fn in_redis(redis: &RedisServer) -> Sources {
    let keys = redis.command(&["ZRANGE", "{farebox:0}:index", "0", "-1"]);
    let snapshots = keys.lines().filter(|key| !key.is_empty()).map(|key| redis.command(&["GET", key]));
    let snapshots = snapshots.filter_map(|value| serde_json::from_str::<Value>(value.get(53..)?).ok());
    snapshots.map(|snapshot| (holding(&snapshot), order(&snapshot))).collect()
}
