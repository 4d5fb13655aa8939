//! What a policy author imports.
//!
//! A policy is a parameter struct and plain functions over typed values; [`parameters!`] and [`policy!`] turn them into
//! a WASM component that speaks `farebox:policy@1.0.0` (`wit/policy.wit`), with no imports at all. The same functions
//! run natively in tests, through the [`native`] handle that [`policy!`] defines beside them. README.md shows a whole
//! policy.
//!
//! Numbers are exact: [`Decimal`] for arithmetic, and [`Rate`], [`Price`] and [`Quantity`] in parameters. There is no
//! clock, no randomness and no hash map here, so equal inputs give equal bytes and equal fuel.

// The macros name this crate by its path, in its own tests too.
extern crate self as farebox_sdk;

mod adjustment;
#[cfg(any(target_arch = "wasm32", test))]
mod arena;
mod code;
pub mod contract;
mod definition;
mod exact;
mod line;
#[cfg(not(target_arch = "wasm32"))]
pub mod native;
pub mod parameters;
mod statistic;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use code::is_code;
pub use contract::{Adjustment, Context, Outcome, Refusal};
pub use definition::{Definition, every_line};
pub use exact::{NotExact, Price, Quantity, Rate};
pub use line::{Line, fact_number};
pub use rust_decimal::{Decimal, RoundingStrategy};
pub use statistic::{Statistic, Window};
pub use {schemars, serde};

/// All that a policy file needs: `use farebox_sdk::prelude::*;`.
pub mod prelude {
    pub use crate::contract::{AddedLine, Advice, Balance, Fact, Measurement, Method, Portion};
    pub use crate::{
        Adjustment, Context, Decimal, Line, Outcome, Price, Quantity, Rate, Refusal, Statistic, Window, parameters,
        policy,
    };
    pub use std::collections::BTreeMap;
}

/// The policy in README.md, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
