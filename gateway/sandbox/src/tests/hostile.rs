//! Guests that mean harm. Whatever they do, the next evaluation of a good policy is as before.

use farebox_pricing::policy::{Fault, Halt, RunPolicy};

use super::guest::{FIFTEEN_PERCENT, Guest};
use super::{configured, context, evaluate, policy, sandbox};
use crate::fault::{Stage, classify};
use crate::guard::{Guard, HostMemoryExhausted};
use crate::sandbox::INSTANCES_PER_STORE;
use crate::{ConfigureError, Limits, LoadError, Sandbox, Session};

const ENDLESS: &str = "(loop $on br $on) unreachable";
/// Recursion that keeps a value on every frame, so that no optimisation makes it a loop.
const DEEP: &str = "(func $deep (param i64) (result i64)
    local.get 0 i64.const 1 i64.add call $deep local.get 0 i64.mul)";

/// Evaluates the guest twice and a good one after each.
fn fault_of(sandbox: &Sandbox, guest: &Guest) -> Fault {
    let good = configured(sandbox, &Guest::good());
    let expected = evaluate(&good).unwrap();
    let hostile = configured(sandbox, guest);
    let faults = [(); 2].map(|()| {
        let Err(Halt::Faulted(fault)) = evaluate(&hostile) else { panic!("a fault") };
        let after = evaluate(&good).unwrap();
        assert_eq!((&after.outcome, after.fuel), (&expected.outcome, expected.fuel));
        fault
    });
    assert_eq!(faults[0], faults[1]);
    faults[0].clone()
}

fn is_violation(fault: &Fault) -> bool {
    matches!(fault, Fault::ContractViolation(_))
}

#[test]
fn endless_loops_run_out_of_fuel_wherever_they_are() {
    let sandbox = sandbox();
    assert_eq!(fault_of(&sandbox, &Guest::evaluating(ENDLESS)), Fault::OutOfFuel);
    assert_eq!(
        fault_of(&sandbox, &Guest { realloc: realloc_after_configure(ENDLESS), ..Guest::good() }),
        Fault::OutOfFuel
    );

    let configures = Guest { configure: ENDLESS.into(), ..Guest::good() };
    let error = policy(&sandbox, &configures).configure("{}").unwrap_err();
    assert_eq!(error, ConfigureError::Faulted(Fault::OutOfFuel));

    let describes = Guest { describe: ENDLESS.into(), ..Guest::good() };
    let starts = Guest { head: "(func $start (loop $on br $on)) (start $start)".into(), ..Guest::good() };
    for guest in [describes, starts] {
        let error = sandbox.load(&guest.component()).unwrap_err();
        assert!(matches!(error, LoadError::Describe(Fault::OutOfFuel)), "{error:?}");
    }
}

/// The allocator is asked for 10 bytes by `evaluate` (the configuration) and for 2 by `configure` (`{}`).
fn realloc_after_configure(body: &str) -> String {
    format!("local.get 3 i32.const 2 i32.ne (if (result i32) (then {body}) (else i32.const 40000))")
}

#[test]
fn deep_recursion_overflows_the_guests_stack_only() {
    let sandbox = sandbox();
    let direct = Guest { head: DEEP.into(), ..Guest::evaluating("i64.const 1 call $deep i32.wrap_i64") };
    assert_eq!(fault_of(&sandbox, &direct), Fault::StackOverflow);
    let by_table = "(type $deep (func (param i64) (result i64))) (table 1 1 funcref) (elem (i32.const 0) $deep)
        (func $deep (type $deep)
            local.get 0 i64.const 1 i64.add i32.const 0 call_indirect (type $deep) local.get 0 i64.mul)";
    let indirect = Guest { head: by_table.into(), ..Guest::evaluating("i64.const 1 call $deep i32.wrap_i64") };
    assert_eq!(fault_of(&sandbox, &indirect), Fault::StackOverflow);
}

