//! Delivery into real servers that are killed, frozen, full, busy, cut off or of another opinion: the courier goes on, the spool
//! keeps, and afterwards Redis has the newest.

use std::sync::atomic::{AtomicI64, Ordering};

use farebox_servers::{Certificates, Fault, Proxy, RedisOptions, RedisServer};
use serde_json::json;

use super::*;
use crate::clock::Now;
use crate::redis::keys::{Keyspace, ORDER_DIGITS, RECEIVED_DIGITS, Whose, order};
use crate::redis::link::{RedisSettings, Tls};
use crate::redis::writer::{Signed, WriteLimits, Writer};
use crate::samples::{Directory, body_with};

/// No test waits for it; it ends one that hangs.
const LONG: Duration = Duration::from_secs(60);
const AGENTS_DOCUMENT: &str = include_str!("../../../../docs/agent.md");

/// An agent's delivery, with a spool.
struct Scene {
    directory: Directory,
    delivery: Delivery,
}

fn snapshot(job: &str, seq: u64, health: &str) -> WireSnapshot {
    let changes = [("/job", json!(job)), ("/seq", json!(seq)), ("/health", json!(health))];
    let mut snapshot: WireSnapshot = serde_json::from_value(body_with(&changes)).unwrap();
    snapshot.mac = None;
    snapshot
}

fn whose(job: &str) -> Whose<'_> {
    Whose { tenant: "acme", node: "gpu-07", gpu_model: "A100", job: Some(job) }
}

fn settings(port: u16) -> RedisSettings {
    RedisSettings::parse_url(&format!("redis://127.0.0.1:{port}")).unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = Clock::system();
    while !is_so() {
        assert!(Duration::from_micros(clock.now().mono_us) < LONG, "{what}: not in time");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The snapshot that Redis has.
fn stored(server: &RedisServer, job: &str) -> Option<WireSnapshot> {
    let value = server.command(&["GET", &Keyspace::default().snapshot(whose(job))]);
    serde_json::from_str(value.get(ORDER_DIGITS + RECEIVED_DIGITS..)?).ok()
}

fn seq(server: &RedisServer, job: &str) -> Option<u64> {
    stored(server, job).map(|snapshot| snapshot.seq)
}

/// Why a writer of its own finds nobody.
fn reason(settings: &RedisSettings) -> String {
    let mut writer = Writer::new(settings, WriteLimits::standard(), Clock::system()).unwrap();
    let order = order(1, 1);
    let outcome = writer.write(&[Signed { whose: whose("other"), order: &order, body: b"{}" }]);
    outcome.away.expect("a reason")
}

impl Scene {
    fn start(settings: &RedisSettings) -> Self {
        Self::start_by(settings, Clock::system())
    }

    fn start_by(settings: &RedisSettings, clock: Clock) -> Self {
        let directory = Directory::new();
        let key = MacKey::parse("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
        let settings = DeliverySettings {
            to: Destination::Redis(settings.clone(), WriteLimits::standard()),
            key: Some(key),
            limits: SpoolLimits::standard(),
            state_dir: Some(directory.path().to_owned()),
        };
        Self { delivery: Delivery::start(settings, clock).unwrap(), directory }
    }

    fn counters(&self) -> DeliveryCounters {
        self.delivery.counters()
    }

    fn before(&self, server: &RedisServer) {
        self.delivery.offer(&[snapshot("a", 1, "ok")]);
        until("the first snapshot is there", || seq(server, "a") == Some(1));
    }

    /// Something is wrong: the newest of one job, and a job that ended, wait in memory and on disk.
    fn during(&self, newest: u64) {
        let failed = self.counters().failed;
        self.delivery.offer(&[snapshot("a", newest - 1, "ok")]);
        until("a try fails", || self.counters().failed > failed);
        self.delivery.offer(&[snapshot("a", newest, "ok"), snapshot("b", newest, "ended")]);
        let counters = self.counters();
        assert_eq!((counters.away, counters.waiting), (true, 2));
        let spool = self.directory.path().join(FILE);
        until("the spool keeps them", || std::fs::read(&spool).is_ok_and(|kept| !kept.is_empty()));
    }

    /// All is well again.
    fn after(&self, server: &RedisServer, newest: u64) {
        until("the newest is there", || seq(server, "a") == Some(newest) && seq(server, "b") == Some(newest));
        until("nothing waits", || self.counters().waiting == 0 && !self.counters().away);
        for key in server.command(&["KEYS", "*"]).lines() {
            assert!(server.command(&["PTTL", key]).parse::<i64>().unwrap() > 0, "{key}");
        }
        let spool = self.directory.path().join(FILE);
        until("the spool is empty", || !spool.exists());
    }
}

#[test]
fn snapshots_are_in_redis_with_their_mac() {
    let server = RedisServer::start();
    let scene = Scene::start(&settings(server.port()));
    scene.before(&server);
    let value = server.command(&["GET", &Keyspace::default().snapshot(whose("a"))]);
    let key = MacKey::parse("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
    assert_eq!(mac::verify(&key, &value.as_bytes()[ORDER_DIGITS + RECEIVED_DIGITS..]), Ok(()));
    // More than one call carries, at once.
    let many: Vec<_> = (0..1_200).map(|job| snapshot(&format!("job-{job}"), 1, "ok")).collect();
    scene.delivery.offer(&many);
    until("all are there", || server.command(&["ZCARD", "{farebox:0}:index"]) == "1201");
    let mut odd = snapshot("odd", 1, "ok");
    odd.boot_epoch = "+1".to_owned();
    scene.delivery.offer(&[odd, snapshot("a", 2, "ok")]);
    until("the other is there", || seq(&server, "a") == Some(2));
    until("what no agent writes is refused", || scene.counters().refused == 1);
    scene.delivery.offer(&[snapshot("a", 3, "ok")]);
    scene.delivery.stop(LONG);
    assert_eq!((seq(&server, "a"), scene.counters().applied), (Some(3), 1_203));
}

#[test]
fn a_server_that_is_killed_and_starts_empty() {
    let mut server = RedisServer::start();
    let scene = Scene::start(&settings(server.port()));
    scene.before(&server);
    server.kill();
    assert_eq!(reason(&settings(server.port())), "connection refused");
    scene.during(3);
    server.restart();
    scene.after(&server, 3);
    // Between two snapshots nobody notices.
    server.restart();
    let failed = scene.counters().failed;
    scene.delivery.offer(&[snapshot("a", 4, "ok")]);
    until("the next one is there", || seq(&server, "a") == Some(4));
    assert_eq!(scene.counters().failed, failed);
}

#[test]
fn a_server_that_is_frozen_and_one_that_is_busy() {
    let server = RedisServer::start();
    let scene = Scene::start(&settings(server.port()));
    scene.before(&server);
    server.freeze();
    scene.during(3);
    server.thaw();
    scene.after(&server, 3);

    assert_eq!(server.command(&["CONFIG", "SET", "busy-reply-threshold", "100"]), "OK");
    thread::scope(|scope| {
        scope.spawn(|| server.command(&["EVAL", "while true do end", "0"]));
        until("it is busy", || server.command(&["PING"]).contains("BUSY"));
        assert!(reason(&settings(server.port())).contains("(BUSY)"));
        scene.during(5);
        assert_eq!(server.command(&["SCRIPT", "KILL"]), "OK");
    });
    scene.after(&server, 5);
}

#[test]
fn a_server_that_is_full_and_one_that_became_a_replica() {
    let (server, primary) = (RedisServer::start(), RedisServer::start());
    let scene = Scene::start(&settings(server.port()));
    scene.before(&server);
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "OK");
    assert!(reason(&settings(server.port())).contains("(OOM)"));
    scene.during(3);
    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "0"]), "OK");
    scene.after(&server, 3);

    server.replica_of(&primary);
    assert!(reason(&settings(server.port())).contains("(READONLY)"));
    scene.during(5);
    server.promote();
    scene.after(&server, 5);
}

