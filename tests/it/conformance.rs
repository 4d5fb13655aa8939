//! Every answer that a test gets is held against the OpenAPI document: its status, its media type, its body, its headers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use farebox::schema::Schema;
use serde_json::Value;
use ureq::http::HeaderMap;

/// A request, as far as the document speaks of it, and its answer.
pub struct Exchange<'a> {
    pub method: &'a str,
    /// With or without a query.
    pub path: &'a str,
    pub status: u16,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

/// The document, and the schemas of it that were needed so far, by their pointers.
pub struct Document {
    json: Value,
    schemas: Mutex<HashMap<String, Arc<Schema>>>,
}

impl Document {
    /// The document of this run: every gateway serves the same.
    pub fn of_run(read: impl FnOnce() -> Value) -> &'static Self {
        static DOCUMENT: OnceLock<Document> = OnceLock::new();
        DOCUMENT.get_or_init(|| Self::new(read()))
    }

    pub fn new(json: Value) -> Self {
        Self { json, schemas: Mutex::default() }
    }

    /// What of an answer is not as documented.
    pub fn check(&self, exchange: &Exchange<'_>) -> Result<(), String> {
        let path = exchange.path.split('?').next().unwrap_or_default();
        let method = exchange.method.to_ascii_lowercase();
        let operations = self.json["paths"].as_object().unwrap();
        let template = operations.keys().find(|template| matches(template, path));
        let is_read = method == "head" || method == "get";
        let documented = if is_read { "get" } else { &method };
        match template {
            // What is wrong with any request comes before what is asked.
            _ if exchange.status == 400 && !exchange.headers.contains_key("location") && template.is_none() => {
                self.check_problem(exchange)
            }
            None => self.expect(exchange, 404).and_then(|()| self.check_problem(exchange)),
            Some(template) if operations[template].get(documented).is_some() => {
                let pointer = format!("/paths/{}/{documented}/responses/{}", escape(template), exchange.status);
                self.check_answer(&pointer, exchange, method == "head")
            }
            Some(_) if method == "options" && is_preflight_answer(exchange) => Ok(()),
            Some(_) if method == "options" => self.expect(exchange, 204).and_then(|()| allows(exchange)),
            Some(_) => {
                self.expect(exchange, 405)?;
                allows(exchange)?;
                self.check_problem(exchange)
            }
        }
    }

    fn expect(&self, exchange: &Exchange<'_>, status: u16) -> Result<(), String> {
        if exchange.status == status { Ok(()) } else { Err(format!("not documented, and not {status}")) }
    }

    fn check_problem(&self, exchange: &Exchange<'_>) -> Result<(), String> {
        let media_type = header(exchange.headers, "content-type");
        if media_type != Some("application/problem+json") {
            return Err(format!("a problem is of type {media_type:?}"));
        }
        match exchange.method {
            "HEAD" => Ok(()),
            _ => self.check_json("/components/schemas/Problem", exchange.body),
        }
    }

    fn check_answer(&self, pointer: &str, exchange: &Exchange<'_>, is_head: bool) -> Result<(), String> {
        let (pointer, answer) = self.resolved(pointer.to_owned()).ok_or("this status is not documented")?;
        self.check_headers(&pointer, exchange.headers)?;
        let Some(content) = answer.get("content").and_then(Value::as_object) else {
            return if exchange.body.is_empty() { Ok(()) } else { Err("no body is documented".to_owned()) };
        };
        let media_type = header(exchange.headers, "content-type").ok_or("there is no content type")?;
        if !content.contains_key(media_type) {
            return Err(format!("the content type `{media_type}` is not documented"));
        }
        if is_head || header(exchange.headers, "content-encoding").is_some() {
            return Ok(());
        }
        if !media_type.contains("json") {
            return if exchange.body.is_empty() { Err("the body is empty".to_owned()) } else { Ok(()) };
        }
        self.check_json(&format!("{pointer}/content/{}/schema", escape(media_type)), exchange.body)
    }

    fn check_headers(&self, answer: &str, headers: &HeaderMap) -> Result<(), String> {
        let documented = self.json.pointer(&format!("{answer}/headers")).and_then(Value::as_object);
        for name in documented.into_iter().flatten().map(|(name, _)| name) {
            let (pointer, object) = self.resolved(format!("{answer}/headers/{}", escape(name))).unwrap();
            match header(headers, name) {
                Some(value) => self.check_value(&format!("{pointer}/schema"), &Value::from(value))?,
                None if object["required"] == true => return Err(format!("the header `{name}` is missing")),
                None => {}
            }
        }
        Ok(())
    }

    fn check_json(&self, pointer: &str, body: &[u8]) -> Result<(), String> {
        let value = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
        self.check_value(pointer, &value)
    }

    /// Holds a value against the schema at `pointer`.
    pub fn check_value(&self, pointer: &str, value: &Value) -> Result<(), String> {
        let known = self.schemas.lock().unwrap().get(pointer).cloned();
        let schema = known.unwrap_or_else(|| {
            let mut root = self.json.clone();
            // A reference is a URI, where braces are written otherwise.
            root["$ref"] = format!("#{}", pointer.replace('{', "%7B").replace('}', "%7D")).into();
            let schema = Schema::compile(&root).unwrap_or_else(|error| panic!("{pointer}: {error}"));
            let schema = Arc::new(schema);
            self.schemas.lock().unwrap().insert(pointer.to_owned(), Arc::clone(&schema));
            schema
        });
        match schema.violations(value) {
            violations if violations.is_empty() => Ok(()),
            violations => Err(format!("against {pointer}: {violations:?}")),
        }
    }

    /// What is at a pointer, references followed, and where it really is.
    fn resolved(&self, pointer: String) -> Option<(String, &Value)> {
        let found = self.json.pointer(&pointer)?;
        match found.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.resolved(reference.trim_start_matches('#').to_owned()),
            None => Some((pointer, found)),
        }
    }
}

