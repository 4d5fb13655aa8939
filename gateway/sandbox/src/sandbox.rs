//! The engine and its settings. Each setting that is not the engine's default is there for a measured or reported
//! reason.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, OperatorCost, PoolingAllocationConfig};
use wasmtime::{Store, WasmBacktraceDetails};

use crate::code_cache::{CacheEvent, CodeCache, Compiled, Report};
use crate::guard::Guard;
use crate::inspection::TABLES;
use crate::limits::Limits;
use crate::load_error::LoadError;
use crate::policy::Policy;
use crate::ticker::Ticker;

/// Instances that share a store before it is renewed: a store gives its pool slots back only as a whole.
pub(crate) const INSTANCES_PER_STORE: u32 = 8;

/// Core instances of one component: the guest, and what wrapping and inner components may add.
const CORE_INSTANCES: u32 = 4;

/// Memory of a slot that is wiped by copying instead of by a system call; about what a guest starts with.
const KEEP_RESIDENT_BYTES: usize = 128 << 10;

/// One engine, its pool and its clock. Cheap to clone; the clock stops with the last clone, policy or session.
#[derive(Clone, Debug)]
pub struct Sandbox {
    pub(crate) host: Arc<Host>,
}

/// The engine cannot be set up on this machine.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("the deadline is {0:?}; it must be at least 100 ms, so that fuel decides and not the load of the machine")]
    Deadline(std::time::Duration),
    #[error("the engine does not start with these limits")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the deadline thread does not start")]
    Ticker(#[source] std::io::Error),
}

impl Sandbox {
    /// Reserves the pool's address space and starts the deadline thread.
    pub fn new(limits: Limits) -> Result<Self, SandboxError> {
        Self::with(limits, |_| None)
    }

    /// Keeps compiled code in `directory`, and tells `report` of whatever is wrong there; nothing that is wrong there
    /// stops a policy from loading. The directory is created where there is none; the key to it lies beside it, as
    /// `<directory>.key`.
    pub fn with_code_cache(
        limits: Limits,
        directory: &Path,
        report: impl Fn(&CacheEvent) + Send + Sync + 'static,
    ) -> Result<Self, SandboxError> {
        let report: Report = Box::new(report);
        Self::with(limits, |engine| CodeCache::open(directory, hash_of(engine), report))
    }

    fn with(limits: Limits, cache: impl FnOnce(&Engine) -> Option<CodeCache>) -> Result<Self, SandboxError> {
        if limits.deadline < std::time::Duration::from_millis(100) {
            return Err(SandboxError::Deadline(limits.deadline));
        }
        let engine = Engine::new(&configuration(&limits)).map_err(|error| SandboxError::Engine(error.into()))?;
        let ticker = Ticker::start(&engine).map_err(SandboxError::Ticker)?;
        // No WASI, no function of ours, nothing: a policy that needs an import does not link.
        let linker = Linker::new(&engine);
        let code_cache = cache(&engine);
        Ok(Self { host: Arc::new(Host { engine, limits, linker, code_cache, _ticker: ticker }) })
    }

    /// Checks, compiles and describes a module or component. Takes milliseconds to seconds; compilation cannot be
    /// interrupted, so uploads from outside are loaded in a child process first.
    pub fn load(&self, bytes: &[u8]) -> Result<Policy, LoadError> {
        Policy::load(&self.host, bytes)
    }

    pub fn limits(&self) -> &Limits {
        &self.host.limits
    }

    /// What compiled code and fuel depend on: engine version, settings and processor features, as 64 hex digits. Equal
    /// hashes burn equal fuel, so every decision records it.
    pub fn engine_hash(&self) -> String {
        hash_of(&self.host.engine)
    }
}

fn hash_of(engine: &Engine) -> String {
    let mut sha = ShaHasher(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut sha);
    hex(&sha.0.finalize())
}

/// What policies and sessions share.
pub(crate) struct Host {
    pub(crate) engine: Engine,
    pub(crate) limits: Limits,
    pub(crate) linker: Linker<Guard>,
    code_cache: Option<CodeCache>,
    _ticker: Ticker,
}

impl Host {
    /// Compiles a component that has passed inspection, or finds the code of an earlier start.
    pub(crate) fn compile(&self, wasm: &[u8]) -> wasmtime::Result<Compiled> {
        match &self.code_cache {
            Some(cache) => cache.compile(&self.engine, wasm),
            // From binary, never from text: the engine would otherwise accept text if any crate switched that feature on.
            None => Ok(Compiled { component: Component::from_binary(&self.engine, wasm)?, is_cached: false }),
        }
    }

    /// A store without fuel: nothing runs in it before `run::call` arms it.
    pub(crate) fn store(&self) -> Store<Guard> {
        let mut store = Store::new(&self.engine, Guard::new(self.limits));
        store.limiter(|guard| guard);
        store.set_hostcall_fuel(self.limits.output_bytes);
        store
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Host").field("limits", &self.limits).finish_non_exhaustive()
    }
}

fn configuration(limits: &Limits) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .operator_cost(operator_cost())
        .epoch_interruption(true)
        .cranelift_nan_canonicalization(true)
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        .concurrency_support(false)
        .max_wasm_stack(limits.stack_bytes)
        .wasm_backtrace_max_frames(None)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .native_unwind_info(false)
        .generate_address_map(false)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    config
}

/// Growth costs 25–50 times an ordinary instruction.
fn operator_cost() -> OperatorCost {
    OperatorCost { MemoryGrow: 100, TableGrow: 100, ..OperatorCost::new() }
}

fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let components = limits.sessions.saturating_mul(INSTANCES_PER_STORE);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(components)
        .total_core_instances(components.saturating_mul(CORE_INSTANCES))
        .total_memories(components)
        .total_tables(components.saturating_mul(TABLES))
        .max_core_instances_per_component(CORE_INSTANCES)
        .max_memories_per_component(1)
        .max_memories_per_module(1)
        .max_tables_per_component(TABLES)
        .max_tables_per_module(TABLES)
        .max_memory_size(limits.memory_bytes)
        .table_elements(limits.table_elements)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES)
        // Slots stay with the policy whose memory image they hold; the pool is small enough to keep all of them.
        .max_unused_warm_slots(components)
        // Where pages are swapped out it can leave a page of the previous guest in place (wasmtime #14357).
        .pagemap_scan(Enabled::No);
    pool
}

/// Lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Feeds a hash into SHA-256: the standard library's own hasher may change with the compiler.
struct ShaHasher(Sha256);

impl Hasher for ShaHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
