//! The script on a real server.

use farebox_servers::RedisServer;

use super::*;
use crate::redis::keys::{Stored, order};

fn writer(server: &RedisServer, limits: WriteLimits) -> Writer {
    Writer::new(&RedisSettings::parse_url(&server.url()).unwrap(), limits, Clock::system()).unwrap()
}

fn whose(job: &str) -> Whose<'_> {
    Whose { tenant: "acme", node: "gpu-07", gpu_model: "A100", job: Some(job) }
}

/// Writes one, `epoch` and `seq` in its body as well.
fn wrote(writer: &mut Writer, (epoch, seq): (u64, u64)) -> Option<bool> {
    let (order, body) = (order(epoch, seq), format!("{{\"of\":[{epoch},{seq}]}}"));
    let outcome = writer.write(&[Signed { whose: whose("a"), order: &order, body: body.as_bytes() }]);
    assert_eq!(outcome.away, None);
    outcome.taken[0]
}

fn number(server: &RedisServer, words: &[&str]) -> i64 {
    server.command(words).parse().unwrap()
}

const STREAM: &str = "{farebox:0}:stream";
const VALUE: &str = "{farebox:0}:snapshot:acme:gpu-07:A100:a";

#[test]
fn only_what_is_newer_is_taken_whoever_sends_it_and_whenever() {
    let server = RedisServer::start();
    let (mut first, mut second) = (writer(&server, WriteLimits::standard()), writer(&server, WriteLimits::standard()));
    assert_eq!(wrote(&mut first, (1, 5)), Some(true));
    for replayed_or_late in [(1, 5), (1, 4), (0, 9)] {
        assert_eq!(wrote(&mut first, replayed_or_late), Some(false), "{replayed_or_late:?}");
    }
    assert_eq!(wrote(&mut second, (2, 1)), Some(true), "a later start");
    assert_eq!(wrote(&mut first, (1, 6)), Some(false), "an agent that was started before it");
    assert_eq!(wrote(&mut second, (2, 10)), Some(true));
    assert_eq!(wrote(&mut second, (2, 9)), Some(false), "as numbers, not as words");

    let value = server.command(&["GET", VALUE]);
    assert_eq!(Stored::read(value.as_bytes()).unwrap().snapshot, b"{\"of\":[2,10]}");
    assert_eq!(
        (number(&server, &["XLEN", STREAM]), server.command(&["GET", "{farebox:0}:count"])),
        (3, "3".to_owned())
    );
    let last = server.command(&["XREVRANGE", STREAM, "+", "-", "COUNT", "1"]);
    assert!(last.ends_with("n\n3\ns\n{\"of\":[2,10]}"), "{last}");
}

#[test]
fn every_key_expires_and_the_index_has_the_living_only() {
    let server = RedisServer::start();
    let short = WriteLimits { keep: Duration::from_millis(300), ..WriteLimits::standard() };
    wrote(&mut writer(&server, short), (1, 1));
    let value = server.command(&["GET", VALUE]);
    let received_ms = Stored::read(value.as_bytes()).map(|stored| stored.received_ms);
    assert!(received_ms.is_some_and(|ms| ms > 1_700_000_000_000), "{value}");
    let mut other = writer(&server, WriteLimits::standard());
    let (began, patience) = (server.command(&["TIME"]), Duration::from_secs(20));
    // Until the first is gone, by the server's own clock.
    let seconds = |time: &str| time.lines().next().and_then(|seconds| seconds.parse::<u64>().ok()).unwrap();
    while number(&server, &["EXISTS", VALUE]) == 1 {
        assert!(seconds(&server.command(&["TIME"])) < seconds(&began) + patience.as_secs(), "it does not expire");
    }
    let order = order(1, 1);
    let outcome = other.write(&[Signed { whose: whose("b"), order: &order, body: b"{}" }]);
    assert_eq!(outcome.taken, [Some(true)]);
    assert_eq!(server.command(&["ZRANGE", "{farebox:0}:index", "0", "-1"]), "{farebox:0}:snapshot:acme:gpu-07:A100:b");
    for key in server.command(&["KEYS", "*"]).lines() {
        assert!(number(&server, &["PTTL", key]) > 0, "{key}");
    }
    assert_eq!(server.command(&["DBSIZE"]), "4");
}

