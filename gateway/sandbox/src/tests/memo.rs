//! The memo: what it reuses, what it must not, and what becomes of a policy that is not what it was.

use std::collections::BTreeSet;

use farebox_pricing::policy::{
    AmountsView, Balance, Context, Evaluation, Fact, Fault, Halt, Instant, LineView, Outcome, Portion, Rate, Refusal,
    RunPolicy, Segment, Stat, UsageView,
};
use rust_decimal::Decimal;

use super::guest::Guest;
use super::{configured, context, sandbox};
use crate::memo::key;
use crate::{ConfiguredPolicy, Memo, MemoCounters, MemoLimits, Memoized, Session};

const LIMITS: MemoLimits = MemoLimits { bytes: 1 << 20, recompute_one_in: u64::MAX };
const COMPARE_ALL: MemoLimits = MemoLimits { recompute_one_in: 1, ..LIMITS };

/// Answers what it is told to and counts how often it was asked.
struct Told<'a> {
    answer: &'a dyn Fn(u64) -> Result<Evaluation, Halt>,
    asked: u64,
}

impl RunPolicy for Told<'_> {
    fn evaluate(&mut self, _: usize, _: &Context<'_>) -> Result<Evaluation, Halt> {
        self.asked += 1;
        (self.answer)(self.asked)
    }
}

fn saying(value: &str) -> Evaluation {
    let outcome = Outcome { facts: vec![Fact::new("said", value)], ..Outcome::default() };
    Evaluation { outcome, fuel: 7, memory_bytes: 65_536, nanoseconds: 5, reused: false }
}

fn refusal() -> Halt {
    let (code, detail) = ("unknown_image".to_owned(), "image `v9` is not known".to_owned());
    Halt::Refused(Refusal { code, detail, line: Some(0), pointer: Some("/workload/image".to_owned()) })
}

fn steps() -> [ConfiguredPolicy; 1] {
    [configured(&sandbox(), &Guest::good())]
}

#[test]
fn a_known_input_is_answered_with_the_same_bytes_and_fuel_and_runs_nothing() {
    let steps = steps();
    let memo = Memo::new(LIMITS);
    let fresh = Session::new(&steps).evaluate(0, &context()).unwrap();
    let mut memoized = Memoized::new(&steps, &memo, Session::new(&steps));
    let answers = [(); 3].map(|()| memoized.evaluate(0, &context()).unwrap());
    assert_eq!(answers.each_ref().map(|it| it.reused), [false, true, true]);
    for answer in &answers {
        assert_eq!(
            (&answer.outcome, answer.fuel, answer.memory_bytes),
            (&fresh.outcome, fresh.fuel, fresh.memory_bytes)
        );
    }
    let MemoCounters { hits, misses, entries, recomputed, .. } = memo.counters();
    assert_eq!((hits, misses, entries, recomputed), (2, 1, 1, 0));
}

#[test]
fn refusals_are_kept_and_faults_are_not() {
    let steps = steps();
    let memo = Memo::new(LIMITS);
    let faults = [Fault::OutOfFuel, Fault::Deadline, Fault::PoolExhausted].map(Halt::Faulted);
    let answer = |asked: u64| match faults.get(asked as usize - 1) {
        Some(fault) => Err(fault.clone()),
        None => Err(refusal()),
    };
    let mut memoized = Memoized::new(&steps, &memo, Told { answer: &answer, asked: 0 });
    for fault in &faults {
        assert_eq!(memoized.evaluate(0, &context()), Err(fault.clone()));
    }
    for _ in 0..3 {
        assert_eq!(memoized.evaluate(0, &context()), Err(refusal()));
    }
    assert_eq!(memo.counters().misses, 4);
}

