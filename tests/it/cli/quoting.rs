//! `farebox quote`: the same offline and online, to the last row; in a table, in JSON, and explained.

use serde_json::{Value, json};

use super::{Ran, farebox, farebox_with};
use crate::harness::{TestGateway, fixture, lasting, root, text, updates_cases};

const AT: &str = "2026-12-01T00:00:00Z";

/// Runs it and expects a quote.
fn quoted(arguments: &[&str], stdin: &str) -> Ran {
    let ran = farebox_with(&[&["quote"], arguments].concat(), &[], stdin);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
    ran
}

/// Without what a preview has otherwise.
fn priced_content(quote: &Value) -> Value {
    let mut content = lasting(quote.clone());
    content.as_object_mut().unwrap().remove("status").unwrap();
    content
}

/// SPEC §4, W1 to W3; the totals were worked out by hand there.
#[test]
fn the_worked_examples_are_the_same_offline_and_online() {
    for (request, snapshot, total, rows) in
        [("w1", Some("steady-82"), "9300.10", 7), ("w2", None, "7620.48", 2), ("w3", Some("low-25"), "47.25", 3)]
    {
        let gateway = TestGateway::start();
        let file = format!("fixtures/requests/{request}.json");
        let mut arguments = vec!["-f", &file];
        let snapshot = snapshot.map(|name| format!("fixtures/snapshots/{name}.json"));
        if let Some(path) = &snapshot {
            arguments.extend(["--snapshot", path]);
        }
        let offline = quoted(&arguments, "");
        let server = gateway.url("");
        let online = quoted(&[&arguments[..], &["--server", &server]].concat(), "");
        assert_eq!([&offline.stderr, &online.stderr], ["", ""]);
        let (offline, quote) = (offline.json(), online.json());
        assert_eq!(text(&offline, "/totals/total"), total, "{request}");
        assert_eq!(offline["lines"][0]["adjustments"].as_array().unwrap().len(), rows, "{request}");
        assert_eq!(priced_content(&offline), priced_content(&quote), "{request}");
        // Nobody can accept a preview; what a gateway answers is passed on byte for byte.
        assert_eq!(
            [&offline["status"], &offline["token"], &offline["links"]],
            [&json!("preview"), &Value::Null, &Value::Null]
        );
        let kept = gateway.get(&text(&quote, "/links/self"));
        assert_eq!(format!("{}\n", kept.body), online.stdout, "{request}");
    }
}

#[test]
fn the_table_and_the_waterfall_of_w1_are_as_recorded() {
    let snapshot = "fixtures/snapshots/steady-82.json";
    let arguments = ["-f", "fixtures/requests/w1.json", "--snapshot", snapshot, "--at", AT, "--table", "--explain"];
    let explained = quoted(&arguments, "").stdout;
    let (table, waterfall) = explained.split_once("\nHow ").unwrap();
    assert_recorded("fixtures/tables/w1.txt", table);
    assert_recorded("fixtures/tables/w1-explained.txt", &format!("How {waterfall}"));
}

/// Digests and fuel are those of a policy's bytes, which change with its compiler.
fn assert_recorded(path: &str, text: &str) {
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let redacted: String = text
        .lines()
        .map(|line| match (line.split_once("SHA-256 "), line.trim_start().starts_with("fuel ")) {
            (Some((before, _)), _) => format!("{before}SHA-256 <digest>\n"),
            (_, true) => "    fuel <fuel>\n".to_owned(),
            _ => format!("{line}\n"),
        })
        .collect();
    let file = root().join(path);
    if updates_cases() {
        std::fs::write(&file, &redacted).unwrap();
    }
    let recorded = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(recorded == redacted, "{path} is out of date; run with UPDATE_CASES=1 and read the diff:\n{redacted}");
}

#[test]
fn an_explanation_has_every_step_and_what_it_saw() {
    let arguments = ["-f", "fixtures/requests/w1.json", "--snapshot", "fixtures/snapshots/steady-82.json", "--explain"];
    let answer = quoted(&arguments, "").json();
    assert_eq!(text(&answer, "/quote/totals/total"), "9300.10");
    let made = &answer["explanation"]["made"];
    let row = json!({"line": "l1", "gpu_model": "A100", "region": "cn-east-1", "market": "on_demand", "min_gpus": 1,
        "unit_price": "12.00", "effective_from": "2026-01-01T00:00:00Z"});
    assert_eq!(made["rows"], json!([row]));
    let steps: Vec<String> = made["steps"].as_array().unwrap().iter().map(|step| text(step, "/step")).collect();
    assert_eq!(steps, ["base", "framework", "features", "image", "isolation", "utilisation"]);
    let saw = &made["steps"][5]["evaluations"][0]["saw"];
    let seen = saw.as_array().unwrap().iter().find(|saw| saw["read"] == "usage/gpu_util/mean/7d");
    assert_eq!(seen.unwrap()["value"], "0.82 (coverage 0.99, quality ok)");
    // The fuel of a step is that of its evaluations: one line, one evaluation.
    let fuel = &made["steps"][1]["evaluations"][0]["fuel"];
    assert_eq!(fuel, &answer["quote"]["lines"][0]["adjustments"][0]["fuel"]);
    let features = &answer["explanation"]["waterfall"][0]["steps"][1];
    assert_eq!([&features["entered"], &features["left"]], ["7948.80", "10333.44"]);

    let server = TestGateway::start();
    server.observe("steady-82");
    let online = quoted(&["-f", "fixtures/requests/w1.json", "--explain", "--server", &server.url("")], "").json();
    assert_eq!(online["explanation"]["made"], Value::Null);
    assert_eq!(online["explanation"]["waterfall"], answer["explanation"]["waterfall"]);
}

