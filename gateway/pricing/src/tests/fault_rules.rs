//! What a fault or a refusal does to a quote: refuse, skip without a trace, or pass the host's own faults on.

use crate::pipeline::{Note, PricingError, SkippedStep};
use crate::plan::{OnFault, Step};
use crate::policy::{AddedLine, Fact, Fault, Halt, Outcome, Refusal, Scope};

use super::stage::{Stage, dec, fact, flat, note, percent, says, step};

fn optional(id: &str) -> Step {
    Step { on_fault: OnFault::Skip, ..step(id) }
}

fn skipped_note(step: &str) -> Note {
    Note {
        step: step.to_owned(),
        line: None,
        level: "warning".to_owned(),
        code: "step_skipped".to_owned(),
        text: format!("step `{step}` could not be evaluated and was left out, as the plan allows"),
        what_if: Vec::new(),
    }
}

fn policy_faults() -> [Fault; 5] {
    let broken = Fault::violation("anything");
    [Fault::Trapped("unreachable"), Fault::OutOfFuel, Fault::OutOfMemory, Fault::StackOverflow, broken]
}

#[test]
fn a_faulting_policy_never_yields_a_price_unless_its_step_is_optional() {
    for fault in policy_faults() {
        for on_fault in [OnFault::Refuse, OnFault::PreviousVersion, OnFault::Skip] {
            let thrown = fault.clone();
            let stage = Stage::new("CNY")
                .gpu("a", "12.00", 3600)
                .each_line("before", vec![percent("premium", "0.10")])
                .step(Step { on_fault, ..step("faulty") }, move |_| Err(Halt::Faulted(thrown.clone())))
                .each_line("after", vec![percent("discount", "-0.5")]);
            let result = stage.try_price();
            if on_fault == OnFault::Skip {
                let quote = result.unwrap();
                assert_eq!(quote.rows(0), ["before premium 1.20", "after discount -6.60"]);
                assert_eq!((quote.total(), quote.notes), ("6.60".to_owned(), vec![skipped_note("faulty")]));
                assert_eq!(quote.skipped, [SkippedStep { step_index: 1, fault: fault.clone() }]);
            } else {
                let error = result.unwrap_err();
                assert_eq!(error.to_string(), format!("step `faulty` (policy `faulty@1.0.0`) {fault}"));
                let PricingError::Faulted { on_fault: rule, fault: told, .. } = error else { panic!("{error}") };
                assert_eq!((rule, told), (on_fault, fault.clone()));
            }
        }
    }
}

#[test]
fn a_host_fault_is_nobodys_rule() {
    for fault in [Fault::Deadline, Fault::PoolExhausted, Fault::HostMemory] {
        let thrown = fault.clone();
        let stage =
            Stage::new("CNY").gpu("a", "12.00", 3600).step(optional("s"), move |_| Err(Halt::Faulted(thrown.clone())));
        assert!(matches!(stage.try_price(), Err(PricingError::Faulted { fault: told, .. }) if told == fault));
        assert!(fault.is_host());
    }
    assert!(policy_faults().iter().all(|fault| !fault.is_host()));
}

#[test]
fn what_a_skipped_step_did_before_its_fault_leaves_no_trace() {
    let stage = |with_faulty: bool| {
        let stage = Stage::new("CNY").gpu("a", "12.00", 3600).gpu("b", "6.00", 3600);
        let stage = if with_faulty {
            stage.step(optional("faulty"), |context| {
                if fact(&context.lines[0], "line.ref") == "b" {
                    return Err(Halt::Faulted(Fault::OutOfFuel));
                }
                let added = AddedLine {
                    parent: None,
                    code: "storage".to_owned(),
                    label: "storage".to_owned(),
                    unit: "gib_month".to_owned(),
                    quantity: dec("1"),
                    unit_price: dec("1"),
                    facts: Vec::new(),
                };
                let adjustments = vec![percent("premium", "1"), flat("fee", "9"), note("advice", "info")];
                Ok(Outcome { adjustments, added: vec![added], facts: vec![Fact::new("tier", "gold")] })
            })
        } else {
            stage
        };
        stage.step(step("after"), |context| {
            assert!(context.lines[0].facts.iter().all(|fact| !fact.key.starts_with("step.")));
            says(vec![percent("tenth", "0.1")])
        })
    };
    let (with, without) = (stage(true).price(), stage(false).price());
    assert_eq!((with.rows(0), with.rows(1), with.lines.len()), (without.rows(0), without.rows(1), 2));
    assert_eq!(with.totals, without.totals);
    assert_eq!(with.notes, [skipped_note("faulty")]);
    // The first line was evaluated and cost fuel, which the report does not hide.
    assert_eq!((with.costs[0].evaluations, with.costs[0].fuel), (1, 100));
    assert_eq!((with.costs[1].evaluations, with.costs[1].fuel), (2, 200));
}

#[test]
fn a_refusal_is_an_answer_whatever_the_fault_rule() {
    let refusing = |scope, line: Option<u32>| {
        let step = Step { scope, on_fault: OnFault::Skip, ..step("image") };
        let stage = Stage::new("CNY").gpu("a", "12.00", 3600).gpu("b", "6.00", 3600).step(step, move |context| {
            if scope == Scope::Line && fact(&context.lines[0], "line.ref") == "a" {
                return says(Vec::new());
            }
            Err(Halt::Refused(Refusal {
                code: "unknown_image".to_owned(),
                detail: "image `v9` is\u{1b}[31m not\n known".to_owned(),
                line,
                pointer: Some("/workload/image".to_owned()),
            }))
        });
        stage.try_price().unwrap_err()
    };
    for (scope, line, expected) in [
        (Scope::Line, None, Some(1)),
        (Scope::Line, Some(0), Some(1)),
        (Scope::Quote, Some(1), Some(1)),
        (Scope::Quote, Some(0), Some(0)),
        (Scope::Quote, None, None),
        (Scope::Quote, Some(7), None),
    ] {
        let error = refusing(scope, line);
        assert_eq!(error.to_string(), "step `image` (policy `image@1.0.0`) refused: image `v9` is[31m not known");
        let PricingError::Refused { item, refusal, .. } = error else { panic!("{error}") };
        assert_eq!((item, refusal.code.as_str()), (expected, "unknown_image"), "{scope:?} {line:?}");
    }
}

#[test]
fn a_task_that_nobody_measures_has_no_price() {
    let stage = Stage::new("CNY").gpu("a", "12.00", 3600).task("t").each_line("s", Vec::new());
    assert_eq!(stage.try_price().unwrap_err(), PricingError::NotMeasured { item: 1 });
    // Where the step that might have measured it was left out, its fault is what is wrong.
    let skipping = stage.step(optional("units"), |context| {
        let is_task = context.lines[0].amounts.unwrap().unit == "task";
        if is_task { Err(Halt::Faulted(Fault::OutOfFuel)) } else { says(Vec::new()) }
    });
    let (step, policy) = ("units".to_owned(), "units@1.0.0".to_owned());
    let expected = PricingError::Faulted { step, policy, on_fault: OnFault::Skip, fault: Fault::OutOfFuel };
    assert_eq!(skipping.try_price().unwrap_err(), expected);
}
