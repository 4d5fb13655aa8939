//! A policy: loaded once, configured once per plan version.

use std::fmt;
use std::sync::Arc;

use farebox_pricing::policy::{Fault, Manifest, Refusal};
use sha2::{Digest, Sha256};
use wasmtime::component::{Component, InstancePre};

use crate::bindings as wire;
use crate::code_cache::Compiled;
use crate::guard::Guard;
use crate::inspection::{CONTRACT, inspect, inspect_module};
use crate::load_error::LoadError;
use crate::manifest;
use crate::memo::key::IDENTITY_BYTES;
use crate::receiving::Reader;
use crate::run::{Program, call, start};
use crate::sandbox::{Host, hex};
use crate::wrapping::componentize;

/// A compiled module and what it says of itself. Cheap to clone; it keeps its sandbox alive.
#[derive(Clone)]
pub struct Policy {
    loaded: Arc<Loaded>,
}

struct Loaded {
    program: Program,
    manifest: Manifest,
    digest: String,
    size_bytes: usize,
    describe_fuel: u64,
    is_cached: bool,
}

/// A policy under one set of parameters: what one step of a plan runs. Cheap to clone.
#[derive(Clone)]
pub struct ConfiguredPolicy {
    policy: Policy,
    configuration: Arc<wire::Configuration>,
    identity: [u8; IDENTITY_BYTES],
    fuel: u64,
}

/// Why parameters did not become a configuration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigureError {
    /// The policy's own answer: each refusal points into the parameters.
    #[error("the policy refuses its parameters")]
    Refused(Vec<Refusal>),
    /// No answer, or one against the contract, such as `reads` that the manifest does not cover.
    #[error("the policy could not be configured")]
    Faulted(#[source] Fault),
}

impl Policy {
    pub(crate) fn load(host: &Arc<Host>, bytes: &[u8]) -> Result<Self, LoadError> {
        let limit = host.limits.artefact_bytes;
        if bytes.len() > limit {
            let [found, limit] = [bytes.len(), limit].map(|size| u64::try_from(size).unwrap_or(u64::MAX));
            return Err(LoadError::OverLimit { what: "bytes in the file", found, limit });
        }
        // Before anything works on the bytes: wrapping parses, validates and rewrites a module.
        inspect_module(bytes, &host.limits)?;
        let component = contained(|| componentize(bytes))?;
        inspect(&component, &host.limits)?;
        let Compiled { component, is_cached } = contained(|| host.compile(&component).map_err(not_compilable))?;
        let instance = host.linker.instantiate_pre(&component).map_err(not_compilable)?;
        let program = program(host, &component, instance)?;
        let (manifest, describe_fuel) = describe(&program)?;
        let digest = hex(&Sha256::digest(bytes));
        let size_bytes = bytes.len();
        Ok(Self { loaded: Arc::new(Loaded { program, manifest, digest, size_bytes, describe_fuel, is_cached }) })
    }

    /// SHA-256 of the bytes that were loaded, as 64 hex digits.
    pub fn digest(&self) -> &str {
        &self.loaded.digest
    }

    pub fn manifest(&self) -> &Manifest {
        &self.loaded.manifest
    }

    /// Length of the bytes that were loaded.
    pub fn size_bytes(&self) -> usize {
        self.loaded.size_bytes
    }

    /// Fuel that `describe` burnt.
    pub fn describe_fuel(&self) -> u64 {
        self.loaded.describe_fuel
    }

    /// True if its code was not compiled by this load but found in the code cache.
    pub fn is_cached(&self) -> bool {
        self.loaded.is_cached
    }

    /// Checks `parameters`, a JSON object, in the policy itself, and keeps what it makes of them.
    pub fn configure(&self, parameters: &str) -> Result<ConfiguredPolicy, ConfigureError> {
        let program = &self.loaded.program;
        let limits = &program.host.limits;
        let mut store = program.host.store();
        let ((answer,), spent) = call::<_, (Result<wire::Configuration, Vec<wire::Refusal>>,)>(
            &mut store,
            program,
            &program.configure,
            (parameters,),
            limits.setup(),
        )
        .map_err(ConfigureError::Faulted)?;
        let reader = Reader(&limits.counts);
        match answer {
            Ok(configuration) => {
                let configuration = self.check(configuration, reader).map_err(ConfigureError::Faulted)?;
                Ok(ConfiguredPolicy {
                    policy: self.clone(),
                    identity: identity(self.digest(), &configuration),
                    configuration: Arc::new(configuration),
                    fuel: spent.fuel,
                })
            }
            Err(refusals) => {
                let refusals = reader.refusals(refusals).map_err(ConfigureError::Faulted)?;
                Err(ConfigureError::Refused(refusals))
            }
        }
    }

