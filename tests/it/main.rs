//! The one integration binary: real servers on free ports, real `.wasm` files, and the rules of the house.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a test that meets the unexpected ends there"
)]

mod advice;
mod agent;
mod authoring;
mod bad_input;
mod cases;
mod catalog;
mod cli;
mod code_cache;
mod conformance;
mod contract;
mod documentation;
mod edge;
mod first_policy;
mod harness;
mod hostile;
mod lines;
mod log_of_run;
mod memo;
mod openapi;
mod operations;
mod overload;
mod quotes;
mod rate_table;
mod redis;
mod snapshots;
mod tidy;
mod twin;
mod twin_context;
mod usage;
mod usage_stream;
