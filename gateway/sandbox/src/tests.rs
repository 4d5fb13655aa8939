//! The sandbox against guests written by hand, byte by byte: good, echoing and hostile ones.

mod code_cache;
mod guest;
mod hostile;
mod loading;
mod memo;
mod running;

use farebox_pricing::policy::{Context, Evaluation, Halt, RunPolicy};

use crate::{ConfiguredPolicy, Limits, Policy, Sandbox, Session};
use guest::Guest;

fn limits() -> Limits {
    Limits { sessions: 4, ..Limits::standard() }
}

fn sandbox() -> Sandbox {
    Sandbox::new(limits()).unwrap()
}

fn policy(sandbox: &Sandbox, guest: &Guest) -> Policy {
    sandbox.load(&guest.component()).unwrap()
}

fn configured(sandbox: &Sandbox, guest: &Guest) -> ConfiguredPolicy {
    policy(sandbox, guest).configure("{}").unwrap()
}

fn context() -> Context<'static> {
    Context {
        currency: "CNY",
        exponent: 2,
        at: None,
        tenant: vec![],
        lines: vec![],
        usages: vec![],
        balances: vec![],
        facts: vec![],
    }
}

fn evaluate(configured: &ConfiguredPolicy) -> Result<Evaluation, Halt> {
    Session::new(std::slice::from_ref(configured)).evaluate(0, &context())
}
