//! What a policy's crate answered natively: a file that the SDK's `golden_cases` writes when it is asked to.

use std::path::Path;

use farebox_pricing::policy::{Manifest, Scope};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::cases::wire;
use super::trial::Tried;

/// Names the directory where the SDK writes `<policy>.json`.
pub const ANSWERS_VARIABLE: &str = "CASE_ANSWERS";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeAnswers {
    manifest: NativeManifest,
    cases: Vec<NativeCase>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NativeManifest {
    name: String,
    version: String,
    scope: String,
    reads: Vec<String>,
    produces: Vec<String>,
    parameters_schema: String,
    facts: Vec<wire::Fact>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NativeCase {
    name: String,
    configuration: Option<NativeConfiguration>,
    answer: Box<RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NativeConfiguration {
    bytes: Vec<u8>,
    reads: Vec<String>,
    produces: Vec<String>,
}

/// Native answers that are not there or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswers {
    #[error(
        "its tests do not run its cases; add `#[test] fn golden_cases() {{ farebox_sdk::testing::golden_cases(&POLICY) }}`"
    )]
    NotWritten,
    #[error("its native answers cannot be read; build it with the SDK of this `farebox`")]
    Unreadable(#[source] serde_json::Error),
}

impl NativeAnswers {
    /// The answers of the policy `name` in `directory`.
    ///
    /// # Errors
    /// What the author can do about it.
    pub fn read(directory: &Path, name: &str) -> Result<Self, NoAnswers> {
        let text =
            std::fs::read_to_string(directory.join(format!("{name}.json"))).map_err(|_| NoAnswers::NotWritten)?;
        serde_json::from_str(&text).map_err(NoAnswers::Unreadable)
    }

    /// The first part of the manifest that is another in the sandbox.
    pub fn manifest_differs(&self, sandboxed: &Manifest) -> Option<&'static str> {
        let native = &self.manifest;
        let scope = match sandboxed.scope {
            Scope::Line => "Line",
            Scope::Quote => "Quote",
        };
        let facts = sandboxed.facts.iter().map(|fact| (&fact.key, &fact.value));
        let parts = [
            ("name", native.name == sandboxed.name),
            ("version", native.version == sandboxed.version),
            ("scope", native.scope == scope),
            ("reads", native.reads == sandboxed.reads),
            ("produces", native.produces == sandboxed.produces),
            ("parameters_schema", native.parameters_schema == sandboxed.parameters_schema),
            ("facts", facts.eq(native.facts.iter().map(|fact| (&fact.key, &fact.value)))),
        ];
        parts.into_iter().find(|(_, same)| !same).map(|(part, _)| part)
    }

    /// What a case answered, as JSON.
    pub fn answer(&self, case: &str) -> Option<&str> {
        self.case(case).map(|case| case.answer.get())
    }

    /// The first part of a case's configuration that is another in the sandbox.
    pub fn configuration_differs(&self, case: &str, sandboxed: &Tried) -> Option<&'static str> {
        let native = self.case(case)?.configuration.as_ref();
        match (native, &sandboxed.configured) {
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => Some("acceptance"),
            (Some(native), Some(configured)) => {
                let parts = [
                    ("bytes", native.bytes == configured.bytes()),
                    ("reads", native.reads == configured.reads()),
                    ("produces", native.produces == configured.produces()),
                ];
                parts.into_iter().find(|(_, same)| !same).map(|(part, _)| part)
            }
        }
    }

    fn case(&self, name: &str) -> Option<&NativeCase> {
        self.cases.iter().find(|case| case.name == name)
    }
}
