//! Case 17: whatever goes wrong with Redis, quotes go on, their ages are true, and afterwards the mirror equals Redis.

use std::thread;
use std::time::{Duration, Instant};

use farebox_servers::{Fault, RedisOptions, RedisServer};

use super::scene::{Scene, Sent, gateway_on, held, send_to, wait};
use crate::harness::{fixture, text};

/// A quote takes some ms. One that waits for a Redis that is silent would wait until that is given up, 8 s.
const LONGEST_QUOTE: Duration = Duration::from_secs(5);
/// How far the gateway's reckoning of when the server received something may be off, on a busy machine.
const LEEWAY_MS: u64 = 1_000;

/// A scene in which acme and globex are known.
fn known() -> Scene {
    let scene = Scene::new();
    tell(&scene, 1);
    scene
}

fn tell(scene: &Scene, held_us: u64) {
    for tenant in ["acme", "globex"] {
        scene.send(&Sent::new(tenant, held_us));
    }
    scene.wait_for("acme", held_us);
    scene.wait_for("globex", held_us);
}

/// Quotes are answered while the fault lasts, with the age that the observation has: one that waited for Redis would be as old as
/// it waited, and one that was taken for fresh would be young.
fn quotes_go_on(scene: &Scene) {
    let mut ages = Vec::new();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        let asked = Instant::now();
        let quote = scene.quote();
        assert!(asked.elapsed() < LONGEST_QUOTE, "a quote waited {:?}", asked.elapsed());
        let snapshot = &quote["inputs"]["snapshot"];
        let observed_at: jiff::Timestamp = text(snapshot, "/observed_at").parse().unwrap();
        let created_at: jiff::Timestamp = text(&quote, "/created_at").parse().unwrap();
        let age_ms = snapshot["age_ms"].as_u64().unwrap();
        let true_age_ms = u64::try_from(created_at.duration_since(observed_at).as_millis()).unwrap();
        assert!((true_age_ms..=true_age_ms + LEEWAY_MS).contains(&age_ms), "{snapshot} is {true_age_ms} ms old");
        ages.push(age_ms);
        thread::sleep(Duration::from_millis(50));
    }
    assert!(ages.is_sorted() && ages.last() > ages.first(), "{ages:?}");
}

/// What is told after the fault arrives, and nothing of what Redis has is missing.
fn recovers(scene: &Scene, held_us: u64) {
    tell(scene, held_us);
    scene.assert_mirror_equals_redis();
    wait("readiness to say so", || (scene.gateway.get("/readyz").json()["usage"]["away"] == 0).then_some(()));
}

fn away(scene: &Scene) {
    wait("readiness to say so", || {
        let ready = scene.gateway.get("/readyz");
        assert_eq!(ready.status, 200);
        (ready.json()["usage"]["away"] == 1).then_some(())
    });
}

#[test]
fn killed_and_restarted_empty() {
    let mut scene = known();
    scene.redis_mut().kill();
    quotes_go_on(&scene);
    away(&scene);
    scene.redis_mut().restart();
    // One of the two is told again only; the other one is still known, from before.
    scene.send(&Sent::new("acme", 2));
    scene.wait_for("acme", 2);
    assert_eq!(held(&scene.gateway, "globex"), Some(1));
    recovers(&scene, 3);
    assert!(scene.metric("farebox_mirror_feed_gaps_total") >= 1.0);
}

#[test]
fn not_there_at_the_start() {
    let mut redis = RedisServer::start();
    redis.kill();
    let mut scene = Scene::over(redis, |_| {});
    assert_eq!(scene.quote_messages(), ["no_snapshot"]);
    let usage = scene.gateway.get("/readyz").json()["usage"].clone();
    assert_eq!((&usage["away"], usage.get("age_ms")), (&1.into(), None));
    scene.redis_mut().restart();
    recovers(&scene, 1);
}

#[test]
fn frozen() {
    let scene = known();
    scene.redis().freeze();
    quotes_go_on(&scene);
    away(&scene);
    quotes_go_on(&scene);
    scene.redis().thaw();
    recovers(&scene, 2);
}

#[test]
fn cut_off() {
    let scene = known();
    for (held_us, fault) in [(2, Fault::Reset), (3, Fault::Refuse), (4, Fault::Truncate(7))] {
        scene.proxy.set(fault);
        // Written while nobody sees it.
        scene.send(&Sent::new("globex", held_us));
        quotes_go_on(&scene);
        scene.proxy.set(Fault::Pass);
        recovers(&scene, held_us + 10);
    }
}

#[test]
fn swallowed_by_the_network() {
    let scene = known();
    scene.proxy.set(Fault::Drop);
    scene.send(&Sent::new("globex", 2));
    quotes_go_on(&scene);
    away(&scene);
    scene.proxy.set(Fault::Pass);
    scene.wait_for("globex", 2);
    recovers(&scene, 3);
}

