//! A plan, items and scripted policies, put together in a few words.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rust_decimal::Decimal;

use crate::amount::{Amount, Rounding};
use crate::currency::Currency;
use crate::exact;
use crate::granule::Granule;
use crate::offer::{LineUsage, Offer, OfferedItem, OfferedQuantity, PricedInput};
use crate::pipeline::{Line, PricingError};
use crate::plan::{Guards, OnFault, Plan, PolicyRef, Step, UtilisationBasis};
use crate::policy::{
    Adjustment, Advice, Balance, Context, Evaluation, Fact, Halt, LineView, Measurement, Method, Outcome, Portion,
    RunPolicy, Scope,
};
use crate::price::price;
use crate::reads::Reads;
use crate::settle::Settled;
use crate::usage::{Observation, UsageRules, judge};

pub(super) type Act = Box<dyn Fn(&Context<'_>) -> Result<Outcome, Halt>>;

/// Everything that a scripted policy of these tests reads, unless the test is about reading.
const READS: [&str; 9] = [
    "line.*",
    "added.code",
    "tenant.*",
    "step.*",
    "amounts",
    "portions",
    "time",
    "balance.*",
    "usage/gpu_util/mean/7d",
];

pub(super) struct Stage {
    pub(super) plan: Plan,
    pub(super) items: Vec<OfferedItem>,
    pub(super) tenant: Vec<Fact>,
    pub(super) balances: Vec<Balance>,
    pub(super) observation: Option<Observation>,
    acts: Vec<Act>,
}

/// One closure for each step of the plan.
struct Script<'a>(&'a [Act]);

impl RunPolicy for Script<'_> {
    fn evaluate(&mut self, step: usize, context: &Context<'_>) -> Result<Evaluation, Halt> {
        let outcome = (self.0[step])(context)?;
        Ok(Evaluation { outcome, fuel: 100, memory_bytes: 65_536, nanoseconds: 7, reused: false })
    }
}

