//! `gpu-standard-table` prices as `gpu-standard` does: every row, message and refusal, for any request and observation.

use std::sync::{Arc, OnceLock};

use farebox::catalog::{Catalog, PlanVersion};
use farebox::intake::Intake;
use farebox_pricing::offer::{LineUsage, PricedInput};
use farebox_pricing::pipeline::PricingError;
use farebox_pricing::policy::Stat;
use farebox_pricing::price::price;
use farebox_pricing::request::{QuoteRequest, Workload};
use farebox_pricing::settle::Settled;
use farebox_pricing::usage::{Observation, ObservedStat, StatQuality, UsageScope, judge};
use farebox_sandbox::Session;
use farebox_tests::{NativeTwin, native};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::Value;

use crate::cases::redacted;
use crate::harness::{TestGateway, catalog, fixture, root};

pub const CODED: &str = "gpu-standard";
pub const TABLE: &str = "gpu-standard-table";

fn loaded() -> &'static Catalog {
    static LOADED: OnceLock<Catalog> = OnceLock::new();
    LOADED.get_or_init(catalog)
}

/// Every golden case that `gpu-standard` prices or refuses, over HTTP under either plan: one answer but for the policies.
#[test]
fn every_golden_case_of_the_standard_plan_has_the_same_answer() {
    let mut compared = 0;
    let mut names: Vec<_> = std::fs::read_dir(root().join("fixtures/cases")).unwrap().map(Result::unwrap).collect();
    names.sort_by_key(std::fs::DirEntry::file_name);
    for name in names {
        let name = name.file_name().into_string().unwrap();
        let mut request = fixture(&format!("cases/{name}/request.json"));
        if request["currency"] != "CNY" || request["plan"].is_string() {
            continue;
        }
        let case = fixture(&format!("cases/{name}/case.json"));
        let mut under = |plan: &str| {
            let gateway = TestGateway::start();
            for snapshot in case["snapshots"].as_array().into_iter().flatten() {
                gateway.observe(snapshot.as_str().unwrap());
            }
            request["plan"] = plan.into();
            let answer = gateway.post("/v1/quotes", &request);
            let mut json = redacted(answer.json());
            forget_names(&mut json);
            (answer.status, json)
        };
        assert_eq!(under(CODED), under(TABLE), "{name}");
        compared += 1;
    }
    assert!(compared >= 15, "only {compared} cases");
}

/// What must differ: whose policy said it, and the plan.
fn forget_names(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("policy");
            if let Some(plan) = members.get_mut("plan") {
                *plan = Value::Null;
            }
            members.values_mut().for_each(forget_names);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_names),
        _ => {}
    }
}

fn workload() -> impl Strategy<Value = Workload> {
    let maybe = |words: &'static [&'static str]| proptest::option::weighted(0.8, proptest::sample::select(words));
    let features = proptest::sample::subsequence(vec!["fsdp", "cuda_graphs", "warp"], 0..=3).prop_shuffle();
    (
        maybe(&["pytorch", "pytorch", "pytorch", "tensorflow", "jax"]),
        maybe(&["eager", "compiled", "torchscript", "turbo"]),
        prop_oneof![4 => features.clone().prop_map(without_warp), 1 => features],
        maybe(&["v2.4", "v2.6", "v2.8-nightly", "v2.6", "v9.9"]),
        maybe(&["shared", "hardened", "dedicated", "shared", "vault"]),
    )
        .prop_map(|(framework, execution, features, image, isolation)| Workload {
            framework: framework.map(str::to_owned),
            execution: execution.map(str::to_owned),
            features: features.into_iter().map(str::to_owned).collect(),
            image: image.map(str::to_owned),
            isolation: isolation.map(str::to_owned),
            ..Workload::default()
        })
}

