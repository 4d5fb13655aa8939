//! The worked examples of SPEC §4, row by row, with scripted policies in place of the WASM ones.

use crate::amount::Rounding;
use crate::granule::Granule;
use crate::plan::BASE_STEP;
use crate::policy::{Context, Halt, Outcome, Scope, Stat};
use crate::usage::{Observation, ObservedStat, StatQuality, UsageFinding, UsageScope};

use super::stage::{Stage, balance, dec, drawn, measure, percent, portion, reprice, says, step};

/// A fresh, complete, healthy observation of mean GPU utilisation over 7 days.
fn utilisation(mean: &str) -> Observation {
    let stat = Stat {
        metric: "gpu_util".to_owned(),
        statistic: "mean".to_owned(),
        window_s: 604_800,
        value: dec(mean),
        coverage: dec("0.99"),
    };
    Observation {
        scope: UsageScope::GpuModel,
        observed_at_ms: 0,
        age_ms: 850,
        healthy: true,
        reasons: Vec::new(),
        job_held_s: None,
        mig_without_metric: false,
        stats: vec![ObservedStat { stat, held_us: 100_000_000_000, quality: StatQuality::Ok }],
    }
}

/// S5 with its default numbers.
fn utilisation_adjustment(context: &Context<'_>) -> Result<Outcome, Halt> {
    let Some(usage) = context.lines[0].usage else { return says(Vec::new()) };
    let mean = context.usages[usize::try_from(usage).unwrap()].stats[0].value;
    says(match mean {
        mean if mean > dec("0.7") => vec![percent("above_70", "-0.1")],
        mean if mean < dec("0.3") && mean >= dec("0.2") => vec![percent("below_30", "0.05")],
        _ => Vec::new(),
    })
}

fn gpu_standard(stage: Stage, choices: [Vec<(&'static str, &'static str)>; 4]) -> Stage {
    let [framework, features, image, isolation] =
        choices.map(|codes| codes.into_iter().map(|(code, rate)| percent(code, rate)).collect());
    stage
        .each_line(BASE_STEP, Vec::new())
        .each_line("framework", framework)
        .each_line("features", features)
        .each_line("image", image)
        .each_line("isolation", isolation)
        .step(step("utilisation"), utilisation_adjustment)
}

#[test]
fn w1_eight_a100_for_72_hours() {
    let mut stage = gpu_standard(
        Stage::new("CNY").gpu("a", "12.00", 8 * 72 * 3600),
        [
            vec![("pytorch_eager", "0.15")],
            vec![("fsdp", "0.20"), ("cuda_graphs", "0.1")],
            vec![("v2.6", "0")],
            vec![("shared", "0")],
        ],
    );
    stage.observation = Some(utilisation("0.82"));
    let quote = stage.price();
    assert_eq!(quote.lines[0].list_amount.print(2), "6912.00");
    assert_eq!(
        quote.rows(0),
        [
            "framework pytorch_eager 1036.80",
            "features fsdp 1589.76",
            "features cuda_graphs 794.88",
            "image v2.6 0.00",
            "isolation shared 0.00",
            "utilisation above_70 -1033.344",
            "rounding currency_exponent 0.004",
        ]
    );
    assert_eq!(quote.line(0), "9300.10");
    assert_eq!(quote.totals.list.print(2), "6912.00");
    assert_eq!(quote.totals.adjustments.print(2), "2388.10");
    assert_eq!(quote.total(), "9300.10");
    assert!(quote.notes.is_empty());
    assert_eq!(quote.costs.len(), 6);
    assert!(quote.costs.iter().all(|cost| (cost.evaluations, cost.fuel, cost.memory_bytes_max) == (1, 100, 65_536)));
}

#[test]
fn w2_compiled_without_a_snapshot() {
    let stage = gpu_standard(
        Stage::new("CNY").gpu("a", "12.00", 8 * 72 * 3600),
        [vec![("pytorch_compiled", "0.05")], vec![], vec![("v2.8-nightly", "0.05")], vec![("shared", "0")]],
    );
    let quote = stage.price();
    assert_eq!(
        quote.rows(0),
        ["framework pytorch_compiled 345.60", "image v2.8-nightly 362.88", "isolation shared 0.00"]
    );
    assert_eq!(quote.total(), "7620.48");
    assert_eq!(stage.input().usage(0).unwrap().judged.findings, [UsageFinding::NoSnapshot]);
}

#[test]
fn w3_torchscript_on_the_legacy_image_at_a_quarter_load() {
    let mut stage = gpu_standard(
        Stage::new("CNY").gpu("a", "5.00", 10 * 3600),
        [vec![("torchscript", "0")], vec![], vec![("v2.4", "-0.10")], vec![("shared", "0")]],
    );
    stage.observation = Some(utilisation("0.25"));
    let quote = stage.price();
    assert_eq!(
        quote.rows(0),
        ["framework torchscript 0.00", "image v2.4 -5.00", "isolation shared 0.00", "utilisation below_30 2.25",]
    );
    assert_eq!(quote.total(), "47.25");
}

