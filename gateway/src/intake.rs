//! Intake: bytes from outside become a [`QuoteRequest`], or every reason why not, all at once.
//!
//! First [`json`] reads the bytes strictly (400), then the schema and the bounds that no schema can state are checked
//! together (422). What comes out holds every bound; nothing is resolved against plans or price books yet.

pub mod body;
mod conversion;
pub mod json;

use std::collections::HashSet;

use farebox_pricing::request::QuoteRequest;
use serde::Deserialize as _;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::schema::{Schema, SchemaError, Violation, child};
use body::QuoteBody;
use json::MalformedJson;

/// A request that passed intake, beside the body as it was sent (keys sorted, numbers digit for digit).
#[derive(Clone, Debug)]
pub struct Accepted {
    pub request: QuoteRequest,
    pub body: Value,
}

#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    #[error(transparent)]
    Malformed(#[from] MalformedJson),
    #[error("the request has {} that do not fit its schema", count(.0))]
    Invalid(Vec<Violation>),
}

/// Reads quote requests.
#[derive(Debug)]
pub struct Intake {
    schema: Schema,
}

impl Intake {
    pub fn new() -> Result<Self, SchemaError> {
        Ok(Self { schema: Schema::of::<QuoteBody>()? })
    }

    pub fn read(&self, bytes: &[u8]) -> Result<Accepted, IntakeError> {
        let json::Document { value, violations } = json::read(bytes)?;
        self.accept(value, violations)
    }

    /// A body that is JSON already, such as one that was accepted and then altered.
    pub fn read_value(&self, body: Value) -> Result<Accepted, IntakeError> {
        self.accept(body, Vec::new())
    }

    fn accept(&self, body: Value, mut violations: Vec<Violation>) -> Result<Accepted, IntakeError> {
        violations.extend(self.schema.violations(&body));
        // Only a body of the right shape can be asked about its bounds.
        let request = match typed(&body) {
            Ok(quote) => conversion::request(quote, &mut violations),
            Err(error) => {
                // The schema takes `8.0` for an integer, as JSON Schema does; a count is written without a point. Most
                // other errors are known from the schema already, at the same place or inside it.
                let pointer = pointer_of(error.path());
                if !violations.iter().any(|known| known.pointer.starts_with(&pointer)) {
                    violations.push(Violation::new(pointer, "invalid", error.inner().to_string()));
                }
                None
            }
        };
        match request {
            Some(request) if violations.is_empty() => Ok(Accepted { request, body }),
            _ => Err(IntakeError::Invalid(distinct(violations))),
        }
    }
}

/// The place of an error is only looked for where there is one.
fn typed(body: &Value) -> Result<QuoteBody, serde_path_to_error::Error<serde_json::Error>> {
    QuoteBody::deserialize(body).or_else(|_| serde_path_to_error::deserialize(body))
}

/// `items[0].gpu_count` as the JSON Pointer `/items/0/gpu_count`.
fn pointer_of(path: &serde_path_to_error::Path) -> String {
    path.iter().fold(String::new(), |pointer, segment| match segment {
        Segment::Seq { index } => format!("{pointer}/{index}"),
        Segment::Map { key } => child(&pointer, key),
        Segment::Enum { variant } => child(&pointer, variant),
        Segment::Unknown => pointer,
    })
}

/// One violation a pointer and code: the schema and the bounds may both have seen it.
fn distinct(mut violations: Vec<Violation>) -> Vec<Violation> {
    let mut seen = HashSet::new();
    violations.retain(|violation| seen.insert((violation.pointer.clone(), violation.code.clone())));
    violations
}

fn count(violations: &[Violation]) -> String {
    match violations {
        [only] => format!("1 value (`{}`)", only.pointer),
        many => format!("{} values", many.len()),
    }
}