impl Stage {
    pub(super) fn new(currency: &str) -> Self {
        let plan = Plan {
            name: "on-stage".to_owned(),
            version: 1,
            digest: "00".to_owned(),
            currency: Currency::parse(currency).unwrap(),
            price_book: "book".to_owned(),
            time_zone: TimeZone::UTC,
            granule: Granule::Second,
            rounding: Rounding::HalfAwayFromZero,
            quote_lifetime_s: 900,
            utilisation_basis: UtilisationBasis::Quote,
            guards: Guards::default(),
            usage: UsageRules::default(),
            steps: Vec::new(),
        };
        let (items, tenant, balances, acts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { plan, items, tenant, balances, observation: None, acts }
    }

    /// GPU time at a price per GPU-hour.
    pub(super) fn gpu(self, reference: &str, price: &str, seconds: u64) -> Self {
        self.item(reference, OfferedQuantity::GpuSeconds(seconds), price)
    }

    pub(super) fn task(self, reference: &str) -> Self {
        self.item(reference, OfferedQuantity::Task, "0")
    }

    fn item(mut self, reference: &str, quantity: OfferedQuantity, price: &str) -> Self {
        self.items.push(OfferedItem {
            reference: reference.to_owned(),
            description: "A100".to_owned(),
            gpu_model: "A100".to_owned(),
            facts: vec![Fact::new("line.ref", reference)],
            quantity,
            list_unit_price: dec(price),
        });
        self
    }

    pub(super) fn guards(
        mut self,
        max_discount: Option<&str>,
        max_surcharge: Option<&str>,
        floor: Option<&str>,
    ) -> Self {
        self.plan.guards = Guards {
            max_discount: max_discount.map(dec),
            max_surcharge: max_surcharge.map(dec),
            floor_unit_price: floor.map(dec),
        };
        self
    }

    pub(super) fn step(mut self, step: Step, act: impl Fn(&Context<'_>) -> Result<Outcome, Halt> + 'static) -> Self {
        self.plan.steps.push(step);
        self.acts.push(Box::new(act));
        self
    }

    /// A step of scope `line` that says the same of every line.
    pub(super) fn each_line(self, id: &str, adjustments: Vec<Adjustment>) -> Self {
        self.step(step(id), move |_| says(adjustments.clone()))
    }

    /// A step of scope `quote` that always says the same.
    pub(super) fn whole_cart(self, id: &str, adjustments: Vec<Adjustment>) -> Self {
        self.step(Step { scope: Scope::Quote, ..step(id) }, move |_| says(adjustments.clone()))
    }

    pub(super) fn input(&self) -> PricedInput {
        let offer = Offer {
            plan: Arc::new(self.plan.clone()),
            price_book: "book@1".to_owned(),
            priced_at: Timestamp::from_second(1_780_000_000).unwrap(),
            tenant: self.tenant.clone(),
            items: self.items.clone(),
            balances: self.balances.clone(),
        };
        let observation = self.observation.clone();
        let judged = judge(observation.as_ref(), &self.plan.usage);
        offer.with_usage(|_| LineUsage { observation: observation.clone(), judged: judged.clone() })
    }

    pub(super) fn try_price(&self) -> Result<Settled, PricingError> {
        price(&self.input(), &mut Script(&self.acts))
    }

    pub(super) fn price(&self) -> Settled {
        self.try_price().unwrap()
    }
}

impl Settled {
    /// The total as it prints in the quote's currency.
    pub(super) fn total(&self) -> String {
        self.totals.total.print(self.currency.exponent())
    }

    /// `step code amount` of each adjustment of a line.
    pub(super) fn rows(&self, line: usize) -> Vec<String> {
        let exponent = self.currency.exponent();
        let row =
            |it: &crate::pipeline::AppliedAdjustment| format!("{} {} {}", it.step, it.code, it.amount.print(exponent));
        self.lines[line].adjustments.iter().map(row).collect()
    }

    pub(super) fn line(&self, line: usize) -> String {
        self.lines[line].amount.print(self.currency.exponent())
    }
}

impl Line {
    /// The reference of an item, or what the policy that added the line called it in `line.ref`.
    pub(super) fn stage_name(&self) -> String {
        let said = || self.said.iter().find(|fact| fact.key == "line.ref").unwrap().value.clone();
        self.reference.clone().unwrap_or_else(said)
    }
}

pub(super) fn dec(text: &str) -> Decimal {
    exact::parse(text).unwrap()
}

pub(super) fn amount(text: &str) -> Amount {
    Amount::from_decimal(dec(text)).unwrap()
}

/// A step of scope `line` that reads [`READS`], may produce anything and refuses on a fault.
pub(super) fn step(id: &str) -> Step {
    Step {
        id: id.to_owned(),
        policy: PolicyRef { name: id.to_owned(), version: "1.0.0".to_owned(), digest: "00".to_owned() },
        scope: Scope::Line,
        reads: Reads::parse(&READS).unwrap(),
        produces: vec!["*".to_owned()],
        on_fault: OnFault::Refuse,
    }
}

pub(super) fn says(adjustments: Vec<Adjustment>) -> Result<Outcome, Halt> {
    Ok(Outcome { adjustments, ..Outcome::default() })
}

/// An adjustment of line 0, the only one where the scope is `line`.
pub(super) fn adjust(code: &str, method: Method) -> Adjustment {
    Adjustment {
        line: Some(0),
        kind: "surcharge".to_owned(),
        code: code.to_owned(),
        label: code.to_owned(),
        reason: "because".to_owned(),
        method,
        facts: Vec::new(),
    }
}

pub(super) fn percent(code: &str, rate: &str) -> Adjustment {
    adjust(code, Method::Percent(dec(rate)))
}

pub(super) fn flat(code: &str, amount: &str) -> Adjustment {
    adjust(code, Method::Amount(dec(amount)))
}

pub(super) fn minimum(code: &str, amount: &str) -> Adjustment {
    adjust(code, Method::Minimum(dec(amount)))
}

pub(super) fn measure(code: &str, quantity: &str, unit_price: &str) -> Adjustment {
    let unit = "task_unit".to_owned();
    adjust(code, Method::Measure(Measurement { unit, quantity: dec(quantity), unit_price: dec(unit_price) }))
}

pub(super) fn reprice(code: &str, portions: Vec<Portion>) -> Adjustment {
    adjust(code, Method::Reprice(portions))
}

pub(super) fn note(code: &str, level: &str) -> Adjustment {
    adjust(code, Method::Note(Advice { level: level.to_owned(), what_if: Vec::new() }))
}

/// GPU-seconds at a price per GPU-hour.
pub(super) fn portion(code: &str, seconds: &str, unit_price: &str) -> Portion {
    Portion {
        code: code.to_owned(),
        label: code.to_owned(),
        unit: "gpu_second".to_owned(),
        quantity: dec(seconds),
        unit_price: dec(unit_price),
        draws: None,
    }
}

pub(super) fn drawn(code: &str, seconds: &str, unit_price: &str, balance: &str) -> Portion {
    Portion { draws: Some(balance.to_owned()), ..portion(code, seconds, unit_price) }
}

/// A balance in GPU-seconds, for any line.
pub(super) fn balance(id: &str, kind: &str, remaining: &str) -> Balance {
    Balance {
        id: id.to_owned(),
        kind: kind.to_owned(),
        unit: "gpu_second".to_owned(),
        scope: Vec::new(),
        rates: Vec::new(),
        remaining: dec(remaining),
        expires_unix_s: None,
    }
}

pub(super) fn on_line(line: u32, adjustment: Adjustment) -> Adjustment {
    Adjustment { line: Some(line), ..adjustment }
}

pub(super) fn on_quote(adjustment: Adjustment) -> Adjustment {
    Adjustment { line: None, ..adjustment }
}

/// The value of a fact, which the line must have.
pub(super) fn fact<'a>(line: &'a LineView<'_>, key: &str) -> &'a str {
    &line.facts.iter().find(|fact| fact.key == key).unwrap().value
}

/// Index of the line with this reference.
pub(super) fn find(lines: &[Line], reference: &str) -> usize {
    lines.iter().position(|line| line.reference.as_deref() == Some(reference)).unwrap()
}
