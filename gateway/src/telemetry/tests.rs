//! What a scrape and a log line look like.

use std::io;
use std::sync::{Arc, Mutex};

use farebox_metering::mirror::{Mirror, MirrorCounters, MirrorLimits};
use farebox_metering::redis::feed::{AgentKeys, Feed, FeedSettings, SealKeys};
use farebox_metering::redis::link::RedisSettings;
use farebox_sandbox::MemoCounters;
use tracing::level_filters::LevelFilter;

use super::*;

mod lint;

fn metrics() -> Metrics {
    let mut metrics = counted_elsewhere();
    metrics.watch_feed(feed());
    metrics
}

/// Of a Redis that is not there.
fn feed() -> FeedWatch {
    let settings = FeedSettings {
        redis: RedisSettings::parse_url("redis://127.0.0.1:1").unwrap(),
        agents: AgentKeys::default(),
        seal: SealKeys::new(vec![[1; 32]]).unwrap(),
    };
    let mirror = Arc::new(Mirror::new(MirrorLimits::default()));
    Feed::start(settings, mirror, Arc::new(|| jiff::Timestamp::UNIX_EPOCH)).unwrap().watch()
}

fn counted_elsewhere() -> Metrics {
    Metrics::new(|| Observed {
        mirror: MirrorCounters {
            applied: 7,
            not_newer: 6,
            quarantined: 5,
            dropped_readings: 4,
            refused_full: 3,
            entries: 2,
            histograms_refused: 31,
            roll_ups: 32,
            roll_ups_evicted: 33,
            roll_ups_skipped: 34,
            kinds: 37,
            kinds_let_go: 38,
            kinds_skipped: 39,
            holdings: 35,
            holdings_let_go: 36,
        },
        memo: MemoCounters {
            hits: 21,
            misses: 22,
            recomputed: 23,
            differences: 24,
            entries: 25,
            bytes: 26,
            quarantined: 27,
        },
        quotes_kept: 9,
        what_ifs: ObservedWhatIfs { saving: 41, without_saving: 42, not_priced: 43, faulted: 44 },
        connections_refused: 11,
        forecast_error: Some(0.0625),
    })
}

fn cost(fuel: u64, nanoseconds: u64) -> StepCost {
    StepCost { evaluations: 1, reused: 0, fuel, memory_bytes_max: 65_536, nanoseconds }
}

/// An answer of 2,500 bytes.
fn record(metrics: &Metrics, route: Option<&str>, method: &str, status: u16, took: Duration) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let status = StatusCode::from_u16(status).unwrap();
    metrics.http_answered(&Answered { route, method: &method, status, took, bytes: 2_500 });
}

fn assert_has_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "no line `{line}` in:\n{text}");
    }
}