#[test]
fn slow_by_two_seconds_each_way() {
    let scene = known();
    scene.proxy.set(Fault::Delay(Duration::from_secs(2)));
    scene.send(&Sent::new("acme", 2));
    quotes_go_on(&scene);
    // It arrives all the same, and is as old as it is.
    scene.wait_for("acme", 2);
    quotes_go_on(&scene);
    assert_eq!(scene.gateway.get("/readyz").json()["usage"]["away"], 0);
    // A gateway that knew nothing before.
    let late = gateway_on(&scene.proxy, |_| {});
    wait("a gateway that starts now", || (held(&late, "acme") == Some(2)).then_some(()));
    scene.proxy.set(Fault::Pass);
    recovers(&scene, 3);
}

/// The replica lags: it has not heard of the last two, and what is written to it next has their numbers.
#[test]
fn failed_over_to_a_replica_that_lags() {
    let mut scene = known();
    let replica = RedisServer::start();
    replica.replica_of(scene.redis());
    replica.promote();
    tell(&scene, 2);
    scene.proxy.point_at(replica.address());
    let mut old = scene.replace_redis(replica);
    for tenant in ["acme", "initech"] {
        let mut sent = Sent::new(tenant, 3);
        sent.order = (1, 3);
        scene.send(&sent);
    }
    old.kill();
    quotes_go_on(&scene);
    scene.wait_for("acme", 3);
    scene.wait_for("initech", 3);
    // The one that the replica never heard of does not go back.
    assert_eq!(held(&scene.gateway, "globex"), Some(2));
    recovers(&scene, 4);
}

#[test]
fn busy_with_a_script() {
    let scene =
        Scene::over(RedisServer::start_with(RedisOptions::default().with("busy-reply-threshold", "50")), |_| {});
    tell(&scene, 1);
    thread::scope(|threads| {
        threads.spawn(|| scene.redis().command(&["EVAL", "while true do end", "0"]));
        wait("Redis to be busy", || scene.redis().command(&["PING"]).contains("BUSY").then_some(()));
        quotes_go_on(&scene);
        wait("the script to be killed", || {
            let answer = scene.redis().command(&["SCRIPT", "KILL"]);
            (answer == "OK" || answer.contains("NOTBUSY")).then_some(())
        });
    });
    recovers(&scene, 2);
}

#[test]
fn out_of_memory() {
    let scene = known();
    scene.redis().command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(send_to(scene.redis(), &Sent::new("acme", 2)).contains("OOM"));
    quotes_go_on(&scene);
    assert_eq!(scene.gateway.get("/readyz").json()["usage"]["away"], 0, "what is there can still be read");
    scene.redis().command(&["CONFIG", "SET", "maxmemory", "0"]);
    recovers(&scene, 3);
}

/// A gateway beside a replica, which takes no writes of its own.
#[test]
fn read_only() {
    let scene = known();
    let replica = RedisServer::start();
    replica.replica_of(scene.redis());
    let proxy = farebox_servers::Proxy::to(replica.address());
    let mut beside = gateway_on(&proxy, |_| {});
    wait("what the replica has", || (held(&beside, "acme") == Some(1)).then_some(()));
    assert!(send_to(&replica, &Sent::new("acme", 2)).contains("READONLY"));
    scene.send(&Sent::new("acme", 2));
    wait("what the replica hears", || (held(&beside, "acme") == Some(2)).then_some(()));
    assert_eq!(beside.post("/v1/quotes", &fixture("requests/w1.json")).status, 201);
    beside.stop();
}

#[test]
fn loading_its_data() {
    let folder = crate::harness::Folder::new("loading");
    std::fs::create_dir_all(&*folder).unwrap();
    let options = RedisOptions::default()
        .with("enable-debug-command", "yes")
        .with("dir", folder.to_str().unwrap())
        .with("loading-process-events-interval-bytes", "1024");
    let scene = Scene::over(RedisServer::start_with(options), |_| {});
    tell(&scene, 1);
    for number in 0..40 {
        scene.redis().command(&["SET", &format!("other-{number}"), "x"]);
    }
    // 40 keys and those of ours, 0.1 s each.
    scene.redis().command(&["CONFIG", "SET", "key-load-delay", "100000"]);
    thread::scope(|threads| {
        let loading = threads.spawn(|| scene.redis().command(&["DEBUG", "RELOAD"]));
        wait("Redis to load", || scene.redis().command(&["GET", "x"]).contains("LOADING").then_some(()));
        quotes_go_on(&scene);
        assert_eq!(loading.join().unwrap(), "OK");
    });
    recovers(&scene, 2);
}
