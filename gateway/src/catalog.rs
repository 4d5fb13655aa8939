//! The catalogue: tenants, price books and plans of a data directory, and the policies that plans run.
//!
//! [`Catalog::load`] reads everything and tells every problem at once, with file, line and column; what is broken, and what
//! depends on it, is left out and takes nothing else down. [`Catalog::resolve`] turns a request into an offer.
//!
//! ```text
//! <data>/price-books/*.toml   <data>/plans/*.toml   <data>/tenants/*.toml   <policies>/*.wasm
//! ```
//!
//! A catalogue never changes: a reload makes another one.

mod advice_rules;
mod digest;
mod document;
mod facts;
mod files;
mod findings;
mod listing;
mod plan_choice;
mod plans;
mod policies;
mod price_books;
mod problem;
mod resolve;
mod shelf;
mod steps;
mod tenants;
#[cfg(test)]
mod tests;
pub mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use farebox_pricing::plan::Plan;
use farebox_pricing::price_book::PriceBook;
use farebox_sandbox::{ConfiguredPolicy, Sandbox};
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::ToSchema;

use crate::schema::Schema;
use document::Document;
use policies::Policies;
use shelf::Shelf;
use wire::{WirePlan, WirePriceBook, WireTenant};

pub use advice_rules::AdviceRules;
pub use listing::{Listing, Offering, OfferingId, Selection};
pub use problem::{CatalogProblem, Place};
pub use resolve::{OfferError, OfferNote, Resolved};
pub use tenants::Tenant;
pub use wire::AdviceCode;

/// What is sold, without what is broken. Every plan is complete: its book is there and all of its steps are configured.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// By id.
    pub tenants: BTreeMap<String, Tenant>,
    /// By name.
    pub plans: BTreeMap<String, Arc<PlanVersion>>,
    /// Names of plans that are broken.
    plans_left_out: BTreeSet<String>,
    /// Hash of the engine that the policies are compiled for, and its settings.
    pub engine: String,
    /// What was left out and why, in order of file, line and column.
    pub problems: Vec<CatalogProblem>,
    pub tallies: Tallies,
    /// Policies that nobody had to compile for this catalogue.
    pub policies_from_code_cache: usize,
}

/// How much there is of what a catalogue is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tallies {
    pub plans: Tally,
    pub price_books: Tally,
    pub tenants: Tally,
    pub policies: Tally,
}

/// How many are good, and how many had to be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub good: usize,
    pub left_out: usize,
}

/// A plan with everything that it takes to price.
#[derive(Clone, Debug)]
pub struct PlanVersion {
    pub plan: Arc<Plan>,
    /// By step index.
    pub policies: Arc<[ConfiguredPolicy]>,
    pub book: Arc<PriceBook>,
    /// When its quotes give advice.
    pub advice: AdviceRules,
}

impl Catalog {
    /// Reads `data` and the policies of `policies`. Compiles, so it takes up to a second a policy.
    pub fn load(data: &Path, policies: &Path, sandbox: &Sandbox) -> Self {
        let mut loading = Loading { data, problems: Vec::new() };
        let policies = Policies::load(policies, sandbox, &mut loading.problems);
        let books = loading.folder("price-books", ("price book", "name"), |document, wire: WirePriceBook| {
            all_or_nothing(price_books::read(document, wire).map(Arc::new))
        });
        let parts = plans::Parts { books: &books, policies: &policies };
        let plans = loading.folder("plans", ("plan", "name"), |document, wire: WirePlan| {
            all_or_nothing(plans::read(document, wire, parts).map(Arc::new))
        });
        let tenants = loading
            .folder("tenants", ("tenant", "id"), |document, wire: WireTenant| tenants::read(document, wire, &plans));
        let mut problems = loading.problems;
        problems.sort();
        let tallies = Tallies {
            plans: plans.tally(),
            price_books: books.tally(),
            tenants: tenants.tally(),
            policies: policies.tally(),
        };
        let policies_from_code_cache = policies.cached();
        let plans_left_out = plans.left_out().cloned().collect();
        Self {
            tenants: tenants.into_items(),
            plans: plans.into_items(),
            plans_left_out,
            engine: sandbox.engine_hash(),
            problems,
            tallies,
            policies_from_code_cache,
        }
    }
}

/// Reads the folders of a data directory.
struct Loading<'a> {
    data: &'a Path,
    problems: Vec<CatalogProblem>,
}

impl Loading<'_> {
    /// Reads every document of a folder; `named` is what one is called and the field that names it.
    fn folder<Wire: ToSchema + DeserializeOwned, T>(
        &mut self,
        folder: &str,
        (what, name_field): (&'static str, &str),
        read: impl Fn(&Document, Wire) -> (Option<T>, Vec<CatalogProblem>),
    ) -> Shelf<T> {
        let mut shelf = Shelf::of(what);
        let schema = match Schema::of::<Wire>() {
            Ok(schema) => schema,
            Err(error) => {
                self.problems.push(CatalogProblem::of_file(folder, &error.to_string()));
                return shelf;
            }
        };
        for file in files::list(&self.data.join(folder), folder, "toml", &mut self.problems) {
            let Ok(text) = std::str::from_utf8(&file.bytes) else {
                self.problems.push(CatalogProblem::of_file(&file.path, "the file is not UTF-8 text"));
                shelf.leave_out_nameless();
                continue;
            };
            let (document, syntax) = Document::read(&file.path, text);
            let (item, problems) = if syntax.is_empty() {
                match document.typed::<Wire>(&schema) {
                    Ok(wire) => read(&document, wire),
                    Err(problems) => (None, problems),
                }
            } else {
                (None, syntax)
            };
            self.problems.extend(problems);
            match document.value().get(name_field).and_then(Value::as_str) {
                Some(name) => {
                    if let Err(message) = shelf.put(name, document.path(), item) {
                        self.problems.push(document.problem(&format!("/{name_field}"), message));
                    }
                }
                None => shelf.leave_out_nameless(),
            }
        }
        shelf
    }
}

fn all_or_nothing<T>(read: Result<T, Vec<CatalogProblem>>) -> (Option<T>, Vec<CatalogProblem>) {
    match read {
        Ok(item) => (Some(item), Vec::new()),
        Err(problems) => (None, problems),
    }
}
