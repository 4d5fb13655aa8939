//! Pricing: the pure room. Prices these inputs under this plan, and nothing else.
//!
//! One function serves quotes, previews, comparisons, charges, backtests and shadows: [`price::price`] walks the plan's
//! steps over the lines, applies the guards and rounds each line once. Read in this order:
//!
//! - [`exact`] and [`amount`]: decimals digit for digit, and money with 12 decimals and one rounding spot
//! - [`currency`], [`price_book`], [`plan`], [`granule`]: what is sold, at what list price, by which rules
//! - [`usage`]: what was observed of the tenant's GPUs, and how much of it may move a price
//! - [`policy`]: the port to the sandboxed policies
//! - [`request`] → [`offer`] → [`price`], which is [`pipeline`] → [`settle`]: the road
//!
//! No async, no clock, no files, no network, no floats; every arithmetic operation is checked.
#![deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::float_arithmetic)]

pub mod amount;
pub mod currency;
pub mod exact;
pub mod granule;
mod guard;
pub mod offer;
pub mod pipeline;
pub mod plan;
pub mod policy;
pub mod price;
pub mod price_book;
pub mod reads;
pub mod request;
pub mod settle;
mod spread;
#[cfg(test)]
mod tests;
pub mod usage;
