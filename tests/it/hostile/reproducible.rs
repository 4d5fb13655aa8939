//! Fuel and answers are the same in every instance, thread, process and build of the host.

use std::fmt::Write as _;

use farebox_pricing::policy::RunPolicy;
use farebox_sandbox::{Limits, Policy, Sandbox, Session};

use super::modules::{self, Expected};
use super::rig::nothing;
use crate::harness::root;

/// Every module that answers, and one that means no harm: a line each, with what it burnt and answered.
fn report() -> String {
    let sandbox = Sandbox::new(Limits::standard()).unwrap();
    let mut report = String::new();
    let answering = modules::all().into_iter().filter(|hostile| matches!(hostile.expected, Expected::Priced(_)));
    let named = answering.map(|hostile| (hostile.name, hostile.bytes));
    for (name, bytes) in named.chain([("well-behaved".to_owned(), modules::well_behaved("well-behaved"))]) {
        let policy = sandbox.load(&bytes).unwrap();
        let first = evaluated(&policy);
        assert_eq!(evaluated(&policy), first, "{name} a second time");
        writeln!(report, "{name}: {first}").unwrap();
    }
    report
}

fn evaluated(policy: &Policy) -> String {
    let configured = policy.configure("{}").unwrap();
    let (describe, configure) = (policy.describe_fuel(), configured.configure_fuel());
    let evaluation = Session::new(&[configured]).evaluate(0, &nothing()).unwrap();
    let (fuel, bytes, answer) = (evaluation.fuel, evaluation.memory_bytes, &evaluation.outcome.adjustments[0].method);
    format!("describe {describe}, configure {configure}, evaluate {fuel} fuel and {bytes} bytes, {answer:?}")
}

/// The record was made by another process, and by a debug build of the host; `cargo test --release` compares the other.
#[test]
fn fuel_and_answers_are_as_recorded() {
    let path = root().join("fixtures/hostile/fuel.txt");
    let report = report();
    if crate::harness::updates_cases() {
        std::fs::write(&path, &report).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    assert_eq!(report, recorded, "a new engine may burn other fuel; then `UPDATE_CASES=1`");
}

/// The test above, in a process of its own while this one is busy with the same.
#[test]
fn another_process_burns_the_same() {
    let mut other = std::process::Command::new(std::env::current_exe().unwrap());
    // It compares; it records nothing.
    let other =
        other.env_remove("UPDATE_CASES").args(["--exact", "hostile::reproducible::fuel_and_answers_are_as_recorded"]);
    let (other, here) = std::thread::scope(|scope| {
        let other = scope.spawn(|| other.output().unwrap());
        let here = report();
        (other.join().unwrap(), here)
    });
    let printed = String::from_utf8_lossy(&other.stdout);
    assert!(other.status.success() && printed.contains("1 passed"), "{printed}");
    assert_eq!(here, std::fs::read_to_string(root().join("fixtures/hostile/fuel.txt")).unwrap());
}

#[test]
fn two_threads_at_once_burn_the_same() {
    let reports = std::thread::scope(|scope| {
        let threads = [scope.spawn(report), scope.spawn(report)];
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(reports[0], reports[1]);
    assert!(reports[0].lines().count() >= 9, "{}", reports[0]);
}
