//! Live usage through Redis, with real processes: what quotes notice of Redis' faults, what a fleet costs, and whether anything
//! goes backwards while everything is killed.
//!
//! `make live-usage` runs all three; `ARGS="latency"`, `ARGS="load 10000 60"` and `ARGS="chaos 10"` one. Figures are in
//! docs/performance.md. Redis, the gateways and the agents share the machine's cores, so only ratios of one run mean something.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench that meets the unexpected ends there, and measures by the clock"
)]

mod chaos;
mod fleet;
mod latency;
mod load;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"));
    match words.as_slice() {
        [] => {
            latency::run();
            load::run(10_000, 60);
            chaos::run(2);
        }
        ["latency"] => latency::run(),
        ["load", tenants, seconds] => load::run(number(tenants), number(seconds)),
        ["chaos", minutes] => chaos::run(number(minutes)),
        _ => panic!("say `latency`, `load TENANTS SECONDS` or `chaos MINUTES`"),
    }
}
