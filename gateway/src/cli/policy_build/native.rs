//! A policy's own tests, natively: its cases hand over what they answered.

use std::fs;
use std::path::PathBuf;

use super::package::{cargo, target_dir};
use super::{BuildError, Package, Toolchain};
use crate::authoring::{ANSWERS_VARIABLE, NativeAnswers, NoAnswers};

/// How a crate's tests ended.
#[derive(Debug)]
pub struct NativeRun {
    pub answers: Result<NativeAnswers, NoAnswers>,
    /// What was printed, where they failed or did not compile.
    pub failure: Option<String>,
}

/// Runs the tests of a package's library. With `update`, its cases are rewritten to what the policy says.
///
/// # Errors
/// Where nothing could be run at all.
pub fn run_native_tests(toolchain: Toolchain<'_>, package: &Package, update: bool) -> Result<NativeRun, BuildError> {
    let target_dir = target_dir(&package.workspace, toolchain.target_dir);
    // Of this process alone: two runs may meet.
    let answers = target_dir.join(format!("answers-{}", std::process::id()));
    let unwritable = |source| BuildError::Unwritable { file: answers.clone(), source };
    let _ = fs::remove_dir_all(&answers);
    fs::create_dir_all(&answers).map_err(unwritable)?;
    // Cargo changes into the package's folder before it runs its tests.
    let directory: PathBuf = answers.canonicalize().map_err(unwritable)?;
    let mut cargo = cargo(&package.workspace);
    cargo.args(["test", "--lib", "--quiet", "--package", &package.name]).arg("--target-dir").arg(target_dir);
    cargo.env(ANSWERS_VARIABLE, &directory);
    if update {
        cargo.env("UPDATE_CASES", "1");
    }
    let output = cargo.output().map_err(BuildError::NoCargo)?;
    let read = NativeAnswers::read(&directory, &package.name);
    let _ = fs::remove_dir_all(&answers);
    let failure = (!output.status.success()).then(|| {
        let both = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).trim().to_owned());
        both.join("\n").trim().to_owned()
    });
    Ok(NativeRun { answers: read, failure })
}
