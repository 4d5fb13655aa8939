//! The pipeline: runs a plan's steps over the lines, in order, each once.
//!
//! A step is evaluated first and applied afterwards, all of it or nothing: `effects` checks an outcome against the
//! contract and computes its amounts without touching a line; only then are they committed. So a step that faults leaves
//! no trace, whatever its fault rule.

mod context;
mod drawing;
mod effects;
mod group;
mod line;
mod portions;
mod reprice;
mod text;
mod whole_cart;

use std::sync::Arc;

use crate::amount::AmountTooLarge;
use crate::offer::PricedInput;
use crate::plan::{OnFault, Plan, Step};
use crate::policy::{Evaluation, Fact, Fault, Halt, Outcome, Refusal, RunPolicy};
use crate::settle::SumsDiffer;
use group::Group;

pub use line::{AdjustmentScope, AppliedAdjustment, Line, LineUnit, MethodUsed};
pub use text::is_control;

/// Adjustments and notes that policies may make on one line, over all steps; also on the whole quote, in one step.
pub const MAX_ADJUSTMENTS_PER_LINE: usize = 64;
/// Lines of a quote, added ones included.
pub const MAX_LINES: usize = 100;
/// Steps of a plan.
pub const MAX_STEPS: usize = 16;
/// Characters of a label or reason.
pub const MAX_TEXT: usize = 200;
/// Notes of one quote that ask what would be otherwise, over all steps: each costs a pricing of its own.
pub const MAX_WHAT_IFS: usize = 3;

/// Lines after the last step, not yet guarded or rounded. Only [`run`] makes them.
#[derive(Clone, Debug)]
pub(crate) struct PricedLines {
    pub(crate) plan: Arc<Plan>,
    pub(crate) lines: Vec<Line>,
    pub(crate) notes: Vec<Note>,
    pub(crate) skipped: Vec<SkippedStep>,
    pub(crate) costs: Vec<StepCost>,
}

/// A message by a policy, or about one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub step: String,
    pub line: Option<usize>,
    /// `info`, `advice` or `warning`.
    pub level: String,
    pub code: String,
    /// The reason that the policy gave, else its label.
    pub text: String,
    /// What the note asks: the same request, but with these values. Empty: it asks nothing.
    pub what_if: Vec<Fact>,
}

/// A step that faulted and was left out, as its plan allows. A quote and the charge for it skip the same steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedStep {
    /// Index of the step in the plan.
    pub step_index: usize,
    pub fault: Fault,
}

/// What a step of the plan cost, over all its evaluations; `reused` of them cost this earlier and were not run again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepCost {
    pub evaluations: u32,
    pub reused: u32,
    pub fuel: u64,
    pub memory_bytes_max: u64,
    pub nanoseconds: u64,
}

/// Why there is no price. `policy` is `name@version`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PricingError {
    #[error("step `{step}` (policy `{policy}`) refused: {}", refusal.detail)]
    Refused { step: String, policy: String, item: Option<usize>, refusal: Box<Refusal> },
    #[error("step `{step}` (policy `{policy}`) {fault}")]
    Faulted { step: String, policy: String, on_fault: OnFault, fault: Fault },
    #[error("the plan has no step that measures tasks")]
    NotMeasured { item: usize },
    /// The cart is too long for what the plan adds to it; a shorter one has a price.
    #[error("with what step `{step}` adds, the quote has {lines} lines and not at most {MAX_LINES}")]
    TooManyLines { step: String, lines: usize },
    #[error(transparent)]
    TooLarge(#[from] AmountTooLarge),
    #[error(transparent)]
    SumsDiffer(#[from] SumsDiffer),
}

/// Prices these inputs under their plan, up to but without guards and rounding.
pub(crate) fn run(input: &PricedInput, policies: &mut impl RunPolicy) -> Result<PricedLines, PricingError> {
    let mut state = State::entering(input)?;
    for (index, step) in input.plan().steps.iter().enumerate() {
        let place = Place { input, step, index };
        if let Err(halted) = state.take_step(place, policies) {
            // A skipped step leaves no trace but its message and its fault: nothing of it was committed.
            let (note, skipped) = halted.excused(place)?;
            state.notes.push(note);
            state.skipped.push(skipped);
        }
    }
    state.check_measured(input.plan())?;
    let plan = Arc::clone(&input.offer().plan);
    let State { lines, notes, skipped, costs, .. } = state;
    Ok(PricedLines { plan, lines, notes, skipped, costs })
}

/// A step in its plan, with the inputs that are priced.
#[derive(Clone, Copy)]
struct Place<'a> {
    input: &'a PricedInput,
    step: &'a Step,
    index: usize,
}

/// A step that came to no effects.
enum Halted {
    /// By the policy, at the line that was being evaluated.
    Policy { halt: Halt, line: Option<usize> },
    /// Each line that the step adds is fair, but one quote does not hold all of them.
    TooManyLines(usize),
}

impl From<Fault> for Halted {
    fn from(fault: Fault) -> Self {
        Self::Policy { halt: Halt::Faulted(fault), line: None }
    }
}

