//! Metering: what was observed of the tenants' GPUs, from the driver to the mirror that quotes read.
//!
//! - [`clock`]: wall and monotonic time, read in one place; `durable`: files that survive a power cut; `backoff`: how long to leave alone
//! - [`tick`]: what one pass over a machine's GPUs read; [`reader`] gives them, live or from a recording
//! - [`nvml`]: one pass over the machine's GPUs, the only code that calls the driver
//! - [`recording`]: ticks in a file, and their replay; [`generator`] makes such files of published distributions
//! - [`meter`]: from ticks and jobs to snapshots: attribution, windows, counters
//! - [`agent`]: the program `farebox-agent` around them; [`delivery`]: snapshots on their way to the gateway
//! - [`snapshot`]: windowed statistics of one tenant's GPUs on one node at one moment, as agents send them, checked
//! - [`mirror`]: the newest snapshot of each (node, tenant, job, GPU model), merged over nodes into pricing's
//!   [`Observation`](farebox_pricing::usage::Observation) without any I/O
//! - [`redis`]: many agents, many gateways, and one Redis or Valkey between them
//!
//! Time comes in as an argument everywhere. Device readings arrive as decimals and leave as decimals; floats decide
//! only whether a text that is no plain decimal is a blank reading, and when the next tick of a replay is due.

pub mod agent;
mod backoff;
pub mod clock;
pub mod delivery;
mod durable;
pub mod generator;
pub mod meter;
pub mod mirror;
pub mod nvml;
pub mod reader;
pub mod recording;
pub mod redis;
pub mod snapshot;
pub mod tick;

#[cfg(test)]
mod samples;
