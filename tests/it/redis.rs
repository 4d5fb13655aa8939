//! Usage through a real Redis: what agents write reaches the quotes of every gateway, nothing that goes wrong with Redis reaches
//! them, and nobody who can write to it moves a price (`shared/cases/metering.md` 12, 13, 17 to 21).

mod faults;
mod roll_ups;
mod scene;
mod trust;

use serde_json::json;

use crate::harness::{fixture, text};
use scene::{Scene, Sent, wait};

#[test]
fn what_agents_write_reaches_quotes_and_operators() {
    let scene = Scene::new();
    assert_eq!(scene.quote_messages(), ["no_snapshot"]);
    scene.wait_until_read();
    scene.send(&Sent::new("acme", 1));
    scene.wait_for("acme", 1);
    let quote = scene.gateway.post("/v1/quotes", &fixture("requests/w1.json")).json();
    let rows = quote["lines"][0]["adjustments"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["code"] == "above_70"), "{quote}");
    let ready = scene.gateway.get("/readyz").json();
    assert_eq!((&ready["usage"]["feed"], &ready["usage"]["away"]), (&json!("redis"), &json!(0)));
    assert!(ready["usage"]["age_ms"].is_u64(), "{ready}");
    for (metric, value) in [
        ("farebox_mirror_feed_shards", 1.0),
        ("farebox_mirror_feed_connected", 1.0),
        ("farebox_mirror_feed_lag_seconds_count", 1.0),
        ("farebox_mirror_feed_entries_total", 1.0),
        ("farebox_mirror_feed_gaps_total", 0.0),
        ("farebox_mirror_feed_bootstraps_total", 1.0),
    ] {
        assert_eq!(scene.metric(metric), value, "{metric}");
    }
    // One that comes later reads what is there.
    let later = scene.another_gateway();
    wait("the later gateway", || (scene::held(&later, "acme") == Some(1)).then_some(()));
}

#[test]
fn without_redis_snapshots_come_over_http_and_readiness_says_so() {
    let gateway = crate::harness::TestGateway::start();
    assert_eq!(gateway.get("/readyz").json()["usage"], json!({"feed": "http"}));
    assert!(!gateway.get("/metrics").body.contains("mirror_feed"));
}

/// Case 12, by tombstone, and by receipt where an agent has crashed; 13.
#[test]
fn snapshots_end_by_tombstone_by_age_and_go_forward_only() {
    let scene = Scene::with(|config| config.mirror.retention = jiff::SignedDuration::from_secs(6));
    let mut job = Sent::new("acme", 7);
    job.order = (2, 1);
    scene.send(&job);
    scene.wait_for("acme", 7);
    // Written late, by a lower epoch: the script refuses it, and a stream entry of it changes nothing.
    let mut older = Sent::new("acme", 3);
    older.order = (1, 9);
    scene.send(&older);
    older.order = (9, 9);
    older.seq = Some((1, 9));
    scene.send(&older);
    wait("the older one to be read", || {
        (scene.metric("farebox_mirror_snapshots_not_newer_total") >= 1.0).then_some(())
    });
    assert_eq!(scene::held(&scene.gateway, "acme"), Some(7));

    let mut globex = Sent::new("globex", 5);
    scene.send(&globex);
    scene.wait_for("globex", 5);
    globex.order = (2, 2);
    globex.health = "ended";
    scene.send(&globex);
    wait("the tombstone", || scene::held(&scene.gateway, "globex").is_none().then_some(()));
    // The agent of acme says nothing more.
    wait("the snapshot to expire", || scene::held(&scene.gateway, "acme").is_none().then_some(()));
    for key in scene.redis().command(&["KEYS", "*"]).lines() {
        let ttl: i64 = scene.redis().command(&["PTTL", key]).parse().unwrap();
        assert!(ttl > 0, "{key} has no expiry");
    }
}

/// Case 19.
#[test]
fn a_quiet_stream_ends_no_connection() {
    let scene = Scene::new();
    scene.wait_until_read();
    scene.send(&Sent::new("acme", 1));
    scene.wait_for("acme", 1);
    wait("some rounds without an entry", || {
        let stats = scene.redis().command(&["INFO", "commandstats"]);
        let calls =
            stats.lines().find_map(|line| line.strip_prefix("cmdstat_xread:calls=")?.split(',').next()?.parse().ok());
        calls.filter(|calls: &u32| *calls >= 5)
    });
    assert_eq!(scene.proxy.accepted(), 1);
    assert_eq!(
        (scene.metric("farebox_mirror_feed_gaps_total"), scene.metric("farebox_mirror_feed_bootstraps_total")),
        (0.0, 1.0)
    );
}

/// Case 21, small. Trimmed to fewer entries than are written between two rounds, so that gaps are repaired as well.
#[test]
fn a_thousand_tenants_are_followed() {
    let scene = Scene::new();
    for tick in 1..=3_u64 {
        for tenant in 0..1_000 {
            let mut sent = Sent::new(&format!("tenant-{tenant}"), tick);
            sent.order = (1, tick);
            sent.entries = 50;
            scene.send(&sent);
        }
        assert_eq!(scene.gateway.post("/v1/quotes", &fixture("requests/w1.json")).status, 201);
    }
    for tenant in 0..1_000 {
        scene.wait_for(&format!("tenant-{tenant}"), 3);
    }
    assert_eq!(scene.metric("farebox_mirror_snapshots"), 1_000.0);
}

#[test]
fn two_gateways_say_the_same() {
    let scene = Scene::new();
    let other = scene.another_gateway();
    for tick in 1..=40_u64 {
        let mut sent = Sent::new("acme", tick);
        sent.order = (1, tick);
        scene.send(&sent);
    }
    let said = |gateway: &crate::harness::TestGateway| {
        let mut usage = gateway.get("/v1/tenants/acme/usage").json();
        let model = usage["models"].as_array_mut()?.first_mut()?.as_object_mut()?;
        model.remove("age_ms");
        for source in model.get_mut("sources")?.as_array_mut()? {
            source.as_object_mut()?.remove("age_ms");
        }
        (text(&usage, "/models/0/counters/held_us") == "40").then(|| usage.to_string())
    };
    assert_eq!(wait("one", || said(&scene.gateway)), wait("the other", || said(&other)));
}
