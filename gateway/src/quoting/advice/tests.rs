//! Each rule at its thresholds, and what stays unsaid.

use std::sync::Arc;

use farebox_pricing::amount::Rounding;
use farebox_pricing::currency::Currency;
use farebox_pricing::granule::Granule;
use farebox_pricing::plan::{Guards, OnFault, PolicyRef, Step, UtilisationBasis};
use farebox_pricing::policy::{Scope, Stat};
use farebox_pricing::reads::Reads;
use farebox_pricing::usage::{Observation, ObservedStat, StatQuality, UsageRules, UsageScope};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::*;
use crate::intake::Intake;

const HOUR_US: u64 = 3_600_000_000;

fn plan(reads: &[&str]) -> Plan {
    let policy = PolicyRef { name: "p".to_owned(), version: "1.0.0".to_owned(), digest: "00".to_owned() };
    let reads = Reads::parse(reads).unwrap();
    let step =
        Step { id: "s".to_owned(), policy, scope: Scope::Line, reads, produces: Vec::new(), on_fault: OnFault::Refuse };
    Plan {
        name: "plan".to_owned(),
        version: 1,
        digest: "00".to_owned(),
        currency: Currency::parse("CNY").unwrap(),
        price_book: "book".to_owned(),
        time_zone: TimeZone::UTC,
        granule: Granule::Second,
        rounding: Rounding::HalfAwayFromZero,
        quote_lifetime_s: 900,
        utilisation_basis: UtilisationBasis::Quote,
        guards: Guards::default(),
        usage: UsageRules::default(),
        steps: vec![step],
    }
}

/// Items of A100 GPU time, each with its workload, or with a task where it has `task`.
fn request(items: &[Value]) -> QuoteRequest {
    let items: Vec<Value> = items
        .iter()
        .enumerate()
        .map(|(index, rest)| {
            let mut item = json!({"ref": index.to_string(), "gpu_model": "A100", "region": "r", "gpu_count": 1});
            if rest.get("task").is_none() {
                item["seconds"] = 60.into();
            }
            item.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            item
        })
        .collect();
    let body = json!({"tenant_id": "acme", "currency": "CNY", "items": items});
    Intake::new().unwrap().read_value(body).unwrap().request
}

/// Fifty held GPU-hours of a day, all of them observed.
fn observation(stats: &[(&str, &str, &str)]) -> Observation {
    let stat = |(metric, statistic, value): &(&str, &str, &str)| ObservedStat {
        stat: Stat {
            metric: (*metric).to_owned(),
            statistic: (*statistic).to_owned(),
            window_s: 86_400,
            value: exact::parse(value).unwrap(),
            coverage: Decimal::ONE,
        },
        held_us: 50 * HOUR_US,
        quality: StatQuality::Ok,
    };
    Observation {
        scope: UsageScope::GpuModel,
        observed_at_ms: 0,
        age_ms: 0,
        healthy: true,
        reasons: Vec::new(),
        job_held_s: None,
        mig_without_metric: false,
        stats: stats.iter().map(stat).collect(),
    }
}

fn advised(request: &QuoteRequest, plan: &Plan, rules: &AdviceRules, seen: Option<&Observation>) -> Vec<Candidate> {
    let evidence = evidence_of(request, &plan.usage, |_| seen.cloned());
    candidates(Asked { request, plan, rules, evidence: &evidence })
}

/// What is said of one item of unknown work, by default rules.
fn said(seen: &Observation) -> Vec<Candidate> {
    advised(&request(&[json!({})]), &plan(&["usage/gpu_util/mean/7d"]), &AdviceRules::default(), Some(seen))
}

fn codes(candidates: &[Candidate]) -> Vec<&'static str> {
    candidates.iter().map(|found| found.code.as_str()).collect()
}

