//! Farebox: prices GPU compute with sandboxed policies on live utilisation.
//!
//! Read `quoting` first: it is the road that every quote goes down. Then the rooms along it, in order:
//!
//! - [`intake`]: bytes become a request, or every reason why not
//! - [`catalog`]: tenants, price books, plans and policies; a request becomes an offer
//! - `farebox-metering`'s mirror, `farebox-pricing`'s pipeline, `farebox-sandbox`'s instances: crates of their own
//! - `ledger`: what was promised
//! - `api`: routes, wire shapes and problems, around the road
//!
//! [`app`] is the one place that knows every part; [`config`] the only one that reads the environment, [`clock`] the
//! only one that reads the time. Rooms do not import each other sideways.

mod api;
pub mod app;
pub mod authoring;
pub mod catalog;
mod causes;
pub mod cli;
pub mod clock;
pub mod config;
mod hex;
pub mod intake;
mod ledger;
mod printable;
mod quoting;
pub mod schema;
pub mod serving;
mod suggestion;
pub mod telemetry;
mod token;
mod workers;

/// A quote is made on one thread and rendered on another: hundreds of small blocks, many freed where they were not taken.
/// The system's allocator spends a quarter of a quote on that. Here and not in `main`, so that benches and tests have it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
