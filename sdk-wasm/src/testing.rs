//! Golden cases: files `cases/<name>.json` beside a policy, run natively here and in the sandbox by whoever loads them.
//!
//! ```json
//! {"parameters": {}, "context": {"currency": "CNY", "exponent": 2, "lines": [{"key": 0}]}, "outcome": {}}
//! ```
//! A case has a `context` and an `outcome` or a `refusal`; or no context and the `refusals` of `configure`. Contract
//! types are spelt as in [`contract`](crate::contract): decimals as strings, what is absent left out.
//! `UPDATE_CASES=1` writes what the policy says into the files; a person reads the difference. With `CASE_ANSWERS=DIR`
//! the answers go to `DIR/<policy>.json` for `farebox policy test`, which judges them itself.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::contract::{Configuration, Context, Manifest, Outcome, Refusal};
use crate::native::Policy;

/// One golden case.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub file: PathBuf,
    /// JSON, as the plan would give it.
    pub parameters: String,
    /// `None` where the parameters themselves are refused.
    pub context: Option<Context>,
    /// `None` in a new file that `UPDATE_CASES=1` has yet to fill.
    pub expected: Option<Answer>,
}

/// How a case ends. Its JSON is the member of a case file that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Answer {
    #[serde(rename = "outcome")]
    Priced(Outcome),
    #[serde(rename = "refusal")]
    Refused(Refusal),
    #[serde(rename = "refusals")]
    Misconfigured(Vec<Refusal>),
}

/// A case file that cannot be used.
#[derive(Debug)]
pub struct BadCase {
    pub file: PathBuf,
    pub why: String,
}

impl std::fmt::Display for BadCase {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "case `{}`: {}", self.file.display(), self.why)
    }
}

impl std::error::Error for BadCase {}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    parameters: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Context>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<Refusal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusals: Option<Vec<Refusal>>,
}

/// All cases in `directory`, by name. An empty directory is an error: a policy without cases proves nothing.
pub fn load_cases(directory: &Path) -> Result<Vec<Case>, BadCase> {
    let unusable = |why: std::io::Error| BadCase { file: directory.to_owned(), why: why.to_string() };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unusable)? {
        let file = entry.map_err(unusable)?.path();
        if file.extension().is_some_and(|extension| extension == "json") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(BadCase { file: directory.to_owned(), why: "no `.json` file in it".to_owned() });
    }
    files.sort();
    files.into_iter().map(load_case).collect()
}

fn load_case(file: PathBuf) -> Result<Case, BadCase> {
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => return Err(BadCase { file, why: error.to_string() }),
    };
    let read: CaseFile = match serde_json::from_str(&text) {
        Ok(read) => read,
        Err(error) => return Err(BadCase { file, why: error.to_string() }),
    };
    let expected = match (read.outcome, read.refusal, read.refusals) {
        (None, None, None) => None,
        (Some(outcome), None, None) => Some(Answer::Priced(outcome)),
        (None, Some(refusal), None) => Some(Answer::Refused(refusal)),
        (None, None, Some(refusals)) => Some(Answer::Misconfigured(refusals)),
        _ => return Err(BadCase { file, why: "has more than one of `outcome`, `refusal` and `refusals`".to_owned() }),
    };
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Case { name, file, parameters: read.parameters.get().to_owned(), context: read.context, expected })
}

/// What the policy says to a case, natively.
pub fn answer(policy: &Policy, case: &Case) -> Answer {
    let configuration = match policy.configure(&case.parameters) {
        Ok(configuration) => configuration,
        Err(refusals) => return Answer::Misconfigured(refusals),
    };
    match policy.evaluate(&configuration.bytes, case.context.clone().unwrap_or_default()) {
        Ok(outcome) => Answer::Priced(outcome),
        Err(refusal) => Answer::Refused(refusal),
    }
}

