//! What the wall costs, and what the memo saves: one step and the six-step plan in fresh sandboxes, out of the memo, and
//! beside the native twin, in one run; then how much of the generated book comes out of the memo.
//!
//! `make bench`; the ratios are in docs/performance.md. Absolute times wander with the machine.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a bench that meets the unexpected ends there")]

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{Criterion, criterion_group, criterion_main};
use farebox::catalog::Catalog;
use farebox::intake::Intake;
use farebox_pricing::offer::{LineUsage, PricedInput};
use farebox_pricing::policy::RunPolicy;
use farebox_pricing::price::price;
use farebox_pricing::usage::{Observation, ObservedStat, StatQuality, UsageScope, judge};
use farebox_sandbox::{ConfiguredPolicy, Limits, Memo, MemoCounters, MemoLimits, Memoized, Sandbox, Session};
use farebox_tests::book::Book;
use farebox_tests::{NativeTwin, native};

/// A plan of the fixtures, ready to price W1.
struct Bench {
    input: PricedInput,
    policies: std::sync::Arc<[ConfiguredPolicy]>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn catalog() -> Catalog {
    let sandbox = Sandbox::new(Limits::standard()).unwrap();
    let catalog = Catalog::load(&root().join("fixtures"), &root().join("target/policies"), &sandbox);
    assert!(catalog.problems.is_empty(), "run `make policies` first: {:?}", catalog.problems);
    catalog
}

impl Bench {
    /// W1 with `lines` equal lines, under the coded policies.
    fn of(catalog: &Catalog, lines: usize) -> Self {
        Self::under(catalog, "gpu-standard", lines)
    }

    fn under(catalog: &Catalog, plan: &str, lines: usize) -> Self {
        let body = std::fs::read_to_string(root().join("fixtures/requests/w1.json")).unwrap();
        let mut body: serde_json::Value = serde_json::from_str(&body).unwrap();
        let item = body["items"][0].clone();
        let items = (0..lines).map(|index| {
            let mut item = item.clone();
            item["ref"] = format!("item-{index}").into();
            item
        });
        body["items"] = items.collect();
        body["plan"] = plan.into();
        let accepted = Intake::new().unwrap().read(body.to_string().as_bytes()).unwrap();
        let now = "2026-12-01T00:00:00Z".parse().unwrap();
        let resolved = catalog.resolve(&accepted.request, now).unwrap();
        let plan = std::sync::Arc::clone(&resolved.version.plan);
        let input = resolved.offer.with_usage(|_| {
            let observation = steady(&plan.stats_read().cloned().collect::<Vec<_>>());
            LineUsage { judged: judge(Some(&observation), &plan.usage), observation: Some(observation) }
        });
        Self { input, policies: std::sync::Arc::clone(&resolved.version.policies) }
    }

    fn twin(&self) -> NativeTwin {
        let steps = self.policies.iter().map(|configured| {
            let policy = native(&configured.policy().manifest().name).unwrap();
            (policy, configured.bytes().to_vec())
        });
        NativeTwin { steps: steps.collect() }
    }