#[test]
fn a_scrape_has_every_number_under_its_name() {
    let metrics = metrics();
    record(&metrics, Some("/v1/quotes/{id}"), "GET", 200, Duration::from_micros(250));
    record(&metrics, None, "BREW", 404, Duration::from_secs(60));
    metrics.http_began();
    metrics.http_began();
    metrics.http_left();
    metrics.stream_began();
    metrics.stream_began();
    metrics.stream_ended();
    metrics.http_abandoned();
    metrics.http_shed(Shed::Busy);
    metrics.quoted(Some("gpu-standard"), QuoteOutcome::Issued);
    metrics.quoted(Some("gpu-standard"), QuoteOutcome::Issued);
    metrics.quoted(None, QuoteOutcome::Invalid);
    metrics.step_evaluated("image-channel@1.0.0", &cost(25_000, 8_000));
    metrics.evaluation_faulted("image-channel@1.0.0", &Fault::OutOfFuel);
    metrics.evaluation_faulted("image-channel@1.0.0", &Fault::PoolExhausted);
    let text = metrics.encode();
    assert_has_lines(
        &text,
        &[
            &format!("farebox_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
            "farebox_http_requests_total{route=\"/v1/quotes/{id}\",method=\"GET\",status=\"200\"} 1",
            "farebox_http_requests_total{route=\"unmatched\",method=\"other\",status=\"404\"} 1",
            "farebox_http_streams_open 1",
            "# UNIT farebox_http_request_duration_seconds seconds",
            "farebox_http_request_duration_seconds_bucket{le=\"0.00025\",route=\"/v1/quotes/{id}\",method=\"GET\"} 1",
            "farebox_http_request_duration_seconds_sum{route=\"unmatched\",method=\"other\"} 60.0",
            "farebox_http_response_size_bytes_bucket{le=\"4096.0\",route=\"/v1/quotes/{id}\",method=\"GET\"} 1",
            "farebox_http_response_size_bytes_sum{route=\"/v1/quotes/{id}\",method=\"GET\"} 2500.0",
            "farebox_http_requests_in_flight 1",
            "farebox_http_requests_abandoned_total 1",
            "farebox_http_requests_shed_total{reason=\"busy\"} 1",
            "farebox_policy_evaluations_total{policy=\"image-channel@1.0.0\",source=\"sandbox\"} 1",
            "farebox_quotes_total{plan=\"gpu-standard\",outcome=\"issued\"} 2",
            "farebox_quotes_total{plan=\"none\",outcome=\"invalid\"} 1",
            "farebox_policy_step_fuel_sum{policy=\"image-channel@1.0.0\"} 25000.0",
            "farebox_policy_step_fuel_count{policy=\"image-channel@1.0.0\"} 1",
            "farebox_policy_step_duration_seconds_bucket{le=\"0.000016\",policy=\"image-channel@1.0.0\"} 1",
            "farebox_policy_faults_total{policy=\"image-channel@1.0.0\",kind=\"out_of_fuel\"} 1",
            "farebox_sandbox_faults_total{kind=\"pool_exhausted\"} 1",
        ],
    );
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn a_scrape_has_what_is_counted_elsewhere() {
    assert_has_lines(
        &metrics().encode(),
        &[
            "farebox_quote_store_quotes 9",
            "farebox_what_ifs_saving_total 41",
            "farebox_what_ifs_without_saving_total 42",
            "farebox_what_ifs_not_priced_total 43",
            "farebox_what_ifs_faulted_total 44",
            "farebox_memo_hits_total 21",
            "farebox_memo_misses_total 22",
            "farebox_memo_recomputed_total 23",
            "farebox_memo_differences_total 24",
            "farebox_memo_outcomes 25",
            "farebox_memo_bytes 26",
            "farebox_memo_quarantined_policies 27",
            "farebox_mirror_snapshots 2",
            "farebox_mirror_snapshots_applied_total 7",
            "farebox_mirror_snapshots_not_newer_total 6",
            "farebox_mirror_snapshots_quarantined_total 5",
            "farebox_mirror_readings_dropped_total 4",
            "farebox_mirror_snapshots_refused_total 3",
            "farebox_mirror_histograms_refused_total 31",
            "farebox_mirror_roll_ups 32",
            "farebox_mirror_roll_ups_evicted_total 33",
            "farebox_mirror_roll_ups_skipped_total 34",
            "farebox_mirror_kinds 37",
            "farebox_mirror_kinds_let_go_total 38",
            "farebox_mirror_kinds_skipped_total 39",
            "farebox_mirror_holdings 35",
            "farebox_mirror_holdings_let_go_total 36",
            "farebox_http_connections_refused_total 11",
            "# UNIT farebox_forecast_absolute_error_ratio ratio",
            "farebox_forecast_absolute_error_ratio 0.0625",
        ],
    );
}

#[test]
fn a_scrape_tells_of_the_feed_where_there_is_one() {
    assert_has_lines(
        &metrics().encode(),
        &[
            "farebox_mirror_feed_shards 1",
            "farebox_mirror_feed_connected 0",
            "farebox_mirror_feed_lag_seconds_count 0",
            "farebox_mirror_feed_entries_total 0",
            "farebox_mirror_feed_gaps_total 0",
            "farebox_mirror_feed_bootstraps_total 0",
            "farebox_mirror_feed_roll_ups_kept_total 0",
            "farebox_mirror_feed_roll_ups_restored_total 0",
            "farebox_mirror_feed_roll_ups_refused_total 0",
            "farebox_mirror_feed_roll_ups_failed_total 0",
            "farebox_mirror_feed_dropped_total{reason=\"mac_wrong\"} 0",
            "farebox_mirror_feed_dropped_total{reason=\"foreign_tenant\"} 0",
        ],
    );
    assert!(!counted_elsewhere().encode().contains("mirror_feed"));
}

#[test]
fn what_is_not_known_is_not_shown() {
    let latest = LatestShare::default();
    assert_eq!(latest.get(), None);
    assert!(!Metrics::new(Observed::default).encode().contains("forecast_absolute_error"));
    latest.set(Some(rust_decimal::Decimal::new(25, 2)));
    assert_eq!(latest.get(), Some(0.25));
    latest.set(None);
    assert_eq!(latest.get(), None);
}

#[test]
fn labels_do_not_grow_without_end() {
    let metrics = metrics();
    for index in 0..2_000 {
        metrics.evaluation_faulted(&format!("policy-{index}@1.0.0"), &Fault::OutOfMemory);
        metrics.quoted(Some(&format!("plan-{index}")), QuoteOutcome::Issued);
    }
    let text = metrics.encode();
    let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(series("farebox_policy_faults_total{"), 501);
    assert_eq!(series("farebox_quotes_total{"), 501);
    assert_has_lines(&text, &["farebox_quotes_total{plan=\"other\",outcome=\"issued\"} 1500"]);
}

#[test]
fn label_values_are_escaped() {
    let metrics = metrics();
    metrics.evaluation_faulted("a\"} 1\n", &Fault::StackOverflow);
    assert_has_lines(
        &metrics.encode(),
        &["farebox_policy_faults_total{policy=\"a\\\"} 1\\n\",kind=\"stack_overflow\"} 1"],
    );
}

/// What was logged in `body` under `settings`.
fn logged(format: LogFormat, level: LevelFilter, body: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);
    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let written = Written::default();
    let writer = written.clone();
    let subscriber = log_subscriber(LogSettings { format, level }, move || writer.clone());
    tracing::subscriber::with_default(subscriber, body);
    let bytes = written.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn json_lines_parse_and_hold_their_fields() {
    let log = logged(LogFormat::Json, LevelFilter::INFO, || {
        tracing::info!(quote = "q_1", lines = 3, "a quote\nwas \u{1b}[31missued");
    });
    let event: serde_json::Value = serde_json::from_str(&log).unwrap();
    assert_eq!(event["quote"], "q_1");
    assert_eq!(event["message"], "a quote\nwas \u{1b}[31missued");
    assert_eq!(event["level"], "INFO");
    assert_eq!(log.lines().count(), 1);
}

#[test]
fn text_lines_carry_no_terminal_codes() {
    let log = logged(LogFormat::Text, LevelFilter::INFO, || tracing::info!("a \u{1b}[31mred\u{7f} line"));
    assert!(log.contains("INFO") && log.contains("red"), "{log}");
    assert!(!log.contains('\u{1b}'), "{log:?}");
}

#[test]
fn the_level_is_ours_and_others_are_heard_from_warn_up() {
    let events = || {
        tracing::debug!(target: "farebox::quoting", "ours, debug");
        tracing::trace!(target: "farebox_sandbox", "ours, trace");
        tracing::info!(target: "hyper::proto", "theirs, info");
        tracing::warn!(target: "hyper::proto", "theirs, warn");
        tracing::error!(target: "hyper::proto", "theirs, error");
    };
    let debug = logged(LogFormat::Text, LevelFilter::DEBUG, events);
    let heard = |log: &str, text: &str| log.contains(text);
    assert!(heard(&debug, "ours, debug") && !heard(&debug, "ours, trace"), "{debug}");
    assert!(!heard(&debug, "theirs, info") && heard(&debug, "theirs, warn"), "{debug}");
    let error = logged(LogFormat::Text, LevelFilter::ERROR, events);
    assert!(!heard(&error, "theirs, warn") && heard(&error, "theirs, error"), "{error}");
}
