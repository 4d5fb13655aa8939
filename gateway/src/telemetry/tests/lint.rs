//! What `promtool check metrics` looks for, and what the conventions of Prometheus ask beyond it.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Base units only, and at the end of the name.
const UNITS: &[&str] = &["seconds", "bytes", "ratio"];
const NOT_BASE_UNITS: &[&str] = &[
    "milliseconds",
    "ms",
    "microseconds",
    "us",
    "nanoseconds",
    "minutes",
    "hours",
    "kilobytes",
    "megabytes",
    "percent",
];
/// What a type line says already.
const NOT_IN_NAMES: &[&str] = &["counter", "gauge", "histogram", "summary", "info_info"];

#[derive(Default)]
struct Described {
    help: Option<String>,
    kind: Option<String>,
    unit: Option<String>,
    samples: Vec<String>,
}

/// By name, in the way of a parser that has not seen this code: what describes a metric comes before its samples.
fn parse(text: &str) -> BTreeMap<String, Described> {
    let mut metrics: BTreeMap<String, Described> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
            if name != current {
                assert!(!metrics.contains_key(name), "{name} is described in two places");
                current = name.to_owned();
            }
            let metric = metrics.entry(name.to_owned()).or_default();
            let field = match what {
                "HELP" => &mut metric.help,
                "TYPE" => &mut metric.kind,
                "UNIT" => &mut metric.unit,
                other => panic!("`{other}` in `{line}`"),
            };
            assert!(metric.samples.is_empty() && field.replace(rest.to_owned()).is_none(), "twice: {line}");
        } else {
            assert!(line.starts_with(&current), "`{line}` is not of {current}");
            metrics.get_mut(&current).unwrap().samples.push(line.to_owned());
        }
    }
    metrics
}

/// A scrape with a sample of everything.
fn scraped() -> String {
    let metrics = metrics();
    record(&metrics, Some("/v1/quotes"), "POST", 201, Duration::from_millis(1));
    metrics.http_shed(Shed::TimedOut);
    metrics.quoted(Some("gpu-standard"), QuoteOutcome::Issued);
    metrics.step_evaluated("image-channel@1.0.0", &cost(25_000, 8_000));
    metrics.evaluation_faulted("image-channel@1.0.0", &Fault::Deadline);
    metrics.evaluation_faulted("image-channel@1.0.0", &Fault::OutOfFuel);
    metrics.encode()
}

#[test]
fn names_types_units_and_help_are_as_prometheus_has_them() {
    let metrics = parse(&scraped());
    assert!(metrics.len() >= 18, "{:?}", metrics.keys());
    for (name, metric) in &metrics {
        let words: Vec<_> = name.split('_').collect();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert_eq!(words[0], "farebox", "{name}");
        assert!(!NOT_IN_NAMES.iter().any(|word| words.contains(word)), "{name}");
        assert!(!NOT_BASE_UNITS.iter().any(|unit| words.contains(unit)), "{name}");
        let unit = metric.unit.as_deref();
        assert!(
            unit.is_none_or(|unit| UNITS.contains(&unit) && name.ends_with(&format!("_{unit}"))),
            "{name}: {unit:?}"
        );
        assert_eq!(UNITS.iter().any(|unit| words.contains(unit)), unit.is_some(), "{name} says its unit");
        let help = metric.help.as_deref().unwrap_or_default();
        assert!(help.ends_with('.') && help.len() > 10, "{name}: {help}");
        assert!(!metric.samples.is_empty(), "{name} was not sampled");
        let endings: BTreeSet<_> =
            metric.samples.iter().map(|sample| sample[name.len()..].split(['{', ' ']).next().unwrap()).collect();
        let expected: &[&str] = match metric.kind.as_deref().unwrap() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_bucket", "_count", "_sum"],
            "info" => &["_info"],
            other => panic!("{name} is a {other}"),
        };
        assert_eq!(endings.into_iter().collect::<Vec<_>>(), expected, "{name}");
        assert!(!name.ends_with("_total") && !name.ends_with("_count") && !name.ends_with("_sum"), "{name}");
    }
}

#[test]
fn histograms_are_cumulative_and_end_in_infinity() {
    for (name, metric) in parse(&scraped()).iter().filter(|(_, metric)| metric.kind.as_deref() == Some("histogram")) {
        let buckets: Vec<&String> = metric.samples.iter().filter(|sample| sample.contains("_bucket{")).collect();
        let counts: Vec<u64> =
            buckets.iter().map(|bucket| bucket.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        assert!(counts.is_sorted() && buckets.last().unwrap().contains("le=\"+Inf\""), "{name}: {buckets:?}");
    }
}
