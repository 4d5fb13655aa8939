//! Usage as lines with bars: one for each GPU model and metric, readable without colour, 80 columns at most.

use farebox_pricing::exact;
use rust_decimal::{Decimal, RoundingStrategy};
use serde_json::Value;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::super::bar::Bars;
use super::super::quote_table::{array, text, word};
use super::super::terminal::{Style, Styles};
use crate::printable::printable;

/// Shown where they are measured, unless others are asked for; the first one is always shown.
const METRICS: [&str; 4] = ["gpu_util", "sm_util", "mem_used_bytes", "power_w"];
const WIDTH: usize = 80;
const CELLS: u64 = 10;
/// Names of models and metrics are those of others.
const WIDEST_NAME: usize = 14;
const WIDEST_MODEL: usize = 12;
/// Older than this is worth a colour, ms: soft-stale under SPEC §6.
const OLD_MS: u64 = 30_000;
/// The gateway sends 30 at most.
const LONGEST_SPARKLINE: usize = 30;
const COLUMNS: usize = 8;
const HEADINGS: [&str; COLUMNS] = ["model", "metric", "", "mean", "p95", "cover", "health", "age"];

#[derive(Clone, Copy, Debug)]
pub(super) struct Drawing {
    pub(super) bars: Bars,
    pub(super) styles: Styles,
}

/// As the [`HEADINGS`] say.
struct Row {
    cells: [String; COLUMNS],
    style: Style,
}

/// The lines for the body that the API answers: headings and rows, or one sentence.
pub(super) fn draw(usage: &Value, window: &str, metrics: &[String], drawing: Drawing) -> Vec<String> {
    let models = array(usage, "/models");
    if models.is_empty() {
        return vec!["no live snapshot: nothing is held, or no agent reports it".to_owned()];
    }
    let headings = Row { cells: HEADINGS.map(str::to_owned), style: Style::Dim };
    let rows = models.iter().flat_map(|model| rows(model, window, metrics, drawing.bars));
    let rows: Vec<Row> = std::iter::once(headings).chain(rows).collect();
    let notes = models.iter().flat_map(|model| notes(model, window, metrics, drawing.bars));
    let width = |column: usize| rows.iter().filter_map(|row| row.cells.get(column)).map(|cell| cell.width()).max();
    let widths: Vec<usize> = (0..COLUMNS).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Row| {
        let cells = row.cells.iter().zip(&widths).filter(|(_, width)| **width > 0);
        let line = cells.map(|(cell, width)| format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width()))));
        drawing.styles.paint(row.style, cut(&line.collect::<Vec<_>>().join(" ")).trim_end())
    };
    rows.iter().map(line).chain(notes.map(|note| cut(&note))).collect()
}

/// What to expect of a model, and its past as sparklines.
fn notes(model: &Value, window: &str, asked: &[String], bars: Bars) -> Vec<String> {
    let name = within(&word(model, "/gpu_model"), WIDEST_MODEL);
    let expects = model.get("effective").filter(|effective| !effective.is_null()).map(|effective| {
        let share =
            |field: &str| exact::parse(&text(effective, field)?).ok().map(|share| quantity("effective_util", share));
        let band = share("/low").zip(share("/high")).map(|(low, high)| format!(" ({low} to {high})"));
        let (expected, band) = (share("/expected").unwrap_or_default(), band.unwrap_or_default());
        format!("{name}: effective {expected}{band} by {}, {}", word(effective, "/metric"), word(effective, "/basis"))
    });
    let past = model.get("series").and_then(|series| series.get(window)).and_then(Value::as_object);
    let is_shown =
        |metric: &String| if asked.is_empty() { METRICS.contains(&&**metric) } else { asked.contains(metric) };
    let sparklines = past.into_iter().flatten().filter(|(metric, _)| is_shown(metric)).map(|(metric, series)| {
        let value = |value: &Value| exact::parse(value.as_str()?).ok();
        let values: Vec<Option<Decimal>> = array(series, "/values").iter().map(value).collect();
        format!("{name}: {metric} {} last {window}", sparkline(&values, bars))
    });
    expects.into_iter().chain(sparklines).collect()
}

/// One sign for each share of 1, at most as many as there are buckets in a window; what was not observed is a gap.
fn sparkline(values: &[Option<Decimal>], bars: Bars) -> String {
    let signs = bars.steps();
    let highest = signs.len().saturating_sub(1);
    let sign = |value: &Option<Decimal>| {
        let Some(value) = value else { return ' ' };
        let step = (value * Decimal::from(highest)).round();
        signs.get(usize::try_from(step).unwrap_or(0).min(highest)).copied().unwrap_or(' ')
    };
    values.iter().take(LONGEST_SPARKLINE).map(sign).collect()
}