/// Runs all cases of a policy's crate, and checks that the policy keeps to its own manifest in each. Panics with every
/// difference at once.
#[expect(clippy::panic, reason = "an assertion, called from tests")]
#[expect(
    clippy::disallowed_methods,
    reason = "UPDATE_CASES and CASE_ANSWERS are switches of a test run, not configuration of a product"
)]
pub fn golden_cases(policy: &Policy) {
    let update = std::env::var_os("UPDATE_CASES").is_some_and(|value| value == "1");
    let answers = std::env::var_os("CASE_ANSWERS");
    let cases = match load_cases(&Path::new(policy.directory()).join("cases")) {
        Ok(cases) => cases,
        Err(error) => panic!("{error}"),
    };
    let mut wrong = Vec::new();
    if let Some(directory) = answers {
        if let Err(error) = hand_over(policy, &cases, update, Path::new(&directory)) {
            panic!("the answers cannot be handed over: {error}");
        }
        return;
    }
    for case in cases {
        let said = answer(policy, &case);
        wrong.extend(undeclared(policy, &case, &said).into_iter().map(|what| format!("{}: {what}", case.name)));
        if case.expected.as_ref() == Some(&said) {
            continue;
        }
        if update {
            wrong.extend(rewrite(&case, said).err().map(|error| error.to_string()));
        } else {
            let expected = &case.expected;
            wrong.push(format!(
                "{}: expected {expected:#?}\nbut the policy said {said:#?}\n(UPDATE_CASES=1 accepts it)",
                case.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What a policy's crate says natively, for whoever runs the same in a sandbox.
#[derive(Serialize)]
struct Answers {
    manifest: Manifest,
    cases: Vec<CaseAnswer>,
}

#[derive(Serialize)]
struct CaseAnswer {
    name: String,
    /// `None` where the parameters are refused.
    configuration: Option<Configuration>,
    answer: Answer,
}

fn hand_over(
    policy: &Policy,
    cases: &[Case],
    update: bool,
    directory: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut answers = Answers { manifest: policy.describe(), cases: Vec::with_capacity(cases.len()) };
    for case in cases {
        let said = answer(policy, case);
        if update && case.expected.as_ref() != Some(&said) {
            rewrite(case, said.clone())?;
        }
        let configuration = policy.configure(&case.parameters).ok();
        answers.cases.push(CaseAnswer { name: case.name.clone(), configuration, answer: said });
    }
    let file = directory.join(format!("{}.json", answers.manifest.name));
    Ok(fs::write(file, serde_json::to_vec(&answers)?)?)
}

fn rewrite(case: &Case, said: Answer) -> Result<(), BadCase> {
    let bad = |why: String| BadCase { file: case.file.clone(), why };
    let parameters = RawValue::from_string(case.parameters.clone()).map_err(|error| bad(error.to_string()))?;
    let mut file = CaseFile { parameters, context: case.context.clone(), outcome: None, refusal: None, refusals: None };
    match said {
        Answer::Priced(outcome) => file.outcome = Some(outcome),
        Answer::Refused(refusal) => file.refusal = Some(refusal),
        Answer::Misconfigured(refusals) => file.refusals = Some(refusals),
    }
    let text = serde_json::to_string_pretty(&file).map_err(|error| bad(error.to_string()))?;
    fs::write(&case.file, text + "\n").map_err(|error| bad(error.to_string()))
}

/// Where a case goes beyond the manifest: a host would pass less, or call the answer a violation.
fn undeclared(policy: &Policy, case: &Case, said: &Answer) -> Vec<String> {
    let Ok(configuration) = policy.configure(&case.parameters) else { return Vec::new() };
    let manifest = policy.describe();
    let mut found = widened(&manifest, &configuration);
    let facts = case
        .context
        .iter()
        .flat_map(|context| context.lines.iter().flat_map(|line| &line.facts).chain(&context.tenant));
    for fact in facts {
        if !configuration.reads.iter().any(|word| covers(word, &fact.key)) {
            found.push(format!("the context has fact `{}`, which is not in `reads`", fact.key));
        }
    }
    if let Answer::Priced(outcome) = said {
        let codes = outcome.adjustments.iter().map(|adjustment| &adjustment.code);
        for code in codes.chain(outcome.added.iter().map(|line| &line.code)) {
            if !configuration.produces.iter().any(|word| covers(word, code)) {
                found.push(format!("code `{code}` is not in `produces`"));
            }
        }
    }
    found
}

fn widened(manifest: &Manifest, configuration: &Configuration) -> Vec<String> {
    let mut found = Vec::new();
    for (what, narrow, wide) in
        [("reads", &configuration.reads, &manifest.reads), ("produces", &configuration.produces, &manifest.produces)]
    {
        for word in narrow.iter().filter(|word| !wide.iter().any(|pattern| covers(pattern, word))) {
            found.push(format!("`{word}` of the configuration is not in the manifest's `{what}`"));
        }
    }
    found
}

/// `x.*`, `usage/*` and `*` stand for everything that begins with what is before the star.
fn covers(pattern: &str, word: &str) -> bool {
    pattern == word || pattern.strip_suffix('*').is_some_and(|stem| word.starts_with(stem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_what_is_below() {
        for (pattern, word, covered) in [
            ("workload.*", "workload.image", true),
            ("workload.*", "workloads.image", false),
            ("usage/*", "usage/gpu_util/mean/7d", true),
            ("usage/*", "usage.age", false),
            ("*", "anything", true),
            ("amounts", "amounts", true),
            ("amounts", "amount", false),
        ] {
            assert_eq!(covers(pattern, word), covered, "{pattern} {word}");
        }
    }

    #[test]
    fn contract_types_survive_json() {
        let json = r#"{"currency":"CNY","exponent":2,"at":{"unix_s":1,"utc_offset_s":28800},"lines":[{"key":0,"facts":[{"key":"a","value":"b"}],"amounts":{"unit":"gpu_second","quantity":"3600","unit_price":"12.00","list_amount":"12","amount":"12"},"usage":0}],"usages":[{"scope":"tenant","quality":"ok","surcharge_allowed":true,"stats":[{"metric":"gpu_util","statistic":"mean","window_s":604800,"value":"0.82","coverage":"1"}]}]}"#;
        let context: Context = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&context).unwrap(), json);
        for wrong in [r#"{"currency":"CNY","exponent":2,"line":[]}"#, r#"{"exponent":2}"#] {
            assert!(serde_json::from_str::<Context>(wrong).is_err(), "{wrong}");
        }
    }
}
