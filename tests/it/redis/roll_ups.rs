//! What is rolled up outlives a gateway, and nobody but a gateway can write it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farebox_metering::redis::keys::Keyspace;
use serde_json::{Value, json};

use super::scene::{Scene, Sent, metric, wait};
use crate::harness::TestGateway;

/// Without a week of its own: the gateway makes it of the histogram, an hour of one GPU at 90 %.
pub fn counted(snapshot: &mut Value) {
    let mut bins = [0_u32; 101];
    bins[90] = 3_500_000;
    snapshot["windows"].as_object_mut().unwrap().remove("7d").unwrap();
    snapshot["counters"] = json!({"held_us": "3600000000"});
    snapshot["histograms"] = json!({"gpu_util": {"bins": STANDARD.encode(bins.map(u32::to_le_bytes).as_flattened())}});
}

fn week(gateway: &TestGateway) -> Option<Value> {
    gateway.get("/v1/tenants/acme/usage").json().pointer("/models/0/windows/7d/gpu_util").cloned()
}

/// A gateway that has rolled up a week of acme's, kept it, and stopped.
fn kept() -> (Scene, Value) {
    let mut scene = Scene::new();
    let mut sent = Sent::new("acme", 3_600_000_000);
    sent.order = (1, 1);
    sent.change = counted;
    scene.send(&sent);
    let week = wait("a week", || week(&scene.gateway));
    scene.gateway.stop();
    let key = Keyspace::default().roll_up("acme", "A100");
    assert!(!scene.redis().command(&["GETRANGE", &key, "0", "39"]).is_empty(), "nothing was kept under {key}");
    // Only the roll-up is left: the agent has been gone for longer than its snapshots are kept.
    let keyspace = Keyspace::default();
    let snapshot = scene.redis().command(&["ZRANGE", &keyspace.index(0), "0", "-1"]);
    for key in [snapshot, keyspace.stream(0), keyspace.count(0), keyspace.index(0)] {
        assert_eq!(scene.redis().command(&["DEL", &key]), "1", "{key}");
    }
    (scene, week)
}

/// The same holding, heard of again; nothing more has been counted of it.
fn heard_again(scene: &Scene) {
    let mut again = Sent::new("acme", 3_600_000_000);
    again.order = (1, 2);
    again.change = counted;
    scene.send(&again);
}

#[test]
fn a_week_comes_back_with_the_next_gateway() {
    let (scene, before) = kept();
    let next = scene.another_gateway();
    wait("the roll-up", || (metric(&next, "farebox_mirror_feed_roll_ups_restored_total") >= 1.0).then_some(()));
    heard_again(&scene);
    assert_eq!(wait("the week", || week(&next)), before);
}

#[test]
fn a_raised_roll_up_is_refused() {
    let (scene, _) = kept();
    let key = Keyspace::default().roll_up("acme", "A100");
    let length: usize = scene.redis().command(&["STRLEN", &key]).parse().unwrap();
    scene.redis().command(&["SETRANGE", &key, &(length - 3).to_string(), "\u{1}"]);
    let next = scene.another_gateway();
    wait("the roll-up", || (metric(&next, "farebox_mirror_feed_roll_ups_refused_total") >= 1.0).then_some(()));
    assert_eq!(metric(&next, "farebox_mirror_feed_roll_ups_restored_total"), 0.0);
}