#[test]
fn growth_over_the_limit_is_denied_and_reported() {
    let sandbox = sandbox();
    let greedy = "(loop $on i32.const 1 memory.grow i32.const -1 i32.ne br_if $on) unreachable";
    assert_eq!(fault_of(&sandbox, &Guest::evaluating(greedy)), Fault::OutOfMemory);
    let stubborn = "(loop $on i32.const 1 memory.grow drop br $on) unreachable";
    assert_eq!(fault_of(&sandbox, &Guest::evaluating(stubborn)), Fault::OutOfFuel);
    let tables = Guest {
        head: "(table $t 0 funcref)".into(),
        ..Guest::evaluating(
            "ref.null func i32.const 1000000 table.grow $t i32.const -1 i32.eq (if (then unreachable)) i32.const 0",
        )
    };
    assert_eq!(fault_of(&sandbox, &tables), Fault::OutOfMemory);
}

#[test]
fn a_guest_that_is_denied_memory_may_go_on() {
    let sandbox = sandbox();
    let priced = Guest::good().evaluate;
    let modest = configured(
        &sandbox,
        &Guest::evaluating(&format!("i32.const 64 memory.grow drop i32.const 63 memory.grow drop {priced}")),
    );
    let evaluation = evaluate(&modest).unwrap();
    assert_eq!(evaluation.memory_bytes, 4 << 20);
    assert_eq!(evaluation.outcome, evaluate(&configured(&sandbox, &Guest::good())).unwrap().outcome);
    // Two requests of growth, at 100 each.
    assert!(evaluation.fuel > 200, "{}", evaluation.fuel);
}

#[test]
fn traps_have_codes() {
    let sandbox = sandbox();
    let cases = [
        ("unreachable", "unreachable"),
        ("i32.const 1 i32.const 0 i32.div_s", "integer_division_by_zero"),
        ("i32.const 0x80000000 i32.const -1 i32.div_s", "integer_overflow"),
        ("f32.const nan i32.trunc_f32_s", "bad_conversion_to_integer"),
        ("i32.const 0x7fffffff i32.load", "memory_out_of_bounds"),
        ("i32.const 9 call_indirect (result i32)", "table_out_of_bounds"),
        ("i32.const 1 call_indirect (result i32)", "indirect_call_to_null"),
        ("i32.const 0 call_indirect (result i32)", "bad_signature"),
    ];
    for (body, code) in cases {
        let head = "(func $nothing) (table 2 2 funcref) (elem (i32.const 0) $nothing)".into();
        assert_eq!(fault_of(&sandbox, &Guest { head, ..Guest::evaluating(body) }), Fault::Trapped(code));
    }
}

#[test]
fn results_that_cannot_be_read_are_violations() {
    let sandbox = sandbox();
    let guests = [
        ("pointer beyond memory", Guest::evaluating("i32.const 0x7ffffff0")),
        ("unaligned pointer", Guest::evaluating("i32.const 1025")),
        ("invalid UTF-8", Guest::answering(|image| image.percent(b"\xff\xfe", FIFTEEN_PERCENT))),
        ("list beyond memory", Guest::answering(|image| image.outcome([1024, 1_000_000], [0, 0], [0, 0]))),
        ("unaligned list", Guest::answering(|image| image.outcome([1025, 1], [0, 0], [0, 0]))),
        ("tag of the result", Guest::answering(|image| image.words(&[7, 0, 0, 0, 0, 0, 0]))),
        (
            "tag of a method",
            Guest::answering(|image| {
                let adjustment = image.adjustment(b"label", 6, &FIFTEEN_PERCENT);
                let adjustment = image.words(&adjustment);
                image.outcome([adjustment, 1], [0, 0], [0, 0])
            }),
        ),
        ("realloc beyond memory", Guest { realloc: realloc_after_configure("i32.const 0x7ffffff0"), ..Guest::good() }),
        ("unaligned realloc", Guest { realloc: realloc_after_configure("i32.const 40001"), ..Guest::good() }),
    ];
    for (what, guest) in guests {
        let fault = fault_of(&sandbox, &guest);
        assert!(is_violation(&fault), "{what}: {fault:?}");
    }
}