#[test]
fn a_failover_behind_one_address_is_followed() {
    let (first, second) = (RedisServer::start(), RedisServer::start());
    second.replica_of(&first);
    let proxy = Proxy::to(first.address());
    let scene = Scene::start(&settings(proxy.port()));
    scene.before(&first);
    second.promote();
    first.replica_of(&second);
    proxy.point_at(second.address());
    // The open connection leads to what is a replica now.
    scene.delivery.offer(&[snapshot("a", 2, "ok"), snapshot("b", 2, "ended")]);
    scene.after(&second, 2);
    assert!(scene.counters().failed > 0);
}

#[test]
fn a_server_that_loads_its_data() {
    let directory = Directory::new();
    let options = RedisOptions::default().with("dir", directory.path().to_str().unwrap());
    let mut server = RedisServer::start_with(options.with("rdbcompression", "no"));
    let scene = Scene::start(&settings(server.port()));
    scene.before(&server);
    let fill = "for i = 1, 400 do redis.call('SET', 'filler-' .. i, string.rep('x', 2000), 'PX', 600000) end";
    server.command(&["EVAL", fill, "0"]);
    assert_eq!(server.command(&["SAVE"]), "OK");
    // Each key takes so many µs, and between them it answers.
    server.options().0.push(("key-load-delay".to_owned(), "15000".to_owned()));
    server.options().0.push(("loading-process-events-interval-bytes".to_owned(), "1024".to_owned()));
    server.restart();
    assert!(reason(&settings(server.port())).contains("(LOADING)"));
    scene.during(3);
    scene.after(&server, 3);
}

#[test]
fn a_server_with_another_password() {
    let mut server = RedisServer::start_with(RedisOptions::default().with("requirepass", "theirs"));
    let ours = RedisSettings { password: Some("ours".to_owned()), ..settings(server.port()) };
    let scene = Scene::start(&ours);
    assert!(reason(&ours).contains("(WRONGPASS)"));
    scene.during(3);
    assert_eq!(server.command(&["CONFIG", "SET", "requirepass", "ours"]), "OK");
    *server.options() = RedisOptions::default().with("requirepass", "ours");
    scene.after(&server, 3);
}