#[test]
fn a_difference_quarantines_the_policy_and_the_sandbox_has_the_word() {
    let steps = steps();
    let memo = Memo::new(COMPARE_ALL);
    let answer = |asked: u64| Ok(saying(if asked < 3 { "this" } else { "that" }));
    let mut memoized = Memoized::new(&steps, &memo, Told { answer: &answer, asked: 0 });
    let said: Vec<String> =
        (0..5).map(|_| memoized.evaluate(0, &context()).unwrap().outcome.facts[0].value.clone()).collect();
    assert_eq!(said, ["this", "this", "that", "that", "that"]);
    let MemoCounters { hits, misses, recomputed, differences, quarantined, .. } = memo.counters();
    assert_eq!((hits, misses, recomputed, differences, quarantined), (2, 1, 2, 1, 1));
    // Also for everyone else.
    let other = |_| Ok(saying("fresh"));
    let answered = Memoized::new(&steps, &memo, Told { answer: &other, asked: 0 }).evaluate(0, &context()).unwrap();
    assert_eq!(answered, saying("fresh"));
}

#[test]
fn a_difference_in_fuel_or_in_the_way_it_ended_is_one() {
    let worse: [Result<Evaluation, Halt>; 4] = [
        Ok(Evaluation { fuel: 8, ..saying("this") }),
        Ok(Evaluation { memory_bytes: 131_072, ..saying("this") }),
        Err(refusal()),
        Err(Halt::Faulted(Fault::OutOfFuel)),
    ];
    for second in worse {
        let (steps, memo) = (steps(), Memo::new(COMPARE_ALL));
        let answer = |asked: u64| if asked == 1 { Ok(saying("this")) } else { second.clone() };
        let mut memoized = Memoized::new(&steps, &memo, Told { answer: &answer, asked: 0 });
        memoized.evaluate(0, &context()).unwrap();
        assert_eq!(memoized.evaluate(0, &context()), second);
        assert_eq!(memo.counters().quarantined, 1, "{second:?}");
    }
}

#[test]
fn a_fault_of_the_host_says_nothing_about_the_policy() {
    let (steps, memo) = (steps(), Memo::new(COMPARE_ALL));
    let busy = Err(Halt::Faulted(Fault::PoolExhausted));
    let answer = |asked: u64| if asked == 2 { busy.clone() } else { Ok(saying("this")) };
    let mut memoized = Memoized::new(&steps, &memo, Told { answer: &answer, asked: 0 });
    memoized.evaluate(0, &context()).unwrap();
    assert_eq!(memoized.evaluate(0, &context()), busy);
    memoized.evaluate(0, &context()).unwrap();
    let MemoCounters { recomputed, differences, quarantined, .. } = memo.counters();
    assert_eq!((recomputed, differences, quarantined), (1, 0, 0));
}

/// Of each step of a plan, whatever their number: steps come in turns.
#[test]
fn one_hit_in_so_many_is_compared() {
    for count in [1, 2, 6, 8, 16] {
        let steps = vec![steps().into_iter().next().unwrap(); count];
        let memo = Memo::new(MemoLimits { recompute_one_in: 16, ..LIMITS });
        let asked = std::cell::RefCell::new(vec![0u32; count]);
        let asking = Asked(&asked);
        let mut memoized = Memoized::new(&steps, &memo, asking);
        let rounds = 1_000;
        for _ in 0..rounds {
            for step in 0..count {
                memoized.evaluate(step, &context()).unwrap();
            }
        }
        let MemoCounters { recomputed, .. } = memo.counters();
        let expected = rounds * count as u64 / 16;
        assert!(recomputed > expected / 2 && recomputed < expected * 2, "{recomputed} of about {expected}");
        assert!(asked.borrow().iter().all(|asked| *asked > 20), "{count} steps: {asked:?}");
    }
}

/// Counts how often each step was evaluated afresh.
struct Asked<'a>(&'a std::cell::RefCell<Vec<u32>>);

impl RunPolicy for Asked<'_> {
    fn evaluate(&mut self, step: usize, _: &Context<'_>) -> Result<Evaluation, Halt> {
        self.0.borrow_mut()[step] += 1;
        Ok(saying("this"))
    }
}

