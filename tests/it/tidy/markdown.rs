//! Every path that a Markdown file names exists: links, and code that reads like a path of the repository.

use std::path::{Component, Path, PathBuf};

use super::{expect_none, files_with, read, root};

#[test]
fn every_path_named_in_markdown_exists() {
    let mut findings = Vec::new();
    for file in files_with("md") {
        let text = read(&file);
        let folder = Path::new(&file).parent().unwrap();
        let broken = |named: &&str| !resolves(&folder.join(named));
        findings.extend(links(&text).into_iter().filter(broken).map(|link| format!("{file} links to `{link}`")));
        let is_path = |named: &&str| reads_like_a_path(named, folder);
        let missing = |named: &&str| !resolves(Path::new(named)) && !resolves(&folder.join(named));
        findings.extend(
            code_spans(&text).into_iter().filter(is_path).filter(missing).map(|path| format!("{file} names `{path}`")),
        );
    }
    expect_none("correct the path, or what lies there", &findings);
}

/// Targets of links inside the repository, without their fragments.
fn links(text: &str) -> Vec<&str> {
    outside_of_fences(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        .map(|link| link.split('#').next().unwrap_or_default())
        .filter(|link| !link.is_empty())
        .collect()
}

/// What stands between single backticks.
fn code_spans(text: &str) -> Vec<&str> {
    outside_of_fences(text).flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

fn outside_of_fences(text: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// True for `docs/contract.md` and `policies/*`; not for routes, media types, globs of names or `farebox policy build`.
fn reads_like_a_path(span: &str, folder: &Path) -> bool {
    const EXTENSIONS: &[&str] = &[".md", ".toml", ".rs", ".wit", ".json", ".csv", ".sh"];
    let is_plain = span.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./*".contains(letter));
    let Some((first, rest)) = span.split_once('/').filter(|_| is_plain && !span.starts_with(['/', '.'])) else {
        // A file of the root, told by its extension: `deny.toml`. A bare `lib.rs` may be anywhere.
        return is_plain && !span.contains('/') && (span.ends_with(".md") || span == "Makefile");
    };
    let is_folder = |base: &Path| base.join(first).is_dir();
    first != "target"
        && (is_folder(&root()) || is_folder(&root().join(folder)) || EXTENSIONS.iter().any(|end| rest.ends_with(end)))
}

/// True if it is there, within the repository; up to the first `*` only.
fn resolves(path: &Path) -> bool {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if !clean.pop() => return false,
            Component::ParentDir | Component::CurDir => {}
            Component::Normal(part) if part.to_string_lossy().contains('*') => break,
            other => clean.push(other),
        }
    }
    root().join(clean).exists()
}

#[test]
fn paths_are_told_from_other_code() {
    let here = Path::new("docs");
    for path in ["gateway/src/quoting.rs", "policies/*", "gateway/nowhere", "src/nowhere.rs", "CHANGELOG.md"] {
        assert!(reads_like_a_path(path, here), "{path}");
    }
    for other in [
        "/v1/quotes",
        "application/wasm",
        "farebox policy build",
        "lib.rs",
        "gpu_util",
        "a.b",
        "target/x",
        "../shared/SPEC.md",
    ] {
        assert!(!reads_like_a_path(other, here), "{other}");
    }
}

#[test]
fn links_and_code_are_found_outside_of_fences() {
    let text = "[a](b.md#c) and [d](https://e) `f/g`\n```\n[h](i.md) `j/k`\n```\n[l](#m) ![n](o/p.svg) `q` and `r/s`";
    assert_eq!(links(text), ["b.md", "o/p.svg"]);
    assert_eq!(code_spans(text), ["f/g", "q", "r/s"]);
}

#[test]
fn only_what_exists_inside_the_repository_resolves() {
    assert!(resolves(Path::new("gateway/../Cargo.toml")) && resolves(Path::new("policies/*/src")));
    assert!(!resolves(Path::new("gateway/nowhere.rs")) && !resolves(Path::new("../..")));
}