#[test]
fn the_stream_is_bounded_and_a_tenant_is_in_one_shard() {
    let server = RedisServer::start();
    let mut settings = RedisSettings::parse_url(&server.url()).unwrap();
    settings.keyspace.shards = 4;
    let limits = WriteLimits { stream_entries: 1_000, ..WriteLimits::standard() };
    let mut writer = Writer::new(&settings, limits, Clock::system()).unwrap();
    let tenants: Vec<String> = (0..8).map(|tenant| format!("tenant-{tenant}")).collect();
    let body = vec![b'x'; 2_000];
    for seq in 0..600 {
        let order = order(1, seq);
        let of = |tenant| Signed { whose: Whose { tenant, ..whose("a") }, order: &order, body: &body };
        let batch: Vec<_> = tenants.iter().map(|tenant| of(tenant)).collect();
        assert_eq!(writer.write(&batch).taken, [Some(true); 8]);
    }
    let mut entries = 0;
    for shard in 0..4 {
        let length = number(&server, &["XLEN", &settings.keyspace.stream(shard)]);
        assert!(length <= 1_100, "{length}");
        entries += length;
    }
    assert!(entries >= 1_000, "{entries}");
    for tenant in &tenants {
        let key = settings.keyspace.snapshot(Whose { tenant, ..whose("a") });
        assert_eq!(number(&server, &["EXISTS", &key]), 1, "{key}");
    }
}

#[test]
fn the_servers_time_is_of_between_both_ends_of_the_call() {
    let server = RedisServer::start();
    let mut writer = writer(&server, WriteLimits::standard());
    let order = order(1, 1);
    let outcome = writer.write(&[Signed { whose: whose("a"), order: &order, body: b"{}" }]);
    let time = outcome.time.unwrap();
    assert!(time.sent_us <= time.server_us && time.server_us <= time.received_us, "{time:?}");
}

#[test]
fn a_flushed_script_is_loaded_again_and_strange_keys_are_replaced() {
    let server = RedisServer::start();
    let mut writer = writer(&server, WriteLimits::standard());
    assert_eq!(wrote(&mut writer, (1, 1)), Some(true));
    assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "OK");
    assert_eq!(wrote(&mut writer, (1, 2)), Some(true));
    assert_eq!(server.command(&["DEL", VALUE]), "1");
    assert_eq!(server.command(&["LPUSH", VALUE, "a list"]), "1");
    assert_eq!(wrote(&mut writer, (1, 3)), Some(true));
    assert_eq!(server.command(&["SET", VALUE, "no order"]), "OK");
    assert_eq!(wrote(&mut writer, (1, 4)), Some(true), "though its text sorts behind digits");
    assert_eq!(wrote(&mut writer, (1, 4)), Some(false));
}

#[test]
fn what_failed_half_way_is_taken_when_it_is_sent_again() {
    let server = RedisServer::start();
    assert_eq!(server.command(&["SET", "{farebox:0}:index", "no index", "PX", "600000"]), "OK");
    let mut writer = writer(&server, WriteLimits::standard());
    let order = order(1, 1);
    let snapshot = [Signed { whose: whose("a"), order: &order, body: b"{}" }];
    let outcome = writer.write(&snapshot);
    assert!(outcome.away.is_some() && outcome.taken == [None], "{outcome:?}");
    assert_eq!(server.command(&["DEL", "{farebox:0}:index"]), "1");
    assert_eq!(writer.write(&snapshot).taken, [Some(true)]);
}