#[test]
fn a_flood_of_inputs_stays_within_the_bound() {
    let (steps, memo) = (steps(), Memo::new(LIMITS));
    let answer = |_| Ok(saying("this"));
    let mut memoized = Memoized::new(&steps, &memo, Told { answer: &answer, asked: 0 });
    for number in 0..20_000 {
        let fact = Fact::new("line.region", format!("region-{number}"));
        memoized.evaluate(0, &Context { facts: vec![&fact], ..context() }).unwrap();
    }
    let MemoCounters { entries, bytes, misses, .. } = memo.counters();
    assert_eq!(misses, 20_000);
    assert!(entries > 1_000 && bytes <= LIMITS.bytes, "{entries} entries, {bytes} bytes");
    // What is too large on its own is not kept at all.
    let answer = |_| Ok(saying(&"long".repeat(20_000)));
    let mut memoized = Memoized::new(&steps, &memo, Told { answer: &answer, asked: 0 });
    assert!(!memoized.evaluate(0, &context()).unwrap().reused);
    assert!(!memoized.evaluate(0, &context()).unwrap().reused);
}

#[test]
fn another_policy_and_another_configuration_are_other_keys() {
    let sandbox = sandbox();
    let other_code = Guest::evaluating("i32.const 0 i32.load drop unreachable");
    let other_configuration = {
        let mut guest = Guest::good();
        let (bytes, reads) = (guest.image.text("reconfigured"), guest.image.texts(&["workload.framework"]));
        let produces = guest.image.texts(&["eager"]);
        let configuration = guest.image.words(&[&[0][..], &bytes, &reads, &produces].concat());
        guest.configure = format!("i32.const {configuration}");
        guest
    };
    let guests = [Guest::good(), other_code, other_configuration];
    let identities: BTreeSet<[u8; 32]> = guests.iter().map(|guest| *configured(&sandbox, guest).identity()).collect();
    assert_eq!(identities.len(), 3);
    assert_eq!(configured(&sandbox, &Guest::good()).identity(), configured(&sandbox, &Guest::good()).identity());
}

fn key_of(context: &Context<'_>) -> Vec<u8> {
    let mut bytes = vec![];
    key::write(&mut bytes, &[0; 32], context);
    bytes
}

/// No two of these may have one key.
fn assert_distinct(contexts: &[Context<'_>]) {
    let keys: BTreeSet<Vec<u8>> = contexts.iter().map(key_of).collect();
    assert_eq!(keys.len(), contexts.len(), "{contexts:#?}");
}

const ONE: Decimal = Decimal::ONE;
const TWO: Decimal = Decimal::TWO;

fn line(facts: Vec<&Fact>) -> LineView<'_> {
    LineView { key: 0, facts, amounts: None, segments: &[], portions: &[], usage: None }
}