#[test]
fn eager_pytorch_is_advised_to_compile_once_for_all_lines() {
    let workload = |workload: Value| json!({ "workload": workload });
    let items = [
        workload(json!({"framework": "pytorch", "execution": "eager"})),
        workload(json!({"framework": "pytorch", "execution": "compiled"})),
        workload(json!({"framework": "PyTorch"})),
        workload(json!({"framework": "jax", "execution": "eager"})),
        workload(json!({"execution": "eager"})),
    ];
    let found = advised(&request(&items), &plan(&[]), &AdviceRules::default(), None);
    assert_eq!((codes(&found), &found[0].items), (vec!["enable_torch_compile"], &vec![0, 2]));
    assert_eq!(found[0].what_if, [Fact::new("/workload/execution", "compiled")]);
    let never = AdviceRules { never: vec![AdviceCode::EnableTorchCompile], ..AdviceRules::default() };
    assert_eq!(advised(&request(&items), &plan(&[]), &never, None), []);
}

#[test]
fn mixed_precision_needs_free_tensor_cores_and_for_time_proof_of_them() {
    let task = |precision: &str| json!({"billing": "task", "task": {"precision": precision}});
    let time = json!({"workload": {"precision": "fp32"}});
    let tensor = |value| observation(&[("tensor_active", "mean", value)]);
    let of = |items: &[Value], reads: &[&str], seen: Option<&Observation>| {
        let found = advised(&request(items), &plan(reads), &AdviceRules::default(), seen);
        found.into_iter().map(|found| (found.items, found.what_if)).collect::<Vec<_>>()
    };
    let for_tasks = vec![Fact::new("/task/precision", "bf16")];
    let all = [task("fp32"), time.clone(), task("bf16"), json!({"billing": "task", "task": {}})];
    assert_eq!(of(&all, &[], None), [(vec![0], for_tasks.clone())]);
    assert_eq!(of(&all, &[], Some(&tensor("0.0499"))), [(vec![0], for_tasks), (vec![1], Vec::new())]);
    assert_eq!(of(&all, &[], Some(&tensor("0.05"))), []);
    let for_time = vec![Fact::new("/workload/precision", "bf16")];
    assert_eq!(of(&[time], &["workload.precision"], Some(&tensor("0"))), [(vec![0], for_time)]);
}

#[test]
fn usage_rules_hold_up_to_their_thresholds() {
    for (mean, p95, expected) in [
        ("0.0499", "0.01", Some("idle_hold")),
        ("0.0499", "0.95", Some("idle_hold")),
        ("0.05", "0.01", None),
        ("0.05", "0.8", Some("stall_io")),
        ("0.4999", "0.8", Some("stall_io")),
        ("0.4999", "0.7999", None),
        ("0.5", "0.97", None),
    ] {
        let found = said(&observation(&[("gpu_util", "mean", mean), ("gpu_util", "p95", p95)]));
        assert_eq!(codes(&found), Vec::from_iter(expected), "{mean} {p95}");
    }
    for (dram, sm, tensor, is_bound) in [
        ("0.64", "0.7999", Some("0.7439"), true),
        ("0.64", "0.8", None, false),
        ("0.64", "0.1", Some("0.744"), false),
        ("0.6399", "0.1", Some("0.1"), false),
        ("0.9", "0.95", None, true),
    ] {
        let mut stats = vec![("dram_active", "mean", dram), ("sm_util", "mean", sm)];
        stats.extend(tensor.map(|tensor| ("tensor_active", "mean", tensor)));
        let found = said(&observation(&stats));
        assert_eq!(codes(&found), Vec::from_iter(is_bound.then_some("memory_bound")), "{stats:?}");
    }
    assert_eq!(
        codes(&said(&observation(&[("dram_active", "mean", "0.9")]))),
        [""; 0],
        "without what it is compared with"
    );
}

