//! Cases 18 and 20: who can write to Redis cannot write prices.

use farebox_metering::redis::link::RedisSettings;

use super::scene::{Scene, Sent, held, key};

/// How many were dropped for a reason.
fn dropped(scene: &Scene, reason: &str) -> f64 {
    scene.metric(&format!("farebox_mirror_feed_dropped_total{{reason=\"{reason}\"}}"))
}

#[test]
fn what_no_agent_of_ours_signed_does_not_count_and_is_counted() {
    let scene = Scene::new();
    scene.send(&Sent::new("acme", 1));
    scene.wait_for("acme", 1);
    let forged = |change: fn(&mut Sent)| {
        let mut sent = Sent::new("acme", 999);
        sent.order = (9, 999);
        change(&mut sent);
        sent
    };
    for (reason, change) in [
        ("mac_wrong", (|sent: &mut Sent| sent.key = Some(key(b'x'))) as fn(&mut Sent)),
        ("mac_absent", |sent| sent.key = None),
        ("unknown_node", |sent| sent.node = "gpu-99"),
        ("foreign_tenant", |sent| {
            (sent.node, sent.key) = ("acme-only", Some(key(b'l')));
            sent.tenant = "globex".to_owned();
        }),
        ("invalid", |sent| sent.change = |snapshot| snapshot["schema"] = 2.into()),
        ("unreadable", |sent| sent.change = |snapshot| snapshot["surprise"] = 1.into()),
        ("too_large", |sent| sent.change = |snapshot| snapshot["reasons"] = vec!["x".repeat(1_000); 300].into()),
    ] {
        let mut sent = forged(change);
        sent.seq = Some(sent.order);
        // Each in front of those before it, or the script would not take it.
        sent.order = (scene.metric("farebox_mirror_feed_entries_total") as u64 + 10, 0);
        scene.send(&sent);
        super::wait(reason, || (dropped(&scene, reason) >= 1.0).then_some(()));
    }
    assert_eq!((held(&scene.gateway, "acme"), held(&scene.gateway, "globex")), (Some(1), None));
    // One that starts now reads the forged value from its key, and drops it as well.
    let late = scene.another_gateway();
    super::wait("the late one", || (super::scene::metric(&late, "farebox_mirror_feed_connected") >= 1.0).then_some(()));
    assert_ne!(held(&late, "acme"), Some(999));
}

#[test]
fn what_was_signed_once_is_not_newer_when_it_is_replayed() {
    let scene = Scene::new();
    let old = Sent::new("acme", 1).body();
    scene.send(&Sent::new("acme", 2));
    scene.wait_for("acme", 2);
    // By hand, past the script: as the next entry of the stream.
    let keyspace = farebox_metering::redis::keys::Keyspace::default();
    let number = scene.redis().command(&["INCR", &keyspace.count(0)]);
    scene.redis().command(&["XADD", &keyspace.stream(0), "*", "n", &number, "s", &old]);
    super::wait("it to be read", || (scene.metric("farebox_mirror_snapshots_not_newer_total") >= 1.0).then_some(()));
    assert_eq!(held(&scene.gateway, "acme"), Some(2));
}

#[test]
fn nonsense_in_the_stream_neither_stops_the_feed_nor_makes_it_spin() {
    let scene = Scene::new();
    scene.send(&Sent::new("acme", 1));
    scene.wait_for("acme", 1);
    let keyspace = farebox_metering::redis::keys::Keyspace::default();
    for number in ["x", "7", "18446744073709551615", "0"] {
        scene.redis().command(&["XADD", &keyspace.stream(0), "*", "n", number, "t", "y"]);
    }
    scene.redis().command(&["SET", &keyspace.count(0), "nonsense", "PX", "60000"]);
    scene.redis().command(&["ZADD", &keyspace.index(0), "1", &keyspace.stream(0)]);
    super::wait("some bootstraps", || (scene.metric("farebox_mirror_feed_bootstraps_total") >= 2.0).then_some(()));
    assert_eq!(held(&scene.gateway, "acme"), Some(1));
    assert!(scene.metric("farebox_mirror_feed_bootstraps_total") < 20.0);
    scene.redis().command(&["DEL", &keyspace.stream(0), &keyspace.count(0), &keyspace.index(0)]);
    scene.send(&Sent::new("acme", 2));
    scene.wait_for("acme", 2);
}

/// The lines of `docs/redis.md`, as they stand there: what they allow is enough.
#[test]
fn the_users_of_the_documentation_may_do_what_a_gateway_does() {
    let scene = Scene::new();
    let mut sent = Sent::new("acme", 3_600_000_000);
    (sent.order, sent.change) = ((1, 1), super::roll_ups::counted);
    scene.send(&sent);
    let page = std::fs::read_to_string(crate::harness::root().join("docs/redis.md")).unwrap();
    let users: Vec<&str> = page.split('`').filter(|code| code.starts_with("user farebox-")).collect();
    assert_eq!(users.len(), 2, "{users:?}");
    for user in users {
        let words: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(user.split(' ').skip(1)).collect();
        assert_eq!(scene.redis().command(&words), "OK", "{user}");
        let url = format!("redis://{}:PASSWORD@{}", words[2], scene.redis().address());
        let login = |config: &mut farebox::config::Config| {
            config.redis.as_mut().unwrap().settings = RedisSettings::parse_url(&url).unwrap();
        };
        let mut gateway = super::scene::gateway_on(&scene.proxy, login);
        super::wait(user, || (held(&gateway, "acme") == Some(3_600_000_000)).then_some(()));
        gateway.stop();
        let refused = scene.redis().command(&["ACL", "LOG"]);
        assert!(!refused.contains("farebox-gateway"), "{refused}");
    }
    let keyspace = farebox_metering::redis::keys::Keyspace::default();
    assert!(!scene.redis().command(&["GET", &keyspace.roll_up("acme", "A100")]).is_empty(), "nothing was kept");
}
