//! A line on its way through the pipeline.

use rust_decimal::Decimal;

use crate::amount::{Amount, AmountTooLarge};
use crate::offer::{OfferedQuantity, PricedInput};
use crate::policy::{Fact, Portion};

use super::portions::Portions;

/// Seconds of a GPU-hour, the divisor between GPU-seconds and prices per GPU-hour.
pub(crate) const SECONDS_PER_HOUR: u32 = 3600;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The caller's reference; `None` on an added line.
    pub reference: Option<String>,
    /// Index of the line that an added line belongs to.
    pub parent: Option<usize>,
    pub description: String,
    pub unit: LineUnit,
    /// In `unit`; whole where that is GPU-seconds.
    pub quantity: Decimal,
    /// Per GPU-hour for GPU time, else per unit.
    pub list_unit_price: Decimal,
    pub list_amount: Amount,
    pub adjustments: Vec<AppliedAdjustment>,
    /// The line as it stands: list amount and adjustments so far.
    pub amount: Amount,
    /// The item that the line began as; `None` of an added line.
    pub(crate) item: Option<usize>,
    /// What policies said of the line, beside the facts of its item.
    pub(crate) said: Vec<Fact>,
    pub(crate) portions: Portions,
    pub(crate) usage: Option<usize>,
    /// A percentage of a step other than the base was applied, so no reprice may follow.
    pub(crate) has_percent: bool,
    /// What policies have said of the line so far, notes included; rows of the engine do not count.
    pub(crate) policy_adjustments: usize,
}

impl Line {
    /// Everything that is known of the line, in the order in which it became known.
    pub(super) fn facts<'a>(&'a self, input: &'a PricedInput) -> impl Iterator<Item = &'a Fact> {
        let item = self.item.and_then(|item| input.offer().items.get(item));
        item.map_or(&[][..], |item| &item.facts).iter().chain(&self.said)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineUnit {
    GpuSecond,
    /// Entered as a task and not measured yet.
    Task,
    /// `task_unit`, `credit`, `gib_month` …
    Other(String),
}

impl LineUnit {
    pub fn as_str(&self) -> &str {
        match self {
            Self::GpuSecond => "gpu_second",
            Self::Task => "task",
            Self::Other(unit) => unit,
        }
    }

    pub(crate) fn price_divisor(&self) -> u32 {
        if *self == Self::GpuSecond { SECONDS_PER_HOUR } else { 1 }
    }
}

/// An adjustment with its amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedAdjustment {
    /// The step's id; `guards` and `rounding` for the engine's own.
    pub step: String,
    /// Index of the step in the plan; `None` for the engine's own.
    pub step_index: Option<usize>,
    pub scope: AdjustmentScope,
    pub kind: String,
    pub code: String,
    pub label: String,
    pub reason: String,
    pub method: MethodUsed,
    pub amount: Amount,
    pub facts: Vec<Fact>,
}

/// `Quote`: the line's share of an amount on the whole quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdjustmentScope {
    Line,
    Quote,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MethodUsed {
    Percent(Decimal),
    Amount,
    Reprice(Vec<Portion>),
    Measure,
    Minimum,
}

/// The lines of an input before the first step: list amounts, no adjustments.
pub(super) fn enter(input: &PricedInput) -> Result<Vec<Line>, AmountTooLarge> {
    let items = input.offer().items.iter().enumerate();
    let lines: Vec<Line> = items
        .map(|(index, item)| {
            let (unit, quantity, price) = match item.quantity {
                OfferedQuantity::GpuSeconds(seconds) => {
                    (LineUnit::GpuSecond, Decimal::from(seconds), item.list_unit_price)
                }
                OfferedQuantity::Task => (LineUnit::Task, Decimal::ONE, Decimal::ZERO),
            };
            let list_amount = Amount::product(price, quantity, unit.price_divisor())?;
            Ok(Line {
                reference: Some(item.reference.clone()),
                parent: None,
                description: item.description.clone(),
                unit,
                quantity,
                list_unit_price: price,
                list_amount,
                adjustments: Vec::with_capacity(8),
                amount: list_amount,
                item: Some(index),
                said: Vec::new(),
                portions: Portions::default(),
                usage: input.usage_index(index),
                has_percent: false,
                policy_adjustments: 0,
            })
        })
        .collect::<Result<_, AmountTooLarge>>()?;
    // A cart that cannot be summed is the caller's doing; later no policy shall be blamed for it.
    Amount::sum(lines.iter().map(|line| line.list_amount))?;
    Ok(lines)
}
