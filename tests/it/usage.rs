//! Usage as agents report it, minute by minute, up to the price: roll-ups, tombstones, and `GET /v1/tenants/{id}/usage`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farebox::clock::Clock;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::harness::{TestGateway, fixture, snapshot, text};

const MINUTE: u64 = 60;

/// A gateway whose clock is set, and an agent of eight A100 that acme holds.
struct Scene {
    gateway: TestGateway,
    now_ms: Arc<AtomicI64>,
}

/// What an agent has counted since it began.
#[derive(Clone, Copy)]
struct Counted<'a> {
    node: &'a str,
    boot_epoch: &'a str,
    seq: u64,
    /// Seconds of wall time, each of eight GPUs.
    held_s: u64,
    /// Seconds of GPU-time at a per cent.
    observed: &'a [(usize, u64)],
}

impl Scene {
    fn new() -> Self {
        let start: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        let now_ms = Arc::new(AtomicI64::new(start.as_millisecond()));
        let shown = Arc::clone(&now_ms);
        let clock = Clock::from_fn(move || Timestamp::from_millisecond(shown.load(Ordering::SeqCst)).unwrap());
        Self { gateway: TestGateway::start_with(clock, |_| {}), now_ms }
    }

    fn pass(&self, seconds: u64) {
        self.now_ms.fetch_add(1_000 * seconds as i64, Ordering::SeqCst);
    }

    fn now(&self) -> String {
        Timestamp::from_millisecond(self.now_ms.load(Ordering::SeqCst)).unwrap().to_string()
    }

    fn snapshot(&self, counted: Counted<'_>) -> Value {
        let mut bins = [0_u32; 101];
        for (percent, seconds) in counted.observed {
            bins[*percent] = (seconds * 1_000) as u32;
        }
        let mut sent = fixture("snapshots/steady-82.json");
        sent["node"] = counted.node.into();
        sent["boot_epoch"] = counted.boot_epoch.into();
        sent["seq"] = counted.seq.into();
        sent["observed_at"] = self.now().into();
        sent["windows"].as_object_mut().unwrap().remove("7d").unwrap();
        sent["counters"] = json!({"held_us": (counted.held_s * 8_000_000).to_string()});
        sent["histograms"] = json!({"gpu_util": {"bins": STANDARD.encode(bins.map(u32::to_le_bytes).as_flattened())}});
        sent
    }

    fn report(&self, sent: &Value) {
        let answer = self.gateway.post("/v1/usage-snapshots", sent);
        assert_eq!((answer.status, answer.json()), (202, json!({"applied":true})));
    }

    fn quote(&self) -> Value {
        self.gateway.post("/v1/quotes", &fixture("requests/w1.json")).json()
    }

    fn usage(&self) -> Value {
        let answer = self.gateway.get("/v1/tenants/acme/usage");
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.header("cache-control"), Some("private, no-store"));
        answer.json()
    }
}

fn utilisation(quote: &Value) -> Option<String> {
    let rows = quote["lines"][0]["adjustments"].as_array().unwrap();
    rows.iter().find(|row| row["step"] == "utilisation").map(|row| text(row, "/code"))
}