#[test]
fn the_access_list_of_the_document_is_enough() {
    let server = RedisServer::start();
    let line = AGENTS_DOCUMENT.lines().find(|line| line.starts_with("ACL SETUSER farebox-agent ")).unwrap();
    let user = RedisSettings {
        username: Some("farebox-agent".to_owned()),
        password: Some("s3cret".to_owned()),
        ..settings(server.port())
    };
    // A user who may do nothing yet.
    assert_eq!(server.command(&["ACL", "SETUSER", "farebox-agent", "on", ">s3cret", "+ping"]), "OK");
    let scene = Scene::start(&user);
    assert!(reason(&user).contains("(NOPERM)"));
    scene.during(3);
    let words: Vec<_> = line.split(' ').map(|word| if word.starts_with('>') { ">s3cret" } else { word }).collect();
    assert_eq!(server.command(&words), "OK", "{line}");
    scene.after(&server, 3);

    // Each of its words is needed.
    let commands: Vec<_> = words.iter().filter(|word| word.starts_with('+')).collect();
    assert!(commands.len() > 5, "{line}");
    for command in commands {
        let without = format!("-{}", &command[1..]);
        assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "OK");
        assert_eq!(server.command(&["ACL", "SETUSER", "farebox-agent", &without]), "OK");
        assert!(reason(&user).contains("(NOPERM)"), "{command}");
        assert_eq!(server.command(&["ACL", "SETUSER", "farebox-agent", command]), "OK");
        let _ = server.command(&["FLUSHALL"]);
    }
    let elsewhere = RedisSettings { keyspace: Keyspace { prefix: "other".to_owned(), shards: 1 }, ..user };
    assert!(reason(&elsewhere).contains("(NOPERM)"));
}

#[test]
fn a_network_that_swallows_and_delays() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.address());
    let scene = Scene::start(&settings(proxy.port()));
    scene.before(&server);
    let faults = [Fault::Drop, Fault::Delay(Duration::from_secs(3_600))];
    for (fault, newest) in faults.into_iter().zip((3..).step_by(2)) {
        proxy.set(fault);
        scene.during(newest);
        proxy.set(Fault::Pass);
        scene.after(&server, newest);
    }
    // What arrives and is not answered for is sent again.
    let before = scene.counters();
    proxy.set(Fault::DropAnswers);
    scene.delivery.offer(&[snapshot("a", 9, "ok")]);
    until("a try fails", || scene.counters().failed > before.failed);
    assert_eq!(seq(&server, "a"), Some(9));
    proxy.set(Fault::Pass);
    until("nothing waits", || scene.counters().waiting == 0);
    assert_eq!((scene.counters().not_newer, scene.counters().applied), (before.not_newer + 1, before.applied));
}

#[test]
fn a_network_that_cuts_and_resets() {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.address());
    let scene = Scene::start(&settings(proxy.port()));
    scene.before(&server);
    for (fault, newest) in [Fault::Truncate(7), Fault::Reset, Fault::Refuse].into_iter().zip((3..).step_by(2)) {
        proxy.set(fault);
        scene.during(newest);
        proxy.set(Fault::Pass);
        scene.after(&server, newest);
    }
}

#[test]
fn tls_by_an_own_authority_and_by_a_stranger() {
    let server = RedisServer::start_with_tls(RedisOptions::default());
    let stranger = Certificates::make();
    let trusting = |file: &Path| RedisSettings {
        tls: Some(Tls { authorities: Some(std::fs::read(file).unwrap()) }),
        ..settings(server.tls_port())
    };
    let scene = Scene::start(&trusting(&server.authority()));
    scene.before(&server);
    let betrayed = Scene::start(&trusting(&stranger.authority()));
    assert!(reason(&trusting(&stranger.authority())).contains("certificate"));
    betrayed.during(9);
    assert_eq!(seq(&server, "a"), Some(1));
}

#[test]
fn without_windows_while_the_clock_is_off() {
    let server = RedisServer::start();
    let ahead_us = Arc::new(AtomicI64::new(10_000_000));
    let (system, offset) = (Clock::system(), Arc::clone(&ahead_us));
    let clock = Clock::from_fn(move || {
        let Now { wall_us, mono_us } = system.now();
        Now { wall_us: wall_us + offset.load(Ordering::SeqCst), mono_us }
    });
    let scene = Scene::start_by(&settings(server.port()), clock);
    let sent = |seq: u64| {
        scene.delivery.offer(&[snapshot("a", seq, "ok")]);
        until("it is settled", || scene.counters().applied == seq);
        stored(&server, "a").unwrap()
    };
    assert!(sent(1).windows.m15.is_some(), "the skew is not known yet");
    let skew_us = scene.counters().clock_skew_us.unwrap();
    assert!((5_000_000..=10_000_000).contains(&skew_us), "{skew_us}");
    let without = sent(2);
    assert!(without.windows.m15.is_none() && without.histograms.is_some());
    ahead_us.store(0, Ordering::SeqCst);
    assert!(sent(3).windows.m15.is_none(), "it is known with the next answer");
    assert!(sent(4).windows.m15.is_some());
    assert_eq!(scene.counters().windows_withheld, 2);
}
