//! S8: what a workload pays for how far it is kept apart from others.

use farebox_sdk::prelude::*;

parameters! {
    /// Rates on the amount that enters the step.
    pub struct Isolation {
        /// Shared node with a memory quota.
        pub shared: Rate = Rate::percent(0),
        /// Shared node with hardened isolation.
        pub hardened: Rate = Rate::percent(5),
        /// A node of one's own.
        pub dedicated: Rate = Rate::percent(25),
    }
}

policy! {
    name: "isolation",
    scope: line,
    reads: ["workload.isolation"],
    produces: ["shared", "hardened", "dedicated"],
    parameters: Isolation,
    evaluate: isolation,
}

fn isolation(rates: &Isolation, line: Line) -> Result<Option<Adjustment>, Refusal> {
    let Some(wish) = line.fact("workload.isolation") else { return Ok(None) };
    let (rate, label) = match wish {
        "shared" => (rates.shared, "Shared node with memory quota"),
        "hardened" => (rates.hardened, "Hardened isolation"),
        "dedicated" => (rates.dedicated, "Dedicated node"),
        other => {
            let detail = format!("isolation `{other}` is not `shared`, `hardened` or `dedicated`");
            return Err(Refusal::new("unknown_isolation", detail).at("/workload/isolation"));
        }
    };
    Ok(Some(Adjustment::percent(wish, label, rate).because(format!("isolation {wish}"))))
}

#[cfg(test)]
#[test]
fn golden_cases() {
    farebox_sdk::testing::golden_cases(&POLICY);
}
