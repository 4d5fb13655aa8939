//! `farebox check`: causes, what follows from them, counts, and the same in JSON.

use serde_json::{Value, json};

use super::farebox;
use crate::harness::{policies, text};

/// How many policies there are, all of them good.
fn built() -> usize {
    std::fs::read_dir(policies()).unwrap().count()
}

#[test]
fn sound_fixtures_are_0() {
    let ran = farebox(&["check", "fixtures"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let summary = ran.stdout.strip_prefix("good: ").unwrap_or_else(|| panic!("{}", ran.stdout));
    assert!(summary.ends_with("; no problems\n") && ran.stderr.is_empty(), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn what_follows_stands_below_its_cause() {
    let ran = farebox(&["check", "fixtures/broken"]);
    assert_eq!(ran.code, 1);
    let told: Vec<&str> = ran.stdout.lines().collect();
    let at = |begin: &str| {
        let found = told.iter().position(|line| line.starts_with(begin));
        found.unwrap_or_else(|| panic!("no `{begin}` in\n{}", ran.stdout))
    };
    let cause = at("price-books/syntax.toml:3:9: this is not TOML");
    assert!(
        told[cause + 1].starts_with("  plans/left-out-book.toml:3:14: price book `syntax-2026` is left out"),
        "{}",
        told[cause + 1]
    );
    assert!(
        told[cause + 2].starts_with("    tenants/acme.toml:5:17: plan `left-out-book` is left out"),
        "{}",
        told[cause + 2]
    );
    let (summary, problems) = told.split_last().unwrap();
    assert_eq!(ran.stderr, format!("farebox: {} problems\n", problems.len()));
    let following = problems.iter().filter(|line| line.starts_with(' ')).count();
    let end = format!("; {} problems, {following} following from others", problems.len());
    let begin = format!("good: 1 plan, 1 price book, 2 tenants, {} policies; left out: ", built());
    assert!(summary.starts_with(&begin) && summary.ends_with(&end), "{summary}");
}

#[test]
fn the_same_in_json() {
    let ran = farebox(&["check", "fixtures/broken", "--json"]);
    assert_eq!(ran.code, 1);
    let json = ran.json();
    assert_eq!(json["good"], json!({"plans": 1, "price_books": 1, "tenants": 2, "policies": built()}));
    let problems = json["problems"].as_array().unwrap();
    let of = |path: &str| problems.iter().find(|problem| problem["path"] == path).unwrap();
    let follows = of("plans/left-out-book.toml");
    assert_eq!([&follows["line"], &follows["column"]], [3, 14]);
    assert_eq!(text(follows, "/because"), "price-books/syntax.toml");
    assert_eq!(text(follows, "/pointer"), "/price_book");
    assert_eq!(of("price-books/syntax.toml")["because"], Value::Null);
}
