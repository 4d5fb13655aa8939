//! One case in the sandbox: what the policy answers, and what that costs.

use farebox_pricing::policy::Fault;
use farebox_sandbox::{ConfigureError, ConfiguredPolicy, Policy, Session};
use serde::{Deserialize, Serialize};

use super::cases::host::HostContext;
use super::cases::{Case, wire};

/// How a case ends. Its JSON is the member of a case file that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Outcome(wire::Outcome),
    Refusal(wire::Refusal),
    Refusals(Vec<wire::Refusal>),
}

impl Answer {
    /// The bytes that are compared.
    pub fn json(&self) -> String {
        // Writing to a string fails for maps whose keys are no strings; there are none.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The same for people, and for line-by-line comparison.
    pub fn pretty(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The codes of what was produced; none of a refusal.
    pub(super) fn codes(&self) -> impl Iterator<Item = &str> {
        let outcome = if let Self::Outcome(outcome) = self { Some(outcome) } else { None };
        outcome.into_iter().flat_map(|outcome| {
            let adjustments = outcome.adjustments.iter().map(|adjustment| adjustment.code.as_str());
            adjustments.chain(outcome.added.iter().map(|line| line.code.as_str()))
        })
    }
}

/// What an evaluation used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spent {
    pub fuel: u64,
    pub memory_bytes: u64,
}

/// A case that came to an answer in the sandbox.
#[derive(Clone, Debug)]
pub struct Tried {
    pub answer: Answer,
    /// `None` where the parameters were refused: nothing was evaluated.
    pub spent: Option<Spent>,
    /// The policy under the case's parameters, where it takes them.
    pub configured: Option<ConfiguredPolicy>,
}

/// Configures the policy with the case's parameters and evaluates the case's context, in instances of their own.
///
/// # Errors
/// The fault, where there is no answer.
pub fn try_case(policy: &Policy, case: &Case) -> Result<Tried, Fault> {
    let configured = match policy.configure(&case.parameters) {
        Ok(configured) => configured,
        Err(ConfigureError::Refused(refusals)) => {
            let answer = Answer::Refusals(refusals.into_iter().map(Into::into).collect());
            return Ok(Tried { answer, spent: None, configured: None });
        }
        Err(ConfigureError::Faulted(fault)) => return Err(fault),
    };
    let empty = wire::Context::default();
    let (answer, spent) = evaluate(&configured, case.context.as_ref().unwrap_or(&empty))?;
    Ok(Tried { answer, spent: Some(spent), configured: Some(configured) })
}

/// Evaluates one context in a fresh instance.
pub(super) fn evaluate(configured: &ConfiguredPolicy, context: &wire::Context) -> Result<(Answer, Spent), Fault> {
    let steps = [configured.clone()];
    let host = HostContext::of(context);
    let measured = Session::new(&steps).measure(0, &host.view())?;
    let spent = Spent { fuel: measured.fuel, memory_bytes: measured.memory_bytes };
    let answer = match measured.answer {
        Ok(outcome) => Answer::Outcome(outcome.into()),
        Err(refusal) => Answer::Refusal(refusal.into()),
    };
    Ok((answer, spent))
}