impl Halted {
    /// The message and the fault of a step that its plan allows to skip; else the error. A host fault is nobody's rule: it
    /// is worth a retry, and never a price.
    fn excused(self, place: Place<'_>) -> Result<(Note, SkippedStep), PricingError> {
        let (halt, line) = match self {
            Self::Policy { halt, line } => (halt, line),
            Self::TooManyLines(lines) => {
                return Err(PricingError::TooManyLines { step: place.step.id.clone(), lines });
            }
        };
        match halt {
            Halt::Refused(mut refusal) => {
                refusal.detail = text::excerpt(&refusal.detail, MAX_TEXT);
                refusal.code = text::excerpt(&refusal.code, MAX_TEXT);
                refusal.pointer = refusal.pointer.filter(|pointer| text::is_pointer(pointer));
                let item = line.filter(|index| *index < place.input.offer().items.len());
                let (step, policy) = (place.step.id.clone(), place.step.policy.id());
                Err(PricingError::Refused { step, policy, item, refusal: Box::new(refusal) })
            }
            Halt::Faulted(fault) if place.step.on_fault != OnFault::Skip || fault.is_host() => {
                Err(PricingError::faulted(place.step, fault))
            }
            Halt::Faulted(fault) => {
                let step = place.step.id.clone();
                let text = format!("step `{step}` could not be evaluated and was left out, as the plan allows");
                let (level, code) = ("warning".to_owned(), "step_skipped".to_owned());
                let note = Note { step, line: None, level, code, text, what_if: Vec::new() };
                Ok((note, SkippedStep { step_index: place.index, fault }))
            }
        }
    }
}

impl PricingError {
    fn faulted(step: &Step, fault: Fault) -> Self {
        Self::Faulted { step: step.id.clone(), policy: step.policy.id(), on_fault: step.on_fault, fault }
    }
}

/// What the steps so far have made of the lines.
struct State {
    lines: Vec<Line>,
    /// What earlier steps said of the whole quote, as `step.<step id>.<key>`.
    facts: Vec<Fact>,
    notes: Vec<Note>,
    skipped: Vec<SkippedStep>,
    costs: Vec<StepCost>,
}

/// An outcome, and the lines that it is about.
struct Evaluated {
    group: Group,
    outcome: Outcome,
}

impl State {
    fn entering(input: &PricedInput) -> Result<Self, AmountTooLarge> {
        let (facts, notes, skipped, costs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { lines: line::enter(input)?, facts, notes, skipped, costs })
    }

    /// A task that nobody measured has no price. Where a step was left out, that step's fault is to blame: it might have.
    fn check_measured(&self, plan: &Plan) -> Result<(), PricingError> {
        let Some(item) = self.lines.iter().position(|line| line.unit == LineUnit::Task) else { return Ok(()) };
        let skipped = self.skipped.first().and_then(|it| Some((plan.steps.get(it.step_index)?, &it.fault)));
        Err(match skipped {
            Some((step, fault)) => PricingError::faulted(step, fault.clone()),
            None => PricingError::NotMeasured { item },
        })
    }

    fn take_step(&mut self, place: Place<'_>, policies: &mut impl RunPolicy) -> Result<(), Halted> {
        let mut cost = StepCost::default();
        let evaluated = self.evaluate(place, &mut cost, policies);
        self.costs.push(cost);
        let effects = effects::Effects::of_step(self, place, evaluated?)?;
        if let Some(lines) = effects.too_many_lines(self) {
            return Err(Halted::TooManyLines(lines));
        }
        effects.commit(self, place.step);
        Ok(())
    }

    /// The outcomes of a step: one for each line where the scope is `line`, else one for all.
    fn evaluate(
        &self,
        place: Place<'_>,
        cost: &mut StepCost,
        policies: &mut impl RunPolicy,
    ) -> Result<Vec<Evaluated>, Halted> {
        let mut evaluated = Vec::new();
        for group in Group::of(place.step.scope, self.lines.len()) {
            let context = context::of(self, place, group);
            let evaluation = policies
                .evaluate(place.index, &context)
                .map_err(|halt| Halted::Policy { line: blamed(&halt, group), halt })?;
            cost.add(&evaluation);
            evaluated.push(Evaluated { group, outcome: evaluation.outcome });
        }
        Ok(evaluated)
    }
}

/// The line that a refusal names; the only one, where there is only one.
fn blamed(halt: &Halt, group: Group) -> Option<usize> {
    let named = match halt {
        Halt::Refused(refusal) => refusal.line.and_then(|key| group.line(key)),
        Halt::Faulted(_) => None,
    };
    group.only().or(named)
}

impl StepCost {
    fn add(&mut self, evaluation: &Evaluation) {
        self.evaluations = self.evaluations.saturating_add(1);
        self.reused = self.reused.saturating_add(u32::from(evaluation.reused));
        self.fuel = self.fuel.saturating_add(evaluation.fuel);
        self.memory_bytes_max = self.memory_bytes_max.max(evaluation.memory_bytes);
        self.nanoseconds = self.nanoseconds.saturating_add(evaluation.nanoseconds);
    }
}