fn of_line(line: LineView<'_>) -> Context<'_> {
    Context { lines: vec![line], ..context() }
}

#[test]
fn the_whole_context_is_part_of_the_key() {
    let [ab, a, bc, c] = [("a", "b"), ("a", ""), ("", "bc"), ("ab", "c")].map(|(key, value)| Fact::new(key, value));
    let at = |unix_s, utc_offset_s| Context { at: Some(Instant { unix_s, utc_offset_s }), ..context() };
    assert_distinct(&[
        context(),
        Context { currency: "USD", ..context() },
        Context { exponent: 0, ..context() },
        at(0, 0),
        at(1, 0),
        at(0, 1),
        Context { tenant: vec![&ab], ..context() },
        Context { facts: vec![&ab], ..context() },
        Context { facts: vec![&a], ..context() },
        Context { facts: vec![&a, &bc], ..context() },
        Context { facts: vec![&c], ..context() },
        Context { facts: vec![&ab, &ab], ..context() },
        of_line(line(vec![])),
        of_line(line(vec![&ab])),
        Context { lines: vec![line(vec![]), line(vec![])], ..context() },
    ]);
}

#[test]
fn all_of_a_line_is_part_of_the_key() {
    let segments = [Segment { state: "idle".into(), quantity: ONE }];
    let portion = |draws: Option<&str>| Portion {
        code: "p".into(),
        label: "q".into(),
        unit: "r".into(),
        quantity: ONE,
        unit_price: ONE,
        draws: draws.map(str::to_owned),
    };
    let portions = [portion(None), portion(Some("")), portion(Some("b"))];
    let amounts = AmountsView { unit: "gpu_second", quantity: ONE, unit_price: ONE, list_amount: ONE, amount: ONE };
    let with_amounts = |amounts| of_line(LineView { amounts: Some(amounts), ..line(vec![]) });
    let mut contexts = vec![
        of_line(line(vec![])),
        of_line(LineView { key: 1, ..line(vec![]) }),
        of_line(LineView { usage: Some(0), ..line(vec![]) }),
        of_line(LineView { segments: &segments, ..line(vec![]) }),
    ];
    contexts.extend(
        [
            amounts,
            AmountsView { unit: "task", ..amounts },
            AmountsView { quantity: TWO, ..amounts },
            AmountsView { unit_price: TWO, ..amounts },
            AmountsView { list_amount: TWO, ..amounts },
            AmountsView { amount: TWO, ..amounts },
            // 1 and 1.0 are other bytes to the guest.
            AmountsView { amount: Decimal::new(10, 1), ..amounts },
            AmountsView { amount: -ONE, ..amounts },
        ]
        .map(with_amounts),
    );
    let of_portion = |portion| of_line(LineView { portions: std::slice::from_ref(portion), ..line(vec![]) });
    contexts.extend(portions.iter().map(of_portion));
    assert_distinct(&contexts);
    // A zero has no sign in front of the guest.
    let zeros = [Decimal::ZERO, -Decimal::ZERO].map(|amount| key_of(&with_amounts(AmountsView { amount, ..amounts })));
    assert_eq!(zeros[0], zeros[1]);
}

#[test]
fn all_of_a_usage_is_part_of_the_key() {
    let stat = |(metric, statistic): (&str, &str), window_s, value, coverage| Stat {
        metric: metric.into(),
        statistic: statistic.into(),
        window_s,
        value,
        coverage,
    };
    let stats = [
        stat(("m", "s"), 1, ONE, ONE),
        stat(("ms", ""), 1, ONE, ONE),
        stat(("m", "s"), 2, ONE, ONE),
        stat(("m", "s"), 1, TWO, ONE),
        stat(("m", "s"), 1, ONE, TWO),
    ];
    let usage = |stats| UsageView { scope: "tenant", age_ms: None, quality: "ok", surcharge_allowed: true, stats };
    let of_usage = |usage| Context { usages: vec![usage], ..context() };
    let mut contexts = vec![
        context(),
        of_usage(usage(vec![])),
        of_usage(UsageView { scope: "gpu_model", ..usage(vec![]) }),
        of_usage(UsageView { age_ms: Some(0), ..usage(vec![]) }),
        of_usage(UsageView { quality: "stale", ..usage(vec![]) }),
        of_usage(UsageView { surcharge_allowed: false, ..usage(vec![]) }),
    ];
    contexts.extend(stats.iter().map(|stat| of_usage(usage(vec![stat]))));
    assert_distinct(&contexts);
}

#[test]
fn all_of_a_balance_is_part_of_the_key() {
    let ab = Fact::new("a", "b");
    let rate = |overage_price| Rate { scope: vec![], unit_price: ONE, overage_price };
    let balance = |rates, expires_unix_s| Balance {
        id: "i".into(),
        kind: "k".into(),
        unit: "u".into(),
        scope: vec![],
        rates,
        remaining: ONE,
        expires_unix_s,
    };
    let balances = [
        balance(vec![], None),
        balance(vec![rate(None)], None),
        balance(vec![rate(Some(ONE))], None),
        balance(vec![rate(Some(TWO))], None),
        balance(vec![], Some(0)),
        Balance { scope: vec![ab.clone()], ..balance(vec![], None) },
        balance(vec![Rate { scope: vec![ab], ..rate(None) }], None),
        Balance { remaining: TWO, ..balance(vec![], None) },
    ];
    let contexts: Vec<_> = balances.iter().map(|it| Context { balances: vec![it], ..context() }).collect();
    assert_distinct(&contexts);
}
