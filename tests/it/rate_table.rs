//! `rate-table` against what it replaces: the coded policies, to the last digit, and a count of every second in its tiers.

mod cost;
mod equal_plans;
mod facts;
mod readme;
mod tiers;
