//! `farebox`: the gateway and the analyst's tools.

use std::process::ExitCode;

fn main() -> ExitCode {
    farebox::cli::run()
}
