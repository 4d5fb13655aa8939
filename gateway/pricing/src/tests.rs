//! Tests of the pure room: worked examples first, then the public failures of other billing systems, then properties
//! against an oracle of rational numbers, then policies that break the contract.
#![expect(clippy::arithmetic_side_effects, reason = "an overflow in a test's own arithmetic panics, and so fails it")]

mod amounts;
mod context;
mod contract_limits;
mod contract_violations;
mod decimals;
mod fault_rules;
mod guards;
mod money_cases;
mod oracle;
mod pipeline_properties;
mod price_book;
mod spreading;
mod stage;
mod usage_judgement;
mod worked_examples;