#[test]
fn results_that_alias_one_buffer_are_stopped_by_the_output_limit() {
    let sandbox = sandbox();
    // Two hundred facts, all of them the same 4 KB: 1.6 MB once lifted.
    let guest = Guest::answering(|image| {
        let text = image.text([b'x'; 4000]);
        let fact = [text[0], 4000, text[0], 4000];
        let facts = image.words(&fact.repeat(200));
        image.outcome([0, 0], [0, 0], [facts, 200])
    });
    let started = std::time::Instant::now();
    assert!(is_violation(&fault_of(&sandbox, &guest)));
    assert!(started.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn counts_lengths_and_decimals_are_bounded() {
    let sandbox = sandbox();
    let adjustments = |count: usize| {
        Guest::answering(|image| {
            let adjustment = image.adjustment(b"label", 0, &FIFTEEN_PERCENT);
            let list = image.words(&adjustment.repeat(count));
            image.outcome([list, u32::try_from(count).unwrap()], [0, 0], [0, 0])
        })
    };
    let fact = |key: usize, value: usize| {
        Guest::answering(|image| {
            let (key, value) = (image.text(vec![b'k'; key]), image.text(vec![b'v'; value]));
            let facts = image.words(&[key, value].concat());
            image.outcome([0, 0], [0, 0], [facts, 1])
        })
    };
    let percent = |decimal| Guest::answering(|image| image.percent(b"label", decimal));
    let label = |label: String| Guest::answering(|image| image.percent(label.as_bytes(), FIFTEEN_PERCENT));
    let (negative, all) = (1 << 8, u32::MAX);
    for guest in [
        adjustments(64),
        fact(256, 4096),
        percent([all, all, all, 28 | negative]),
        percent([0, 0, 0, 28]),
        label("中".repeat(200)),
    ] {
        evaluate(&configured(&sandbox, &guest)).unwrap();
    }
    for guest in [
        adjustments(65),
        fact(257, 0),
        fact(1, 4097),
        percent([1, 0, 0, 29]),
        percent([0, 0, 0, negative]),
        percent([0, 0, 0, 2 | negative]),
        label("中".repeat(201)),
    ] {
        assert!(is_violation(&fault_of(&sandbox, &guest)));
    }
}

#[test]
fn a_host_without_memory_is_not_the_policys_fault() {
    let mut guard = Guard::new(super::limits());
    let error =
        wasmtime::ResourceLimiter::memory_grow_failed(&mut guard, wasmtime::format_err!("no memory")).unwrap_err();
    assert_eq!(classify(&error, Stage::Calling, true), Fault::HostMemory);
    assert_eq!(classify(&HostMemoryExhausted.into(), Stage::Instantiating, false), Fault::HostMemory);
    let untyped = wasmtime::format_err!("some text");
    assert_eq!(classify(&untyped, Stage::Instantiating, false), Fault::HostMemory);
    // A component may instantiate a module twice, each within the limits.
    assert_eq!(classify(&untyped, Stage::Instantiating, true), Fault::OutOfMemory);
}

#[test]
fn every_slot_comes_back_after_every_kind_of_fault() {
    let sandbox = Sandbox::new(Limits { sessions: 1, ..super::limits() }).unwrap();
    let deep = Guest { head: DEEP.into(), ..Guest::evaluating("i64.const 1 call $deep i32.wrap_i64") };
    let guests = [
        Guest::evaluating("unreachable"),
        Guest::evaluating(ENDLESS),
        Guest::evaluating("i32.const 1025"),
        Guest::answering(|image| image.percent(b"\xff", FIFTEEN_PERCENT)),
        deep,
    ];
    for guest in &guests {
        let hostile = configured(&sandbox, guest);
        for _ in 0..2 * INSTANCES_PER_STORE {
            evaluate(&hostile).unwrap_err();
        }
        let good = configured(&sandbox, &Guest::good());
        let mut session = Session::new(std::slice::from_ref(&good));
        for _ in 0..INSTANCES_PER_STORE {
            session.evaluate(0, &context()).unwrap();
        }
    }
}
