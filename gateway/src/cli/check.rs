//! `farebox check`: loads everything, tells every problem, exits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use super::local_sandbox::local_sandbox;
use super::{Failure, counted, exit, places, tell, tell_json};
use crate::catalog::{Catalog, CatalogProblem, Tallies, Tally};

#[derive(Debug, Args)]
#[command(after_help = exit::help())]
pub(super) struct Options {
    /// Directory with tenants/, price-books/ and plans/.
    #[arg(value_name = "DIR")]
    data: PathBuf,
    /// Directory with the built policies [default: FAREBOX_POLICIES_DIR, else target/policies].
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    places::existing("data directory", &options.data, "is the path right from here?")?;
    let policies = places::policies(options.policies.as_deref())?;
    let sandbox = local_sandbox()?;
    let Catalog { problems, tallies, .. } = Catalog::load(&options.data, &policies, &sandbox);
    let told = told(&problems);
    if options.json {
        tell_json(&document(&told, tallies).to_string())?;
    } else {
        let lines = told.iter().map(|told| format!("{}{}\n", "  ".repeat(told.depth), told.problem));
        tell(&format!("{}{}\n", lines.collect::<String>(), summary(&problems, tallies)))?;
    }
    match problems.len() {
        0 => Ok(()),
        many => Err(Failure::saying(counted(many, "problem"))),
    }
}

/// A problem in the order of telling; one of depth 1 follows from those of depth 0 before it.
#[derive(Debug)]
struct Told<'a> {
    problem: &'a CatalogProblem,
    depth: usize,
}

/// Causes by file, line and column, each file's followed by what they bring about elsewhere, and so on.
fn told(problems: &[CatalogProblem]) -> Vec<Told<'_>> {
    let mut consequences: BTreeMap<&str, Vec<&CatalogProblem>> = BTreeMap::new();
    let mut causes: BTreeMap<&str, Vec<&CatalogProblem>> = BTreeMap::new();
    for problem in problems {
        match &problem.because {
            Some(path) => consequences.entry(path).or_default().push(problem),
            None => causes.entry(&problem.path).or_default().push(problem),
        }
    }
    let mut told = Vec::with_capacity(problems.len());
    for (path, of_file) in &causes {
        told.extend(of_file.iter().map(|problem| Told { problem, depth: 0 }));
        follow(path, 1, &mut consequences, &mut told);
    }
    // What follows from a file without a cause of its own was told there; nothing may be lost if there is none.
    let rest: BTreeSet<_> = consequences.into_values().flatten().collect();
    told.extend(rest.into_iter().map(|problem| Told { problem, depth: 0 }));
    told
}

/// Each consequence is taken out before it is followed, so this ends whatever depends on whatever.
fn follow<'a>(
    path: &str,
    depth: usize,
    consequences: &mut BTreeMap<&str, Vec<&'a CatalogProblem>>,
    told: &mut Vec<Told<'a>>,
) {
    for problem in consequences.remove(path).unwrap_or_default() {
        told.push(Told { problem, depth });
        follow(&problem.path, depth.saturating_add(1), consequences, told);
    }
}

fn summary(problems: &[CatalogProblem], tallies: Tallies) -> String {
    let rows = [(tallies.plans, "plan"), (tallies.price_books, "price book"), (tallies.tenants, "tenant")];
    let good: Vec<String> = rows.iter().map(|(tally, what)| counted(tally.good, what)).collect();
    let policies = match tallies.policies.good {
        1 => "1 policy".to_owned(),
        many => format!("{many} policies"),
    };
    let good = format!("good: {}, {policies}", good.join(", "));
    let left_out: usize = [tallies.plans, tallies.price_books, tallies.tenants, tallies.policies]
        .iter()
        .map(|tally| tally.left_out)
        .sum();
    let following = problems.iter().filter(|problem| problem.because.is_some()).count();
    match problems.len() {
        0 => format!("{good}; no problems"),
        all => format!("{good}; left out: {left_out}; {}, {following} following from others", counted(all, "problem")),
    }
}

fn document(told: &[Told<'_>], tallies: Tallies) -> Value {
    let count = |of: fn(Tally) -> usize| {
        json!({
            "plans": of(tallies.plans),
            "price_books": of(tallies.price_books),
            "tenants": of(tallies.tenants),
            "policies": of(tallies.policies),
        })
    };
    let problem = |Told { problem, .. }: &Told<'_>| {
        let CatalogProblem { path, place, pointer, message, because } = problem;
        json!({
            "path": path,
            "line": place.map(|place| place.line),
            "column": place.map(|place| place.column),
            "pointer": pointer,
            "message": message,
            "because": because,
        })
    };
    json!({
        "good": count(|tally| tally.good),
        "left_out": count(|tally| tally.left_out),
        "problems": told.iter().map(problem).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Place;

    fn problem(path: &str, line: usize, because: Option<&str>) -> CatalogProblem {
        CatalogProblem {
            path: path.to_owned(),
            place: Some(Place { line, column: 1 }),
            pointer: String::new(),
            message: "m".to_owned(),
            because: because.map(str::to_owned),
        }
    }

    #[test]
    fn consequences_follow_their_causes_and_none_is_lost() {
        let problems = [
            problem("books/b", 1, None),
            problem("plans/p", 3, Some("books/b")),
            problem("plans/q", 2, None),
            problem("plans/q", 4, Some("books/b")),
            problem("tenants/t", 1, Some("plans/p")),
            problem("tenants/t", 2, Some("plans/q")),
            problem("tenants/u", 1, Some("nowhere")),
            problem("x", 1, Some("y")),
            problem("y", 1, Some("x")),
        ];
        let shown: Vec<_> =
            told(&problems).iter().map(|told| format!("{}{}", "  ".repeat(told.depth), told.problem)).collect();
        let expected = [
            "books/b:1:1: m",
            "  plans/p:3:1: m",
            "    tenants/t:1:1: m",
            "  plans/q:4:1: m",
            "    tenants/t:2:1: m",
            "plans/q:2:1: m",
            "tenants/u:1:1: m",
            "x:1:1: m",
            "y:1:1: m",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_summary_counts_and_says_what_only_follows() {
        let tally = Tally { good: 1, left_out: 2 };
        let tallies = Tallies { plans: tally, price_books: tally, tenants: Tally::default(), policies: tally };
        let problems = [problem("a", 1, None), problem("b", 1, Some("a"))];
        assert_eq!(
            summary(&problems, tallies),
            "good: 1 plan, 1 price book, 0 tenants, 1 policy; left out: 6; 2 problems, 1 following from others"
        );
        assert_eq!(summary(&[], tallies), "good: 1 plan, 1 price book, 0 tenants, 1 policy; no problems");
    }
}
