//! The policies of a directory, by `name@version`.

use std::path::Path;

use farebox_sandbox::{Policy, Sandbox};
use serde_json::Value;

use super::files;
use super::problem::CatalogProblem;
use super::shelf::{Shelf, there_are};
use crate::causes::with_causes;
use crate::schema::Schema;

/// A policy and the schema of its parameters.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) policy: Policy,
    pub(super) schema: Schema,
}

#[derive(Debug)]
pub(super) struct Policies {
    shelf: Shelf<Offered>,
}

impl Policies {
    /// Loads every `*.wasm` of a directory; one that cannot be loaded is a problem and leaves the others alone.
    pub(super) fn load(directory: &Path, sandbox: &Sandbox, problems: &mut Vec<CatalogProblem>) -> Self {
        let mut shelf: Shelf<Offered> = Shelf::of("policy");
        for file in files::list(directory, "policies", "wasm", problems) {
            let mut wrong = |message: &str| problems.push(CatalogProblem::of_file(&file.path, message));
            let policy = match sandbox.load(&file.bytes) {
                Ok(policy) => policy,
                Err(error) => {
                    wrong(&with_causes(&error));
                    continue;
                }
            };
            let id = format!("{}@{}", policy.manifest().name, policy.manifest().version);
            if shelf.peek(&id).is_some_and(|same| same.policy.digest() == policy.digest()) {
                // A second copy of the same bytes is no contradiction.
                continue;
            }
            let offered = offer(policy).map_err(|message| wrong(&message)).ok();
            if let Err(message) = shelf.put(&id, &file.path, offered) {
                wrong(&message);
            }
        }
        Self { shelf }
    }

    /// A policy, or a sentence that says why there is none.
    pub(super) fn get(&self, id: &str) -> Result<&Offered, String> {
        let (name, version) = id.split_once('@').unwrap_or((id, ""));
        let of_name = |other: &&String| other.split_once('@').is_some_and(|(other, _)| other == name);
        let versions: Vec<&String> = self.shelf.names().filter(of_name).collect();
        if versions.is_empty() || self.shelf.knows(id) {
            return self.shelf.get(id);
        }
        Err(format!("policy `{name}` has no version `{version}`; {}", there_are(versions.into_iter())))
    }
}

fn offer(policy: Policy) -> Result<Offered, String> {
    let document = serde_json::from_str::<Value>(&policy.manifest().parameters_schema)
        .map_err(|error| format!("the schema of its parameters is not JSON: {error}"))?;
    let schema = Schema::compile(&document).map_err(|error| with_causes(&error))?;
    Ok(Offered { policy, schema })
}
