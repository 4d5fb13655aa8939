//! The catalogue over the fixtures, sound and broken, with the real policies.

mod plan_choice;
mod requests;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use farebox_pricing::exact::print;
use farebox_sandbox::{Limits, Sandbox};

use super::Catalog;
use crate::cli::policy_build::{self, Toolchain};
use crate::config;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The policies, built from source once a run.
fn policies() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let root = root().canonicalize().unwrap();
        // Those that ship, whatever else someone has begun beside them: the problems name all that there are.
        let shipped = [
            "base-factors",
            "cart-adjustment",
            "feature-surcharge",
            "framework-premium",
            "image-channel",
            "isolation",
            "rate-table",
            "session-plan",
            "utilisation-adjustment",
        ];
        let packages: Vec<PathBuf> = shipped.iter().map(|name| root.join("policies").join(name)).collect();
        // A directory of its own, made anew: whatever else lies in target/policies is none of this test's business.
        let out = root.join("target/policies-of-catalog-tests");
        let _ = fs::remove_dir_all(&out);
        let toolchain = Toolchain { cargo_home: &config::cargo_home(), target_dir: None };
        policy_build::build(toolchain, &packages, &out).unwrap_or_else(|error| panic!("{error}"));
        out
    })
}

fn load(data: &str, policies: &Path) -> Catalog {
    let sandbox = Sandbox::new(Limits::standard()).unwrap();
    Catalog::load(&root().join("fixtures").join(data), policies, &sandbox)
}

/// The fixtures, loaded once.
fn fixtures() -> &'static Catalog {
    static LOADED: OnceLock<Catalog> = OnceLock::new();
    LOADED.get_or_init(|| {
        let catalog = load("", policies());
        assert_eq!(catalog.problems, []);
        catalog
    })
}

#[test]
fn the_fixtures_have_no_problems() {
    let catalog = fixtures();
    let names = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(names(catalog.tenants.keys().collect()), "acme globex initech");
    // The same prices by rules have tests of their own (tests/it/rate_table.rs).
    let is_coded = |name: &str| name.starts_with("gpu-standard") && name != "gpu-standard-table";
    let siblings: Vec<_> = catalog.plans.iter().filter(|(name, _)| is_coded(name)).collect();
    assert_eq!(
        names(siblings.iter().map(|(name, _)| *name).collect()),
        "gpu-standard gpu-standard-jpy gpu-standard-kwd gpu-standard-usd"
    );
    for (_, version) in siblings {
        let steps: Vec<_> = version.plan.steps.iter().map(|step| (step.id.as_str(), step.policy.id())).collect();
        let expected = [
            ("base", "base-factors@1.0.0"),
            ("framework", "framework-premium@1.0.0"),
            ("features", "feature-surcharge@1.0.0"),
            ("image", "image-channel@1.0.0"),
            ("isolation", "isolation@1.0.0"),
            ("utilisation", "utilisation-adjustment@1.0.0"),
        ];
        assert_eq!(steps, expected.map(|(id, policy)| (id, policy.to_owned())));
        assert_eq!(version.policies.len(), 6);
        assert_eq!(version.plan.quote_lifetime_s, 900);
        assert_eq!(version.plan.guards.max_discount.map(print).as_deref(), Some("0.6"));
    }
    for tenant in catalog.tenants.values() {
        assert_eq!(names(tenant.plans.keys().collect()), "CNY JPY KWD USD");
        assert!(catalog.plans.keys().all(|plan| tenant.may_ask_for(plan)));
    }
}

/// Every line of the data file is a row of `us-2026`, at its price of an hour, or one of the two in CNY.
#[test]
fn no_public_price_is_lost() {
    let csv = fs::read_to_string(root().join("fixtures/price-books/price-points-2026.csv")).unwrap();
    let book = &fixtures().plans["gpu-standard-usd"].book;
    assert_eq!(book.name, "us-2026");
    let mut in_usd = 0;
    for line in csv.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [vendor, model, memory, market, gpus, price, currency, per, _, read_on, _] = fields[..] else {
            panic!("{line}");
        };
        if currency == "CNY" {
            continue;
        }
        in_usd += 1;
        let price = farebox_pricing::exact::parse(price).unwrap();
        let hourly = if per == "gpu_second" { price * rust_decimal::Decimal::from(3600) } else { price };
        let from = if read_on.is_empty() { "2026-01-01" } else { read_on };
        let found = book.rows().any(|row| {
            row.gpu_model == model
                && row.region == vendor.replace('_', "-")
                && row.market.as_str() == market
                && row.min_gpus.to_string() == gpus
                && row.unit_price == hourly
                && row.memory_gib.map(print).as_deref() == Some(memory)
                && row.effective_from.to_string() == format!("{from}T00:00:00Z")
        });
        assert!(found, "{line}");
    }
    assert_eq!(in_usd, book.rows().count());
}

