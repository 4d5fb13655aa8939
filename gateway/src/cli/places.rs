//! Where the data directory and the policies are.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use super::exit::Exit;
use crate::config;

/// What a checkout has, once `make policies` has run.
const DATA: &str = "fixtures";
const POLICIES: &str = "target/policies";

#[derive(Clone, Debug, Default, Args)]
pub(super) struct Places {
    /// Directory with tenants/, price-books/ and plans/ [default: FAREBOX_DATA_DIR, else fixtures].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Directory with the built policies [default: FAREBOX_POLICIES_DIR, else target/policies].
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
}

impl Places {
    /// Both directories, which are there.
    pub(super) fn existing(&self) -> Result<(PathBuf, PathBuf), Failure> {
        let (data, _) = config::directories(config::environment());
        let data = self.data.clone().or(data).unwrap_or_else(|| DATA.into());
        existing("data directory", &data, "name one with `--data`, or ask a gateway with `--server`")?;
        Ok((data, policies(self.policies.as_deref())?))
    }
}

/// The directory of the policies, which is there.
pub(super) fn policies(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let (_, policies) = config::directories(config::environment());
    let policies = named.map(Path::to_path_buf).or(policies).unwrap_or_else(|| POLICIES.into());
    existing("directory of policies", &policies, "build them with `make policies`, or name it with `--policies`")?;
    Ok(policies)
}

pub(super) fn existing(what: &str, directory: &Path, remedy: &str) -> Result<(), Failure> {
    if directory.is_dir() {
        return Ok(());
    }
    let sentence = format!("the {what} `{}` is not there; {remedy}", directory.display());
    Err(Failure::saying(sentence).ending(Exit::NoInput))
}
