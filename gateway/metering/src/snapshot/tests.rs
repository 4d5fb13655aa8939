//! Intake: SHAPES' sample, `metering.md` cases 2, 5, 13 and 16, and hostile bodies.

use proptest::prelude::*;
use serde_json::{Value, json};
use utoipa::{PartialSchema, ToSchema};

use super::intake::{MAX_BOOT_EPOCH, MAX_DEVICES, MAX_NAME, MAX_REASONS, MAX_WORD};
use super::*;
use crate::samples::{body, body_with, checked, decimal};

fn pointers_and_codes(body: Value) -> Vec<(String, &'static str)> {
    let violations = checked(body).unwrap_err().violations;
    violations.into_iter().map(|violation| (violation.pointer, violation.code.as_str())).collect()
}

fn refusal(pointer: &str, value: Value) -> Vec<(String, &'static str)> {
    pointers_and_codes(body_with(&[(pointer, value)]))
}

fn util(mean: Value) -> (Option<Decimal>, u64) {
    let snapshot = checked(body_with(&[("/windows/15m/gpu_util/mean", mean)])).unwrap();
    (snapshot.metric(Window::M15, "gpu_util").unwrap().mean, snapshot.dropped_readings)
}

#[test]
fn the_sample_of_shapes_is_read_digit_for_digit() {
    let snapshot = checked(body()).unwrap();
    let gpu_util = snapshot.metric(Window::M15, "gpu_util").unwrap();
    assert_eq!(gpu_util.mean, Some(decimal("0.82")));
    assert_eq!(gpu_util.p50, Some(decimal("0.85")));
    assert_eq!(gpu_util.p95, Some(decimal("0.97")));
    assert_eq!(gpu_util.min, Some(decimal("0.10")));
    assert_eq!(gpu_util.max, Some(Decimal::ONE));
    assert_eq!(gpu_util.coverage, Some(decimal("0.99")));
    assert_eq!(gpu_util.quality, StatQuality::Ok);
    assert_eq!(snapshot.held_us(Window::M15, "gpu_util"), 900_000_000);
    assert_eq!(snapshot.held_us(Window::M15, "sm_util"), 900_000_000, "the counter, as far as the window goes");
    assert_eq!(snapshot.metric(Window::M15, "sm_util").unwrap().mean, None, "absent, never 0");
    assert_eq!(snapshot.metric(Window::M15, "power_w").unwrap().mean, Some(decimal("301.5")));
    let counters = Counters { held_us: 7_200_000_000, busy_us: Some(5_904_000_000), energy_mj: Some(2_170_800_000) };
    assert_eq!(snapshot.counters, counters);
    assert!(snapshot.healthy && !snapshot.mig);
    assert_eq!(snapshot.dropped_readings, 0);
    assert_eq!((snapshot.boot_epoch, snapshot.seq), (BootEpoch::Number(1), 41));
}

#[test]
fn devices_and_histograms_are_kept_as_they_were_sent() {
    let devices = json!([{"gpu_uuid":"GPU-1","share":"0.25","method":"process"},{"gpu_uuid":"GPU-2","share":1,"method":"exclusive"}]);
    let bins = |percent, ms| json!({"bins":crate::samples::bins(&[(percent, ms)])});
    let histograms = json!({"gpu_util":bins(100, 0x0403_0201),"power_w":bins(5, 7)});
    let snapshot = checked(body_with(&[("/devices", devices), ("/histograms", histograms)])).unwrap();
    let kept: Vec<_> = snapshot.devices.iter().map(|device| (device.gpu_uuid.as_str(), device.share)).collect();
    assert_eq!(kept, [("GPU-1", decimal("0.25")), ("GPU-2", Decimal::ONE)]);
    assert_eq!(snapshot.device_shares, decimal("1.25"));
    assert_eq!(snapshot.histograms.keys().collect::<Vec<_>>(), ["gpu_util"], "a per cent of watts is nothing");
    let gpu_util = &snapshot.histograms["gpu_util"].0;
    assert_eq!((gpu_util[100], gpu_util.iter().map(|ms| u64::from(*ms)).sum::<u64>()), (0x0403_0201, 0x0403_0201));
}

