//! Reads the machine's GPUs through NVML: the only code that calls the driver.
//!
//! [`Machine`] makes one pass when asked, on the caller's thread; [`crate::reader`] gives it a thread of its own. What the
//! driver answers becomes a [`Tick`](crate::tick::Tick) as it is: absent where a device cannot say, refused where it cannot be a
//! reading. What goes wrong is one of six things ([`Fault`]).

mod asking;
mod device;
mod fault;
mod gpm;
mod instances;
mod library;
mod machine;
mod processes;
mod procfs;
mod pulse;
mod raw;
mod retry;
mod sieve;
mod utilisation;
mod xids;

#[cfg(test)]
pub(crate) mod tests;

pub use fault::{Fault, Gone};
pub use machine::{Machine, Options};
pub use pulse::Pulse;
