//! The policies of a directory, by `name@version`.

use std::collections::BTreeMap;
use std::path::Path;

use farebox_sandbox::{Policy, Sandbox};
use serde_json::Value;

use super::Tally;
use super::files;
use super::problem::CatalogProblem;
use super::shelf::{Missing, Shelf, there_are};
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
    /// By file name without its extension, which is the policy's name where `farebox policy build` wrote it.
    not_loaded: BTreeMap<String, String>,
}

impl Policies {
    /// Loads every `*.wasm` of a directory; one that cannot be loaded is a problem and leaves the others alone.
    pub(super) fn load(directory: &Path, sandbox: &Sandbox, problems: &mut Vec<CatalogProblem>) -> Self {
        let mut shelf: Shelf<Offered> = Shelf::of("policy");
        let mut not_loaded = BTreeMap::new();
        for file in files::list(directory, "policies", "wasm", problems) {
            let mut wrong = |message: &str| problems.push(CatalogProblem::of_file(&file.path, message));
            let policy = match sandbox.load(&file.bytes) {
                Ok(policy) => policy,
                Err(error) => {
                    wrong(&with_causes(&error));
                    let name = file.path.trim_start_matches("policies/").trim_end_matches(".wasm");
                    not_loaded.insert(name.to_owned(), file.path.clone());
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
        Self { shelf, not_loaded }
    }

    /// How many are there, and how many files could not be loaded.
    pub(super) fn tally(&self) -> Tally {
        let shelved = self.shelf.tally();
        Tally { left_out: shelved.left_out.saturating_add(self.not_loaded.len()), ..shelved }
    }

    /// How many were not compiled for this catalogue.
    pub(super) fn cached(&self) -> usize {
        let is_cached = |id: &&String| self.shelf.peek(id).is_some_and(|offered| offered.policy.is_cached());
        self.shelf.names().filter(is_cached).count()
    }

    /// A policy, or why there is none.
    pub(super) fn get(&self, id: &str) -> Result<&Offered, Missing> {
        let (name, version) = id.split_once('@').unwrap_or((id, ""));
        let of_name = |other: &&String| other.split_once('@').is_some_and(|(other, _)| other == name);
        let versions: Vec<&String> = self.shelf.names().filter(of_name).collect();
        if self.shelf.knows(id) {
            return self.shelf.get(id);
        }
        if !versions.is_empty() {
            let sentence = format!("policy `{name}` has no version `{version}`; {}", there_are(versions.into_iter()));
            return Err(Missing { sentence, because: None });
        }
        match self.not_loaded.get(name) {
            Some(path) => {
                let sentence = format!("policy `{id}` is left out; see the problems of {path}");
                Err(Missing { sentence, because: Some(path.clone()) })
            }
            None => self.shelf.get(id),
        }
    }
}

fn offer(policy: Policy) -> Result<Offered, String> {
    let document = serde_json::from_str::<Value>(&policy.manifest().parameters_schema)
        .map_err(|error| format!("the schema of its parameters is not JSON: {error}"))?;
    let schema = Schema::compile(&document).map_err(|error| with_causes(&error))?;
    Ok(Offered { policy, schema })
}
