//! The pass over an uploaded module or component before anything wraps or compiles it.
//!
//! Compilation cannot be interrupted and its time is not linear: 400 KB of empty functions take 14 s, and in one function
//! it grows with the square of its loops. So its input is bounded by counts of our own first, far above what a policy of
//! any size needs.

use wasmparser::component_types::{ComponentEntityType, ComponentItem};
use wasmparser::types::TypesRef;
use wasmparser::{ComponentInstance, ElementItems, FunctionBody, Instance, Operator, Parser, Payload, Validator};

use crate::limits::Limits;
use crate::load_error::LoadError;

/// The interface that a policy exports, at the one version that this gateway speaks.
pub(crate) const CONTRACT: &str = "farebox:policy/pricing@1.0.0";
const INTERFACE: &str = "farebox:policy/pricing";
const PACKAGE: &str = "farebox:policy/";

const PAGE_BYTES: u64 = 64 << 10;
const FUNCTIONS: u64 = 10_000;
/// Each is compiled into ways in and out: three thousand long ones take 13 s. The shipped policies have under 100.
const TYPES: u64 = 1_000;
const BODY_BYTES: u64 = 64 << 10;
const CODE_BYTES: u64 = 2 << 20;
const LOCALS: u64 = 1_000;
const NESTING: u64 = 256;
/// In one function, and in all.
const LOOPS: u64 = 256;
const ALL_LOOPS: u64 = 10_000;
const BRANCH_TARGETS: u64 = 4_000;
const ELEMENTS: u64 = 10_000;
const CUSTOM_BYTES: u64 = 64 << 10;
/// Types of components and instances inside each other: readers go down them by recursion, and a host that overflows its
/// own stack is gone.
const INNER_TYPES: u64 = 200;
/// Components that instantiate each other multiply: eight of them, eight times each, make two million instances out of
/// 600 bytes.
const INNER_COMPONENTS: u64 = 4;
const INSTANTIATIONS: u64 = 32;
/// Functions that cross a component's border: each is code to compile.
const CANONICAL_FUNCTIONS: u64 = 1_000;
const MEMORIES: u64 = 1;
pub(crate) const TABLES: u32 = 4;

/// Refuses a core module that is over a bound. What is no core module passes: a component is inspected as a whole, and
/// other bytes are named by whoever wraps.
pub(crate) fn inspect_module(bytes: &[u8], limits: &Limits) -> Result<(), LoadError> {
    if Parser::is_core_wasm(bytes) {
        Tally::of(bytes, limits)?;
    }
    Ok(())
}

/// Refuses a component that is over a bound, calls anything outside itself or speaks another contract.
pub(crate) fn inspect(component: &[u8], limits: &Limits) -> Result<(), LoadError> {
    let names = Tally::of(component, limits)?;
    let types = Validator::new().validate_all(component).map_err(malformed)?;
    let types = types.as_ref();
    for name in &names.imports {
        if !is_inert(name, types) {
            return Err(LoadError::Import { name: name.clone() });
        }
    }
    if names.exports.iter().any(|name| name == CONTRACT) {
        return Ok(());
    }
    // Engines match versions leniently in both directions; a contract that is frozen does not.
    let version_of =
        |name: &String| name.strip_prefix(INTERFACE).is_some_and(|rest| rest.is_empty() || rest.starts_with('@'));
    match names.exports.iter().find(|name| version_of(name)) {
        Some(found) => Err(LoadError::OtherVersion { found: found.clone(), expected: CONTRACT }),
        None => Err(LoadError::NoContract { expected: CONTRACT }),
    }
}

/// Some guest toolchains import an instance for the types of the world; that is no door as long as it is nothing else.
fn is_inert(name: &str, types: TypesRef<'_>) -> bool {
    let Some(ComponentItem { ty: ComponentEntityType::Instance(instance), .. }) = types.component_item_for_import(name)
    else {
        return false;
    };
    let Some(instance) = types.get(*instance) else { return false };
    let only_types = instance.exports.values().all(|item| matches!(item.ty, ComponentEntityType::Type { .. }));
    name.starts_with(PACKAGE) && only_types
}

fn malformed(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Malformed(error.into())
}

fn bound(what: &'static str, found: u64, limit: u64) -> Result<(), LoadError> {
    if found > limit { Err(LoadError::OverLimit { what, found, limit }) } else { Ok(()) }
}

/// Imports and exports of the outermost component.
#[derive(Default)]
struct Names {
    imports: Vec<String>,
    exports: Vec<String>,
}

/// Counts over all modules of a component, so that many small ones are no way around a bound.
#[derive(Default)]
struct Tally {
    depth: usize,
    inner_components: u64,
    instantiations: u64,
    inner_types: u64,
    canonical_functions: u64,
    functions: u64,
    types: u64,
    code_bytes: u64,
    loops: u64,
    elements: u64,
    memories: u64,
    tables: u64,
    table_elements: u64,
    names: Names,
}

