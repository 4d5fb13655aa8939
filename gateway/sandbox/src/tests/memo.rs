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

/// One context for each way in which a field can differ: no two may have one key.
#[test]
fn whatever_is_passed_is_part_of_the_key() {
    let [ab, a, bc, c] = [("a", "b"), ("a", ""), ("", "bc"), ("ab", "c")].map(|(key, value)| Fact::new(key, value));
    let one = Decimal::ONE;
    let line = |facts| LineView { key: 0, facts, amounts: None, segments: &[], portions: &[], usage: None };
    let amounts = AmountsView { unit: "gpu_second", quantity: one, unit_price: one, list_amount: one, amount: one };
    let segments = [Segment { state: "idle".into(), quantity: one }];
    let portion = |draws: Option<&str>| Portion {
        code: "p".into(),
        label: "q".into(),
        unit: "r".into(),
        quantity: one,
        unit_price: one,
        draws: draws.map(str::to_owned),
    };
    let portions = [portion(None), portion(Some("")), portion(Some("b"))];
    let stat = |metric: &str, statistic: &str, window_s, value, coverage| Stat {
        metric: metric.into(),
        statistic: statistic.into(),
        window_s,
        value,
        coverage,
    };
    let two = Decimal::TWO;
    let stats = [
        stat("m", "s", 1, one, one),
        stat("ms", "", 1, one, one),
        stat("m", "s", 2, one, one),
        stat("m", "s", 1, two, one),
        stat("m", "s", 1, one, two),
    ];
    let usage = |stats| UsageView { scope: "tenant", age_ms: None, quality: "ok", surcharge_allowed: true, stats };
    let rate = |overage_price| Rate { scope: vec![], unit_price: one, overage_price };
    let balance = |rates, expires_unix_s| Balance {
        id: "i".into(),
        kind: "k".into(),
        unit: "u".into(),
        scope: vec![],
        rates,
        remaining: one,
        expires_unix_s,
    };
    let balances = [
        balance(vec![], None),
        balance(vec![rate(None)], None),
        balance(vec![rate(Some(one))], None),
        balance(vec![rate(Some(two))], None),
        balance(vec![], Some(0)),
        Balance { scope: vec![ab.clone()], ..balance(vec![], None) },
        balance(vec![Rate { scope: vec![ab.clone()], ..rate(None) }], None),
        Balance { remaining: two, ..balance(vec![], None) },
    ];
    let mut contexts = vec![
        context(),
        Context { currency: "USD", ..context() },
        Context { exponent: 0, ..context() },
        Context { at: Some(Instant { unix_s: 0, utc_offset_s: 0 }), ..context() },
        Context { at: Some(Instant { unix_s: 1, utc_offset_s: 0 }), ..context() },
        Context { at: Some(Instant { unix_s: 0, utc_offset_s: 1 }), ..context() },
        Context { tenant: vec![&ab], ..context() },
        Context { facts: vec![&ab], ..context() },
        Context { facts: vec![&a], ..context() },
        Context { facts: vec![&a, &bc], ..context() },
        Context { facts: vec![&c], ..context() },
        Context { facts: vec![&ab, &ab], ..context() },
        Context { lines: vec![line(vec![])], ..context() },
        Context { lines: vec![line(vec![]), line(vec![])], ..context() },
        Context { lines: vec![line(vec![&ab])], ..context() },
        Context { lines: vec![LineView { key: 1, ..line(vec![]) }], ..context() },
        Context { lines: vec![LineView { usage: Some(0), ..line(vec![]) }], ..context() },
        Context { lines: vec![LineView { segments: &segments, ..line(vec![]) }], ..context() },
        Context { usages: vec![usage(vec![])], ..context() },
        Context { usages: vec![UsageView { scope: "gpu_model", ..usage(vec![]) }], ..context() },
        Context { usages: vec![UsageView { age_ms: Some(0), ..usage(vec![]) }], ..context() },
        Context { usages: vec![UsageView { quality: "stale", ..usage(vec![]) }], ..context() },
        Context { usages: vec![UsageView { surcharge_allowed: false, ..usage(vec![]) }], ..context() },
    ];
    let with_amounts =
        |amounts| Context { lines: vec![LineView { amounts: Some(amounts), ..line(vec![]) }], ..context() };
    contexts.extend(
        [
            amounts,
            AmountsView { unit: "task", ..amounts },
            AmountsView { quantity: two, ..amounts },
            AmountsView { unit_price: two, ..amounts },
            AmountsView { list_amount: two, ..amounts },
            AmountsView { amount: two, ..amounts },
            // 1 and 1.0 are other bytes to the guest.
            AmountsView { amount: Decimal::new(10, 1), ..amounts },
            AmountsView { amount: -one, ..amounts },
        ]
        .map(with_amounts),
    );
    contexts.extend(portions.iter().map(|portion| Context {
        lines: vec![LineView { portions: std::slice::from_ref(portion), ..line(vec![]) }],
        ..context()
    }));
    contexts.extend(stats.iter().map(|stat| Context { usages: vec![usage(vec![stat])], ..context() }));
    contexts.extend(balances.iter().map(|balance| Context { balances: vec![balance], ..context() }));
    let keys: BTreeSet<Vec<u8>> = contexts.iter().map(key_of).collect();
    assert_eq!(keys.len(), contexts.len());
    // A zero has no sign in front of the guest.
    let zeros = [Decimal::ZERO, -Decimal::ZERO].map(|amount| key_of(&with_amounts(AmountsView { amount, ..amounts })));
    assert_eq!(zeros[0], zeros[1]);
}
