//! What authors rely on: builds that are the same in any folder, a lint that finds what is not needed, shipped policies
//! without a complaint, and tools that say what is wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use farebox::authoring::{Case, Level, Report, check, load_cases};
use farebox_sandbox::{Limits, Sandbox};
use serde_json::Value;

use crate::harness::{policies, root};

/// A folder that is the same in each run, so that only policies are built anew.
fn folder(name: &str) -> PathBuf {
    let folder = root().join("target/authoring").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn farebox(here: &Path, target_dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_farebox-under-test"))
        .args(arguments)
        .current_dir(here)
        .env("CARGO_TARGET_DIR", target_dir)
        .env("LC_ALL", "C")
        .env_remove("UPDATE_CASES")
        .output()
        .unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap() + &String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", printed(output)))
}

fn sha256(output: &Output) -> String {
    json(output)["policies"][0]["sha256"].as_str().unwrap().to_owned()
}

#[test]
fn a_scaffold_in_two_folders_gives_one_sha256() {
    let builds = root().join("target/authoring-builds");
    let built = ["one", "two"].map(|name| {
        let here = folder(name);
        let new = farebox(&here, &builds, &["policy", "new", "twice-built"]);
        assert!(new.status.success(), "{}", printed(&new));
        let built = farebox(&here, &builds.join(name), &["policy", "build", "twice-built", "--json"]);
        let sha256 = sha256(&built);
        // What is written is what was named.
        let file = here.join(json(&built)["policies"][0]["file"].as_str().unwrap());
        let bytes = fs::read(&file).unwrap();
        assert!(bytes.starts_with(b"\0asm"));
        assert!(!String::from_utf8_lossy(&bytes).contains(root().to_str().unwrap()), "a path of this machine is in it");
        sha256
    });
    assert_eq!(built[0], built[1]);
}

#[test]
fn a_member_in_two_workspaces_gives_one_sha256() {
    let here = folder("workspace");
    let copy = |from: &str, to: &str| {
        fs::create_dir_all(here.join(to).parent().unwrap()).unwrap();
        let copied = Command::new("cp").arg("-r").arg(root().join(from)).arg(here.join(to)).status();
        assert!(copied.unwrap().success());
    };
    copy("sdk-wasm", "sdk-wasm");
    copy("policies/isolation", "policies/isolation");
    copy("Cargo.lock", "Cargo.lock");
    copy("rust-toolchain.toml", "rust-toolchain.toml");
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let is_members = |line: &&str| line.starts_with("members = ");
    let members = manifest.lines().find(is_members).unwrap();
    let manifest = manifest.replace(members, "members = [\"sdk-wasm\", \"policies/*\"]");
    fs::write(here.join("Cargo.toml"), manifest).unwrap();
    let target = root().join("target/authoring-builds/workspace");
    let built = farebox(&here, &target, &["policy", "build", "policies/isolation", "--json"]);
    let bytes = fs::read(here.join("target/policies/isolation.wasm")).unwrap_or_else(|_| panic!("{}", printed(&built)));
    assert!(bytes == fs::read(policies().join("isolation.wasm")).unwrap(), "other bytes in another folder");
    // In the workspace, a new policy is a member like the others.
    let new = farebox(&here.join("policies"), &target, &["policy", "new", "night-rate", "--json"]);
    assert_eq!(json(&new)["sdk"], Value::Null, "{}", printed(&new));
    let checked = farebox(&here, &target, &["policy", "check", "policies/night-rate", "--deny-warnings", "--json"]);
    assert_eq!(
        (json(&checked)["passed"].as_bool(), checked.status.code()),
        (Some(true), Some(0)),
        "{}",
        printed(&checked)
    );
}

fn report(name: &str, keep: impl Fn(&Case) -> bool) -> Report {
    let sandbox = Sandbox::new(Limits::standard()).unwrap();
    let bytes = fs::read(policies().join(format!("{name}.wasm"))).unwrap();
    let cases: Vec<Case> =
        load_cases(&root().join("policies").join(name).join("cases")).unwrap().into_iter().filter(keep).collect();
    assert!(!cases.is_empty());
    check(&sandbox, &bytes, Some(&cases))
}

fn complaints(report: &Report) -> Vec<String> {
    let bad = report.checks.iter().filter(|check| check.level >= Level::Warning);
    bad.map(|check| format!("{:?} {}: {}", check.level, check.what, check.text)).collect()
}

#[test]
fn every_policy_in_the_repository_has_a_clean_bill() {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("policies")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        found.extend(complaints(&report(&name, |_| true)).into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_no_case_needs_is_told() {
    // Without the cases of `dedicated`, nothing shows that code.
    let isolation = report("isolation", |case| !["dedicated", "zero_rate"].contains(&case.name.as_str()));
    let code = "Warning produces: no case produces `dedicated`: drop it from `produces`, or add a case";
    assert_eq!(complaints(&isolation), [code]);
    // A case in which no fact is there cannot show that one matters.
    let isolation = report("isolation", |case| case.name == "absent");
    let read = "Warning reads: `workload.isolation` is read but no case has it: drop it from `reads`, or add a case";
    assert!(complaints(&isolation).contains(&read.to_owned()), "{:?}", complaints(&isolation));
    // TensorFlow has one price however it is run.
    let framework = report("framework-premium", |case| case.name == "other_framework");
    assert!(
        complaints(&framework).iter().any(|what| what.contains("`workload.execution` is read but no case")),
        "{:?}",
        complaints(&framework)
    );
}

#[test]
fn usage_and_bad_input_end_with_a_sentence() {
    let here = folder("bad");
    let target = root().join("target/authoring-builds");
    fs::write(here.join("text.wasm"), "(module)").unwrap();
    fs::write(here.join("empty-module.wasm"), b"\0asm\x01\0\0\0").unwrap();
    fs::create_dir(here.join("nothing")).unwrap();
    for (arguments, code, said) in [
        (&["policy", "new", "Night_Rate"][..], 64, "`night-rate` would do"),
        (&["policy", "new", "night-rate", "--sdk", "nothing"], 66, "there is no `farebox-sdk` in `nothing`"),
        (&["policy", "build"], 1, "`.` is no package of a policy"),
        (&["policy", "build", "text.wasm"], 1, "`text` is no policy: the file is WebAssembly text"),
        (&["policy", "build", "empty-module.wasm"], 1, "`empty-module` is no policy: the component does not export"),
        (&["policy", "build", "text.wasm", "--out", "."], 64, "choose another folder with `--out`"),
        (&["policy", "build", "empty-module.wasm", "text.wasm", "./text.wasm"], 1, "two policies are named `text`"),
        (&["policy", "test", "nothing"], 1, "`nothing` is no package of a policy"),
        (&["policy", "check", "text.wasm"], 1, "the file is WebAssembly text"),
        (&["policy", "check", "no.wasm"], 66, "`no.wasm` is not there; is the path right from here?"),
        (&["policy", "build", "no.wasm"], 66, "`no.wasm` is not there"),
        (&["policy", "test", "nowhere"], 66, "`nowhere` is not there"),
        (&["policy", "check", "text.wasm", "--cases", "nowhere"], 66, "case `nowhere` cannot be read: No such file"),
        (&["policy", "check", "text.wasm", "--cases", "nothing"], 1, "no `.json` file in it"),
        (&["policy", "check", "text.wasm", "empty-module.wasm", "--cases", "nothing"], 64, "`--cases` goes with one"),
        (&["policy", "check", "--frobnicate"], 64, "--frobnicate"),
    ] {
        let output = farebox(&here, &target, arguments);
        let printed = printed(&output);
        assert!(
            printed.contains(said) && output.status.code() == Some(code),
            "{arguments:?}: {:?} {printed}",
            output.status
        );
    }
    let left: Vec<_> = fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name == "night-rate" || name == "Night_Rate"), "{left:?}");
}

/// A core module that some other toolchain made is wrapped, and gives what the crate gives.
#[test]
fn a_core_module_becomes_the_component_that_its_crate_becomes() {
    let here = folder("core");
    let component = fs::read(policies().join("isolation.wasm")).unwrap();
    let core = root().join("target/policies-build/wasm32-unknown-unknown/policy/isolation.wasm");
    fs::copy(core, here.join("isolation.wasm")).unwrap();
    let built = farebox(&here, &here, &["policy", "build", "isolation.wasm"]);
    assert!(built.status.success() && printed(&built).contains("sha256"), "{}", printed(&built));
    assert!(fs::read(here.join("target/policies/isolation.wasm")).unwrap() == component);
    // A component is one already.
    fs::write(here.join("isolation.wasm"), &component).unwrap();
    assert!(farebox(&here, &here, &["policy", "build", "isolation.wasm", "--out", "again"]).status.success());
    assert!(fs::read(here.join("again/isolation.wasm")).unwrap() == component);
}