/// `/v1/quotes/{id}` matches `/v1/quotes/q_1`.
fn matches(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    let fits =
        |(expected, found): (&&str, &&str)| expected == found || (expected.starts_with('{') && !found.is_empty());
    template.len() == path.len() && template.iter().zip(&path).all(fits)
}

fn is_preflight_answer(exchange: &Exchange<'_>) -> bool {
    exchange.status == 200 && exchange.headers.contains_key("access-control-allow-methods")
}

fn allows(exchange: &Exchange<'_>) -> Result<(), String> {
    if header(exchange.headers, "allow").is_some_and(|allowed| allowed.contains("OPTIONS")) {
        Ok(())
    } else {
        Err(format!("`Allow` is {:?}", exchange.headers.get("allow")))
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The check itself can fail: on each thing that it looks at.
#[test]
fn what_is_not_documented_is_found() {
    let document = Document::new(serde_json::json!({
        "paths": { "/a/{id}": { "get": { "responses": { "200": {
            "headers": { "ETag": { "required": true, "schema": { "type": "string", "pattern": "^\"" } } },
            "content": { "application/json": { "schema": { "$ref": "#/components/schemas/A" } } },
        } } } } },
        "components": { "schemas": { "A": { "type": "object", "required": ["b"] }, "Problem": { "required": ["type"] } } },
    }));
    let answer = |method: &str, path: &str, status: u16, headers: &[(&str, &str)], body: &str| {
        let headers = headers.iter().map(|(name, value)| {
            (name.parse::<ureq::http::HeaderName>().unwrap(), value.parse::<ureq::http::HeaderValue>().unwrap())
        });
        let (headers, body) = (headers.collect(), body.as_bytes());
        document.check(&Exchange { method, path, status, headers: &headers, body })
    };
    let json = ("content-type", "application/json");
    let problem = ("content-type", "application/problem+json");
    let tag = ("etag", "\"t\"");
    let allow = ("allow", "GET,HEAD,OPTIONS");
    let (fits, problem_body) = (r#"{"b":1}"#, r#"{"type":"x"}"#);
    assert_eq!(answer("GET", "/a/1?q=2", 200, &[json, tag], fits), Ok(()));
    assert_eq!(answer("HEAD", "/a/1", 200, &[json, tag], ""), Ok(()));
    assert_eq!(answer("GET", "/nowhere", 404, &[problem], problem_body), Ok(()));
    assert_eq!(answer("PUT", "/a/1", 405, &[problem, allow], problem_body), Ok(()));
    assert_eq!(answer("OPTIONS", "/a/1", 204, &[allow], ""), Ok(()));
    let wrong = [
        answer("GET", "/a/1", 200, &[json, tag], "{}"),
        answer("GET", "/a/1", 200, &[json, tag], "{"),
        answer("GET", "/a/1", 200, &[json], fits),
        answer("GET", "/a/1", 200, &[json, ("etag", "t")], fits),
        answer("GET", "/a/1", 200, &[("content-type", "text/plain"), tag], fits),
        answer("GET", "/a/1", 200, &[tag], fits),
        answer("GET", "/a/1", 201, &[json, tag], fits),
        answer("GET", "/nowhere", 200, &[json], fits),
        answer("GET", "/nowhere", 404, &[problem], "{}"),
        answer("GET", "/a/", 200, &[json, tag], fits),
        answer("PUT", "/a/1", 405, &[problem], problem_body),
        answer("PUT", "/a/1", 200, &[json, allow], fits),
        answer("OPTIONS", "/a/1", 204, &[], ""),
    ];
    for (index, wrong) in wrong.into_iter().enumerate() {
        assert!(wrong.is_err(), "{index}");
    }
}
