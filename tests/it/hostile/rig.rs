//! Prices W1 under the plan of the fixtures, with a hostile step behind the others or without.

use std::sync::Arc;
use std::time::{Duration, Instant};

use farebox::catalog::{Catalog, PlanVersion};
use farebox::intake::Intake;
use farebox_pricing::offer::{LineUsage, Offer, PricedInput};
use farebox_pricing::pipeline::PricingError;
use farebox_pricing::plan::{OnFault, PolicyRef, Step};
use farebox_pricing::policy::{Context, Fault};
use farebox_pricing::price::price;
use farebox_pricing::reads::Reads;
use farebox_pricing::settle::Settled;
use farebox_pricing::usage::judge;
use farebox_sandbox::{ConfigureError, ConfiguredPolicy, Limits, LoadError, Sandbox, Session};

use crate::harness::{fixture, policies, root};

pub struct Rig {
    pub sandbox: Sandbox,
    version: Arc<PlanVersion>,
    offer: Offer,
}

/// Where a module was stopped, by what, or what W1 costs with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Stopped { stage: &'static str, by: String },
    Priced { total: String },
}

impl Rig {
    /// Few slots, so that instances meet what others left in them.
    pub fn new() -> Self {
        let sandbox = Sandbox::new(Limits { sessions: 2, ..Limits::standard() }).unwrap();
        let catalog = Catalog::load(&root().join("fixtures"), policies(), &sandbox);
        let body = fixture("requests/w1.json").to_string();
        let accepted = Intake::new().unwrap().read(body.as_bytes()).unwrap();
        let resolved = catalog.resolve(&accepted.request, "2026-12-01T00:00:00Z".parse().unwrap()).unwrap();
        Self { sandbox, version: resolved.version, offer: resolved.offer }
    }

    /// The quote that nobody disturbed: every row, note and cost of it apart from its time, and how long it took.
    pub fn honest_quote(&self) -> (String, Duration) {
        let (input, steps) = self.input(None);
        let started = Instant::now();
        let settled = price(&input, &mut Session::new(&steps)).unwrap();
        (everything(settled), started.elapsed())
    }

    /// Takes a module as far as it gets.
    pub fn try_out(&self, bytes: &[u8]) -> Verdict {
        let stopped = |stage, by: String| Verdict::Stopped { stage, by };
        let policy = match self.sandbox.load(bytes) {
            Ok(policy) => policy,
            Err(error) => return stopped(stage_of(&error), sentence(&error)),
        };
        let configured = match policy.configure("{}") {
            Ok(configured) => configured,
            Err(ConfigureError::Faulted(fault)) => return stopped("configure", fault.to_string()),
            Err(ConfigureError::Refused(refusals)) => panic!("{refusals:?}"),
        };
        match self.quote_with(&configured) {
            Ok(settled) => Verdict::Priced { total: settled.totals.total.print(2) },
            Err(PricingError::Faulted { step, fault, .. }) if step == "hostile" => {
                let is_answer = matches!(fault, Fault::ContractViolation(_));
                stopped(if is_answer { "answer check" } else { "evaluate" }, fault.to_string())
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn quote_with(&self, hostile: &ConfiguredPolicy) -> Result<Settled, PricingError> {
        let (input, steps) = self.input(Some(hostile));
        price(&input, &mut Session::new(&steps))
    }

    /// No usage was observed.
    fn input(&self, hostile: Option<&ConfiguredPolicy>) -> (PricedInput, Vec<ConfiguredPolicy>) {
        let (mut offer, mut steps) = (self.offer.clone(), self.version.policies.to_vec());
        let mut plan = (*offer.plan).clone();
        if let Some(hostile) = hostile {
            plan.steps.push(step(hostile));
            steps.push(hostile.clone());
        }
        let usage = plan.usage.clone();
        offer.plan = Arc::new(plan);
        (offer.with_usage(|_| LineUsage { observation: None, judged: judge(None, &usage) }), steps)
    }
}

fn step(hostile: &ConfiguredPolicy) -> Step {
    let manifest = hostile.policy().manifest();
    let (name, version) = (manifest.name.clone(), manifest.version.clone());
    Step {
        id: "hostile".to_owned(),
        policy: PolicyRef { name, version, digest: hostile.policy().digest().to_owned() },
        scope: manifest.scope,
        reads: Reads::parse(hostile.reads()).unwrap(),
        produces: hostile.produces().to_vec(),
        on_fault: OnFault::Refuse,
    }
}

fn everything(mut settled: Settled) -> String {
    for cost in &mut settled.costs {
        cost.nanoseconds = 0;
    }
    format!("{settled:?}")
}

/// What a step sees that reads nothing of a quote without lines.
pub fn nothing() -> Context<'static> {
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

fn stage_of(error: &LoadError) -> &'static str {
    match error {
        LoadError::Empty
        | LoadError::NativeCode
        | LoadError::Text
        | LoadError::NotWasm
        | LoadError::Malformed(_)
        | LoadError::OverLimit { .. }
        | LoadError::NotWrappable(_)
        | LoadError::Import { .. }
        | LoadError::NoContract { .. }
        | LoadError::OtherVersion { .. } => "file checks",
        LoadError::NotCompilable(_) | LoadError::Compiler | LoadError::OtherTypes { .. } => "compile",
        LoadError::Describe(_) | LoadError::Manifest(_) => "describe",
    }
}

/// The fault where there is one, else what the uploader is told.
fn sentence(error: &LoadError) -> String {
    match error {
        LoadError::Describe(fault) => fault.to_string(),
        other => other.to_string(),
    }
}