impl Tally {
    fn of(bytes: &[u8], limits: &Limits) -> Result<Names, LoadError> {
        let mut tally = Self::default();
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(malformed)?;
            tally.count_types(&payload, bytes)?;
            tally.count_instances(&payload)?;
            tally.count(payload, limits)?;
        }
        Ok(tally.names)
    }

    fn count(&mut self, payload: Payload<'_>, limits: &Limits) -> Result<(), LoadError> {
        match payload {
            Payload::ModuleSection { .. } => self.depth = self.depth.saturating_add(1),
            Payload::ComponentSection { .. } => {
                self.depth = self.depth.saturating_add(1);
                self.inner_components = self.inner_components.saturating_add(1);
                bound("inner components", self.inner_components, INNER_COMPONENTS)?;
            }
            Payload::End(_) => self.depth = self.depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if self.depth == 0 => {
                for import in section {
                    self.names.imports.push(import.map_err(malformed)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if self.depth == 0 => {
                for export in section {
                    self.names.exports.push(export.map_err(malformed)?.name.name.to_owned());
                }
            }
            Payload::FunctionSection(section) => {
                self.functions = self.functions.saturating_add(section.count().into());
                bound("functions", self.functions, FUNCTIONS)?;
            }
            Payload::TypeSection(section) => {
                self.types = self.types.saturating_add(section.count().into());
                bound("types", self.types, TYPES)?;
            }
            Payload::MemorySection(section) => self.memories(section, limits)?,
            Payload::TableSection(section) => self.tables(section, limits)?,
            Payload::ElementSection(section) => self.elements(section)?,
            Payload::CodeSectionStart { size, .. } => {
                self.code_bytes = self.code_bytes.saturating_add(size.into());
                bound("bytes of code", self.code_bytes, CODE_BYTES)?;
            }
            Payload::CodeSectionEntry(body) => {
                self.loops = self.loops.saturating_add(inspect_body(&body)?);
                bound("loops", self.loops, ALL_LOOPS)?;
            }
            Payload::CustomSection(section) => {
                bound("bytes in a custom section", length(section.data().len()), CUSTOM_BYTES)?
            }
            _ => {}
        }
        Ok(())
    }

    /// Types of components are read by recursion, so they are counted before anything reads them, as bytes: inside another,
    /// one begins with the byte of a declared type (1) and its own (0x41 a component, 0x42 an instance). That may count
    /// other bytes too, and never too few.
    fn count_types(&mut self, payload: &Payload<'_>, bytes: &[u8]) -> Result<(), LoadError> {
        let types = match payload {
            Payload::ComponentTypeSection(section) => bytes.get(section.range()).unwrap_or_default(),
            // Where a core module says which contract it was built for.
            Payload::CustomSection(section) if section.name().starts_with("component-type") => section.data(),
            _ => return Ok(()),
        };
        let found = types.windows(2).filter(|pair| matches!(pair, [1, 0x41 | 0x42])).count();
        self.inner_types = self.inner_types.saturating_add(length(found));
        bound("component types inside others", self.inner_types, INNER_TYPES)
    }

    fn count_instances(&mut self, payload: &Payload<'_>) -> Result<(), LoadError> {
        match payload {
            Payload::InstanceSection(section) => {
                for instance in section.clone() {
                    let instance = instance.map_err(malformed)?;
                    self.instantiates(matches!(instance, Instance::Instantiate { .. }))?;
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section.clone() {
                    let instance = instance.map_err(malformed)?;
                    self.instantiates(matches!(instance, ComponentInstance::Instantiate { .. }))?;
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                self.canonical_functions = self.canonical_functions.saturating_add(section.count().into());
                bound("canonical functions", self.canonical_functions, CANONICAL_FUNCTIONS)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn instantiates(&mut self, is_one: bool) -> Result<(), LoadError> {
        self.instantiations = self.instantiations.saturating_add(is_one.into());
        bound("instances made", self.instantiations, INSTANTIATIONS)
    }

    fn memories(&mut self, section: wasmparser::MemorySectionReader<'_>, limits: &Limits) -> Result<(), LoadError> {
        for memory in section {
            let bytes = memory.map_err(malformed)?.initial.saturating_mul(PAGE_BYTES);
            bound("bytes of initial memory", bytes, length(limits.memory_bytes))?;
            self.memories = self.memories.saturating_add(1);
        }
        bound("memories", self.memories, MEMORIES)
    }

    fn tables(&mut self, section: wasmparser::TableSectionReader<'_>, limits: &Limits) -> Result<(), LoadError> {
        for table in section {
            self.table_elements = self.table_elements.saturating_add(table.map_err(malformed)?.ty.initial);
            self.tables = self.tables.saturating_add(1);
        }
        bound("table elements", self.table_elements, length(limits.table_elements))?;
        bound("tables", self.tables, TABLES.into())
    }

    fn elements(&mut self, section: wasmparser::ElementSectionReader<'_>) -> Result<(), LoadError> {
        for element in section {
            let count = match element.map_err(malformed)?.items {
                ElementItems::Functions(items) => items.count(),
                ElementItems::Expressions(_, items) => items.count(),
            };
            self.elements = self.elements.saturating_add(count.into());
            bound("elements", self.elements, ELEMENTS)?;
        }
        Ok(())
    }
}

/// Returns how many loops there are.
fn inspect_body(body: &FunctionBody<'_>) -> Result<u64, LoadError> {
    bound("bytes in a function", length(body.range().len()), BODY_BYTES)?;
    let mut locals = 0_u64;
    for local in body.get_locals_reader().map_err(malformed)? {
        let (count, _) = local.map_err(malformed)?;
        locals = locals.saturating_add(count.into());
        bound("locals of a function", locals, LOCALS)?;
    }
    let (mut nesting, mut loops) = (0_u64, 0_u64);
    for operator in body.get_operators_reader().map_err(malformed)? {
        let operator = operator.map_err(malformed)?;
        if matches!(operator, Operator::Loop { .. }) {
            loops = loops.saturating_add(1);
            bound("loops of a function", loops, LOOPS)?;
        }
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::TryTable { .. } => {
                nesting = nesting.saturating_add(1);
                bound("levels of nesting", nesting, NESTING)?;
            }
            Operator::End => nesting = nesting.saturating_sub(1),
            Operator::BrTable { targets } => bound("targets of a branch", targets.len().into(), BRANCH_TARGETS)?,
            _ => {}
        }
    }
    Ok(loops)
}

fn length(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
