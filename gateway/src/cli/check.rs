//! `farebox check`: loads everything, tells every problem, exits.

use std::path::Path;

use super::Failure;
use super::local_sandbox::local_sandbox;
use crate::catalog::Catalog;

pub(super) fn run(data: &Path, policies: &Path) -> Result<(), Failure> {
    let sandbox = local_sandbox()?;
    let catalog = Catalog::load(data, policies, &sandbox);
    for problem in &catalog.problems {
        println!("{problem}");
    }
    match catalog.problems.len() {
        0 => {
            println!("{} plans can be priced under; no problems", catalog.plans.len());
            Ok(())
        }
        1 => Err(Failure::saying("1 problem")),
        many => Err(Failure::saying(format!("{many} problems"))),
    }
}
