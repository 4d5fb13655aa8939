//! An error with what caused it, in one line, for the operator; callers over HTTP never see causes.

use std::error::Error;

/// `outer: cause: cause of the cause`, each told once.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
