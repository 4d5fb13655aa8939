//! The agent as a program.

pub(crate) mod durable;
