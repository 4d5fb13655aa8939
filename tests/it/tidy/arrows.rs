//! The arrows between crates: what may depend on what, asked of Cargo itself.

use std::collections::BTreeSet;
use std::process::Command;

use super::{expect_none, files_with, read, root};

/// What each of our crates may depend on of ours. Policies: [`may_use`].
const ARROWS: &[(&str, &[&str])] = &[
    ("farebox-pricing", &[]),
    ("farebox-sdk", &[]),
    ("farebox-sandbox", &["farebox-pricing"]),
    ("farebox-metering", &["farebox-pricing"]),
    ("farebox", &["farebox-pricing", "farebox-sandbox", "farebox-metering"]),
];
/// What must be nowhere below a crate, however deep.
const ABSENT: &[(&str, &[&str])] = &[
    ("farebox-pricing", &["tokio", "mio", "serde", "serde_json", "axum", "hyper", "wasmtime", "tracing"]),
    // The agent runs on every GPU host: no server framework, no sandbox, no SQL.
    ("farebox-metering", &["axum", "tower", "wasmtime", "rusqlite", "sqlx", "tokio-postgres"]),
    ("farebox-sandbox", &["tokio", "axum", "hyper", "wasmtime-wasi"]),
    ("farebox-sdk", &["tokio", "wasmtime", "farebox-pricing"]),
    ("farebox", &["farebox-sdk", "wasmtime-wasi"]),
];

/// A crate of the workspace: its name and the folder of its manifest.
struct Member {
    name: String,
    folder: String,
}

fn members() -> Vec<Member> {
    let manifests = files_with("toml").into_iter().filter(|path| path.ends_with("/Cargo.toml"));
    let member = |path: String| {
        let manifest = read(&path);
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        Member { name: name.unwrap().to_owned(), folder: path.strip_suffix("/Cargo.toml").unwrap().to_owned() }
    };
    manifests.map(member).collect()
}

fn is_policy(member: &Member) -> bool {
    member.folder.starts_with("policies/")
}

fn may_use(member: &Member) -> Option<&'static [&'static str]> {
    if is_policy(member) {
        return Some(&["farebox-sdk"]);
    }
    ARROWS.iter().find(|(name, _)| *name == member.name).map(|(_, allowed)| *allowed)
}

/// The names of what `cargo tree` finds below a crate, without what only its tests need.
fn below(name: &str, depth: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", "no-dev", "--prefix", "none", "--format", "{p}"])
        .args(["--package", name, "--depth", depth])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let names: BTreeSet<_> = text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert!(names.contains(name), "cargo tree does not begin with `{name}`:\n{text}");
    names.into_iter().filter(|found| found != name).collect()
}

#[test]
fn crates_depend_only_along_the_arrows() {
    let members = members();
    let ours: BTreeSet<_> = members.iter().map(|member| member.name.as_str()).collect();
    let mut findings = Vec::new();
    for member in members.iter().filter(|member| !member.folder.starts_with("tests")) {
        let Some(allowed) = may_use(member) else {
            findings.push(format!("the crate `{}` is new; add it to ARROWS here and to ARCHITECTURE.md", member.name));
            continue;
        };
        for used in below(&member.name, "1") {
            if ours.contains(used.as_str()) && !allowed.contains(&used.as_str()) {
                findings.push(format!("`{}` depends on `{used}`", member.name));
            }
            if used == "wasmtime" && member.name != "farebox-sandbox" {
                findings.push(format!("`{}` depends on `wasmtime`; only `farebox-sandbox` may", member.name));
            }
        }
    }
    expect_none(
        "dependencies follow the arrows (ARCHITECTURE.md, *Rooms*); turn this one round or pass a value",
        &findings,
    );
}

#[test]
fn what_must_be_absent_is_absent_at_any_depth() {
    let policies: Vec<_> = members().into_iter().filter(is_policy).map(|member| member.name).collect();
    assert!(!policies.is_empty());
    let mut findings = Vec::new();
    for (name, absent) in ABSENT {
        let below = below(name, "1000");
        let absent = absent.iter().copied().chain(policies.iter().map(String::as_str));
        findings
            .extend(absent.filter(|other| below.contains(*other)).map(|other| format!("`{name}` pulls in `{other}`")));
    }
    expect_none("`cargo tree -p NAME -i OTHER` shows by which way; cut it there", &findings);
}

/// `metering.md` case 18: redis-rs's cache of answers can return the wrong fields, and keeps stale values after a race.
#[test]
fn the_client_of_redis_keeps_no_cache() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--workspace", "--prefix", "none", "--format", "{p} {f}"])
        .current_dir(root())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let redis: Vec<_> = text.lines().filter(|line| line.starts_with("redis v")).collect();
    assert!(redis.iter().any(|line| line.contains("tokio-rustls-comp")), "the question is asked wrongly: {redis:?}");
    let findings: Vec<_> = redis.into_iter().filter(|line| line.contains("cache-aio")).map(str::to_owned).collect();
    expect_none("take `cache-aio` out of the features of `redis` in Cargo.toml", &findings);
}

/// The sentence of DESIGN §2, word for word.
#[test]
fn cargo_tree_finds_no_tokio_in_pricing() {
    let tree = |inverted: &str| {
        let arguments = ["tree", "--offline", "--locked", "--edges", "no-dev", "-p", "farebox-pricing", "-i", inverted];
        Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap()
    };
    assert!(!tree("tokio").status.success(), "`farebox-pricing` depends on tokio: {:?}", tree("tokio"));
    assert!(tree("rust_decimal").status.success(), "the question is asked wrongly: {:?}", tree("rust_decimal"));
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let findings: Vec<_> = members()
        .into_iter()
        .filter(|member| !read(&format!("{}/Cargo.toml", member.folder)).contains("[lints]\nworkspace = true"))
        .map(|member| member.folder)
        .collect();
    expect_none("add `[lints]` with `workspace = true` to its Cargo.toml", &findings);
}
