//! A policy without a sandbox: the same three functions, called directly.

use crate::contract::{Configuration, Context, Guest, Manifest, Outcome, Refusal};

/// The handle that [`policy!`](crate::policy!) defines as `POLICY`.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    describe: fn() -> Manifest,
    configure: fn(String) -> Result<Configuration, Vec<Refusal>>,
    evaluate: fn(Vec<u8>, Context) -> Result<Outcome, Refusal>,
    directory: &'static str,
}

impl Policy {
    #[doc(hidden)]
    pub const fn of<G: Guest>(directory: &'static str) -> Self {
        Self { describe: G::describe, configure: G::configure, evaluate: G::evaluate, directory }
    }

    pub fn describe(&self) -> Manifest {
        (self.describe)()
    }

    /// Parameters as JSON. Refusals point into them.
    pub fn configure(&self, parameters: &str) -> Result<Configuration, Vec<Refusal>> {
        (self.configure)(parameters.to_owned())
    }

    /// `configuration` as [`configure`](Self::configure) gave it; any other bytes panic, as they trap in the sandbox.
    pub fn evaluate(&self, configuration: &[u8], context: Context) -> Result<Outcome, Refusal> {
        (self.evaluate)(configuration.to_vec(), context)
    }

    /// Where its crate lies on the machine that built it.
    pub fn directory(&self) -> &'static str {
        self.directory
    }
}
