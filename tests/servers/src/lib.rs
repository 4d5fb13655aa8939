//! Real servers for tests, which the tests start, kill, freeze, fill and cut off: `redis-server`, and a TCP proxy in
//! front of any.
//!
//! A missing server is a failure with the command that installs it, never a silent skip.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "for tests, which fail by panicking")]

mod certificates;
mod proxy;
mod redis;

pub use certificates::Certificates;
pub use proxy::{Fault, Proxy};
pub use redis::{RedisOptions, RedisServer};
