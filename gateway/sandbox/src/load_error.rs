//! Why bytes did not become a policy.

use std::error::Error;

use farebox_pricing::policy::Fault;

/// What an uploader is told. Nothing here changes a price: a module that is refused was never a policy.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("the file is empty; upload a WebAssembly module or component")]
    Empty,
    #[error("the file is compiled machine code; upload the WebAssembly that it was compiled from")]
    NativeCode,
    #[error("the file is WebAssembly text; upload its binary form")]
    Text,
    #[error("the file is not WebAssembly")]
    NotWasm,
    #[error("the file is malformed or cut off")]
    Malformed(#[source] Box<dyn Error + Send + Sync>),
    #[error("{what}: {found}, at most {limit} allowed")]
    OverLimit { what: &'static str, found: u64, limit: u64 },
    #[error("the module cannot be made a component of world `farebox:policy/policy`; build it with the SDK")]
    NotWrappable(#[source] Box<dyn Error + Send + Sync>),
    #[error("a policy may import nothing, but this one imports `{name}`")]
    Import { name: String },
    #[error("the component does not export `{expected}`; build it with the SDK")]
    NoContract { expected: &'static str },
    #[error("the component speaks `{found}`, but this gateway speaks `{expected}`; build it with a matching SDK")]
    OtherVersion { found: String, expected: &'static str },
    #[error("the component does not compile here")]
    NotCompilable(#[source] Box<dyn Error + Send + Sync>),
    /// A defect of the compiler, or of what wraps modules; the uploader can do something about it all the same.
    #[error("the compiler fails on this file; build it with the SDK")]
    Compiler,
    #[error("the functions of `{expected}` do not have the types of the contract")]
    OtherTypes { expected: &'static str, source: Box<dyn Error + Send + Sync> },
    #[error("`describe` gave no answer")]
    Describe(#[source] Fault),
    #[error("the manifest is not valid: {0}")]
    Manifest(String),
}
