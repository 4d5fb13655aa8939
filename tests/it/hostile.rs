//! Modules that mean harm, and unlucky ones: where each is stopped, by what, and what the next quote has of it: nothing.
//!
//! `fixtures/hostile/` holds those that are written as text, [`generated`] makes the others. Each says by itself what must
//! happen to it; `docs/hostile.md` is written by `UPDATE_CASES=1` from what happened.

mod generated;
mod modules;
mod reproducible;
mod rig;
mod server;
mod table;

pub use modules::of_fragment;
