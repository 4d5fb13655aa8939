//! The table of `docs/hostile.md`.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::modules::{self, Expected, Hostile};
use super::rig::{Rig, Verdict};
use crate::harness::root;

/// A module, what happened to it, how long that took, and how long the next quote took.
struct Row {
    hostile: Hostile,
    verdict: Verdict,
    stopped_after: Duration,
    next_quote: Duration,
}

/// Each module twice; after each time the next quote is the one before, to the last digit and unit of fuel.
#[test]
fn every_module_is_stopped_where_it_must_be_and_the_next_quote_is_as_before() {
    let rig = Rig::new();
    let mut before: Vec<Duration> = (0..21).map(|_| rig.honest_quote().1).collect();
    before.sort();
    let rows: Vec<Row> = modules::all().into_iter().map(|hostile| row(&rig, hostile)).collect();
    let wrong: Vec<String> = rows.iter().filter_map(unexpected).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    recorded(&document(&rows, before[before.len() / 2]));
}

fn row(rig: &Rig, hostile: Hostile) -> Row {
    let (expected, _) = rig.honest_quote();
    let started = Instant::now();
    let verdict = rig.try_out(&hostile.bytes);
    let stopped_after = started.elapsed();
    let (quote, next_quote) = rig.honest_quote();
    assert_eq!(quote, expected, "after `{}`", hostile.name);
    assert_eq!(rig.try_out(&hostile.bytes), verdict, "`{}` a second time", hostile.name);
    assert_eq!(rig.honest_quote().0, expected, "after `{}` a second time", hostile.name);
    Row { hostile, verdict, stopped_after, next_quote }
}

fn unexpected(row: &Row) -> Option<String> {
    let found = match &row.verdict {
        Verdict::Stopped { stage, by } => Expected::Stopped(format!("{stage}: {by}")),
        Verdict::Priced { total } => Expected::Priced(total.clone()),
    };
    (found != row.hostile.expected).then(|| format!("{}: {found:?}, not {:?}", row.hostile.name, row.hostile.expected))
}

const HEAD: &str = "\
# Hostile modules

Modules that mean harm, and unlucky ones: where each is stopped, and by what. `fixtures/hostile/` holds them, or
`tests/it/hostile/generated.rs` makes them. Each was tried twice, in one process and one small pool with the policies of
the fixtures; after each time W1 was quoted again, and every row, message and unit of fuel of it was as before.

A module that is not stopped prices W1, without usage, with its step behind the others: 10333.44 without it, 10436.77 with
the 1 % that it may well ask for. What it tries to find out, it does not.

The times are of one run of a debug build, in milliseconds, and nothing depends on them; all else is compared by
`tests/it/hostile/table.rs`, and written by `UPDATE_CASES=1`.

";

fn document(rows: &[Row], before: Duration) -> String {
    let mut text = HEAD.to_owned();
    writeln!(text, "<!-- times -->\nW1 before all of this, median of 21: {} ms.\n", milliseconds(before)).unwrap();
    text.push_str("| case | module | what it does | stopped at | by | stopped after | next quote |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    for Row { hostile, verdict, stopped_after, next_quote } in rows {
        let (stage, by) = match verdict {
            Verdict::Stopped { stage, by } => (*stage, by.clone()),
            Verdict::Priced { total } => ("not stopped", format!("priced {total}")),
        };
        let (case, name, does) = (hostile.case, &hostile.name, &hostile.does);
        let (after, next) = (milliseconds(*stopped_after), milliseconds(*next_quote));
        writeln!(text, "| {case} | `{name}` | {does} | {stage} | {by} | {after} | {next} |").unwrap();
    }
    text.push_str(TAIL);
    text
}

const TAIL: &str = "
## Beside the table

- Case 6: `gateway/sandbox/src/tests/loading.rs` cuts a good module and component off at many places, and flips one bit at
  many others: each is loaded or refused. What counting cannot bound, such as a slow compiler on code of ordinary shape, is
  left to the child process that will compile uploads.
- Cases 10, 11 and 17: `tests/it/hostile/server.rs` serves a data directory with good and bad policies. The server starts,
  `/readyz` names what was left out, a faulting step is 503 `policy-fault` or skipped with a message, as its plan says, and
  a full pool is 503 `overloaded` with `Retry-After` also where the plan skips faults. An honest quote in between is the
  same to the last byte.
- Case 14: `tests/it/hostile/reproducible.rs` compares fuel and answers on two threads at once, in another process, and
  with `fixtures/hostile/fuel.txt`, which another process recorded. The record is of a debug build of the host; `cargo test
  --release -p farebox-tests --test it hostile::reproducible` compares a release build with it, and has not been part of CI.
- Case 15: `gateway/sandbox/src/tests/running.rs` leaves one slot free, so that each instance gets the memory of the one
  before it, of its own policy and of others.
- Case 16 in part: the slots come back after every kind of fault (`gateway/sandbox/src/tests/hostile.rs`).
";

fn milliseconds(duration: Duration) -> String {
    format!("{:.2}", duration.as_secs_f64() * 1000.0)
}

fn recorded(text: &str) {
    let path = root().join("docs/hostile.md");
    if crate::harness::updates_cases() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (expected, found) = (without_times(&expected), without_times(text));
    let differs = expected.iter().zip(&found).find(|(old, new)| old != new);
    assert!(expected == found, "docs/hostile.md is out of date, `UPDATE_CASES=1` writes it anew: {differs:?}");
}

/// Rows without their last two columns, and no line of times.
fn without_times(text: &str) -> Vec<String> {
    let reproducible = |line: &str| match line.strip_suffix(" |").filter(|line| line.starts_with("| ")) {
        Some(row) => row.rsplitn(3, " | ").last().unwrap_or_default().to_owned(),
        None => line.to_owned(),
    };
    text.lines().filter(|line| !line.starts_with("W1 before")).map(reproducible).collect()
}
