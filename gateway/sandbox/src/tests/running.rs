//! What good guests get, and what they may not see.

use farebox_pricing::policy as domain;
use farebox_pricing::policy::{Context, Fact, Fault, Halt, LineView, Method, RunPolicy};
use rust_decimal::Decimal;

use super::guest::{Guest, HEAP};
use super::{configured, context, evaluate, limits, policy, sandbox};
use crate::sandbox::INSTANCES_PER_STORE;
use crate::{ConfigureError, Limits, Sandbox, Session};

#[test]
fn a_good_guest_is_described_configured_and_evaluated() {
    let sandbox = sandbox();
    let guest = Guest::good();
    let policy = policy(&sandbox, &guest);
    assert_eq!(policy.manifest().name, "framework-premium");
    assert_eq!(policy.manifest().reads, ["workload.*", "usage/*", "time"]);
    assert_eq!(policy.manifest().scope, domain::Scope::Line);
    assert_eq!(policy.size_bytes(), guest.component().len());
    assert_eq!(policy.digest().len(), 64);
    assert!(policy.describe_fuel() > 0);
    let configured = policy.configure("{}").unwrap();
    assert_eq!(configured.bytes(), b"configured");
    assert_eq!(configured.reads(), ["workload.framework"]);
    let evaluation = evaluate(&configured).unwrap();
    let [adjustment] = &evaluation.outcome.adjustments[..] else { panic!("one adjustment") };
    assert_eq!(adjustment.line, Some(0));
    assert_eq!(adjustment.label, "PyTorch eager");
    assert_eq!(adjustment.method, Method::Percent(Decimal::new(15, 2)));
    assert_eq!(evaluation.memory_bytes, 64 << 10);
}

#[test]
fn a_core_module_has_the_digest_of_its_own_bytes_and_behaves_as_its_component() {
    let sandbox = sandbox();
    let guest = Guest::good();
    let (module, component) = (sandbox.load(&guest.module()).unwrap(), policy(&sandbox, &guest));
    assert_ne!(module.digest(), component.digest());
    let [module, component] = [module, component].map(|policy| evaluate(&policy.configure("{}").unwrap()).unwrap());
    assert_eq!((module.outcome, module.fuel), (component.outcome, component.fuel));
}

#[test]
fn equal_input_burns_equal_fuel_in_old_and_new_stores_and_on_other_threads() {
    let sandbox = sandbox();
    let steps = [configured(&sandbox, &Guest::good())];
    let run = || {
        let mut session = Session::new(&steps);
        (0..20).map(|_| session.evaluate(0, &context()).unwrap()).map(|it| (it.outcome, it.fuel)).collect::<Vec<_>>()
    };
    let here = run();
    let there = std::thread::scope(|scope| scope.spawn(run).join().unwrap());
    assert!(here[0].1 > 0);
    assert!(here.iter().chain(&there).all(|each| *each == here[0]));
}

/// Copies two words, a list, out of the call's arguments and answers them as the outcome's facts. `path`: offsets to
/// follow, the last one that of the list.
fn echo(path: &[u32]) -> Guest {
    let (list, steps) = path.split_last().unwrap();
    let follow: String = steps.iter().map(|offset| format!("i32.load offset={offset} ")).collect();
    Guest::evaluating(&format!(
        "i32.const 512 i32.const 0 i32.const 28 memory.fill
         i32.const 532 local.get 0 {follow} i32.const {list} i32.add i32.const 8 memory.copy
         i32.const 512"
    ))
}

/// Offsets in the arguments: the configuration's bytes come first, then the context.
const TENANT: u32 = 48;
const LINES: u32 = 56;
const USAGES: u32 = 64;
const BALANCES: u32 = 72;
const FACTS: u32 = 80;

#[test]
fn facts_reach_the_guest_byte_for_byte() {
    let sandbox = sandbox();
    let [tenant, line, scope, step] = ["tenant", "line", "scope", "step"].map(|key| Fact::new(key, "GPU-Stunden · 中"));
    let rate = domain::Rate { scope: vec![scope.clone()], unit_price: Decimal::ONE, overage_price: Some(Decimal::TEN) };
    let balance = domain::Balance {
        id: "c1".into(),
        kind: "commitment".into(),
        unit: "gpu_second".into(),
        scope: vec![],
        rates: vec![rate],
        remaining: Decimal::TEN,
        expires_unix_s: Some(-1),
    };
    let view = |facts| LineView { key: 0, facts, amounts: None, segments: &[], portions: &[], usage: None };
    let context = Context {
        tenant: vec![&tenant],
        lines: vec![view(vec![]), view(vec![&line, &line])],
        balances: vec![&balance],
        facts: vec![&step],
        ..context()
    };
    let cases: [(&[u32], Vec<&Fact>); 4] = [
        (&[TENANT], vec![&tenant]),
        (&[LINES, 112 + 4], vec![&line, &line]),
        (&[BALANCES, 32, 0], vec![&scope]),
        (&[FACTS], vec![&step]),
    ];
    for (path, expected) in cases {
        let steps = [configured(&sandbox, &echo(path))];
        let outcome = Session::new(&steps).evaluate(0, &context).unwrap().outcome;
        assert_eq!(outcome.facts.iter().collect::<Vec<_>>(), expected, "{path:?}");
    }
}

