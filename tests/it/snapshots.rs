//! Usage snapshots over HTTP, and when they move a price (SPEC §6, `shared/cases/metering.md` 1, 13, 16).

use serde_json::{Value, json};

use crate::harness::{TestGateway, fixture, snapshot, text};

/// The utilisation row of W1 for acme, if there is one, and the message codes, but for advice, which W1 gets in any case.
fn utilisation(gateway: &TestGateway, request: &Value) -> (Option<String>, Vec<String>) {
    let quote = gateway.post("/v1/quotes", request).json();
    let rows = quote["lines"][0]["adjustments"].as_array().unwrap().clone();
    let row = rows.iter().find(|row| row["step"] == "utilisation").map(|row| text(row, "/code"));
    let messages = quote["messages"].as_array().unwrap().iter().filter(|message| message["level"] != "advice");
    (row, messages.map(|message| text(message, "/code")).collect())
}

/// A snapshot of acme's A100s whose seven-day mean is `mean`, with `change` made to it.
fn observed(mean: &str, change: impl FnOnce(&mut Value)) -> (Option<String>, Vec<String>) {
    let gateway = TestGateway::start();
    let mut snapshot = snapshot("steady-82");
    snapshot["windows"]["7d"]["gpu_util"]["mean"] = mean.into();
    change(&mut snapshot);
    let answer = gateway.post("/v1/usage-snapshots", &snapshot);
    assert_eq!(answer.status, 202, "{}", answer.body);
    utilisation(&gateway, &fixture("requests/w1.json"))
}

fn row(code: &str) -> (Option<String>, Vec<String>) {
    (Some(code.to_owned()), Vec::new())
}

fn nothing_but(message: &str) -> (Option<String>, Vec<String>) {
    (None, vec![message.to_owned()])
}

#[test]
fn both_edges_of_each_band_are_where_the_plan_says() {
    let silent = (None, Vec::new());
    let expected = [
        ("0.700000000001", row("above_70")),
        ("0.70", silent.clone()),
        ("0.30", silent),
        ("0.299999999999", row("below_30")),
        ("0.20", row("below_30")),
        ("0.199999999999", row("below_20")),
        ("0.10", row("below_20")),
        ("0.099999999999", row("below_10")),
        ("0", row("below_10")),
    ];
    for (mean, expected) in expected {
        assert_eq!(observed(mean, |_| {}), expected, "{mean}");
    }
}

#[test]
fn what_may_not_count_does_not_and_says_so() {
    let ago = |seconds: i64| {
        move |snapshot: &mut Value| {
            let then = farebox::clock::Clock::system().now() - jiff::SignedDuration::from_secs(seconds);
            snapshot["observed_at"] = then.to_string().into();
        }
    };
    let stale_but_counts = (Some("above_70".to_owned()), vec!["stale".to_owned()]);
    assert_eq!(observed("0.82", ago(60)), stale_but_counts);
    assert_eq!(observed("0.25", ago(60)), nothing_but("stale"), "no surcharge from a soft-stale snapshot");
    assert_eq!(observed("0.82", ago(660)), nothing_but("stale"));
    let coverage = |value: &'static str| {
        move |snapshot: &mut Value| snapshot["windows"]["7d"]["gpu_util"]["coverage"] = value.into()
    };
    assert_eq!(observed("0.82", coverage("0.8")), row("above_70"));
    assert_eq!(observed("0.82", coverage("0.799999")), nothing_but("low_coverage"));
    let held = |value: &'static str| {
        move |snapshot: &mut Value| snapshot["windows"]["7d"]["gpu_util"]["held_us"] = value.into()
    };
    assert_eq!(observed("0.82", held("3600000000")), row("above_70"));
    assert_eq!(observed("0.82", held("3599999999")), nothing_but("thin"));
    let unhealthy = |snapshot: &mut Value| snapshot["health"] = "lost".into();
    assert_eq!(observed("0.25", unhealthy), nothing_but("device_unhealthy"));
    assert_eq!(observed("0.82", unhealthy), (Some("above_70".to_owned()), vec!["device_unhealthy".to_owned()]));
    let xid = |number: &'static str| move |snapshot: &mut Value| snapshot["reasons"] = json!([number]);
    assert_eq!(observed("0.25", xid("xid_13")), row("below_30"), "the program's own fault");
    assert_eq!(observed("0.25", xid("xid_79")), nothing_but("device_unhealthy"));
}

/// The driver has no utilisation of a device that is partitioned; what an agent sends for it all the same is no reading.
#[test]
fn under_mig_the_utilisation_of_the_device_moves_nothing() {
    for mean in ["0", "0.9"] {
        let instance = |snapshot: &mut Value| snapshot["devices"][0]["instance"] = "1/0".into();
        assert_eq!(observed(mean, instance), nothing_but("mig_no_utilisation"), "{mean}");
    }
}

#[test]
fn a_tenant_without_snapshot_pays_list_and_is_told() {
    let gateway = TestGateway::start();
    gateway.observe("steady-82");
    let mut request = fixture("requests/w1.json");
    request["tenant_id"] = "globex".into();
    assert_eq!(utilisation(&gateway, &request), nothing_but("no_snapshot"));
    let quote = gateway.post("/v1/quotes", &request).json();
    assert_eq!(quote["inputs"]["snapshot"], Value::Null);
}

#[test]
fn snapshots_apply_only_forward() {
    let gateway = TestGateway::start();
    let newer = snapshot("steady-82");
    let mut older = newer.clone();
    older["seq"] = 0.into();
    older["windows"]["7d"]["gpu_util"]["mean"] = "0.01".into();
    assert_eq!(gateway.post("/v1/usage-snapshots", &newer).json(), json!({"applied":true}));
    for repeat in [&older, &newer, &older] {
        let answer = gateway.post("/v1/usage-snapshots", repeat);
        assert_eq!((answer.status, answer.json()), (202, json!({"applied":false,"reason":"not_newer"})));
    }
    assert_eq!(utilisation(&gateway, &fixture("requests/w1.json")).0.as_deref(), Some("above_70"));
}

#[test]
fn bad_snapshots_are_refused_whole_with_every_pointer() {
    let gateway = TestGateway::start();
    let mut bad = snapshot("steady-82");
    bad["surprise"] = 1.into();
    bad["schema"] = 2.into();
    bad.as_object_mut().unwrap().remove("node");
    let answer = gateway.post("/v1/usage-snapshots", &bad);
    assert_eq!((answer.status, answer.problem().as_str()), (422, "invalid-request"));
    let pointers = answer.pointers();
    for pointer in ["/surprise", "/schema", "/node"] {
        assert!(pointers.iter().any(|found| found == pointer), "no {pointer} in {pointers:?}");
    }
    let mut negative = snapshot("steady-82");
    negative["windows"]["7d"]["gpu_util"]["mean"] = "-0.1".into();
    assert_eq!(gateway.post("/v1/usage-snapshots", &negative).pointers(), ["/windows/7d/gpu_util/mean"]);
    assert_eq!(gateway.post_text("/v1/usage-snapshots", "{").status, 400);
    assert_eq!(utilisation(&gateway, &fixture("requests/w1.json")), nothing_but("no_snapshot"));
}
