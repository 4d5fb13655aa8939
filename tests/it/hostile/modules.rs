//! Hostile modules: the text fixtures, made whole, and the generated ones.

use std::path::PathBuf;

use wit_component::{StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::generated;
use crate::harness::root;

/// A module and what must happen to it.
pub struct Hostile {
    /// Number in the list of sandbox cases.
    pub case: u32,
    pub name: String,
    /// What it does, after "it".
    pub does: String,
    pub expected: Expected,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// `<stage>: <the error or fault>`
    Stopped(String),
    /// It runs, and W1 without usage then costs that much, every time.
    Priced(String),
}

/// All of them, by case.
pub fn all() -> Vec<Hostile> {
    let mut all = fixtures();
    all.extend(generated::all());
    all.sort_by(|a, b| (a.case, &a.name).cmp(&(b.case, &b.name)));
    all
}

/// The guest that fragments are put into, as it is: it charges 1 %.
pub fn well_behaved(name: &str) -> Vec<u8> {
    whole(name, "")
}

/// The guest with a fragment in it.
pub fn of_fragment(name: &str, fragment: &str) -> Vec<u8> {
    whole(name, fragment)
}

fn directory() -> PathBuf {
    root().join("fixtures/hostile")
}

fn fixtures() -> Vec<Hostile> {
    let paths = std::fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let is_fragment = |path: &PathBuf| path.extension().is_some_and(|it| it == "wat") && !path.ends_with("guest.wat");
    let fixtures: Vec<Hostile> = paths.filter(is_fragment).map(|path| read(&path)).collect();
    assert!(fixtures.len() >= 80, "only {} fixtures", fixtures.len());
    fixtures
}

/// Three lines of comment say the case, what it does and what must happen; then comes the text.
fn read(path: &PathBuf) -> Hostile {
    let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines();
    let mut comment = || lines.next().and_then(|line| line.strip_prefix(";; ")).unwrap_or_else(|| panic!("{name}"));
    let (case, does, expected) = (comment().parse().unwrap(), comment().to_owned(), comment());
    let expected = match expected.split_once(' ') {
        Some(("stopped", how)) => Expected::Stopped(how.to_owned()),
        Some(("priced", total)) => Expected::Priced(total.to_owned()),
        _ => panic!("{name}: `{expected}` is neither `stopped …` nor `priced …`"),
    };
    let is_whole = |line: &str| line.starts_with("(module") || line.starts_with("(component");
    let bytes = match text.lines().find(|line| !line.starts_with(";;")) {
        Some(line) if is_whole(line) => wat::parse_str(&text).unwrap_or_else(|error| panic!("{name}: {error}")),
        _ => whole(&name, &text),
    };
    Hostile { case, name, does, expected, bytes }
}

/// Puts a fragment into `guest.wat`: lines that begin as the fragment's do give way.
fn whole(name: &str, fragment: &str) -> Vec<u8> {
    const PARTS: [&str; 5] = ["(memory (", "(func $realloc", "(func $describe", "(func $configure", "(func $evaluate"];
    let gives_way = |line: &&str| PARTS.iter().any(|part| line.trim().starts_with(part) && fragment.contains(part));
    let guest = std::fs::read_to_string(directory().join("guest.wat")).unwrap();
    let guest: String = guest.lines().filter(|line| !gives_way(line)).map(|line| format!("{line}\n")).collect();
    let text = guest
        .replace("FRAGMENT", fragment)
        .replace("\"NAME\"", &format!("\"{name}\""))
        .replace("NAME_LENGTH", &name.len().to_string());
    with_contract(wat::parse_str(&text).unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// Embeds the contract as the SDK does.
fn with_contract(mut module: Vec<u8>) -> Vec<u8> {
    let wit = std::fs::read_to_string(root().join("sdk-wasm/wit/policy.wit")).unwrap();
    let mut resolve = Resolve::default();
    let package = resolve.push_str("policy.wit", &wit).unwrap();
    let world = resolve.select_world(&[package], Some("policy")).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    module
}