#[test]
fn decimals_and_portions_come_back_as_they_went_in() {
    let sandbox = sandbox();
    let portion = |quantity: Decimal, draws: Option<&str>| domain::Portion {
        code: "committed".into(),
        label: "committed".into(),
        unit: "gpu_second".into(),
        quantity,
        unit_price: Decimal::new(-84, 1),
        draws: draws.map(str::to_owned),
    };
    let mut negative_zero = Decimal::ZERO;
    negative_zero.set_sign_negative(true);
    let portions = [
        portion(Decimal::MAX, Some("c1")),
        portion(Decimal::MIN, None),
        portion(Decimal::new(1, 28), None),
        portion(negative_zero, None),
    ];
    let line = LineView { key: 7, facts: vec![], amounts: None, segments: &[], portions: &portions, usage: None };
    let context = Context { lines: vec![line], ..context() };
    // Writes the list of the line's portions into the adjustment's method, which becomes a reprice.
    let mut guest = Guest::good();
    let adjustment = guest.image.adjustment(b"repriced", 2, &[]);
    let adjustment = guest.image.words(&adjustment);
    let outcome = guest.image.outcome([adjustment, 1], [0, 0], [0, 0]);
    guest.evaluate = format!(
        "i32.const {} local.get 0 i32.load offset={LINES} i32.const 96 i32.add i32.const 8 memory.copy
         i32.const {outcome}",
        adjustment + 44
    );
    let steps = [configured(&sandbox, &guest)];
    let outcome = Session::new(&steps).evaluate(0, &context).unwrap().outcome;
    let Method::Reprice(back) = &outcome.adjustments[0].method else { panic!("a reprice") };
    assert_eq!(back, &portions);
    assert!(!back[3].quantity.is_sign_negative());
    assert_eq!(back[2].quantity.scale(), 28);
}

#[test]
fn an_observed_statistic_reaches_the_guest() {
    let sandbox = sandbox();
    let stat = domain::Stat {
        metric: "gpu_util".into(),
        statistic: "mean".into(),
        window_s: 604_800,
        value: Decimal::new(82, 2),
        coverage: Decimal::new(99, 2),
    };
    let usage = domain::UsageView {
        scope: "gpu_model",
        age_ms: Some(850),
        quality: "ok",
        surcharge_allowed: true,
        stats: vec![&stat],
    };
    let context = Context { usages: vec![usage], ..context() };
    let mut guest = Guest::good();
    let adjustment = guest.image.adjustment(b"value", 0, &[]);
    let adjustment = guest.image.words(&adjustment);
    let outcome = guest.image.outcome([adjustment, 1], [0, 0], [0, 0]);
    guest.evaluate = format!(
        "i32.const {} local.get 0 i32.load offset={USAGES} i32.load offset=36 i32.const 20 i32.add i32.const 16
         memory.copy i32.const {outcome}",
        adjustment + 44
    );
    let steps = [configured(&sandbox, &guest)];
    let outcome = Session::new(&steps).evaluate(0, &context).unwrap().outcome;
    assert_eq!(outcome.adjustments[0].method, Method::Percent(Decimal::new(82, 2)));
}

#[test]
fn refusals_are_answers_and_leave_the_session_usable() {
    let sandbox = sandbox();
    let mut guest = Guest::good();
    let (code, detail, pointer) =
        (guest.image.text("no_image"), guest.image.text("image is unknown"), guest.image.text("/workload/image"));
    let refusal = guest.image.words(&[&[1][..], &code, &detail, &[1, 3], &[1], &pointer].concat());
    let refusals = guest.image.words(&[&code[..], &detail, &[0, 0], &[1], &pointer].concat());
    let configuration = guest.image.words(&[1, refusals, 1]);
    guest.evaluate = format!("i32.const {refusal}");
    let steps = [configured(&sandbox, &guest), configured(&sandbox, &Guest::good())];
    let mut session = Session::new(&steps);
    let expected = domain::Refusal {
        code: "no_image".into(),
        detail: "image is unknown".into(),
        line: Some(3),
        pointer: Some("/workload/image".into()),
    };
    assert_eq!(session.evaluate(0, &context()).unwrap_err(), Halt::Refused(expected.clone()));
    session.evaluate(1, &context()).unwrap();

    guest.configure = format!("i32.const {configuration}");
    let refused = policy(&sandbox, &guest).configure("{}").unwrap_err();
    assert_eq!(refused, ConfigureError::Refused(vec![domain::Refusal { line: None, ..expected }]));
}

