//! A job as JSON: in job calls, and in the file that keeps them. All violations are told at once, with pointers.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::super::holding::{self, MOST_PARTS, MOST_WORKLOADS, WHOLE};
use crate::meter::{Job, JobEnd, Part, Workload};

const LISTS: [&str; 4] = ["parts", "pods", "containers", "cgroups"];
const PART: [&str; 3] = ["gpu", "instance", "share"];
const NAMES: [&str; 2] = ["tenant", "job"];
/// Most violations that one body is told.
const MOST_VIOLATIONS: usize = 100;

/// One thing that is wrong with a body. `pointer` is a JSON Pointer into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    pub(crate) pointer: String,
    pub(crate) code: &'static str,
    pub(crate) detail: String,
}

#[derive(Debug, Default)]
struct Check(Vec<Violation>);

/// The body of a start.
pub(crate) fn read_job(tenant: &str, job: &str, body: &Value) -> Result<Job, Vec<Violation>> {
    let mut check = Check::default();
    let job = check.named(tenant, job, body, &[]);
    check.done(job)
}

/// A job with its names in it, as [`named_job`] writes it.
pub(crate) fn read_named_job(body: &Value) -> Result<Job, Vec<Violation>> {
    let mut check = Check::default();
    let name = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let job = check.named(name("tenant"), name("job"), body, &NAMES);
    check.done(job)
}

pub(crate) fn read_end(word: &str) -> Option<JobEnd> {
    [JobEnd::Ended, JobEnd::Preempted].into_iter().find(|why| why.as_str() == word)
}

/// The job with its names.
pub(crate) fn named_job(job: &Job) -> Value {
    let mut body = Map::new();
    body.insert("tenant".to_owned(), json!(job.tenant));
    if let Some(name) = &job.job {
        body.insert("job".to_owned(), json!(name));
    }
    body.insert("parts".to_owned(), job.parts.iter().map(part_value).collect());
    let ids = |kind: fn(&Workload) -> Option<&String>| job.workloads.iter().filter_map(kind).collect::<Vec<_>>();
    let pods = ids(|workload| if let Workload::Pod(id) = workload { Some(id) } else { None });
    let containers = ids(|workload| if let Workload::Container(id) = workload { Some(id) } else { None });
    let cgroups = ids(|workload| if let Workload::Cgroup(path) = workload { Some(path) } else { None });
    for (name, ids) in [("pods", pods), ("containers", containers), ("cgroups", cgroups)] {
        if !ids.is_empty() {
            body.insert(name.to_owned(), json!(ids));
        }
    }
    Value::Object(body)
}

fn part_value(part: &Part) -> Value {
    let mut value = json!({ "gpu": part.gpu_uuid, "share": holding::share_text(part.share) });
    if let (Some(instance), Value::Object(members)) = (part.instance, &mut value) {
        members.insert("instance".to_owned(), json!(instance.to_string()));
    }
    value
}

impl Check {
    fn violate(&mut self, pointer: impl Into<String>, code: &'static str, detail: impl Into<String>) {
        if self.0.len() < MOST_VIOLATIONS {
            self.0.push(Violation { pointer: pointer.into(), code, detail: detail.into() });
        }
    }

    fn done(self, job: Option<Job>) -> Result<Job, Vec<Violation>> {
        match job {
            Some(job) if self.0.is_empty() => Ok(job),
            _ => Err(self.0),
        }
    }

    fn named(&mut self, tenant: &str, job: &str, body: &Value, more: &[&str]) -> Option<Job> {
        let tenant = self.accept("/tenant", tenant, holding::tenant);
        let job = self.accept("/job", job, holding::name);
        let Value::Object(members) = body else {
            self.violate("", "invalid_type", "must be an object with `parts`, `pods`, `containers` or `cgroups`");
            return None;
        };
        self.refuse_unknown("", members, &LISTS, more);
        let parts = self.list("parts", members, MOST_PARTS, |check, pointer, part| check.part(pointer, part));
        let mut workloads = Vec::new();
        type Read = fn(&str) -> Result<Workload, String>;
        let kinds: [(&str, Read); 3] =
            [("pods", holding::pod), ("containers", holding::container), ("cgroups", holding::cgroup)];
        for (name, read) in kinds {
            workloads
                .extend(self.list(name, members, MOST_WORKLOADS, |check, pointer, id| check.text(pointer, id, read)));
        }
        let is_given = |name: &str| members.get(name).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        if !LISTS.iter().any(|name| is_given(name)) {
            self.violate("", "too_few", "names nothing: give `parts`, `pods`, `containers` or `cgroups`");
        }
        let job = holding::in_order(Job { tenant: tenant?, job: Some(job?), parts, workloads });
        if let Some(part) = holding::doubled(&job.parts) {
            self.violate("/parts", "doubled", format!("`{}` is there twice", holding::part_text(part)));
        }
        Some(job)
    }

    fn refuse_unknown(&mut self, at: &str, members: &Map<String, Value>, known: &[&str], more: &[&str]) {
        for name in members.keys().filter(|name| !known.contains(&name.as_str()) && !more.contains(&name.as_str())) {
            let name: String = name.chars().take(100).collect();
            let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
            self.violate(pointer, "unknown_field", format!("`{name}` is not a known field; there is {known}"));
        }
    }

