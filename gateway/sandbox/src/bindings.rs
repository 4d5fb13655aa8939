//! The host's half of the contract, generated from the WIT that the SDK's half is generated from.
//!
//! Parameters are borrowed: nothing that goes in is copied on its way to the guest's memory.

wasmtime::component::bindgen!({
    path: "../../sdk-wasm/wit",
    world: "policy",
    ownership: Borrowing { duplicate_if_necessary: true },
});

pub(crate) use exports::farebox::policy::pricing::*;
