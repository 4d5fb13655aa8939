//! Runs pricing policies, and is the only room that knows how.
//!
//! A policy is a WebAssembly component without imports. [`Sandbox::load`] checks, compiles and describes it,
//! [`Policy::configure`] binds it to parameters, and a [`Session`] evaluates it for one quote, each time in a fresh
//! instance under fuel, memory, stack, output and time limits. An evaluation ends priced, refused or faulted; which
//! fault it is, the engine's types decide, never its texts.
//!
//! Fuel decides what is too long, because it is the same on every machine. The deadline behind it is the host's fault.

mod bindings;
mod code_cache;
mod fault;
mod guard;
mod inspection;
mod limits;
mod load_error;
mod manifest;
mod memo;
mod passing;
mod policy;
mod receiving;
mod run;
mod sandbox;
mod session;
mod ticker;
mod wrapping;

pub use code_cache::{CacheEvent, Mismatch, NotUsed};
pub use limits::{Counts, Limits};
pub use load_error::LoadError;
pub use memo::{Memo, MemoCounters, MemoLimits, Memoized};
pub use policy::{ConfigureError, ConfiguredPolicy, Policy};
pub use sandbox::{Sandbox, SandboxError};
pub use session::{Measured, Session};
pub use wrapping::componentize;

#[cfg(test)]
mod tests;
