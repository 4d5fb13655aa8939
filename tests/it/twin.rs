//! The sandbox against the native twin: the same outcome for the same input, always, at the same fuel.

use farebox_pricing::policy::{Halt, RunPolicy};
use farebox_sandbox::{ConfigureError, Limits, Sandbox, Session};
use farebox_sdk::testing::{Answer, Case, answer, load_cases};
use farebox_tests::{NativeTwin, POLICIES};

use crate::harness::{policies, root};

/// Every golden case of every policy, in the sandbox as natively.
#[test]
fn golden_cases_come_out_the_same_on_both_sides_of_the_wall() {
    let sandbox = Sandbox::new(Limits::standard()).unwrap();
    let mut cases_run = 0;
    for native in POLICIES {
        let name = native.describe().name;
        let bytes = std::fs::read(policies().join(format!("{name}.wasm"))).unwrap();
        let sandboxed = sandbox.load(&bytes).unwrap();
        assert_eq!(sandboxed.manifest().reads, native.describe().reads, "{name}");
        assert_eq!(sandboxed.manifest().parameters_schema, native.describe().parameters_schema, "{name}");
        for case in load_cases(&root().join("policies").join(&name).join("cases")).unwrap() {
            cases_run += 1;
            let configured = match sandboxed.configure(&case.parameters) {
                Ok(configured) => configured,
                Err(ConfigureError::Refused(refusals)) => {
                    let Answer::Misconfigured(expected) = answer(native, &case) else {
                        panic!("{name}/{}: only the sandbox refuses the parameters: {refusals:?}", case.name)
                    };
                    let sandboxed: Vec<_> = refusals.into_iter().map(|it| (it.code, it.detail, it.pointer)).collect();
                    let natively: Vec<_> = expected.into_iter().map(|it| (it.code, it.detail, it.pointer)).collect();
                    assert_eq!(sandboxed, natively, "{name}/{}", case.name);
                    continue;
                }
                Err(error) => panic!("{name}/{}: {error}", case.name),
            };
            compare(&case, &name, &mut Session::new(&[configured]), native);
        }
    }
    assert!(cases_run > 30, "only {cases_run} cases");
}

fn compare(case: &Case, name: &str, sandboxed: &mut Session<'_>, native: &'static farebox_sdk::native::Policy) {
    let configuration = native.configure(&case.parameters).unwrap();
    let mut twin = NativeTwin { steps: vec![(native, configuration.bytes)] };
    let Some(context) = &case.context else { return };
    let host = crate::twin_context::HostContext::of(context);
    let context = host.view();
    let first = sandboxed.evaluate(0, &context);
    let second = sandboxed.evaluate(0, &context);
    let natively = twin.evaluate(0, &context);
    match (first, second, natively) {
        (Ok(first), Ok(second), Ok(natively)) => {
            assert_eq!(first.outcome, natively.outcome, "{name}/{}", case.name);
            assert_eq!((first.outcome, first.fuel), (second.outcome, second.fuel), "{name}/{}", case.name);
        }
        (Err(Halt::Refused(first)), Err(Halt::Refused(second)), Err(Halt::Refused(natively))) => {
            assert_eq!((&first, &second), (&natively, &first), "{name}/{}", case.name);
        }
        (first, _, natively) => panic!("{name}/{}: sandboxed {first:?}, natively {natively:?}", case.name),
    }
}