fn without_warp(features: Vec<&'static str>) -> Vec<&'static str> {
    features.into_iter().filter(|feature| *feature != "warp").collect()
}

/// One to three items; intake knows no item without GPUs or time, so the bodies are sound and the words are not.
fn request() -> impl Strategy<Value = QuoteRequest> {
    let item = (prop_oneof!["V100", "A100"], 1u32..200, 1u64..4_000_000, workload());
    proptest::collection::vec(item, 1..=3).prop_map(|items| {
        let bodies = items.iter().enumerate().map(|(index, (model, count, seconds, _))| {
            serde_json::json!({"ref": format!("i{index}"), "gpu_model": model, "region": "cn-east-1", "gpu_count": count, "seconds": seconds})
        });
        let body = serde_json::json!({"tenant_id": "acme", "currency": "CNY", "items": bodies.collect::<Vec<_>>()});
        let mut request = Intake::new().unwrap().read(body.to_string().as_bytes()).unwrap().request;
        for (item, (_, _, _, workload)) in request.items.iter_mut().zip(items) {
            item.workload = workload;
        }
        request
    })
}

/// Nothing, or a share with its bounds over-represented, at an age and coverage that may bar surcharges or everything.
fn observation() -> impl Strategy<Value = Option<Observation>> {
    let bounds = proptest::sample::select(vec!["0", "0.1", "0.2", "0.3", "0.7", "0.0999", "0.2999", "0.7001", "1"]);
    let share = prop_oneof![bounds.prop_map(str::to_owned), (0u32..=10_000).prop_map(|it| format!("0.{it:05}"))];
    let age = prop_oneof![4 => Just(850), 2 => Just(45_000), 1 => Just(700_000)];
    let observed = (share, age, prop_oneof![5 => Just("0.99"), 1 => Just("0.5")], proptest::bool::weighted(0.8));
    proptest::option::weighted(0.85, observed).prop_map(|observed| {
        observed.map(|(share, age_ms, coverage, healthy)| self::observed(&share, age_ms, coverage, healthy))
    })
}

/// The one statistic that the plans read.
pub fn observed(share: &str, age_ms: u64, coverage: &str, healthy: bool) -> Observation {
    let stat = Stat {
        metric: "gpu_util".into(),
        statistic: "mean".into(),
        window_s: 604_800,
        value: farebox_pricing::exact::parse(share).unwrap(),
        coverage: farebox_pricing::exact::parse(coverage).unwrap(),
    };
    Observation {
        scope: UsageScope::GpuModel,
        observed_at_ms: 1_796_083_200_000,
        age_ms,
        healthy,
        reasons: vec![],
        job_held_s: None,
        mig_without_metric: false,
        stats: vec![ObservedStat { stat, held_us: 3_600_000_000_000, quality: StatQuality::Ok }],
    }
}

pub fn input(request: &QuoteRequest, plan: &str, observation: Option<&Observation>) -> (PricedInput, Arc<PlanVersion>) {
    let request = QuoteRequest { plan: Some(plan.to_owned()), ..request.clone() };
    let resolved = loaded().resolve(&request, "2026-12-01T00:00:00Z".parse().unwrap()).unwrap();
    let rules = &resolved.version.plan.usage;
    let usage = LineUsage { judged: judge(observation, rules), observation: observation.cloned() };
    (resolved.offer.with_usage(|_| usage.clone()), resolved.version)
}

fn twin(version: &PlanVersion) -> NativeTwin {
    let steps = version
        .policies
        .iter()
        .map(|configured| (native(&configured.policy().manifest().name).unwrap(), configured.bytes().to_vec()));
    NativeTwin { steps: steps.collect() }
}

/// All that a customer can see of a price or a refusal, whoever decided it. Rows of one step are sorted: a table says them
/// in its own order, `feature-surcharge` in that of the request.
fn seen(result: Result<Settled, PricingError>) -> String {
    match result {
        Ok(settled) => {
            let mut text = format!("{:?}\n", settled.totals);
            for line in &settled.lines {
                text += &format!("{:?} {:?} {:?}\n", line.reference, line.list_amount, line.amount);
                let mut rows: Vec<_> = line
                    .adjustments
                    .iter()
                    .map(|row| {
                        let words = (&row.kind, &row.code, &row.label, &row.reason);
                        (
                            row.step_index.unwrap_or(99),
                            format!("{} {words:?} {:?} {:?}\n", row.step, row.method, row.amount),
                        )
                    })
                    .collect();
                rows.sort();
                rows.iter().for_each(|(_, row)| text += row);
            }
            settled.notes.iter().for_each(|note| text += &format!("{note:?}\n"));
            text
        }
        Err(PricingError::Refused { step, item, refusal, .. }) => format!("{step} refuses item {item:?}: {refusal:?}"),
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_plans_price_and_refuse_alike(request in request(), observation in observation()) {
        let (coded_input, coded) = input(&request, CODED, observation.as_ref());
        let (table_input, table) = input(&request, TABLE, observation.as_ref());
        let expected = seen(price(&coded_input, &mut twin(&coded)));
        prop_assert_eq!(&seen(price(&table_input, &mut twin(&table))), &expected);
        prop_assert_eq!(&seen(price(&table_input, &mut Session::new(&table.policies))), &expected);
    }
}

/// The property above is worth what its inputs are: all outcomes come up among a few hundred of them.
#[test]
fn the_inputs_reach_every_rule_and_every_refusal() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut all = String::new();
    for _ in 0..400 {
        let request = request().new_tree(&mut runner).unwrap().current();
        let observation = observation().new_tree(&mut runner).unwrap().current();
        let (input, version) = input(&request, TABLE, observation.as_ref());
        all += &seen(price(&input, &mut twin(&version)));
    }
    for word in [
        "pytorch_eager",
        "no execution stated",
        "pytorch_compiled",
        "pytorch_torchscript",
        "other_framework",
        "framework_not_listed",
        "fsdp",
        "cuda_graphs",
        "v2.4",
        "v2.6",
        "v2.8-nightly",
        "shared",
        "hardened",
        "dedicated",
        "above_70",
        "below_30",
        "below_20",
        "below_10",
        "unknown_execution",
        "unknown_feature",
        "/workload/features/1",
        "unknown_image",
        "unknown_isolation",
        "item Some(2)",
    ] {
        assert!(all.contains(word), "no {word}");
    }
}