#[test]
fn exactly_70_and_exactly_30_change_nothing() {
    for mean in ["0.7", "0.3"] {
        let mut stage = Stage::new("CNY").gpu("a", "5.00", 36_000).step(step("utilisation"), utilisation_adjustment);
        stage.observation = Some(utilisation(mean));
        assert_eq!(stage.price().rows(0), [""; 0], "{mean}");
    }
}

/// The first part of W4 and W5: 1,000 hours of a commitment at 8.40, the rest at the list price of 12.00.
fn committed(used_hours: u64) -> Stage {
    let mut stage = Stage::new("CNY").gpu("a", "12.00", used_hours * 3600).step(step("commitment"), |context| {
        let line = context.lines[0].amounts.unwrap();
        let covered = context.balances[0].remaining.min(line.quantity);
        let portions = vec![
            drawn("committed", &covered.to_string(), "8.40", &context.balances[0].id),
            portion("overage", &(line.quantity - covered).to_string(), "12.00"),
        ];
        says(vec![reprice("committed", portions)])
    });
    stage.balances.push(balance("cm-1", "commitment", "3600000"));
    stage
}

#[test]
fn w4_a_commitment_of_1000_hours_with_1500_used() {
    let quote = committed(1500).price();
    assert_eq!(quote.lines[0].list_amount.print(2), "18000.00");
    assert_eq!(quote.rows(0), ["commitment committed -3600.00"]);
    assert_eq!(quote.total(), "14400.00");
}

#[test]
fn w5_a_commitment_of_1000_hours_with_800_used_up_to_the_true_up() {
    let quote = committed(800).price();
    assert_eq!(quote.rows(0), ["commitment committed -2880.00"]);
    assert_eq!(quote.total(), "6720.00");
}

#[test]
fn later_rates_apply_on_top_of_a_commitment() {
    let quote = committed(1500).each_line("features", vec![percent("fsdp", "0.2")]).price();
    assert_eq!(quote.rows(0), ["commitment committed -3600.00", "features fsdp 2880.00"]);
    assert_eq!(quote.total(), "17280.00");
}

#[test]
fn w8_a_session_and_a_batch_run_by_the_minute() {
    let quote = |held_s| Stage::new("USD").gpu("a", "1.50", Granule::Minute.billed(held_s).unwrap()).price().total();
    assert_eq!((quote(3 * 3600), quote(52 * 60)), ("4.50".to_owned(), "1.30".to_owned()));
    assert_eq!(quote(51 * 60 + 1), "1.30");
}

#[test]
fn w10_rounds_half_away_from_zero_unless_the_plan_says_half_even() {
    let mut stage = Stage::new("USD").task("t").each_line("measure", vec![measure("task_units", "55", "0.067")]);
    let quote = stage.price();
    assert_eq!(quote.lines[0].list_amount.print(2), "3.685");
    assert_eq!(quote.rows(0), ["measure task_units 0.00", "rounding currency_exponent 0.005"]);
    assert_eq!(quote.total(), "3.69");
    stage.plan.rounding = Rounding::HalfEven;
    let quote = stage.price();
    assert_eq!(quote.rows(0), ["measure task_units 0.00", "rounding currency_exponent -0.005"]);
    assert_eq!(quote.total(), "3.68");
}

#[test]
fn w11_yen_have_no_decimals() {
    let quote = Stage::new("JPY")
        .gpu("a", "1240", 3600)
        .each_line("framework", vec![percent("pytorch_eager", "0.15")])
        .each_line("features", vec![percent("fsdp", "0.2"), percent("cuda_graphs", "0.1")])
        .price();
    assert_eq!(
        quote.rows(0),
        [
            "framework pytorch_eager 186",
            "features fsdp 285.2",
            "features cuda_graphs 142.6",
            "rounding currency_exponent 0.2",
        ]
    );
    assert_eq!(quote.total(), "1854");
}

#[test]
fn the_minimum_of_a_quote_is_its_own_row() {
    // $50 + 3 × $10 with a minimum of $100.
    let quote = Stage::new("USD")
        .gpu("a", "50", 3600)
        .gpu("b", "10", 3 * 3600)
        .step(crate::plan::Step { scope: Scope::Quote, ..step("minimum") }, |_| {
            says(vec![super::stage::on_quote(super::stage::minimum("order_minimum", "100"))])
        })
        .price();
    assert_eq!(quote.rows(0), ["minimum order_minimum 12.50"]);
    assert_eq!(quote.rows(1), ["minimum order_minimum 7.50"]);
    assert_eq!(quote.total(), "100.00");
}