#[test]
fn decimals_may_be_numbers_and_counters_integers_and_keep_their_digits() {
    let text = body().to_string().replace(r#""mean":"0.82""#, r#""mean":0.8200000000000000000000000001"#);
    let text = text.replace(r#""held_us":"7200000000""#, r#""held_us":1000000000000000000"#);
    let snapshot = Snapshot::try_from(serde_json::from_str::<WireSnapshot>(&text).unwrap()).unwrap();
    let mean = snapshot.metric(Window::M15, "gpu_util").unwrap().mean;
    assert_eq!(mean, Some(decimal("0.8200000000000000000000000001")));
    assert_eq!(snapshot.counters.held_us, MAX_COUNTER);
}

#[test]
fn what_cannot_be_a_reading_is_dropped_and_counted() {
    let blanks = [
        "NaN",
        "nan",
        "inf",
        "-Infinity",
        "9223372036854775807",
        "18446744073709551615",
        "4294967295",
        "9.22e18",
        "1e999",
        "1.0101",
        "100",
    ];
    for blank in blanks {
        assert_eq!(util(json!(blank)), (None, 1), "{blank}");
    }
    let as_number: Value = serde_json::from_str("9.22e18").unwrap();
    assert_eq!(util(as_number), (None, 1));

    let blank = json!("4294967295");
    let changes = [
        ("/windows/15m/power_w/mean", blank.clone()),
        ("/windows/15m/gpu_util/coverage", json!("2")),
        ("/counters/energy_mj", json!("9223372036854775807")),
    ];
    let snapshot = checked(body_with(&changes)).unwrap();
    assert_eq!(snapshot.metric(Window::M15, "power_w").unwrap().mean, None);
    assert_eq!(snapshot.metric(Window::M15, "gpu_util").unwrap().coverage, None);
    assert_eq!(snapshot.counters.energy_mj, None);
    assert_eq!(snapshot.dropped_readings, 3);
    assert_eq!(checked(body_with(&[("/counters/energy_mj", blank)])).unwrap().counters.energy_mj, Some(4_294_967_295));
}

#[test]
fn slightly_over_one_is_one_for_shares_only() {
    assert_eq!(util(json!("1.01")), (Some(Decimal::ONE), 0));
    assert_eq!(util(json!("1.000000000001")), (Some(Decimal::ONE), 0));
    assert_eq!(util(json!("0.999999999999999")), (Some(decimal("0.999999999999999")), 0));
    let snapshot = checked(body_with(&[("/windows/15m/power_w/mean", json!("1.01"))])).unwrap();
    assert_eq!(snapshot.metric(Window::M15, "power_w").unwrap().mean, Some(decimal("1.01")));
}

#[test]
fn a_reading_that_is_no_decimal_is_a_violation() {
    for text in ["1e-5", "", "eighty", ".5", "01", "+1", "0x1", "0.12345678901234567890123456789"] {
        let found = refusal("/windows/15m/gpu_util/mean", json!(text));
        assert_eq!(found, [("/windows/15m/gpu_util/mean".to_owned(), "invalid_number")], "{text}");
    }
    assert_eq!(
        refusal("/windows/15m/gpu_util/min", json!("-0.01")),
        [("/windows/15m/gpu_util/min".to_owned(), "out_of_range")]
    );
    assert_eq!(
        refusal("/windows/15m/gpu_util/max", json!([1])),
        [("/windows/15m/gpu_util/max".to_owned(), "invalid_number")]
    );
}

#[test]
fn all_violations_are_told_at_once() {
    let changes = [
        ("/schema", json!(2)),
        ("/node", json!("")),
        ("/boot_epoch", json!("9".repeat(39))),
        ("/observed_at", json!("2026-12-01T08:00:00+08:00")),
        ("/seq", json!(MAX_COUNTER + 1)),
        ("/tick_ms", json!(86_400_001)),
        ("/health", json!("Not OK")),
        ("/reasons", json!(["xid_79", "<script>"])),
        ("/tenant", json!("a\u{7}b")),
        ("/job", json!("x".repeat(129))),
        ("/gpu_model", json!("")),
        ("/devices/0/share", json!("0")),
        ("/windows/15m/gpu_util/coverage", json!("-1")),
        ("/windows/15m/gpu_util/held_us", json!("9223372036854775807")),
        ("/counters/held_us", json!("1.5")),
        ("/counters/busy_us", json!(-1)),
        ("/histograms/gpu_util/bins", json!("AAAA")),
    ];
    let mut sent = body_with(&changes);
    sent["windows"]["15m"]["a~b"] = json!({});
    let expected = [
        ("/schema", "unsupported_schema"),
        ("/seq", "out_of_range"),
        ("/tick_ms", "out_of_range"),
        ("/node", "invalid_text"),
        ("/tenant", "invalid_text"),
        ("/gpu_model", "invalid_text"),
        ("/job", "invalid_text"),
        ("/health", "invalid_text"),
        ("/boot_epoch", "out_of_range"),
        ("/observed_at", "invalid_timestamp"),
        ("/reasons/1", "invalid_text"),
        ("/devices/0/share", "out_of_range"),
        ("/windows/15m/a~0b", "invalid_text"),
        ("/windows/15m/gpu_util/coverage", "out_of_range"),
        ("/windows/15m/gpu_util/held_us", "out_of_range"),
        ("/counters/busy_us", "invalid_number"),
        ("/counters/held_us", "invalid_number"),
        ("/histograms/gpu_util/bins", "invalid_histogram"),
    ];
    assert_eq!(pointers_and_codes(sent), expected.map(|(pointer, code)| (pointer.to_owned(), code)));
}

#[test]
fn every_violation_points_into_the_body_that_was_sent() {
    let sent = body_with(&[("/windows/15m/gpu_util/mean", json!("x")), ("/devices/0/method", json!("A b"))]);
    for violation in checked(sent.clone()).unwrap_err().violations {
        assert!(sent.pointer(&violation.pointer).is_some(), "{}", violation.pointer);
        assert!(!violation.detail.is_empty());
    }
}

#[test]
fn unknown_fields_and_windows_are_refused() {
    for pointer in [
        "/extra",
        "/devices/0/extra",
        "/windows/8d",
        "/windows/15m/gpu_util/p99",
        "/counters/extra",
        "/histograms/gpu_util/extra",
    ] {
        let error = serde_json::from_value::<WireSnapshot>(body_with(&[(pointer, json!({}))])).unwrap_err();
        assert!(error.to_string().contains("unknown field"), "{pointer}: {error}");
    }
}

#[test]
fn shares_of_a_device_come_to_at_most_one() {
    let device = |uuid: &str, instance: Option<&str>, share: &str| json!({"gpu_uuid":uuid,"instance":instance,"share":share,"method":"process"});
    let with = |devices: Value| body_with(&[("/devices", devices)]);
    let split =
        checked(with(json!([device("a", None, "0.25"), device("a", None, "0.75"), device("b", None, "0.5")]))).unwrap();
    assert_eq!((split.device_shares, split.mig), (decimal("1.5"), false));
    let instances = checked(with(json!([device("a", Some("1/0"), "1"), device("a", Some("2/0"), "1")]))).unwrap();
    assert_eq!((instances.device_shares, instances.mig), (decimal("2"), true));
    let over = with(json!([device("a", None, "0.25"), device("b", None, "1"), device("a", None, "0.750000000001")]));
    assert_eq!(pointers_and_codes(over), [("/devices/2/share".to_owned(), "shares_over_device")]);
    for share in ["0", "-0.5", "1.000000000001", "2"] {
        assert_eq!(
            refusal("/devices/0/share", json!(share)),
            [("/devices/0/share".to_owned(), "out_of_range")],
            "{share}"
        );
    }
    assert_eq!(refusal("/devices", json!([])), [("/devices".to_owned(), "too_few")]);
}

#[test]
fn long_lists_are_one_violation_each() {
    let device = json!({"gpu_uuid":"a","share":"0.001","method":"process"});
    let metrics: Value =
        (0..33).map(|index| (format!("m{index}"), json!({}))).collect::<serde_json::Map<_, _>>().into();
    for (pointer, value) in [
        ("/devices", json!(vec![device; 129])),
        ("/reasons", json!(vec!["x"; 33])),
        ("/windows/7d", metrics),
        (
            "/histograms",
            (0..33).map(|index| (format!("m{index}"), json!({"bins":""}))).collect::<serde_json::Map<_, _>>().into(),
        ),
    ] {
        assert_eq!(refusal(pointer, value), [(pointer.to_owned(), "too_many")]);
    }
}

#[test]
fn epochs_have_one_order_whatever_is_mixed() {
    let epoch = |text: &str| checked(body_with(&[("/boot_epoch", json!(text))])).unwrap().boot_epoch;
    let ascending = [
        "9",
        "10",
        "1764547200",
        "2026-12-01T00:00:00Z",
        "2026-12-01T00:00:00.12Z",
        "2026-12-01T00:00:00.123Z",
        "1x",
        "b",
        "c",
    ];
    for pair in ascending.windows(2) {
        assert!(epoch(pair[0]) < epoch(pair[1]), "{pair:?}");
    }
    assert_eq!(epoch("007"), epoch("7"));
}

#[test]
fn observed_at_is_utc() {
    for text in
        ["2026-12-01", "2026-12-01T00:00:00", "2026-12-01T00:00:00+08:00", "yesterday", "", "2026-13-01T00:00:00Z"]
    {
        assert_eq!(refusal("/observed_at", json!(text)), [("/observed_at".to_owned(), "invalid_timestamp")], "{text}");
    }
    assert!(checked(body_with(&[("/observed_at", json!("2026-12-01T00:00:00.123456789+00:00"))])).is_ok());
}

#[test]
fn reasons_are_sorted_and_named_once() {
    let snapshot = checked(body_with(&[("/reasons", json!(["xid_79", "throttled_thermal", "xid_79"]))])).unwrap();
    assert_eq!(snapshot.reasons, ["throttled_thermal", "xid_79"]);
}

#[test]
fn the_schema_repeats_the_limits_and_refuses_unknown_fields() {
    let snapshot = serde_json::to_value(WireSnapshot::schema()).unwrap();
    let device = serde_json::to_value(WireDevice::schema()).unwrap();
    let limits = [
        (&snapshot, "/properties/node/maxLength", MAX_NAME),
        (&snapshot, "/properties/tenant/maxLength", MAX_NAME),
        (&snapshot, "/properties/job/maxLength", MAX_NAME),
        (&snapshot, "/properties/gpu_model/maxLength", MAX_NAME),
        (&snapshot, "/properties/boot_epoch/maxLength", MAX_BOOT_EPOCH),
        (&snapshot, "/properties/health/maxLength", MAX_WORD),
        (&snapshot, "/properties/reasons/maxItems", MAX_REASONS),
        (&snapshot, "/properties/devices/maxItems", MAX_DEVICES),
        (&device, "/properties/gpu_uuid/maxLength", MAX_NAME),
        (&device, "/properties/instance/maxLength", MAX_WORD),
        (&device, "/properties/method/maxLength", MAX_WORD),
    ];
    for (schema, pointer, limit) in limits {
        assert_eq!(schema.pointer(pointer).and_then(Value::as_u64), Some(limit as u64), "{pointer}");
    }
    for schema in [
        snapshot,
        device,
        serde_json::to_value(WireWindows::schema()).unwrap(),
        serde_json::to_value(WireMetric::schema()).unwrap(),
    ] {
        assert_eq!(schema["additionalProperties"], json!(false), "{schema}");
    }
    let windows = serde_json::to_value(WireWindows::schema()).unwrap();
    for window in Window::ALL {
        assert!(windows["properties"].get(window.as_str()).is_some(), "{}", window.as_str());
    }
}

/// The schema as the gateway publishes it, as a validator.
fn published_schema() -> jsonschema::Validator {
    let mut schemas = vec![(WireSnapshot::name().into_owned(), WireSnapshot::schema())];
    WireSnapshot::schemas(&mut schemas);
    let schemas: BTreeMap<_, _> = schemas.into_iter().collect();
    let document = json!({"$ref":"#/components/schemas/UsageSnapshot","components":{"schemas":schemas}});
    jsonschema::draft202012::new(&document).unwrap()
}

#[test]
fn the_published_schema_admits_what_intake_reads_and_tells_all_the_rest_at_once() {
    let schema = published_schema();
    assert_eq!(schema.iter_errors(&body()).map(|error| error.to_string()).collect::<Vec<_>>(), [""; 0]);
    let lenient = [
        ("/windows/15m/gpu_util/mean", json!("NaN")),
        ("/windows/15m/gpu_util/min", serde_json::from_str("9.22e18").unwrap()),
        ("/windows/7d", json!({"gpu_util":{"mean":0.82,"held_us":3600000000_u64,"quality":"suspect_zero"}})),
        ("/windows/30d", json!(null)),
        ("/devices/0/share", json!(0.25)),
        ("/devices/0/instance", json!("1/0")),
        ("/job", json!(null)),
        ("/mac", json!(null)),
        ("/histograms", json!(null)),
        ("/counters", json!({"held_us":1})),
    ];
    let sent = body_with(&lenient);
    assert_eq!(schema.iter_errors(&sent).map(|error| error.to_string()).collect::<Vec<_>>(), [""; 0]);
    assert!(checked(sent).is_ok());

    let wrong = [
        ("/schema", json!(2)),
        ("/extra", json!(1)),
        ("/devices/0/share", json!("1e-1")),
        ("/windows/8d", json!({})),
        ("/windows/15m/gpu_util/p99", json!("0.5")),
        ("/windows/15m/gpu_util/quality", json!("good")),
        ("/windows/15m/gpu_util/mean", json!(true)),
        ("/counters/held_us", json!("-1")),
    ];
    let sent = body_with(&wrong);
    assert!(schema.iter_errors(&sent).count() >= wrong.len());
    for (pointer, value) in wrong {
        assert!(!schema.is_valid(&body_with(&[(pointer, value)])), "{pointer}");
    }
}

proptest! {
    /// Whatever a reading's text, intake answers, and what it accepts is within the invariant.
    #[test]
    fn any_reading_is_measured_dropped_or_refused(text in "[-+]?[0-9.eEnaifN]{0,24}") {
        if let Ok(snapshot) = checked(body_with(&[("/windows/15m/gpu_util/mean", json!(text))])) {
            match snapshot.metric(Window::M15, "gpu_util").unwrap().mean {
                Some(mean) => prop_assert!(mean >= Decimal::ZERO && mean <= Decimal::ONE),
                None => prop_assert_eq!(snapshot.dropped_readings, 1),
            }
        }
    }

    #[test]
    fn any_share_within_one_is_kept(units in 0_u64..=1_000_000_000_000) {
        let sent = Decimal::from_i128_with_scale(i128::from(units), 12);
        prop_assert_eq!(util(json!(sent.to_string())), (Some(sent), 0));
    }
}
