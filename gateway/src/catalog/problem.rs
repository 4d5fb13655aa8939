//! What is wrong with the files of a catalogue, each problem with its place.

use std::fmt;

use crate::printable::printable;

/// One problem of one file. Shown as `plans/gpu-standard.toml:12:5: sentence`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub struct CatalogProblem {
    /// Below its directory: `plans/gpu-standard.toml`, `policies/isolation.wasm`.
    pub path: String,
    /// `None` where the file has no lines: a policy, or a file that cannot be read.
    pub place: Option<Place>,
    /// JSON Pointer into the document.
    pub pointer: String,
    pub message: String,
    /// Where it only follows from the problems of another file: that file.
    pub because: Option<String>,
}

/// Both from 1; `column` counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

impl CatalogProblem {
    /// A problem of a file as a whole.
    pub(super) fn of_file(path: impl Into<String>, message: &str) -> Self {
        Self { path: path.into(), place: None, pointer: String::new(), message: printable(message), because: None }
    }

    pub(super) fn at(path: &str, place: Place, pointer: &str, message: &str) -> Self {
        let (path, pointer, message) = (path.to_owned(), pointer.to_owned(), printable(message));
        Self { path, place: Some(place), pointer, message, because: None }
    }

    /// The same, as a consequence of the problems of another file.
    pub(super) fn following(self, because: Option<String>) -> Self {
        Self { because, ..self }
    }
}

impl fmt::Display for CatalogProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, place, message, .. } = self;
        let path = printable(path);
        match place {
            Some(Place { line, column }) => write!(formatter, "{path}:{line}:{column}: {message}"),
            None => write!(formatter, "{path}: {message}"),
        }
    }
}