fn rows(model: &Value, window: &str, asked: &[String], bars: Bars) -> Vec<Row> {
    let measured = model.get("windows").and_then(|windows| windows.get(window));
    let of = |metric: &str| measured.and_then(|metrics| metrics.get(metric));
    let wanted: Vec<&str> = if asked.is_empty() {
        METRICS.into_iter().filter(|metric| Some(metric) == METRICS.first() || of(metric).is_some()).collect()
    } else {
        asked.iter().map(String::as_str).collect()
    };
    let age_ms = model.get("age_ms").and_then(Value::as_u64).unwrap_or(u64::MAX);
    let health = word(model, "/health");
    let is_well = health == "ok" && age_ms <= OLD_MS;
    let style = if is_well { Style::Plain } else { Style::Yellow };
    let row = |metric: &&str| {
        let [bar, mean, p95, coverage] = of(metric).map_or_else(
            || ["not observed".to_owned(), String::new(), String::new(), String::new()],
            |statistics| measurements(metric, statistics, bars),
        );
        let is_suspect = of(metric).is_some_and(|statistics| word(statistics, "/quality") == "suspect_zero");
        let health = if is_suspect && health == "ok" { "suspect_zero" } else { health.as_str() };
        let names = [within(&word(model, "/gpu_model"), WIDEST_MODEL), within(&printable(metric), WIDEST_NAME)];
        let [gpu_model, metric] = names;
        let cells = [gpu_model, metric, bar, mean, p95, coverage, within(health, WIDEST_NAME), age(age_ms)];
        Row { cells, style }
    };
    wanted.iter().map(row).collect()
}

/// Bar, mean, p95 and coverage.
fn measurements(metric: &str, statistics: &Value, bars: Bars) -> [String; 4] {
    let value = |name: &str| exact::parse(&text(statistics, name)?).ok();
    let (mean, p95) = (value("/mean"), value("/p95"));
    // A quantity has no whole that is known here: it is held against its own highest.
    let whole = if is_share(metric) { Some(Decimal::ONE) } else { value("/max") };
    let bar = mean.zip(whole).map_or_else(String::new, |(mean, whole)| {
        let full = mean.checked_div(whole).unwrap_or_default().min(Decimal::ONE);
        let thousandths = u64::try_from((full * Decimal::ONE_THOUSAND).round()).unwrap_or(0);
        bars.draw(thousandths, 1_000, CELLS, None)
    });
    let coverage = value("/coverage").unwrap_or_default();
    [
        bar,
        mean.map_or_else(String::new, |mean| quantity(metric, mean)),
        p95.map_or_else(String::new, |p95| quantity(metric, p95)),
        format!("{} %", rounded_down(coverage * Decimal::ONE_HUNDRED)),
    ]
}

fn is_share(metric: &str) -> bool {
    ["_util", "_active", "_occupancy"].iter().any(|suffix| metric.ends_with(suffix))
}

/// With its unit, to one decimal.
fn quantity(metric: &str, value: Decimal) -> String {
    let tenth = |value: Decimal| value.round_dp_with_strategy(1, RoundingStrategy::MidpointNearestEven).normalize();
    if is_share(metric) {
        return format!("{} %", tenth(value * Decimal::ONE_HUNDRED));
    }
    let units = [("_bytes", 1_u64 << 30, "GiB"), ("_w", 1, "W"), ("_mhz", 1, "MHz")];
    match units.into_iter().find(|(suffix, ..)| metric.ends_with(suffix)) {
        Some((_, divisor, unit)) => format!("{} {unit}", tenth(value / Decimal::from(divisor))),
        None => tenth(value).to_string(),
    }
}

/// So that 99.99 % never passes for all.
fn rounded_down(percent: Decimal) -> String {
    percent.trunc().normalize().to_string()
}

/// `0.9 s`, `45 s`, `12 min`, `3 h`
fn age(age_ms: u64) -> String {
    let whole = |unit_ms: u64| age_ms.div_euclid(unit_ms);
    match age_ms {
        0..10_000 => format!("{}.{} s", whole(1_000), whole(100).rem_euclid(10)),
        10_000..120_000 => format!("{} s", whole(1_000)),
        120_000..7_200_000 => format!("{} min", whole(60_000)),
        _ => format!("{} h", whole(3_600_000)),
    }
}

/// A text of others or of ours in one line of a terminal.
pub(super) fn cut(text: &str) -> String {
    within(&printable(text), WIDTH)
}

