//! `farebox policy check`: components, or crates that are built first.

use std::fs;
use std::path::{Path, PathBuf};

use farebox_sandbox::{Limits, Sandbox};
use serde::Serialize;

use super::{Failure, Machine, print_json};
use crate::authoring::{self, Level, Report, load_cases};
use crate::cli::policy_build::{self, BuildError, Package};
use crate::cli::{counted, tell};
use crate::printable::printable_lines;

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub(super) inputs: &'a [PathBuf],
    pub(super) cases: Option<&'a Path>,
    pub(super) deny_warnings: bool,
    pub(super) json: bool,
}

/// A component, and where its cases are.
struct Subject {
    /// As its author named it.
    input: PathBuf,
    file: PathBuf,
    cases: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Checked {
    input: PathBuf,
    #[serde(flatten)]
    report: Report,
}

pub(super) fn run(machine: &Machine, wanted: Wanted<'_>) -> Result<(), Failure> {
    let subjects = subjects(machine, wanted)?;
    let sandbox = Sandbox::new(Limits::standard()).map_err(Failure::new)?;
    let mut checked = Vec::with_capacity(subjects.len());
    for Subject { input, file, cases } in subjects {
        let bytes = fs::read(&file).map_err(|source| BuildError::Unreadable { file, source })?;
        let cases = cases.map(|directory| load_cases(&directory)).transpose()?;
        checked.push(Checked { input, report: authoring::check(&sandbox, &bytes, cases.as_deref()) });
    }
    let count = |level| checked.iter().map(|checked| checked.report.count(level)).sum::<usize>();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    let passed = errors == 0 && !(wanted.deny_warnings && warnings > 0);
    let found = format!("{}, {}", counted(errors, "error"), counted(warnings, "warning"));
    if wanted.json {
        let document = serde_json::json!({
            "passed": passed, "errors": errors, "warnings": warnings, "policies": checked,
        });
        print_json(&document)?;
    } else {
        for checked in &checked {
            tell(&printable_lines(&render(checked)))?;
        }
        if passed {
            tell(&format!("{found}\n"))?;
        }
    }
    if passed { Ok(()) } else { Err(Failure::saying(found)) }
}

/// Components are taken as they are; crates are built, beside what their tests build.
fn subjects(machine: &Machine, wanted: Wanted<'_>) -> Result<Vec<Subject>, Failure> {
    if let (Some(_), [_, _, ..]) = (wanted.cases, wanted.inputs) {
        return Err(Failure::usage(std::io::Error::other("`--cases` goes with one component; name it alone")));
    }
    let toolchain = machine.toolchain();
    let mut subjects = Vec::with_capacity(wanted.inputs.len());
    for input in wanted.inputs {
        let given = wanted.cases.map(Path::to_owned);
        if input.is_file() {
            subjects.push(Subject { input: input.clone(), file: input.clone(), cases: given });
            continue;
        }
        let package = Package::find(input)?;
        let built = policy_build::build(toolchain, std::slice::from_ref(input), &package.scratch(toolchain));
        let cases = given.unwrap_or_else(|| package.directory.join("cases"));
        for policy in built? {
            subjects.push(Subject { input: input.clone(), file: policy.file, cases: Some(cases.clone()) });
        }
    }
    Ok(subjects)
}

fn render(Checked { input, report }: &Checked) -> String {
    let policy = report.policy.as_deref().unwrap_or("no policy");
    let mut text = format!("{}: {policy}  {} bytes  sha256 {}\n", input.display(), report.bytes, report.sha256);
    for check in &report.checks {
        let level = match check.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "ERROR",
        };
        text.push_str(&format!("  {level:<7}  {:<11}  {}\n", check.what, check.text));
    }
    text
}
