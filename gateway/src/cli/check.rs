//! `farebox check`: loads everything, tells every problem, exits.

use std::path::PathBuf;

use clap::Args;
use farebox_sandbox::{Limits, Sandbox};

use super::{Failure, exit, places, tell};
use crate::catalog::Catalog;

#[derive(Debug, Args)]
#[command(after_help = exit::help())]
pub(super) struct Options {
    /// Directory with tenants/, price-books/ and plans/.
    data: PathBuf,
    /// Directory with the built policies [default: FAREBOX_POLICIES_DIR, else target/policies].
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    places::existing("data directory", &options.data, "is the path right from here?")?;
    let policies = places::policies(options.policies.as_deref())?;
    let sandbox = Sandbox::new(Limits::standard()).map_err(Failure::new)?;
    let catalog = Catalog::load(&options.data, &policies, &sandbox);
    for problem in &catalog.problems {
        tell(&format!("{problem}\n"))?;
    }
    match catalog.problems.len() {
        0 => tell(&format!("{} plans can be priced under; no problems\n", catalog.plans.len())),
        1 => Err(Failure::saying("1 problem")),
        many => Err(Failure::saying(format!("{many} problems"))),
    }
}
