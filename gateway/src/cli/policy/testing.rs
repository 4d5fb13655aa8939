//! `farebox policy test`: every case natively and in the sandbox, held against each other and against its file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use farebox_sandbox::{Limits, Policy, Sandbox};
use serde::Serialize;

use super::differences::difference;
use super::{Failure, Machine, grouped, print_json};
use crate::authoring::{Case, FUEL_SHARE_PERCENT, NativeAnswers, Spent, Tried, beyond_declared, load_cases, try_case};
use crate::causes::with_causes;
use crate::cli::bar::{Bars, percent};
use crate::cli::complain;
use crate::cli::policy_build::{self, BuiltPolicy, Package, run_native_tests};
use crate::cli::{counted, tell};
use crate::printable::printable_lines;

const FUEL_CELLS: u64 = 20;
const MEMORY_CELLS: u64 = 10;

#[derive(Debug, Serialize)]
struct PolicyResult {
    policy: String,
    sha256: String,
    bytes: usize,
    /// What is wrong beside the cases.
    problems: Vec<String>,
    cases: Vec<CaseResult>,
}

#[derive(Debug, Serialize)]
struct CaseResult {
    name: String,
    verdict: Verdict,
    /// None where the parameters were refused or the policy faulted.
    #[serde(flatten)]
    spent: Option<Spent>,
    problems: Vec<String>,
    /// Lines, `-` for what was expected and `+` for what is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    difference: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Pass,
    /// Its file says now what the policy says.
    Updated,
    Fail,
}

pub(super) fn run(machine: &Machine, crates: &[PathBuf], update: bool, json: bool) -> Result<(), Failure> {
    let toolchain = machine.toolchain();
    let packages: Vec<Package> = crates.iter().map(|directory| Package::find(directory)).collect::<Result<_, _>>()?;
    let Some(first) = packages.first() else { return Err(Failure::saying("no policy is named")) };
    let built = policy_build::build(toolchain, crates, &first.scratch(toolchain))?;
    let limits = Limits::standard();
    let sandbox = Sandbox::new(limits).map_err(Failure::new)?;
    let mut results = Vec::with_capacity(packages.len());
    for (package, built) in packages.iter().zip(&built) {
        results.push(test(machine, &sandbox, package, built, update)?);
    }
    let failed: usize = results.iter().map(PolicyResult::failures).sum();
    if json {
        let limits = serde_json::json!({
            "fuel": limits.evaluate_fuel, "memory_bytes": limits.memory_bytes, "activation_percent": FUEL_SHARE_PERCENT,
        });
        print_json(&serde_json::json!({ "passed": failed == 0, "limits": limits, "policies": results }))?;
    } else {
        let bars = Bars::for_output(machine.is_utf8);
        for result in &results {
            tell(&printable_lines(&render(result, &limits, bars)))?;
        }
    }
    if failed == 0 { Ok(()) } else { Err(Failure::saying(format!("{} failed", counted(failed, "test")))) }
}

fn test(
    machine: &Machine,
    sandbox: &Sandbox,
    package: &Package,
    built: &BuiltPolicy,
    update: bool,
) -> Result<PolicyResult, Failure> {
    let cases_directory = package.directory.join("cases");
    let before = contents(&cases_directory);
    // Cargo says nothing of its own on stdout that could be passed on; silence for minutes looks like the end.
    complain(&format!("building `{}` natively and running its cases; the first time takes minutes", built.name));
    // First, since it may write the cases anew.
    let native = run_native_tests(machine.toolchain(), package, update)?;
    let cases = load_cases(&cases_directory)?;
    let component = fs::read(&built.file).map_err(Failure::new)?;
    let policy = sandbox.load(&component).map_err(Failure::new)?;
    let manifest = policy.manifest();
    let mut problems: Vec<String> =
        native.failure.map(|printed| format!("its native tests fail:\n{printed}")).into_iter().collect();
    if manifest.name != package.name {
        problems.push(format!(
            "the policy is named `{}` but its package `{}`; name them alike",
            manifest.name, package.name
        ));
    }
    let answers = match native.answers {
        Ok(answers) => Some(answers),
        Err(why) => {
            problems.push(with_causes(&why));
            None
        }
    };
    if let Some(part) = answers.as_ref().and_then(|answers| answers.manifest_differs(manifest)) {
        problems.push(format!("`{part}` of its manifest is another in the sandbox than natively"));
    }
    let judge = |case: &Case| {
        let mut result = judge(&policy, case, answers.as_ref());
        let is_updated = before.get(&case.file).is_none_or(|old| *old != fs::read(&case.file).unwrap_or_default());
        if update && is_updated && result.verdict == Verdict::Pass {
            result.verdict = Verdict::Updated;
        }
        result
    };
    Ok(PolicyResult {
        policy: format!("{}@{}", manifest.name, manifest.version),
        sha256: built.sha256.clone(),
        bytes: built.bytes,
        problems,
        cases: cases.iter().map(judge).collect(),
    })
}

