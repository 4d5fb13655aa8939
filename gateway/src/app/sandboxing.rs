//! The sandbox and its code cache, and where what is wrong with the cache is told.

use std::path::Path;

use farebox_sandbox::{CacheEvent, Limits, Sandbox, SandboxError};

use crate::causes::with_causes;

/// `code_cache`: where compiled code is kept between starts. `None`: nowhere.
pub(super) fn sandbox(limits: Limits, code_cache: Option<&Path>) -> Result<Sandbox, SandboxError> {
    match code_cache {
        Some(directory) => Sandbox::with_code_cache(limits, directory, tell),
        None => Sandbox::new(limits),
    }
}

/// An alarm is an error that somebody should look into; everything is priced all the same.
fn tell(event: &CacheEvent) {
    let told = with_causes(event);
    match event.is_alarm() {
        true => tracing::error!(code_cache = true, "{told}"),
        false => tracing::warn!(code_cache = true, "{told}"),
    }
}
