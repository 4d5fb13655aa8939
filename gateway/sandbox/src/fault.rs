//! From an engine's error to one of our faults: by type, never by text.

use farebox_pricing::policy::Fault;
use wasmtime::{PoolConcurrencyLimitError, Trap};

use crate::guard::HostMemoryExhausted;

/// Where a call was when it failed. An error without a type of its own is read by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Only the host has a part in it: a policy's own start function fails with a trap.
    Instantiating,
    /// Arguments in, result out: what the canonical ABI refuses, the guest got wrong.
    Calling,
}

/// `denied`: the guard refused growth in this evaluation, so that a trap after it is a guest that could not go on.
pub(crate) fn classify(error: &wasmtime::Error, stage: Stage, denied: bool) -> Fault {
    if error.is::<PoolConcurrencyLimitError>() {
        return Fault::PoolExhausted;
    }
    if error.is::<HostMemoryExhausted>() || error.is::<wasmtime::error::OutOfMemory>() {
        return Fault::HostMemory;
    }
    match (error.downcast_ref::<Trap>(), stage) {
        (Some(trap), _) => of_trap(*trap, denied),
        (None, Stage::Calling) => Fault::violation(error.root_cause().to_string()),
        (None, Stage::Instantiating) if denied => Fault::OutOfMemory,
        (None, Stage::Instantiating) => Fault::HostMemory,
    }
}

fn of_trap(trap: Trap, denied: bool) -> Fault {
    match trap {
        Trap::OutOfFuel => Fault::OutOfFuel,
        Trap::Interrupt => Fault::Deadline,
        Trap::StackOverflow => Fault::StackOverflow,
        Trap::InvalidChar
        | Trap::StringOutOfBounds
        | Trap::ListOutOfBounds
        | Trap::InvalidDiscriminant
        | Trap::UnalignedPointer
        | Trap::CannotEnterComponent
        | Trap::CannotLeaveComponent => Fault::violation(trap.to_string()),
        _ if denied => Fault::OutOfMemory,
        other => Fault::Trapped(code_of(other)),
    }
}

/// Stable codes; they appear in metrics and in decisions.
fn code_of(trap: Trap) -> &'static str {
    match trap {
        Trap::UnreachableCodeReached => "unreachable",
        Trap::IntegerDivisionByZero => "integer_division_by_zero",
        Trap::IntegerOverflow => "integer_overflow",
        Trap::BadConversionToInteger => "bad_conversion_to_integer",
        Trap::MemoryOutOfBounds => "memory_out_of_bounds",
        Trap::TableOutOfBounds => "table_out_of_bounds",
        Trap::IndirectCallToNull => "indirect_call_to_null",
        Trap::BadSignature => "bad_signature",
        Trap::NullReference => "null_reference",
        _ => "other",
    }
}