    fn price(&self, policies: &mut impl RunPolicy) -> String {
        price(&self.input, policies).unwrap().totals.total.print(2)
    }
}

/// 0.82 over all that is read.
fn steady(keys: &[farebox_pricing::usage::StatKey]) -> Observation {
    let stat = |key: &farebox_pricing::usage::StatKey| ObservedStat {
        stat: farebox_pricing::policy::Stat {
            metric: key.metric.clone(),
            statistic: key.statistic.clone(),
            window_s: key.window.seconds(),
            value: farebox_pricing::exact::parse("0.82").unwrap(),
            coverage: farebox_pricing::exact::parse("0.99").unwrap(),
        },
        held_us: 3_600_000_000_000,
        quality: StatQuality::Ok,
    };
    Observation {
        scope: UsageScope::GpuModel,
        observed_at_ms: 1_796_083_200_000,
        age_ms: 850,
        healthy: true,
        reasons: vec![],
        job_held_s: None,
        mig_without_metric: false,
        stats: keys.iter().map(stat).collect(),
    }
}

/// The same prices by code and by rules: `gpu-standard`, and `gpu-standard-table` of `rate-table` alone.
fn six_steps(criterion: &mut Criterion) {
    let catalog = catalog();
    let mut group = criterion.benchmark_group("six-step plan");
    for (plan, suffix) in [("gpu-standard", ""), ("gpu-standard-table", ", by rules")] {
        for lines in [1, 4, 20] {
            let bench = Bench::under(&catalog, plan, lines);
            if lines == 1 {
                assert_eq!(bench.price(&mut Session::new(&bench.policies)), "9300.10");
                assert_eq!(bench.price(&mut bench.twin()), "9300.10");
            }
            group.bench_function(format!("sandboxed, {lines} lines{suffix}"), |timer| {
                timer.iter(|| black_box(bench.price(&mut Session::new(&bench.policies))));
            });
            let memo = Memo::new(MemoLimits::standard());
            group.bench_function(format!("memo, {lines} lines{suffix}"), |timer| {
                timer.iter(|| {
                    let session = Session::new(&bench.policies);
                    black_box(bench.price(&mut Memoized::new(&bench.policies, &memo, session)))
                });
            });
            let mut twin = bench.twin();
            group.bench_function(format!("native twin, {lines} lines{suffix}"), |timer| {
                timer.iter(|| black_box(bench.price(&mut twin)));
            });
        }
    }
}

/// The framework step alone, as the pipeline calls it.
fn one_step(criterion: &mut Criterion) {
    let catalog = catalog();
    let mut group = criterion.benchmark_group("one step");
    for (index, name) in ["base", "framework", "features", "image", "isolation", "utilisation"].iter().enumerate() {
        let mut bench = Bench::of(&catalog, 1);
        let plan = bench.input.plan();
        assert_eq!(plan.steps[index].id, *name);
        bench = bench.only(index);
        group.bench_function(format!("sandboxed, {name}"), |timer| {
            timer.iter(|| black_box(bench.price(&mut Session::new(&bench.policies))));
        });
        let mut twin = bench.twin();
        group.bench_function(format!("native twin, {name}"), |timer| {
            timer.iter(|| black_box(bench.price(&mut twin)));
        });
    }
}

impl Bench {
    /// The same input under a plan of one step only.
    fn only(self, index: usize) -> Self {
        let mut offer = self.input.offer().clone();
        let mut plan = (*offer.plan).clone();
        plan.steps = vec![plan.steps[index].clone()];
        offer.plan = std::sync::Arc::new(plan);
        let usages: Vec<LineUsage> = self.input.usages().to_vec();
        let input = offer.with_usage(|_| usages[0].clone());
        Self { input, policies: vec![self.policies[index].clone()].into() }
    }
}

/// How much of a book of 100,000 requests comes out of the memo, with usage that changes every 500 requests.
fn hit_rate(_: &mut Criterion) {
    const REQUESTS: usize = 100_000;
    let (catalog, intake) = (catalog(), Intake::new().unwrap());
    let memo = Memo::new(MemoLimits::standard());
    let now = "2026-12-01T00:00:00Z".parse().unwrap();
    let mut book = Book::new(1);
    for number in 0..REQUESTS {
        let accepted = intake.read(book.request().to_string().as_bytes()).unwrap();
        let resolved = catalog.resolve(&accepted.request, now).unwrap();
        let plan = std::sync::Arc::clone(&resolved.version.plan);
        let keys: Vec<_> = plan.stats_read().cloned().collect();
        let mean = farebox_pricing::exact::parse(&format!("0.{:03}", number / 500 * 37 % 1000)).unwrap();
        let input = resolved.offer.with_usage(|_| {
            let observation = (accepted.request.tenant_id != "globex").then(|| {
                let mut observation = steady(&keys);
                observation.stats.iter_mut().for_each(|stat| stat.stat.value = mean);
                observation
            });
            LineUsage { judged: judge(observation.as_ref(), &plan.usage), observation }
        });
        let policies = &resolved.version.policies;
        price(&input, &mut Memoized::new(policies, &memo, Session::new(policies))).unwrap();
    }
    let MemoCounters { hits, misses, recomputed, differences, entries, bytes, .. } = memo.counters();
    let share = hits as f64 / (hits + misses) as f64 * 100.0;
    println!(
        "generated book: {REQUESTS} requests, {} evaluations, {share:.2} % out of the memo; {entries} outcomes kept in \
         {bytes} bytes; {recomputed} compared, {differences} differed\n",
        hits + misses
    );
}

criterion_group!(benches, one_step, six_steps, hit_rate);
criterion_main!(benches);