    fn list<T>(
        &mut self,
        name: &str,
        members: &Map<String, Value>,
        most: usize,
        read: impl Fn(&mut Self, &str, &Value) -> Option<T>,
    ) -> Vec<T> {
        let pointer = format!("/{name}");
        match members.get(name) {
            None => Vec::new(),
            Some(Value::Array(items)) if items.len() <= most => {
                let read = |(index, item)| read(self, &format!("{pointer}/{index}"), item);
                items.iter().enumerate().filter_map(read).collect()
            }
            Some(Value::Array(_)) => {
                self.violate(pointer, "too_many", format!("has over {most} items"));
                Vec::new()
            }
            Some(_) => {
                self.violate(pointer, "invalid_type", "must be a list");
                Vec::new()
            }
        }
    }

    fn part(&mut self, pointer: &str, part: &Value) -> Option<Part> {
        let Value::Object(members) = part else {
            self.violate(pointer, "invalid_type", "must be an object with a `gpu`");
            return None;
        };
        self.refuse_unknown(pointer, members, &PART, &[]);
        let gpu_uuid = match members.get("gpu") {
            Some(gpu) => self.text(&format!("{pointer}/gpu"), gpu, holding::gpu),
            None => {
                self.violate(format!("{pointer}/gpu"), "required", "`gpu` is missing");
                None
            }
        };
        let instance =
            members.get("instance").map(|found| self.text(&format!("{pointer}/instance"), found, holding::instance));
        let share = match members.get("share") {
            // Digit for digit, as it was written.
            Some(Value::Number(number)) => {
                self.accept(&format!("{pointer}/share"), &number.to_string(), holding::share)
            }
            Some(text) => self.text(&format!("{pointer}/share"), text, holding::share),
            None => Some(WHOLE),
        };
        // An instance that is wrong is not the whole device.
        let instance = match instance {
            Some(found) => Some(found?),
            None => None,
        };
        Some(Part { gpu_uuid: gpu_uuid?, instance, share: share? })
    }

    fn text<T>(&mut self, pointer: &str, value: &Value, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        match value.as_str() {
            Some(text) => self.accept(pointer, text, read),
            None => {
                self.violate(pointer, "invalid_type", "must be a string");
                None
            }
        }
    }

    fn accept<T>(&mut self, pointer: &str, text: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        read(text)
            .map_err(|wrong| {
                let shown: String = text.chars().filter(|letter| !letter.is_control()).take(100).collect();
                self.violate(pointer, "invalid_value", format!("`{shown}` {wrong}"));
            })
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(body: &str) -> Vec<String> {
        let body = serde_json::from_str(body).unwrap();
        let violations = read_job("acme", "1", &body).unwrap_err();
        violations.iter().map(|found| format!("{} {}", found.pointer, found.code)).collect()
    }

    #[test]
    fn a_job_is_the_same_in_whatever_order_it_is_written() {
        let id = "ab".repeat(32);
        let one = json!({"parts":[{"gpu":"GPU-2"},{"gpu":"GPU-1","instance":"1/0","share":0.25}],"containers":[id]});
        let other = json!({"containers":[id,id],"parts":[{"gpu":"GPU-1","instance":"1/0","share":"0.250"},{"gpu":"GPU-2","share":"1"}]});
        let read = |body| read_job("acme", "job-9", body).unwrap();
        assert_eq!(read(&one), read(&other));
        assert_eq!(read_named_job(&named_job(&read(&one))), Ok(read(&one)));
        assert_eq!(read(&one).parts[0].share, 250_000);
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let body = r#"{"parts":[{"gpu":"0","share":"2","instance":"x"},{"share":true},7],"pods":["web"],"containers":"c","cgroups":["/"],"pod~/s":1}"#;
        assert_eq!(
            codes(body),
            [
                "/pod~0~1s unknown_field",
                "/parts/0/gpu invalid_value",
                "/parts/0/instance invalid_value",
                "/parts/0/share invalid_value",
                "/parts/1/gpu required",
                "/parts/1/share invalid_type",
                "/parts/2 invalid_type",
                "/pods/0 invalid_value",
                "/containers invalid_type",
                "/cgroups/0 invalid_value",
            ]
        );
        assert_eq!(codes("[]"), [" invalid_type"]);
        assert_eq!(codes("{}"), [" too_few"]);
        assert_eq!(codes(r#"{"parts":[{"gpu":"GPU-1"},{"gpu":"GPU-1","share":"0.5"}]}"#), ["/parts doubled"]);
        let many = json!({"parts": vec![json!({"gpu":"GPU-1"}); 129]});
        assert_eq!(codes(&many.to_string()), ["/parts too_many"]);
        let flood = json!({"pods": vec!["x"; 256], "containers": vec!["x"; 256]});
        assert_eq!(codes(&flood.to_string()).len(), MOST_VIOLATIONS);
        let names = read_job("_idle", "", &json!({"pods":[]})).unwrap_err();
        assert_eq!(names.len(), 3);
    }
}
