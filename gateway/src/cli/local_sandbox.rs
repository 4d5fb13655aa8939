//! The sandbox of commands that load policies here, without a server.

use farebox_sandbox::{Limits, Sandbox};

use super::{Failure, warn};
use crate::causes::with_causes;
use crate::config::user_code_cache;

/// With the limits that the gateway ships with. Compiled code is kept in the user's cache, so that the second command does
/// not wait for the compiler again; what is wrong there is told on stderr and stops nothing.
pub(super) fn local_sandbox() -> Result<Sandbox, Failure> {
    let sandbox = match user_code_cache() {
        Some(directory) => Sandbox::with_code_cache(Limits::standard(), &directory, |event| {
            warn(&with_causes(event));
        }),
        None => Sandbox::new(Limits::standard()),
    };
    sandbox.map_err(Failure::new)
}