/// But for advice, which W1 gets whatever is observed.
fn messages(quote: &Value) -> Vec<String> {
    let messages = quote["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["level"] != "advice").map(|message| text(message, "/code")).collect()
}

#[test]
fn what_agents_count_becomes_the_week_that_moves_the_price() {
    let scene = Scene::new();
    let first = Counted { node: "a", boot_epoch: "1", seq: 1, held_s: 5 * MINUTE, observed: &[(90, 2_400)] };
    scene.report(&scene.snapshot(first));
    let quote = scene.quote();
    assert_eq!((utilisation(&quote), messages(&quote)), (None, vec!["thin".to_owned()]), "40 GPU-minutes are too few");

    scene.pass(5 * MINUTE);
    let second = Counted { seq: 2, held_s: 10 * MINUTE, observed: &[(50, 1_200), (90, 3_120)], ..first };
    scene.report(&scene.snapshot(second));
    let quote = scene.quote();
    assert_eq!((utilisation(&quote).as_deref(), messages(&quote)), (Some("above_70"), Vec::new()));
    let used = &quote["inputs"]["snapshot"];
    assert_eq!([&used["value"], &used["coverage"], &used["window"]], ["0.788888888889", "0.9", "7d"]);

    // The agent is restarted, and idle from then on; after 20 minutes of that the week is no longer over 70 %.
    scene.pass(20 * MINUTE);
    let idle = Counted { boot_epoch: "2", seq: 0, held_s: 20 * MINUTE, observed: &[(0, 9_600)], ..first };
    scene.report(&scene.snapshot(idle));
    let quote = scene.quote();
    assert_eq!((utilisation(&quote).as_deref(), messages(&quote)), (Some("below_30"), Vec::new()));
    assert_eq!(quote["inputs"]["snapshot"]["coverage"], "0.966666666666");

    // A second node: percentiles of both together.
    scene.report(&scene.snapshot(Counted { node: "b", ..second }));
    let week = scene.usage()["models"][0]["windows"]["7d"]["gpu_util"].clone();
    assert_eq!([&week["p50"], &week["p95"], &week["min"], &week["max"]], ["0", "0.9", "0", "0.9"]);
    assert_eq!(week["held_us"], "19200000000");
    let quarter = scene.usage()["models"][0]["windows"]["15m"]["gpu_util"].clone();
    assert_eq!((&quarter["mean"], quarter.get("p95")), (&json!("0.82"), None), "short windows have no histograms");
}

#[test]
fn the_end_of_a_job_ends_what_its_usage_says() {
    let scene = Scene::new();
    let job = Counted { node: "a", boot_epoch: "1", seq: 1, held_s: 10 * MINUTE, observed: &[(90, 4_800)] };
    let live = scene.snapshot(job);
    scene.report(&live);
    assert_eq!(utilisation(&scene.quote()).as_deref(), Some("above_70"));
    scene.pass(1);
    let mut tombstone = scene.snapshot(Counted { seq: 3, ..job });
    tombstone["health"] = "ended".into();
    scene.report(&tombstone);
    for late in [2, 3, 1] {
        let quote = scene.quote();
        assert_eq!((utilisation(&quote), messages(&quote)), (None, vec!["no_snapshot".to_owned()]));
        assert_eq!(quote["inputs"]["snapshot"], Value::Null);
        assert_eq!(scene.usage(), json!({"tenant_id": "acme", "models": []}));
        let mut late_one = live.clone();
        late_one["seq"] = late.into();
        let answer = scene.gateway.post("/v1/usage-snapshots", &late_one).json();
        assert_eq!(answer, json!({"applied": false, "reason": "not_newer"}));
    }
    // The next job on the same GPUs: what the week held before is still part of it.
    scene.report(&scene.snapshot(Counted { seq: 4, held_s: MINUTE, observed: &[(10, 480)], ..job }));
    let quote = scene.quote();
    assert_eq!(utilisation(&quote).as_deref(), Some("above_70"));
    assert_eq!(quote["inputs"]["snapshot"]["value"], "0.827272727273");
}

#[test]
fn a_job_that_was_away_for_half_an_hour_is_billed_once_and_its_absence_is_no_utilisation() {
    let scene = Scene::new();
    let began = Counted { node: "a", boot_epoch: "1", seq: 1, held_s: 20 * MINUTE, observed: &[(90, 9_600)] };
    let kept = scene.snapshot(began);
    scene.report(&kept);
    // The network is away for 31 minutes, of which nothing was observed in the second half.
    scene.pass(31 * MINUTE);
    let back = Counted { seq: 2, held_s: 51 * MINUTE, observed: &[(90, 17_280)], ..began };
    scene.report(&scene.snapshot(back));
    let week = || scene.usage()["models"][0]["windows"]["7d"]["gpu_util"].clone();
    assert_eq!([&week()["held_us"], &week()["mean"]], ["24480000000", "0.9"]);
    let quote = scene.quote();
    assert_eq!((utilisation(&quote), messages(&quote)), (None, vec!["low_coverage".to_owned()]));
    assert_eq!(quote["inputs"]["snapshot"]["coverage"], "0.705882352941");
    // Someone sends the first one again and again, each time when the newest has expired.
    for _ in 0..3 {
        scene.pass(30 * MINUTE);
        assert_eq!(scene.gateway.post("/v1/usage-snapshots", &kept).json(), json!({"applied": true}));
        assert_eq!(week()["held_us"], "24480000000", "it adds nothing");
        assert_eq!(utilisation(&scene.quote()), None, "and is as old as it is");
    }
}

#[test]
fn usage_says_all_that_is_known_and_of_whom_nothing_is() {
    let scene = Scene::new();
    for path in ["/v1/tenants/nobody/usage", "/v1/tenants/%FF/usage", "/v1/tenants/a%2Fb/usage"] {
        let answer = scene.gateway.get(path);
        assert_eq!((answer.status, answer.problem().as_str()), (404, "not-found"), "{path}");
    }
    assert_eq!(scene.usage(), json!({"tenant_id": "acme", "models": []}), "its file names it");
    let mut sent = snapshot("steady-82");
    sent["observed_at"] = scene.now().into();
    sent["job"] = "job/9".into();
    sent["devices"].as_array_mut().unwrap().truncate(1);
    scene.report(&sent);
    sent["tenant"] = "a/b".into();
    scene.report(&sent);
    scene.pass(2);
    assert_eq!(scene.gateway.get("/v1/tenants/a%2Fb/usage").json()["tenant_id"], "a/b", "its snapshots name it");
    let statistics = |held_us: &str| {
        json!({"mean": "0.82", "p50": "0.85", "p95": "0.97", "min": "0.1", "max": "1", "coverage": "0.99", "quality": "ok",
            "held_us": held_us})
    };
    let expected = json!({"tenant_id": "acme", "models": [{
        "gpu_model": "A100", "health": "ok", "reasons": [], "observed_at": "2026-12-01T00:00:00Z", "age_ms": 2_000,
        "devices": [{"gpu_uuid": "GPU-00000000-0000-0000-0000-000000000700", "share": "1", "method": "exclusive",
            "node": "gpu-07", "job": "job/9"}],
        "windows": {"15m": {"gpu_util": statistics("7200000000")}, "7d": {"gpu_util": statistics("4838400000000")}},
        "counters": {"held_us": "4838400000000", "busy_us": "3967488000000"},
    }]});
    let mut usage = scene.usage();
    let model = usage["models"][0].as_object_mut().unwrap();
    for field in ["device_count", "effective", "forecasts", "series", "job_kinds", "sources", "source_count"] {
        assert!(model.remove(field).is_some(), "{field}");
    }
    assert_eq!(usage, expected);
}

/// A snapshot that brings the week itself: what is expected is what the price reads, and nothing tells of a band.
#[test]
fn what_is_expected_is_the_number_that_the_price_reads() {
    let gateway = TestGateway::start();
    gateway.observe("steady-82");
    let model = gateway.get("/v1/tenants/acme/usage").json()["models"][0].clone();
    let quote = gateway.post("/v1/quotes", &fixture("requests/w1.json")).json();
    assert_eq!(model["effective"]["expected"], quote["inputs"]["snapshot"]["value"]);
    let expected = json!({"expected": "0.82", "low": null, "high": null, "metric": "gpu_util", "basis": "tenant_7d"});
    assert_eq!(model["effective"], expected);
    assert_eq!((&model["device_count"], &model["source_count"]), (&json!(8), &json!(1)));
    assert_eq!((&model["series"], &model["job_kinds"]), (&json!({}), &json!({})));
    let source = &model["sources"][0];
    assert_eq!([&source["node"], &source["boot_epoch"], &source["health"]], ["gpu-07", "2026-11-01T00:00:00Z", "ok"]);
}

#[test]
fn usage_tells_the_past_and_what_to_expect_by_job_kind() {
    let scene = Scene::new();
    let report = |counted: Counted<'_>| {
        let mut sent = scene.snapshot(counted);
        sent["job"] = "train-resnet50-17".into();
        scene.report(&sent);
    };
    let day = 24 * 60 * MINUTE;
    let first =
        Counted { node: "a", boot_epoch: "1", seq: 1, held_s: 10 * MINUTE, observed: &[(70, 2_400), (90, 2_400)] };
    report(first);
    scene.pass(day);
    // A day on which the eight were held for ten minutes more, and the rest of the time by nobody.
    report(Counted { boot_epoch: "2", seq: 2, observed: &[(75, 4_800)], ..first });
    scene.pass(day);
    report(Counted { boot_epoch: "3", seq: 3, observed: &[(60, 4_800)], ..first });
    let model = scene.usage()["models"][0].clone();
    let expected =
        json!({"expected": "0.7167", "low": "0.6", "high": "0.75", "metric": "gpu_util", "basis": "tenant_7d"});
    assert_eq!(model["effective"], expected);
    let error = json!({"days": 1, "mean_absolute": "0.05", "bias": "0.05", "in_band": "1"});
    let mut whole = expected.clone();
    whole["job_kind"] = Value::Null;
    whole["error"] = error.clone();
    let mut of_kind = expected;
    of_kind["job_kind"] = "train-resnet50".into();
    of_kind["basis"] = "job_kind_7d".into();
    of_kind["error"] = error;
    assert_eq!(model["forecasts"], json!([whole, of_kind]));
    let month = &model["series"]["30d"]["gpu_util"];
    let values = month["values"].as_array().unwrap();
    assert_eq!((values.len(), &values[26..]), (30, &[Value::Null, json!("0.8"), json!("0.75"), json!("0.6")][..]));
    assert_eq!((&month["start"], &month["step_s"]), (&json!("2026-11-04T00:00:00Z"), &json!(86_400)));
    let lengths = ["24h", "7d"].map(|window| model["series"][window]["gpu_util"]["values"].as_array().unwrap().len());
    assert_eq!(lengths, [24, 28]);
    let kinds = model["job_kinds"].as_object().unwrap();
    assert_eq!(kinds.keys().collect::<Vec<_>>(), ["train-resnet50"]);
    assert_eq!(kinds["train-resnet50"]["7d"]["gpu_util"]["mean"], "0.716666666667");
}
