//! The rules of the house that a machine can check. Each failure says what to do.
//!
//! What clippy checks (lengths of functions, `unwrap`, the clock) is left to clippy.

#![expect(clippy::unwrap_used, reason = "a rule that cannot be checked fails")]

mod arrows;
mod markdown;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every file with this extension, by its path from the root, sorted; build output and Git's own left out.
fn files_with(extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(&root(), extension, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no `.{extension}` file under {}", root().display());
    found
}

fn collect(directory: &Path, extension: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            if name != "target" && name != ".git" {
                collect(&path, extension, found);
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// Fails with all findings at once.
fn expect_none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}\n  {}", findings.join("\n  "));
}
