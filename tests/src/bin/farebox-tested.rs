//! `farebox` once more, so that Cargo builds it for the tests of this crate: it builds binaries for no others.

use std::process::ExitCode;

fn main() -> ExitCode {
    farebox::cli::run()
}
