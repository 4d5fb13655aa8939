//! S3: what a framework adds, by how it executes.

use farebox_sdk::prelude::*;

parameters! {
    /// Premiums by framework. One that is not listed has none: it is priced at 0 %, and a note says so.
    pub struct FrameworkPremium {
        pub pytorch: Pytorch = Pytorch::default(),
    }

    /// PyTorch, by execution. Rates on the amount that enters the step.
    pub struct Pytorch {
        /// Eager mode, also where no execution is stated.
        pub eager: Rate = Rate::percent(15),
        /// `torch.compile`.
        pub compiled: Rate = Rate::percent(5),
        /// TorchScript.
        pub torchscript: Rate = Rate::percent(0),
    }
}

policy! {
    name: "framework-premium",
    scope: line,
    reads: ["workload.framework", "workload.execution"],
    produces: ["pytorch_eager", "pytorch_compiled", "pytorch_torchscript", "other_framework", "framework_not_listed"],
    parameters: FrameworkPremium,
    evaluate: framework_premium,
}

fn framework_premium(parameters: &FrameworkPremium, line: Line) -> Result<Vec<Adjustment>, Refusal> {
    let pytorch = &parameters.pytorch;
    match line.fact("workload.framework") {
        None => return Ok(Vec::new()),
        Some("pytorch") => {}
        Some(other) => {
            let none = Adjustment::percent("other_framework", "No framework premium", Rate::ZERO);
            let note = Adjustment::note("info", "framework_not_listed", "Framework without a premium");
            return Ok(vec![
                none.because(format!("framework {other}")),
                note.because(format!("no premium is listed for framework {other}")),
            ]);
        }
    }
    let stated = line.fact("workload.execution");
    let (code, label, rate) = match stated.unwrap_or("eager") {
        "eager" => ("pytorch_eager", "PyTorch eager mode", pytorch.eager),
        "compiled" => ("pytorch_compiled", "PyTorch with torch.compile", pytorch.compiled),
        "torchscript" => ("pytorch_torchscript", "PyTorch TorchScript", pytorch.torchscript),
        other => {
            let detail = format!("execution `{other}` is not `eager`, `compiled` or `torchscript`");
            return Err(Refusal::new("unknown_execution", detail).at("/workload/execution"));
        }
    };
    let reason = match stated {
        Some(execution) => format!("framework pytorch, execution {execution}"),
        None => "framework pytorch; no execution stated, so eager".to_owned(),
    };
    Ok(vec![Adjustment::percent_of_kind("premium", code, label, rate).because(reason)])
}

#[cfg(test)]
#[test]
fn golden_cases() {
    farebox_sdk::testing::golden_cases(&POLICY);
}