    fn check(&self, given: wire::Configuration, reader: Reader<'_>) -> Result<wire::Configuration, Fault> {
        let (reads, produces) = (reader.names(given.reads)?, reader.names(given.produces)?);
        manifest::check_reads(&reads).map_err(Fault::ContractViolation)?;
        manifest::check_produces(&produces).map_err(Fault::ContractViolation)?;
        let declared = self.manifest();
        let declared_reads = manifest::check_reads(&declared.reads).map_err(Fault::ContractViolation)?;
        if let Some(word) = manifest::uncovered_read(&reads, &declared_reads) {
            return Err(Fault::violation(format!("configure reads `{word}`, which the manifest does not")));
        }
        if let Some(code) = manifest::uncovered_code(&produces, &declared.produces) {
            return Err(Fault::violation(format!("configure produces `{code}`, which the manifest does not")));
        }
        Ok(wire::Configuration { bytes: given.bytes, reads, produces })
    }

    pub(crate) fn program(&self) -> &Program {
        &self.loaded.program
    }
}

impl ConfiguredPolicy {
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The bytes that every evaluation receives.
    pub fn bytes(&self) -> &[u8] {
        &self.configuration.bytes
    }

    /// What the host passes, and nothing else; covered by the manifest's.
    pub fn reads(&self) -> &[String] {
        &self.configuration.reads
    }

    /// Codes that the step may emit; covered by the manifest's.
    pub fn produces(&self) -> &[String] {
        &self.configuration.produces
    }

    /// What an outcome depends on beside the context that is passed: the policy's bytes and its configuration.
    pub(crate) fn identity(&self) -> &[u8; IDENTITY_BYTES] {
        &self.identity
    }

    /// Fuel that `configure` burnt.
    pub fn configure_fuel(&self) -> u64 {
        self.fuel
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Manifest { name, version, .. } = self.manifest();
        formatter
            .debug_struct("Policy")
            .field("name", name)
            .field("version", version)
            .field("digest", &self.digest())
            .finish()
    }
}

impl fmt::Debug for ConfiguredPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ConfiguredPolicy").field("policy", &self.policy).finish_non_exhaustive()
    }
}

fn identity(digest: &str, configuration: &wire::Configuration) -> [u8; IDENTITY_BYTES] {
    let wire::Configuration { bytes, reads, produces } = configuration;
    let mut sha = Sha256::new();
    let mut part = |bytes: &[u8]| {
        sha.update(bytes.len().to_le_bytes());
        sha.update(bytes);
    };
    part(digest.as_bytes());
    part(bytes);
    for words in [reads, produces] {
        part(&words.len().to_le_bytes());
        words.iter().for_each(|word| part(word.as_bytes()));
    }
    sha.finalize().into()
}

/// A panic over an uploaded file is an answer about that file, not the end of the process. What it leaves behind is not
/// looked at again: both arguments are read only.
fn contained<T>(work: impl FnOnce() -> Result<T, LoadError>) -> Result<T, LoadError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(Err(LoadError::Compiler))
}

fn not_compilable(error: wasmtime::Error) -> LoadError {
    LoadError::NotCompilable(error.into())
}

fn program(host: &Arc<Host>, component: &Component, instance: InstancePre<Guard>) -> Result<Program, LoadError> {
    let missing = LoadError::NoContract { expected: CONTRACT };
    let Some(interface) = component.get_export_index(None, CONTRACT) else { return Err(missing) };
    let function = |name: &str| component.get_export_index(Some(&interface), name);
    let (Some(describe), Some(configure), Some(evaluate)) =
        (function("describe"), function("configure"), function("evaluate"))
    else {
        return Err(missing);
    };
    Ok(Program { host: Arc::clone(host), instance, describe, configure, evaluate })
}

/// Also the place where the types of all three functions are checked against the contract.
fn describe(program: &Program) -> Result<(Manifest, u64), LoadError> {
    let limits = &program.host.limits;
    let mut store = program.host.store();
    let instance = start(&mut store, program, limits.setup()).map_err(LoadError::Describe)?;
    wire::GuestIndices::new(&program.instance)
        .and_then(|functions| functions.load(&mut store, &instance))
        .map_err(|error| LoadError::OtherTypes { expected: CONTRACT, source: error.into() })?;
    let mut store = program.host.store();
    let ((manifest,), spent) =
        call(&mut store, program, &program.describe, (), limits.setup()).map_err(LoadError::Describe)?;
    let manifest = manifest::read(manifest, &limits.counts).map_err(LoadError::Manifest)?;
    Ok((manifest, spent.fuel))
}
