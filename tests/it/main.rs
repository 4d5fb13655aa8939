//! The one integration binary: real servers on free ports, real `.wasm` files, and the rules of the house.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a test that meets the unexpected ends there"
)]

mod bad_input;
mod cases;
mod catalogue;
mod conformance;
mod contract;
mod documentation;
mod edge;
mod harness;
mod log_of_run;
mod openapi;
mod operations;
mod overload;
mod quotes;
mod snapshots;
mod tidy;
mod twin;
mod twin_context;
