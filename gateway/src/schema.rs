//! JSON Schemas of the wire types, and all violations of a document at once.
//!
//! A wire type derives its schema (`utoipa::ToSchema`); the same schema is published in the OpenAPI document and checked
//! here, so that the two cannot drift apart.

mod decimal;

use std::collections::BTreeMap;

use farebox_pricing::exact;
use jsonschema::Validator;
use jsonschema::error::{ValidationError, ValidationErrorKind};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::suggestion::did_you_mean;

pub use decimal::WireDecimal;

/// One thing that is wrong with a document. `pointer` is a JSON Pointer into it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Violation {
    pub pointer: String,
    pub code: String,
    pub detail: String,
}

impl Violation {
    pub fn new(pointer: impl Into<String>, code: &str, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), code: code.to_owned(), detail: detail.into() }
    }
}

/// The pattern of decimals in the parameter schemas that the SDK derives.
const SDK_DECIMAL: &str = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$";
/// Most violations that one document is told.
pub const MAX_VIOLATIONS: usize = 1_000;
/// Of the unknown members of one object, how many are compared with the known ones: comparing costs.
const MOST_SUGGESTIONS: usize = 24;

/// The compiled schema of one wire type.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    /// What the validator was made of, to look up what was meant by a name that it does not know.
    document: Value,
}

/// A schema that cannot be compiled: a defect for our own types, bad input for a policy's.
#[derive(Debug, thiserror::Error)]
#[error("the JSON Schema is not usable: {0}")]
pub struct SchemaError(String);

impl Schema {
    pub fn of<Wire: ToSchema>() -> Result<Self, SchemaError> {
        Self::compile(&document_of::<Wire>())
    }

    /// Compiles a schema document. Remote references are not followed; patterns are matched in linear time.
    pub fn compile(document: &Value) -> Result<Self, SchemaError> {
        let options = jsonschema::draft202012::options()
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .should_validate_formats(false);
        let validator = options.build(document).map_err(|error| SchemaError(shorten(&error.to_string())))?;
        Ok(Self { validator, document: document.clone() })
    }

    /// Every violation, in the order of the document; of a document that is wrong all over, the first thousand.
    pub fn violations(&self, document: &Value) -> Vec<Violation> {
        // Nearly every document is valid, which is quicker seen than why another one is not.
        if self.validator.is_valid(document) {
            return Vec::new();
        }
        let errors = self.validator.iter_errors(document);
        errors.flat_map(|error| violations_of(&error, &self.document)).take(MAX_VIOLATIONS).collect()
    }
}

/// The schema of a wire type as a document of its own, for editors.
pub fn document_of<Wire: ToSchema>() -> Value {
    let mut referenced = Vec::new();
    Wire::schemas(&mut referenced);
    let components: BTreeMap<_, _> =
        referenced.into_iter().chain([(Wire::name().into_owned(), Wire::schema())]).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": format!("#/components/schemas/{}", Wire::name()),
        "components": { "schemas": components },
    })
}

/// The violations that an error stands for: one for each member at fault, and those of the branch that was meant.
fn violations_of(error: &ValidationError<'_>, schema: &Value) -> Vec<Violation> {
    let path = error.instance_path().to_string();
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = names_beside(error.schema_path().as_str(), schema);
            let unknown = unexpected.iter().take(MAX_VIOLATIONS).enumerate().map(|(position, name)| {
                let known = known.iter().copied().filter(|_| position < MOST_SUGGESTIONS);
                let meant = did_you_mean(name, known);
                let detail = format!("`{}` is not a known field{meant}", shorten(name));
                Violation::new(child(&path, name), "unknown_field", detail)
            });
            unknown.collect()
        }
        ValidationErrorKind::Enum { options } => {
            let mut violation = general(error, path);
            let options = options.as_array().map_or(&[][..], Vec::as_slice);
            if let Value::String(written) = &**error.instance() {
                violation.detail = not_one_of(written, &options.iter().filter_map(Value::as_str).collect::<Vec<_>>());
            }
            vec![violation]
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![Violation::new(child(&path, name), "required", format!("`{name}` is missing"))]
        }
        ValidationErrorKind::Pattern { pattern } if [exact::PATTERN, SDK_DECIMAL].contains(&pattern.as_str()) => {
            let written = error.instance().as_str().unwrap_or_default();
            let why = exact::parse(written).map_or_else(|error| error.to_string(), |_| "too many digits".to_owned());
            vec![Violation::new(path, "not_a_plain_decimal", why)]
        }
        ValidationErrorKind::Pattern { .. } => {
            let mut violation = general(error, path);
            if let Some(example) = example_beside(error.schema_path().as_str(), schema) {
                violation.detail.push_str(&format!("; write it like `{example}`"));
            }
            vec![violation]
        }
        ValidationErrorKind::OneOfNotValid { context } | ValidationErrorKind::AnyOf { context } => {
            match meant(context, &path) {
                Some(branch) => branch.iter().flat_map(|error| violations_of(error, schema)).collect(),
                None => vec![general(error, path)],
            }
        }
        _ => vec![general(error, path)],
    }
}

/// `"weekly" is not one of `guaranteed`, `on_demand`, `spot``, and what is nearest; of many options the first.
fn not_one_of(written: &str, options: &[&str]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> = options.iter().take(SHOWN).map(|option| format!("`{option}`")).collect();
    let more = match options.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let meant = did_you_mean(written, options.iter().copied());
    format!("`{}` is not one of {}{more}{meant}", shorten(written), shown.join(", "))
}

/// The example that a schema gives beside a keyword of its.
fn example_beside<'a>(keyword: &str, schema: &'a Value) -> Option<&'a str> {
    let parent = schema.pointer(keyword.rsplit_once('/')?.0)?;
    parent.get("example").or_else(|| parent.pointer("/examples/0"))?.as_str()
}

/// The properties that a schema knows where it forbids others.
fn names_beside<'a>(keyword: &str, schema: &'a Value) -> Vec<&'a str> {
    let parent = keyword.rsplit_once('/').map_or("", |(parent, _)| parent);
    let properties = schema.pointer(&format!("{parent}/properties")).and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str)).collect()
}

/// An optional member is "null or this": the branch that was meant is the one that does not merely want another type.
fn meant<'a>(branches: &'a [Vec<ValidationError<'static>>], path: &str) -> Option<&'a Vec<ValidationError<'static>>> {
    branches.iter().find(|branch| {
        !branch.iter().any(|error| {
            error.instance_path().to_string() == path && matches!(error.kind(), ValidationErrorKind::Type { .. })
        })
    })
}

/// The validator's own sentence; what a caller sent is repeated only where it is short.
fn general(error: &ValidationError<'_>, path: String) -> Violation {
    let is_compound = error.instance().is_array() || error.instance().is_object();
    let sentence = if is_compound { error.masked_with("this value").to_string() } else { error.to_string() };
    Violation::new(path, &snake_case(error.kind().keyword()), shorten(&sentence))
}

/// The pointer of a member, its name escaped as RFC 6901 says.
pub fn child(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", shorten(name).replace('~', "~0").replace('/', "~1"))
}

fn snake_case(keyword: &str) -> String {
    let mut code = String::with_capacity(keyword.len());
    for letter in keyword.chars() {
        if letter.is_ascii_uppercase() {
            code.push('_');
        }
        code.push(letter.to_ascii_lowercase());
    }
    code
}

/// Callers' own text comes back in messages, but not without end.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