#[test]
fn a_configuration_may_not_read_or_produce_what_the_manifest_does_not() {
    let sandbox = sandbox();
    let cases = [
        (["tenant.tier"], ["eager"], "configure reads `tenant.tier`, which the manifest does not"),
        (["workload.framework"], ["fsdp"], "configure produces `fsdp`, which the manifest does not"),
        (["Workload"], ["eager"], "`reads` has no word of the form `Workload`"),
    ];
    for (reads, produces, message) in cases {
        let mut guest = Guest::good();
        let (reads, produces) = (guest.image.texts(&reads), guest.image.texts(&produces));
        let configuration = guest.image.words(&[&[0, 0, 0][..], &reads, &produces].concat());
        guest.configure = format!("i32.const {configuration}");
        let error = policy(&sandbox, &guest).configure("{}").unwrap_err();
        assert_eq!(error, ConfigureError::Faulted(Fault::violation(message)));
    }
}

/// Traps if it finds anything in its heap or in pages that it adds, then fills all of it.
fn canary(ending: &str) -> Guest {
    Guest::evaluating(&format!(
        "i32.const 3 memory.grow drop
         i32.const {start} local.set $i
         (loop $look
           local.get $i i64.load i64.const 0 i64.ne (if (then unreachable))
           local.get $i i32.const 8 i32.add local.tee $i i32.const {end} i32.lt_u br_if $look)
         i32.const {start} i32.const 0xa5 i32.const {end} i32.const {start} i32.sub memory.fill
         i32.const 0 i32.const 0xa5 i32.const 1024 memory.fill
         {ending}",
        // Beyond the arguments of the call.
        start = HEAP + 4096,
        end = 4 << 16,
    ))
}

#[test]
fn no_instance_finds_what_another_left_in_memory() {
    // All slots but one are held, so that every instance below gets the memory of the one before it.
    let sandbox = Sandbox::new(Limits { sessions: 1, ..limits() }).unwrap();
    let good = configured(&sandbox, &Guest::good());
    let ends_well = configured(&sandbox, &canary(&Guest::good().evaluate));
    let traps = configured(&sandbox, &canary("i32.const 0 i32.const 0 i32.div_u"));
    let mut holder = Session::new(std::slice::from_ref(&good));
    for _ in 1..INSTANCES_PER_STORE {
        holder.evaluate(0, &context()).unwrap();
    }
    for _ in 0..10 {
        evaluate(&ends_well).unwrap();
        evaluate(&ends_well).unwrap();
        assert_eq!(evaluate(&traps).unwrap_err(), Halt::Faulted(Fault::Trapped("integer_division_by_zero")));
        evaluate(&good).unwrap();
    }
}

#[test]
fn a_full_pool_is_the_hosts_fault_and_passes() {
    let sandbox = Sandbox::new(Limits { sessions: 1, ..limits() }).unwrap();
    let steps = [configured(&sandbox, &Guest::good())];
    let mut holder = Session::new(&steps);
    for _ in 0..INSTANCES_PER_STORE {
        holder.evaluate(0, &context()).unwrap();
    }
    assert_eq!(evaluate(&steps[0]).unwrap_err(), Halt::Faulted(Fault::PoolExhausted));
    holder.evaluate(0, &context()).unwrap();
    drop(holder);
    evaluate(&steps[0]).unwrap();
}

#[test]
fn the_clock_outlives_the_sandbox_and_deadlines_are_the_hosts_fault() {
    let limits = Limits { evaluate_fuel: u64::MAX, deadline: std::time::Duration::from_millis(100), ..limits() };
    let looping = configured(&Sandbox::new(limits).unwrap(), &Guest::evaluating("(loop $on br $on) unreachable"));
    let started = std::time::Instant::now();
    assert_eq!(evaluate(&looping).unwrap_err(), Halt::Faulted(Fault::Deadline));
    assert!(started.elapsed() >= limits.deadline);
    assert!(Fault::Deadline.is_host());
}

#[test]
fn a_deadline_under_100_ms_is_refused() {
    let limits = Limits { deadline: std::time::Duration::from_millis(99), ..limits() };
    assert!(matches!(Sandbox::new(limits), Err(crate::SandboxError::Deadline(_))));
}

#[test]
fn engines_of_equal_settings_have_equal_hashes() {
    let other = Limits { stack_bytes: 128 << 10, memory_bytes: 1 << 20, ..limits() };
    assert_eq!(sandbox().engine_hash(), sandbox().engine_hash());
    assert_eq!(sandbox().engine_hash().len(), 64);
    assert_eq!(sandbox().engine_hash(), Sandbox::new(other).unwrap().engine_hash());
}

#[test]
fn a_step_that_the_plan_does_not_have_is_no_panic() {
    assert!(matches!(Session::new(&[]).evaluate(0, &context()), Err(Halt::Faulted(Fault::ContractViolation(_)))));
}