#[test]
fn the_text_says_what_was_seen_and_the_what_if_what_the_gpus_can_do() {
    let idle = said(&observation(&[("gpu_util", "mean", "0.0333")]));
    assert_eq!(
        idle[0].text,
        "the A100 are idle: 3.3 % busy over 24 h, so 48.3 of 50 observed GPU-hours did no work; release them until they are \
         needed"
    );
    assert_eq!(idle[0].what_if, []);
    let waits = observation(&[("gpu_util", "mean", "0.41"), ("gpu_util", "p95", "0.970")]);
    assert_eq!(said(&waits)[0].what_if, [Fact::new("usage/gpu_util/mean/7d", "0.97")]);
    for reads in [&[][..], &["usage/sm_util/mean/7d"], &["usage/gpu_util/p50/7d"]] {
        let found = advised(&request(&[json!({})]), &plan(reads), &AdviceRules::default(), Some(&waits));
        assert_eq!((codes(&found), found[0].what_if.len()), (vec!["stall_io"], 0), "{reads:?}");
    }
    let wide = Observation { scope: UsageScope::Tenant, ..waits };
    assert!(said(&wide)[0].text.starts_with("your GPUs wait"), "{:?}", said(&wide));
}

/// Texts are within the contract's 200 characters for the longest name of a model.
#[test]
fn texts_are_short() {
    let long = "M".repeat(64);
    let mut request = request(&[json!({})]);
    request.items[0].gpu_model = long;
    let stats = [
        &[("gpu_util", "mean", "0.0333")][..],
        &[("gpu_util", "mean", "0.4111"), ("gpu_util", "p95", "0.9777")],
        &[("dram_active", "mean", "0.7111"), ("sm_util", "mean", "0.1")],
    ];
    for stats in stats {
        let mut seen = observation(stats);
        seen.stats[0].held_us = 50_123_456 * HOUR_US;
        let found = advised(&request, &plan(&[]), &AdviceRules::default(), Some(&seen));
        let length = found[0].text.chars().count();
        assert!(length <= 240, "{length}: {}", found[0].text);
    }
}

#[test]
fn doubtful_observations_say_nothing() {
    let fine = observation(&[("gpu_util", "mean", "0.01")]);
    assert_eq!(codes(&said(&fine)), ["idle_hold"]);
    let changed = |change: fn(&mut Observation)| {
        let mut seen = fine.clone();
        change(&mut seen);
        codes(&said(&seen))
    };
    assert_eq!(changed(|seen| seen.age_ms = 600_000), ["idle_hold"], "a day is not outdated in ten minutes");
    let doubts: [fn(&mut Observation); 7] = [
        |seen| seen.age_ms = 600_001,
        |seen| seen.stats[0].held_us = HOUR_US - 1,
        |seen| seen.stats[0].stat.coverage = Decimal::from_parts(79, 0, 0, false, 2),
        |seen| seen.stats[0].quality = StatQuality::SuspectZero,
        |seen| seen.mig_without_metric = true,
        |seen| seen.reasons = vec!["xid_79".to_owned()],
        |seen| seen.job_held_s = Some(899),
    ];
    for (index, doubt) in doubts.into_iter().enumerate() {
        assert_eq!(changed(doubt), [""; 0], "{index}");
    }
}

#[test]
fn models_with_one_observation_share_an_advice() {
    let mut two = request(&[json!({}), json!({}), json!({})]);
    two.items[1].gpu_model = "V100".to_owned();
    let seen = Arc::new(observation(&[("gpu_util", "mean", "0.01")]));
    let advise = |of: &dyn Fn(&str) -> Option<Observation>| {
        let plan = plan(&[]);
        let evidence = evidence_of(&two, &plan.usage, of);
        let asked = Asked { request: &two, plan: &plan, rules: &AdviceRules::default(), evidence: &evidence };
        candidates(asked).into_iter().map(|found| found.items).collect::<Vec<_>>()
    };
    assert_eq!(advise(&|_| Some(Observation::clone(&seen))), [vec![0, 1, 2]]);
    let by_model = |model: &str| Observation {
        age_ms: model.len() as u64 + u64::from(model == "V100"),
        ..Observation::clone(&seen)
    };
    assert_eq!(advise(&|model| Some(by_model(model))), [vec![0, 2], vec![1]]);
    assert_eq!(advise(&|model| (model == "V100").then(|| by_model(model))), [vec![1]]);
}