fn within(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut used = 1_usize;
    let kept = text.chars().take_while(|letter| {
        used = used.saturating_add(letter.width().unwrap_or(0));
        used <= width
    });
    format!("{}…", kept.collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawn(metrics: &[String]) -> Vec<String> {
        draw(&usage(), "15m", metrics, Drawing { bars: Bars::for_output(false), styles: Styles::NONE })
    }

    fn usage() -> Value {
        let statistics = json!({"mean": "0.8215", "p95": "0.97", "max": "1", "coverage": "0.9999", "quality": "ok"});
        let bytes = json!({"mean": "42949672960", "max": "85899345920", "coverage": "1", "quality": "ok"});
        let zero = json!({"mean": "0", "p95": "0", "coverage": "1", "quality": "suspect_zero"});
        json!({"tenant_id": "acme", "models": [
            {"gpu_model": "A100", "health": "ok", "age_ms": 940, "windows": {"15m": {"gpu_util": statistics, "mem_used_bytes": bytes}}},
            {"gpu_model": "A\u{1b}[31mVERYLONGNAMEINDEED", "health": "lost", "age_ms": 45_000, "windows": {"15m": {"gpu_util": zero}}},
            {"gpu_model": "L4", "health": "ok", "age_ms": 1_000, "windows": {"15m": {"gpu_util": {"mean": "0", "quality": "suspect_zero"}}}},
            {"gpu_model": "T4", "health": "ok", "age_ms": 7_200_000, "windows": {}},
        ]})
    }

    #[test]
    fn each_model_and_metric_has_a_line() {
        let lines = drawn(&[]);
        let expected = [
            "model        metric                      mean   p95  cover health       age",
            "A100         gpu_util       [#########-] 82.2 % 97 % 99 %  ok           0.9 s",
            "A100         mem_used_bytes [#####-----] 40 GiB      100 % ok           0.9 s",
            "A[31mVERYLO… gpu_util       [----------] 0 %    0 %  100 % lost         45 s",
            "L4           gpu_util       [----------] 0 %         0 %   suspect_zero 1.0 s",
            "T4           gpu_util       not observed                   ok           2 h",
        ];
        assert_eq!(lines, expected);
        assert!(lines.iter().all(|line| line.width() <= WIDTH));
        let power = drawn(&["power_w".to_owned(), "x\u{7}".repeat(9)]);
        assert_eq!(power[1], "A100         power_w   not observed                ok     0.9 s");
        assert!(power[2].starts_with("A100         xxxxxxxxx not observed"), "{power:?}");
        let drawing = Drawing { bars: Bars::for_output(true), styles: Styles::NONE };
        assert_eq!(draw(&json!({"models": []}), "15m", &[], drawing).len(), 1);
    }

    #[test]
    fn what_to_expect_and_the_past_stand_below() {
        let values = json!(["0", "0.5", null, "1", "1.5", "x"]);
        let model = json!({"gpu_model": "A\u{1b}100", "health": "ok", "age_ms": 1, "windows": {},
            "effective": {"expected": "0.8215", "low": "0.77", "high": "0.86", "metric": "gpu_util", "basis": "tenant_7d"},
            "series": {"7d": {"gpu_util": {"values": values}, "mem_util": {"values": values}}}});
        let usage = json!({"models": [model]});
        let below = |window, metrics: &[String], is_utf8| {
            let drawing = Drawing { bars: Bars::for_output(is_utf8), styles: Styles::NONE };
            draw(&usage, window, metrics, drawing).into_iter().filter(|line| line.contains(": ")).collect::<Vec<_>>()
        };
        let expects = "A100: effective 82.2 % (77 % to 86 %) by gpu_util, tenant_7d";
        assert_eq!(below("7d", &[], true), [expects, "A100: gpu_util ▁▅ ██  last 7d"]);
        assert_eq!(below("7d", &["mem_util".to_owned()], false), [expects, "A100: mem_util _= ##  last 7d"]);
        assert_eq!(below("15m", &[], true), [expects]);
        let mut bandless = usage.clone();
        bandless["models"][0]["effective"]["low"] = Value::Null;
        let drawing = Drawing { bars: Bars::for_output(false), styles: Styles::NONE };
        assert!(
            draw(&bandless, "15m", &[], drawing)
                .iter()
                .any(|line| line == "A100: effective 82.2 % by gpu_util, tenant_7d")
        );
    }

    #[test]
    fn quantities_have_their_unit_and_ages_theirs() {
        let shown = |metric, value: &str| quantity(metric, exact::parse(value).unwrap());
        assert_eq!(shown("sm_util", "0.70049"), "70 %");
        assert_eq!(shown("power_w", "301.25"), "301.2 W");
        assert_eq!(shown("mem_used_bytes", "1610612736"), "1.5 GiB");
        assert_eq!(shown("sm_clock_mhz", "1410"), "1410 MHz");
        assert_eq!(shown("pages", "7.04"), "7");
        let ages = [0, 9_999, 10_000, 119_999, 120_000, 7_199_999, 7_200_000].map(age);
        assert_eq!(ages, ["0.0 s", "9.9 s", "10 s", "119 s", "2 min", "119 min", "2 h"]);
    }

    #[test]
    fn a_line_of_wide_letters_is_cut_by_its_columns() {
        assert_eq!(within("形形形形", 6), "形形…");
        assert_eq!(within("abcdef", 6), "abcdef");
        assert_eq!(cut("a\u{1b}b\n"), "ab ");
    }
}
