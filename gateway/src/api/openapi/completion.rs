//! What holds for every operation, said once: what any request may be answered, and what any answer carries. And examples,
//! which a test sends.

use serde_json::{Map, Value, json};

/// Paths that are served within the bounds on requests.
const BOUNDED: &str = "/v1/";

pub(super) fn complete(document: &mut Value) {
    if let Some(components) = document.get_mut("components").and_then(Value::as_object_mut) {
        components.insert("headers".to_owned(), headers());
        components.insert("responses".to_owned(), responses());
    }
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    for (path, operations) in paths {
        for (method, operation) in operations.as_object_mut().into_iter().flatten() {
            if let Some(answers) = operation.get_mut("responses").and_then(Value::as_object_mut) {
                add_common(answers, path.starts_with(BOUNDED));
            }
            add_examples(path, method, operation);
        }
    }
}

fn add_common(answers: &mut Map<String, Value>, is_bounded: bool) {
    answers.entry("400").or_insert_with(|| json!({ "$ref": "#/components/responses/Misaddressed" }));
    if is_bounded {
        answers.entry("503").or_insert_with(|| json!({ "$ref": "#/components/responses/Overloaded" }));
    }
    for (status, answer) in answers.iter_mut() {
        let Some(members) = answer.as_object_mut().filter(|members| !members.contains_key("$ref")) else { continue };
        let headers = members.entry("headers").or_insert_with(|| json!({}));
        if let Some(headers) = headers.as_object_mut() {
            for header in headers.values_mut().filter_map(Value::as_object_mut) {
                header.insert("required".to_owned(), true.into());
            }
            headers.insert("traceparent".to_owned(), json!({ "$ref": "#/components/headers/TraceParent" }));
            headers.insert("X-Trace-Id".to_owned(), json!({ "$ref": "#/components/headers/TraceId" }));
            // `/readyz` fails until the process ends: when to ask again is its watcher's to know.
            if status == "503" && is_bounded {
                headers.insert("Retry-After".to_owned(), json!({ "$ref": "#/components/headers/RetryAfter" }));
            }
        }
    }
}

fn headers() -> Value {
    json!({
        "TraceParent": {
            "description": "W3C Trace Context: the caller's trace, or a new one, under a span of this gateway",
            "required": true,
            "schema": { "type": "string", "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$" },
        },
        "TraceId": {
            "description": "names this request in the log, and in `trace_id` of a problem",
            "required": true,
            "schema": { "type": "string", "pattern": "^[0-9a-f]{32}$" },
        },
        "RetryAfter": {
            "description": "seconds",
            "required": true,
            "schema": { "type": "string", "pattern": "^[0-9]+$" },
        },
    })
}

fn responses() -> Value {
    let problem = json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
    let traced = json!({
        "traceparent": { "$ref": "#/components/headers/TraceParent" },
        "X-Trace-Id": { "$ref": "#/components/headers/TraceId" },
    });
    let retried = json!({
        "traceparent": { "$ref": "#/components/headers/TraceParent" },
        "X-Trace-Id": { "$ref": "#/components/headers/TraceId" },
        "Retry-After": { "$ref": "#/components/headers/RetryAfter" },
    });
    json!({
        "Misaddressed": {
            "description": "`invalid-request`: an HTTP/1.1 request without one `Host`",
            "content": problem,
            "headers": traced,
        },
        "Overloaded": {
            "description": "`overloaded`: too many requests at once, or this one took too long; retry after `Retry-After`",
            "content": problem,
            "headers": retried,
        },
    })
}

/// Requests that a test sends, and the answers that it gets to them.
fn add_examples(path: &str, method: &str, operation: &mut Value) {
    let examples: &[(&str, &str, &str)] = match (method, path) {
        ("post", "/v1/quotes") => &[
            ("/requestBody/content/application~1json", "8 A100 for 72 hours", include_str!("quote_request.json")),
            ("/responses/201/content/application~1json", "9300.10 CNY", include_str!("quote_answer.json")),
            ("/responses/422/content/application~1problem+json", "two violations", include_str!("quote_problem.json")),
        ],
        ("post", "/v1/usage-snapshots") => &[
            ("/requestBody/content/application~1json", "82 % over 7 days", include_str!("snapshot_request.json")),
            ("/responses/202/content/application~1json", "taken", r#"{"applied":true}"#),
        ],
        ("get", "/v1/catalog") => {
            &[("/responses/200/content/application~1json", "A100 in CNY", include_str!("catalog_answer.json"))]
        }
        _ => &[],
    };
    for (pointer, summary, text) in examples {
        let Some(Value::Object(content)) = operation.pointer_mut(pointer) else { continue };
        // INVARIANT: the files are JSON; a test reads them back out of the document.
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        content.insert("examples".to_owned(), json!({ "example": { "summary": summary, "value": value } }));
    }
}
