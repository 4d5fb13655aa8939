//! `farebox policy build`.

use std::path::{Path, PathBuf};

use super::Failure;
use super::policy_build::{self, Toolchain};
use crate::config;

pub(super) fn build(packages: &[PathBuf], out: &Path) -> Result<(), Failure> {
    let here = std::env::current_dir().map_err(Failure::new)?;
    let cargo_home = config::cargo_home();
    let toolchain = Toolchain { workspace: &here, cargo_home: &cargo_home };
    let built = policy_build::build(toolchain, packages, out).map_err(Failure::new)?;
    for policy in built {
        println!("{}  {} bytes", policy.file.display(), policy.bytes);
    }
    Ok(())
}
