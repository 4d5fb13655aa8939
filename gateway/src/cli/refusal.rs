//! A problem of the API as sentences for a person.

use serde_json::Value;

use super::Failure;
use super::exit::Exit;
use crate::api::Problem;
use crate::printable::printable;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// `invalid-request`
    pub(super) slug: String,
    pub(super) detail: String,
    /// JSON Pointer, code and sentence of each fault.
    pub(super) faults: Vec<[String; 3]>,
    /// Names the request in the server's logs.
    trace_id: Option<String>,
}

impl Refusal {
    /// A problem of the road that runs in this process.
    pub(super) fn of_road(problem: Problem) -> Self {
        let faults = problem.errors.into_iter().map(|fault| [fault.pointer, fault.code, fault.detail]).collect();
        Self { slug: problem.kind.slug().to_owned(), detail: problem.detail, faults, trace_id: None }
    }

    /// A body of `application/problem+json`; `None` if it is none.
    pub(super) fn of_answer(body: &Value) -> Option<Self> {
        let text = |value: &Value, name: &str| printable(value.get(name).and_then(Value::as_str).unwrap_or_default());
        let slug = body.get("type")?.as_str()?.rsplit('/').next()?.to_owned();
        let faults = body.get("errors").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let faults = faults.iter().map(|fault| ["pointer", "code", "detail"].map(|name| text(fault, name))).collect();
        let trace_id = body.get("trace_id").and_then(Value::as_str).map(str::to_owned);
        Some(Self { slug, detail: text(body, "detail"), faults, trace_id })
    }

    pub(super) fn failure(self, exit: Exit) -> Failure {
        Failure::saying(self.sentence()).ending(exit)
    }

    /// The detail, then each fault with its place. Where one fault is all, the detail is it.
    fn sentence(&self) -> String {
        let Self { slug, detail, faults, trace_id } = self;
        let shown = |pointer: &str| if pointer.is_empty() { "the whole".to_owned() } else { pointer.to_owned() };
        let mut sentence = match faults.as_slice() {
            [] => format!("{slug}: {detail}"),
            [[pointer, _, fault]] if detail.contains(fault) => format!("{slug}: {detail} (at {})", shown(pointer)),
            [[pointer, _, fault]] => format!("{slug}: {detail}: {fault} (at {})", shown(pointer)),
            many => {
                let rows = many.iter().map(|[pointer, _, detail]| format!("\n  {}: {detail}", shown(pointer)));
                format!("{slug}: {} things are wrong{}", many.len(), rows.collect::<String>())
            }
        };
        if let Some(trace_id) = trace_id.as_deref().filter(|_| faults.is_empty()) {
            sentence.push_str(&format!(" (trace {trace_id})"));
        }
        sentence
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_fault_has_its_place() {
        let answer = json!({"type": "/problems/invalid-request", "detail": "no; and 1 more, see `errors`", "trace_id": "t",
            "errors": [{"pointer": "/items/0/hours", "code": "c", "detail": "no"}, {"pointer": "", "code": "c", "detail": "nor"}]});
        let refusal = Refusal::of_answer(&answer).unwrap();
        assert_eq!(refusal.sentence(), "invalid-request: 2 things are wrong\n  /items/0/hours: no\n  the whole: nor");
        let one = Refusal { faults: refusal.faults[..1].to_vec(), detail: "no".to_owned(), ..refusal.clone() };
        assert_eq!(one.sentence(), "invalid-request: no (at /items/0/hours)");
        let other = Refusal { detail: "it is wrong".to_owned(), ..one };
        assert_eq!(other.sentence(), "invalid-request: it is wrong: no (at /items/0/hours)");
        let none = Refusal { faults: Vec::new(), slug: "overloaded".to_owned(), detail: "busy".to_owned(), ..refusal };
        assert_eq!(none.sentence(), "overloaded: busy (trace t)");
        assert_eq!(Refusal::of_answer(&json!({"error": "x"})), None);
        assert_eq!(Refusal::of_answer(&json!("x")), None);
    }
}