/// The files of a directory, as they are.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    entries.filter_map(|path| fs::read(&path).ok().map(|bytes| (path, bytes))).collect()
}

/// The case in the sandbox, against its native answer and against its file.
fn judge(policy: &Policy, case: &Case, native: Option<&NativeAnswers>) -> CaseResult {
    let mut result = CaseResult {
        name: case.name.clone(),
        verdict: Verdict::Pass,
        spent: None,
        problems: Vec::new(),
        difference: Vec::new(),
    };
    match try_case(policy, case) {
        Ok(tried) => {
            result.spent = tried.spent;
            compare(&mut result, case, &tried, native);
        }
        Err(fault) => result.problems.push(format!("no answer in the sandbox: {fault}")),
    }
    if !result.problems.is_empty() {
        result.verdict = Verdict::Fail;
    }
    result
}

fn compare(result: &mut CaseResult, case: &Case, tried: &Tried, native: Option<&NativeAnswers>) {
    let said = tried.answer.json();
    if let Some(native) = native {
        match native.answer(&case.name) {
            Some(natively) if natively == said => {}
            Some(natively) => {
                result.problems.push("the sandbox (+) answers other than the native build (-)".to_owned());
                result.difference = difference(&spread(natively), &tried.answer.pretty());
            }
            None => result.problems.push("it was not run natively".to_owned()),
        }
        if let Some(part) = native.configuration_differs(&case.name, tried) {
            result.problems.push(format!("`{part}` of its configuration is another in the sandbox than natively"));
        }
    }
    match &case.expected {
        Some(expected) if *expected == tried.answer => {}
        Some(expected) => {
            result.problems.push("the policy says (+) other than the case (-); `--update` accepts it".to_owned());
            if result.difference.is_empty() {
                result.difference = difference(&expected.pretty(), &tried.answer.pretty());
            }
        }
        None => result.problems.push("it expects nothing yet; `--update` writes what the policy says".to_owned()),
    }
    result.problems.extend(beyond_declared(case, tried));
}

/// JSON over several lines, as a case file has it.
fn spread(json: &str) -> String {
    let value = serde_json::from_str::<crate::authoring::Answer>(json);
    value.map_or_else(|_| json.to_owned(), |answer| answer.pretty())
}

impl PolicyResult {
    fn failures(&self) -> usize {
        self.problems.len().saturating_add(self.count(Verdict::Fail))
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|case| case.verdict == verdict).count()
    }
}

fn render(result: &PolicyResult, limits: &Limits, bars: Bars) -> String {
    let mut text = format!("{}  {} bytes  sha256 {}\n", result.policy, result.bytes, result.sha256);
    let width = result.cases.iter().map(|case| case.name.chars().count()).max().unwrap_or(0);
    for case in &result.cases {
        let verdict = match case.verdict {
            Verdict::Pass => "pass",
            Verdict::Updated => "new ",
            Verdict::Fail => "FAIL",
        };
        let cost = case.spent.map_or_else(|| "not evaluated".to_owned(), |spent| cost(spent, limits, bars));
        text.push_str(&format!("  {verdict}  {:<width$}  {cost}\n", case.name));
        for line in case.problems.iter().chain(&case.difference) {
            text.push_str(&format!("          {}\n", line.trim_end()));
        }
    }
    for problem in &result.problems {
        text.push_str(&format!("  FAIL  {problem}\n"));
    }
    text.push_str(&summary(result, limits, bars));
    text
}