/// Broken documents and broken policies beside sound ones, loaded once.
fn broken() -> &'static Catalog {
    static LOADED: OnceLock<Catalog> = OnceLock::new();
    LOADED.get_or_init(|| {
        let directory = std::env::temp_dir().join(format!("farebox-catalog-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        for entry in fs::read_dir(policies()).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, directory.join(path.file_name().unwrap())).unwrap();
        }
        // The same bytes under two names are no contradiction; bytes that are no policy are a problem of their own.
        fs::copy(directory.join("isolation.wasm"), directory.join("isolation-copy.wasm")).unwrap();
        fs::write(directory.join("text.wasm"), "(module)").unwrap();
        fs::write(directory.join("half.wasm"), b"\0asm\x01\0").unwrap();
        let loaded = load("broken", &directory);
        fs::remove_dir_all(&directory).unwrap();
        loaded
    })
}

#[test]
fn every_problem_is_told_with_its_place_and_takes_nothing_else_down() {
    let catalog = broken();
    let shown = catalog.problems.iter().map(|problem| format!("{problem}\n")).collect::<String>();
    let expected = fs::read_to_string(root().join("fixtures/broken/expected.txt")).unwrap();
    let new: Vec<&str> = shown.lines().filter(|line| !expected.lines().any(|old| old == *line)).collect();
    let lost: Vec<&str> = expected.lines().filter(|line| !shown.lines().any(|new| new == *line)).collect();
    let moved = shown.lines().zip(expected.lines()).find(|(now, then)| now != then);
    let (new, lost) = (new.join("\n"), lost.join("\n"));
    assert!(shown == expected, "told now:\n{new}\n\nno longer told:\n{lost}\n\nfirst at another place: {moved:?}");

    assert_eq!(catalog.plans.keys().collect::<Vec<_>>(), ["good-plan"]);
    assert_eq!(catalog.tenants.keys().collect::<Vec<_>>(), ["acme", "umbrella"]);
    // Also those whose plan cannot be priced under: customers are told that, not that they asked for a wrong thing.
    assert_eq!(catalog.tenants["acme"].plans.keys().collect::<Vec<_>>(), ["CNY", "EUR", "JPY", "USD"]);
}

/// SPEC §4.7: `previous_version` is one hop, to the version before this one, and names no other plan. So there is nothing
/// that could go in a circle, and nothing to check; a step that wants to fall back elsewhere is a plain mistake.
#[test]
fn a_fallback_is_one_hop_and_cannot_be_a_cycle() {
    let schema = crate::schema::Schema::of::<super::wire::WirePlan>().unwrap();
    let told = |on_fault: serde_json::Value| {
        let step = serde_json::json!({"id": "a", "policy": "a@1.0.0", "on_fault": on_fault});
        let plan = serde_json::json!({"name": "p", "currency": "CNY", "price_book": "b", "steps": [step]});
        schema.violations(&plan).into_iter().map(|violation| violation.detail).collect::<Vec<_>>()
    };
    assert!(told("previous_version".into()).is_empty());
    assert_eq!(told("other-plan".into()), ["`other-plan` is not one of `refuse`, `previous_version`, `skip`"]);
    assert!(!told(serde_json::json!({"plan": "p"})).is_empty());
}

#[test]
fn a_directory_that_is_not_there_is_told() {
    let loaded = load("nowhere", Path::new("/nowhere/at/all"));
    let paths: Vec<&str> = loaded.problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["plans", "policies", "price-books", "tenants"]);
    assert!(loaded.plans.is_empty());
}

#[test]
fn defaults_are_the_documented_ones() {
    let plan = &broken().plans["good-plan"].plan;
    assert_eq!(plan.granule.as_str(), "second");
    assert_eq!(plan.rounding, farebox_pricing::amount::Rounding::HalfAwayFromZero);
    assert_eq!(plan.time_zone.iana_name(), Some("UTC"));
    assert_eq!(plan.quote_lifetime_s, 900);
    assert!(plan.price_is_locked());
    assert_eq!(plan.guards, farebox_pricing::plan::Guards::default());
    assert_eq!(plan.usage, farebox_pricing::usage::UsageRules::default());
}
