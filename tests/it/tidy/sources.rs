//! Rules on Rust files: their size, their names, what they open with, what they may not hold, and what the gateway's
//! rooms may name of each other.

use super::{expect_none, files_with, read};

const MOST_LINES: usize = 400;
/// Names that say nothing: whatever was put there has a better one.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "misc", "core", "types"];
/// Modules of the gateway that belong to no room.
const SHARED: &[&str] = &["causes", "schema", "clock", "workers", "printable", "suggestion", "hex"];

/// What a room of the gateway may name besides itself and `SHARED`; `*` is everything.
const ROOMS: &[(&str, &[&str])] = &[
    ("main", &[]),
    ("lib", &[]),
    ("cli", &["*"]),
    ("app", &["*"]),
    ("api", &["quoting", "intake", "catalog", "ledger", "serving", "telemetry"]),
    ("quoting", &["intake", "catalog", "ledger", "token"]),
    ("config", &["serving", "telemetry", "token"]),
    ("authoring", &[]),
    ("intake", &[]),
    ("catalog", &[]),
    ("ledger", &[]),
    ("token", &[]),
    ("serving", &[]),
    ("telemetry", &[]),
    ("schema", &[]),
    ("causes", &[]),
    ("clock", &[]),
    ("workers", &[]),
    ("printable", &[]),
    ("suggestion", &[]),
    ("hex", &[]),
];
/// Rooms that may know the HTTP framework.
const KNOW_AXUM: &[&str] = &["api", "console", "serving", "app"];

#[test]
fn files_are_short() {
    let findings: Vec<_> = files_with("rs")
        .iter()
        .map(|path| (path, read(path).lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(path, lines)| format!("{path} has {lines} lines"))
        .collect();
    expect_none("a file has at most 400 lines; find the second subject in it and give it a file of its own", &findings);
}

#[test]
fn names_say_something() {
    let is_empty_name =
        |path: &str| path.split('/').any(|part| EMPTY_NAMES.contains(&part.strip_suffix(".rs").unwrap_or(part)));
    let findings: Vec<_> = files_with("rs").into_iter().filter(|path| is_empty_name(path)).collect();
    expect_none("name a module or crate after what is in it", &findings);
    let findings: Vec<_> = files_with("rs").into_iter().filter(|path| path.ends_with("/mod.rs")).collect();
    expect_none("write `foo.rs` beside `foo/` instead of `foo/mod.rs`", &findings);
}

#[test]
fn files_open_with_what_they_are_for() {
    let findings: Vec<_> = files_with("rs").into_iter().filter(|path| !read(path).starts_with("//! ")).collect();
    expect_none("open the file with `//!` and one sentence on what it is for", &findings);
}

#[test]
fn nothing_is_left_undone_or_silenced() {
    // Put together here, so that this file does not find itself.
    let forbidden = [
        (["#[", "ignore"].concat(), "run the test or delete it"),
        (["todo", "!("].concat(), "write it or leave it out"),
        (["unimplemented", "!("].concat(), "write it or leave it out"),
        (["#[", "allow("].concat(), "use `#[expect(…, reason = \"…\")]`"),
        (["#![", "allow("].concat(), "use `#![expect(…, reason = \"…\")]`"),
    ];
    for (text, advice) in forbidden {
        let findings: Vec<_> = files_with("rs").into_iter().filter(|path| read(path).contains(&text)).collect();
        expect_none(&format!("`{text}`: {advice}"), &findings);
    }
}

#[test]
fn no_float_is_on_the_money_path() {
    let is_float = |word: &str| word == "f32" || word == "f64";
    let has_float = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        code.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').any(is_float)
    };
    let findings: Vec<_> = files_with("rs")
        .into_iter()
        .filter(|path| ["gateway/pricing/src/", "policies/", "sdk-wasm/src/"].iter().any(|room| path.starts_with(room)))
        .filter(|path| read(path).lines().any(has_float))
        .collect();
    expect_none("money is exact: use `Amount`, `Decimal` or an integer", &findings);
}

#[test]
fn only_config_reads_the_environment() {
    // Each program has its own.
    let configs = ["gateway/src/config.rs", "gateway/metering/src/agent/config.rs"];
    let reads = ["env::var(", "env::var_os(", "env::vars(", "env::vars_os("];
    let findings: Vec<_> = files_with("rs")
        .into_iter()
        .filter(|path| path.starts_with("gateway/") && !configs.contains(&path.as_str()))
        .filter(|path| reads.iter().any(|text| read(path).contains(text)))
        .collect();
    expect_none("make it a setting in `gateway/src/config.rs` (or the agent's) and pass the value", &findings);
}

#[test]
fn rooms_do_not_import_each_other_sideways() {
    let mut findings = Vec::new();
    for path in files_with("rs") {
        // A room's tests may set up what they need with any other.
        let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
        let Some(room) = room_of(&path).filter(|_| !is_test) else { continue };
        let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| *name == room) else {
            findings.push(format!("{path}: the room `{room}` is new; add it to ROOMS here and to ARCHITECTURE.md"));
            continue;
        };
        let may_name =
            |name: &str| name == room || SHARED.contains(&name) || allowed.contains(&"*") || allowed.contains(&name);
        let named = named_of_the_crate(&read(&path));
        findings.extend(
            named.into_iter().filter(|name| !may_name(name)).map(|name| format!("{path} names `crate::{name}`")),
        );
    }
    let rule =
        "a room names only the rooms below it (ARCHITECTURE.md, *Rooms*); move what both need down, or pass it in";
    expect_none(rule, &findings);
}

#[test]
fn only_the_edge_knows_http() {
    let findings: Vec<_> = files_with("rs")
        .into_iter()
        .filter(|path| room_of(path).is_some_and(|room| !KNOW_AXUM.contains(&room)))
        .filter(|path| read(path).contains("axum::"))
        .collect();
    expect_none("axum stays in `api` and `serving`; give the other room a type of its own", &findings);
}

/// The room of a file of the gateway: `gateway/src/<room>.rs` or `gateway/src/<room>/…`.
fn room_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("gateway/src/")?;
    let first = inside.split('/').next()?;
    Some(first.strip_suffix(".rs").unwrap_or(first))
}

/// Every module named as `crate::name` or in `crate::{name, …}`, sorted. Comments count: they would be out of date too.
fn named_of_the_crate(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for rest in text.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(group) => names.extend(members_of(group)),
            None => names.push(leading_name(rest)),
        }
    }
    // `crate::Name` is a re-export or a macro of the root, not a room.
    names.retain(|name| name.starts_with(|first: char| first.is_ascii_lowercase()));
    names.sort();
    names.dedup();
    names
}

/// The first names of the members of a group whose opening brace has been read.
fn members_of(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut is_start) = (1, true);
    for (position, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => is_start = true,
            letter if is_start && !letter.is_whitespace() => {
                names.push(leading_name(&group[position..]));
                is_start = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

fn leading_name(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect()
}

#[test]
fn names_of_the_crate_are_found() {
    let text = "use crate::catalog::{Offer, Plan};\nuse crate::{\n    api::wire::{a, b},\n    ledger,\n};\n\
                fn f(x: crate::token::Keys) -> crate::Error { macro_rules!(crate::quoting) }";
    assert_eq!(named_of_the_crate(text), ["api", "catalog", "ledger", "quoting", "token"]);
    assert_eq!(room_of("gateway/src/api/quotes/counting.rs"), Some("api"));
    assert_eq!(room_of("gateway/src/quoting.rs"), Some("quoting"));
    assert_eq!(room_of("gateway/pricing/src/plan.rs"), None);
}
