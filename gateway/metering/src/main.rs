//! `farebox-agent`: reads a host's GPUs and tells the gateway what their tenants used.

use std::process::ExitCode;

fn main() -> ExitCode {
    farebox_metering::agent::run()
}