/// Amounts have the decimals of their currency: none in yen, three in dinar.
#[test]
fn yen_and_dinar_have_their_own_decimals() {
    let yen = quoted(&["-f", "fixtures/requests/w11.json", "--table"], "").stdout;
    assert!(yen.lines().any(|line| line.contains("total JPY") && line.ends_with(" 1854")), "{yen}");
    let dinar = quoted(&["-f", "fixtures/requests/kwd.json", "--table"], "").stdout;
    let total = text(&fixture("cases/kwd-three-decimals/quote.json"), "/totals/total");
    assert!(dinar.lines().any(|line| line.contains("total KWD") && line.ends_with(&format!(" {total}"))), "{dinar}");
}

#[test]
fn a_hundred_lines_from_stdin_and_hostile_words_are_readable() {
    let mut request = fixture("requests/w1.json");
    let items: Vec<Value> = (0..100)
        .map(|number| {
            let mut item = request["items"][0].clone();
            item["ref"] = format!("item {number} 形").into();
            item
        })
        .collect();
    request["items"] = items.into();
    request["client_reference"] = "cart \u{202e}17\u{9b}2J\u{2028}forged: 0.00".into();
    let table = quoted(&["-f", "-", "--table"], &request.to_string()).stdout;
    assert_eq!(table.lines().filter(|line| line.contains("576 gpu_hour at 12.00")).count(), 100);
    assert!(table.contains("reference cart 172J forged: 0.00"), "{}", &table[..400]);
    assert!(!table.chars().any(|letter| letter.is_control() && letter != '\n' || letter == '\u{202e}'));
    // 6912.00 × 1.15 × 1.30 for each of a hundred lines, without a snapshot.
    assert!(table.lines().any(|line| line.contains("total CNY") && line.ends_with(" 1033344.00")), "{table}");
}

#[test]
fn colour_is_never_in_a_pipe_unless_it_is_asked_for() {
    let arguments = ["-f", "fixtures/requests/w2.json", "--table", "--at", AT];
    let plain = quoted(&arguments, "").stdout;
    assert!(!plain.contains('\u{1b}'));
    let painted = quoted(&[&arguments[..], &["--color", "always"]].concat(), "").stdout;
    assert!(painted.contains("\u{1b}[1m"), "{painted}");
    let mut stripped = painted;
    for code in ["[0m", "[1m", "[2m", "[32m", "[33m"] {
        stripped = stripped.replace(&format!("\u{1b}{code}"), "");
    }
    assert_eq!(stripped, plain, "colour adds nothing but colour");
}

#[test]
fn a_plan_and_an_instant_can_be_chosen() {
    let request = fixture("requests/w1.json").to_string();
    let ran = farebox_with(&["quote", "-f", "-", "--plan", "gpu-standart"], &[], &request);
    assert_eq!(ran.code, 65, "{}", ran.stderr);
    let expected = "farebox: invalid-request: there is no plan `gpu-standart` for tenant `acme`; in `CNY` there are `gpu-standard`, \
         `gpu-standard-table`, `gpu-volume`, `production`, `research`; did you mean `gpu-standard`? (at /plan)\n";
    assert_eq!(ran.stderr, expected);
    // Its prices hold from 2026-01-01 on.
    let ran = farebox_with(&["quote", "-f", "-", "--at", "2025-12-31T23:59:59Z"], &[], &request);
    assert!(
        ran.code == 65 && ran.stderr.contains("only from 2026-01-01T00:00:00Z on (at /items/0/gpu_model)"),
        "{}",
        ran.stderr
    );
    let on_the_day = quoted(&["-f", "-", "--plan", "gpu-standard", "--at", "2026-01-01T00:00:00Z"], &request).json();
    assert_eq!(on_the_day["created_at"], "2026-01-01T00:00:00Z");
}

#[test]
fn the_last_snapshot_counts_and_one_of_another_tenant_is_told() {
    let request = fixture("requests/w1.json").to_string().replace("acme", "globex");
    let gateway = TestGateway::start();
    let server = gateway.url("");
    for place in [&[][..], &["--server", &server]] {
        // 0.03 used: +20 %, of 10333.44; after it 0.82 again.
        let snapshots =
            ["--snapshot", "fixtures/snapshots/steady-82.json", "--snapshot", "fixtures/snapshots/idle.json"];
        let idle = quoted(&[&["-f", "fixtures/requests/w1.json"], &snapshots[..], place].concat(), "");
        assert_eq!((text(&idle.json(), "/totals/total").as_str(), idle.stderr.as_str()), ("12400.13", ""));
        let other = quoted(&[&["-f", "-"], &snapshots[..2], place].concat(), &request);
        assert_eq!(
            other.stderr,
            "farebox: warning: fixtures/snapshots/steady-82.json is of tenant `acme`, the request of `globex`: it does not \
             move this price\n"
        );
        assert_eq!(text(&other.json(), "/messages/0/code"), "no_snapshot");
    }
}

#[test]
fn help_tells_the_exit_codes() {
    for arguments in [&["--help"][..], &["quote", "--help"], &["check", "--help"]] {
        let ran = farebox(arguments);
        assert!(ran.code == 0 && ran.stdout.contains("69  unavailable"), "{}{}", ran.stdout, ran.stderr);
    }
}
