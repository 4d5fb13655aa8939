//! The steps of a plan, each bound to its policy and its parameters.

use std::collections::BTreeMap;

use farebox_pricing::pipeline::MAX_STEPS;
use farebox_pricing::plan::{OnFault, PolicyRef, Step};
use farebox_pricing::reads::Reads;
use farebox_sandbox::{ConfigureError, ConfiguredPolicy};
use serde_json::Value;

use super::findings::Findings;
use super::policies::{Offered, Policies};
use super::problem::CatalogProblem;
use super::wire::{WireOnFault, WireStep};
use crate::causes::with_causes;

/// Adjustments of the engine itself carry these in place of a step's id.
const RESERVED: [&str; 2] = ["guards", "rounding"];
/// The base step's id: its percentages do not bar a later reprice, so nothing comes before it.
const BASE: &str = "base";

/// Reads the steps; those with a problem are left out, so the result counts only where there is none.
pub(super) fn read(
    findings: &mut Findings<'_>,
    steps: Vec<WireStep>,
    policies: &Policies,
) -> Vec<(Step, ConfiguredPolicy)> {
    if steps.len() > MAX_STEPS {
        findings.wrong("/steps", format!("a plan runs at most {MAX_STEPS} steps; this one has {}", steps.len()));
    }
    let mut first_of: BTreeMap<String, usize> = BTreeMap::new();
    let mut read = Vec::with_capacity(steps.len());
    for (index, step) in steps.into_iter().enumerate() {
        let pointer = format!("/steps/{index}");
        let at_id = format!("{pointer}/id");
        if RESERVED.contains(&step.id.as_str()) {
            findings.wrong(&at_id, format!("`{}` is the name of a step of the engine's own", step.id));
        }
        if step.id == BASE && index > 0 {
            findings.wrong(
                &at_id,
                format!("only the first step can be `{BASE}`; this one is number {}", index.saturating_add(1)),
            );
        }
        match first_of.get(&step.id) {
            Some(first) => {
                let line = findings.document.line(&format!("/steps/{first}/id"));
                findings.wrong(&at_id, format!("step `{}` is also in line {line}", step.id));
            }
            None => {
                first_of.insert(step.id.clone(), index);
            }
        }
        read.extend(configured(findings, &pointer, step, policies));
    }
    read
}

fn configured(
    findings: &mut Findings<'_>,
    pointer: &str,
    step: WireStep,
    policies: &Policies,
) -> Option<(Step, ConfiguredPolicy)> {
    let offered = match policies.get(&step.policy) {
        Ok(offered) => offered,
        Err(missing) => {
            findings.missing(&format!("{pointer}/policy"), missing);
            return None;
        }
    };
    let pointer = format!("{pointer}/parameters");
    let configured = configure(findings, &pointer, Value::Object(step.parameters), offered)?;
    let manifest = offered.policy.manifest();
    let reads = named_reads(configured.reads()).map_err(|message| findings.wrong(&pointer, message)).ok()?;
    let step = Step {
        id: step.id,
        policy: PolicyRef {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: offered.policy.digest().to_owned(),
        },
        scope: manifest.scope,
        reads,
        produces: configured.produces().to_vec(),
        on_fault: on_fault(step.on_fault),
    };
    Some((step, configured))
}

/// What a configured step reads. The statistics of a quote are looked up by name before it is priced.
fn named_reads(words: &[String]) -> Result<Reads, String> {
    let reads = Reads::parse(words).map_err(|error| error.to_string())?;
    if reads.any_stat {
        return Err("the policy must name the statistics that it reads; `usage/*` is for manifests".to_owned());
    }
    Ok(reads)
}

/// Parameters against their schema first, since a policy may trust it; then by the policy itself.
fn configure(
    findings: &mut Findings<'_>,
    pointer: &str,
    parameters: Value,
    offered: &Offered,
) -> Option<ConfiguredPolicy> {
    let violations = findings.document.violations(&offered.schema, pointer, &parameters);
    if !violations.is_empty() {
        findings.problems.extend(violations);
        return None;
    }
    match offered.policy.configure(&parameters.to_string()) {
        Ok(configured) => Some(configured),
        Err(error) => {
            findings.problems.extend(refusals(findings, pointer, error));
            None
        }
    }
}

fn refusals(findings: &Findings<'_>, pointer: &str, error: ConfigureError) -> Vec<CatalogProblem> {
    match error {
        ConfigureError::Refused(refusals) => {
            let problems = refusals.into_iter().map(|refusal| {
                let pointer = format!("{pointer}{}", refusal.pointer.unwrap_or_default());
                findings.document.problem(&pointer, refusal.detail)
            });
            problems.collect()
        }
        ConfigureError::Faulted(_) => vec![findings.document.problem(pointer, with_causes(&error))],
    }
}

fn on_fault(wire: WireOnFault) -> OnFault {
    match wire {
        WireOnFault::Refuse => OnFault::Refuse,
        WireOnFault::PreviousVersion => OnFault::PreviousVersion,
        WireOnFault::Skip => OnFault::Skip,
    }
}

#[cfg(test)]
mod tests {
    use super::named_reads;

    #[test]
    fn a_configuration_names_its_statistics() {
        let read = |words: &[&str]| named_reads(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(read(&["line.market", "usage/gpu_util/mean/7d"]).unwrap().stats.len(), 1);
        assert!(read(&["line.market", "usage/*"]).unwrap_err().contains("must name the statistics"));
        assert!(read(&["clock"]).unwrap_err().contains("`clock`"));
    }
}