fn cost(spent: Spent, limits: &Limits, bars: Bars) -> String {
    let memory_limit = u64::try_from(limits.memory_bytes).unwrap_or(u64::MAX);
    format!(
        "fuel {:>9} {} {:>4}   memory {:>5} KiB {} {:>4}",
        grouped(spent.fuel),
        bars.draw(spent.fuel, limits.evaluate_fuel, FUEL_CELLS, Some(FUEL_SHARE_PERCENT)),
        percent(spent.fuel, limits.evaluate_fuel),
        grouped(spent.memory_bytes.div_ceil(1024)),
        bars.draw(spent.memory_bytes, memory_limit, MEMORY_CELLS, None),
        percent(spent.memory_bytes, memory_limit),
    )
}

fn summary(result: &PolicyResult, limits: &Limits, bars: Bars) -> String {
    let passed = result.count(Verdict::Pass).saturating_add(result.count(Verdict::Updated));
    let mut text = format!(
        "  {passed} of {} alike natively, in the sandbox and in their files",
        counted(result.cases.len(), "case")
    );
    match result.count(Verdict::Updated) {
        0 => {}
        updated => text.push_str(&format!("; {updated} written anew")),
    }
    let activation = limits.evaluate_fuel.saturating_mul(FUEL_SHARE_PERCENT).div_euclid(100);
    let worst = result.cases.iter().filter_map(|case| case.spent).map(|spent| spent.fuel).max().unwrap_or(0);
    let over = if worst > activation { ", and the worst case is" } else { "" };
    text.push_str(&format!(
        "\n  limits: fuel {}, memory {} KiB; activation is refused above {FUEL_SHARE_PERCENT} % of the fuel ({}){over}\n",
        grouped(limits.evaluate_fuel),
        grouped(u64::try_from(limits.memory_bytes).unwrap_or(u64::MAX).div_ceil(1024)),
        bars.mark(),
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(cases: Vec<CaseResult>, problems: &[&str]) -> PolicyResult {
        let problems = problems.iter().map(|problem| (*problem).to_owned()).collect();
        PolicyResult { policy: "a@1.0.0".to_owned(), sha256: "ab".to_owned(), bytes: 7, problems, cases }
    }

    fn case(name: &str, verdict: Verdict, fuel: Option<u64>) -> CaseResult {
        let spent = fuel.map(|fuel| Spent { fuel, memory_bytes: 131_072 });
        CaseResult { name: name.to_owned(), verdict, spent, problems: Vec::new(), difference: Vec::new() }
    }

    #[test]
    fn results_read_in_ascii_and_say_what_failed() {
        let mut failed = case("two", Verdict::Fail, Some(600_000));
        failed.problems = vec!["other".to_owned()];
        failed.difference = vec!["- a".to_owned(), "+ b".to_owned()];
        let result = result(
            vec![case("one", Verdict::Pass, Some(23_104)), failed, case("three", Verdict::Updated, None)],
            &["p"],
        );
        let text = render(&result, &Limits::standard(), Bars::for_output(false));
        assert!(text.is_ascii());
        let expected = "a@1.0.0  7 bytes  sha256 ab
  pass  one    fuel    23 104 [#----|---------------]  1 %   memory   128 KiB [#---------]  3 %
  FAIL  two    fuel   600 000 [#####|#--------------] 30 %   memory   128 KiB [#---------]  3 %
          other
          - a
          + b
  new   three  not evaluated
  FAIL  p
  2 of 3 cases alike natively, in the sandbox and in their files; 1 written anew
  limits: fuel 2 000 000, memory 4 096 KiB; activation is refused above 25 % of the fuel (|), and the worst case is
";
        assert_eq!(text, expected);
        assert_eq!(result.failures(), 2);
    }

    #[test]
    fn json_has_the_cost_beside_the_verdict() {
        let json = serde_json::to_value(case("one", Verdict::Pass, Some(1))).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"name": "one", "verdict": "pass", "fuel": 1, "memory_bytes": 131_072, "problems": []})
        );
        let json = serde_json::to_value(case("one", Verdict::Fail, None)).unwrap();
        assert_eq!(json, serde_json::json!({"name": "one", "verdict": "fail", "problems": []}));
    }
}
