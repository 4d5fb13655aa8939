//! What a step does to the lines: checked against the contract and computed before anything is touched.

use crate::amount::{Amount, AmountTooLarge};
use crate::exact::normalized;
use crate::guard::{Where, raise_to_zero};
use crate::plan::Step;
use crate::policy::{AddedLine, Adjustment, Advice, Fact, Fault, Measurement, Method, Portion, Scope};

use super::group::Group;
use super::line::{AdjustmentScope, AppliedAdjustment, Line, LineUnit, MethodUsed};
use super::portions::Portions;
use super::{
    Evaluated, MAX_ADJUSTMENTS_PER_LINE, MAX_LINES, MAX_WHAT_IFS, Note, Place, State, drawing, reprice, text,
    whole_cart,
};

/// Kinds that a policy may give its adjustments.
const KINDS: [&str; 10] =
    ["premium", "surcharge", "discount", "standard", "commitment", "prepaid", "usage", "fee", "credit", "note"];
const LEVELS: [&str; 3] = ["info", "advice", "warning"];

/// Everything that a step will change, once it is known that all of it may be.
#[derive(Debug)]
pub(super) struct Effects {
    pub(super) adjustments: Vec<(usize, AppliedAdjustment)>,
    /// Each line's amount after the step so far.
    pub(super) running: Vec<Amount>,
    portions: Vec<(usize, Portions)>,
    measured: Vec<(usize, Measurement, Amount)>,
    added: Vec<Line>,
    line_facts: Vec<(usize, Fact)>,
    quote_facts: Vec<Fact>,
    notes: Vec<Note>,
}

impl From<AmountTooLarge> for Fault {
    fn from(error: AmountTooLarge) -> Self {
        Self::violation(error.to_string())
    }
}

impl Effects {
    pub(super) fn of_step(state: &State, place: Place<'_>, evaluated: Vec<Evaluated>) -> Result<Self, Fault> {
        let step = place.step;
        let mut effects = Self {
            adjustments: Vec::new(),
            running: state.lines.iter().map(|line| line.amount).collect(),
            portions: Vec::new(),
            measured: Vec::new(),
            added: Vec::new(),
            line_facts: Vec::new(),
            quote_facts: Vec::new(),
            notes: Vec::new(),
        };
        let mut whole_cart = Vec::new();
        for Evaluated { group, outcome } in evaluated {
            check_codes_differ(&outcome.adjustments)?;
            for adjustment in outcome.adjustments {
                let adjustment = checked_words(step, adjustment)?;
                match adjustment.line {
                    Some(key) => {
                        effects.on_line(state, place, group.line(key).ok_or_else(unknown_line)?, adjustment)?;
                    }
                    None if step.scope == Scope::Quote => whole_cart.push(adjustment),
                    None => return Err(Fault::violation("an adjustment of the whole quote with scope `line`")),
                }
            }
            effects.add_lines(step, group, outcome.added)?;
            effects.keep_facts(step, group, outcome.facts);
        }
        // Before they are multiplied by the lines.
        if whole_cart.len() > MAX_ADJUSTMENTS_PER_LINE {
            return Err(Fault::violation(format!("more than {MAX_ADJUSTMENTS_PER_LINE} adjustments of the quote")));
        }
        for adjustment in whole_cart {
            match adjustment.method {
                Method::Note(advice) => {
                    let said = (adjustment.code, adjustment.label, adjustment.reason);
                    effects.notes.push(note(step, None, advice, said)?);
                }
                _ => whole_cart::spread_over_lines(&mut effects, state, place, adjustment)?,
            }
        }
        effects.raise_negative_lines(place)?;
        effects.check_limits(state, step)?;
        if !effects.portions.is_empty() {
            drawing::check(&state.lines, &effects.portions, &place.input.offer().balances)?;
        }
        Ok(effects)
    }

    /// Applies one adjustment of one line.
    fn on_line(&mut self, state: &State, place: Place<'_>, index: usize, adjustment: Adjustment) -> Result<(), Fault> {
        let line = state.lines.get(index).ok_or_else(unknown_line)?;
        let Adjustment { kind, code, label, reason, method, facts, .. } = adjustment;
        let (method, amount) = match method {
            Method::Note(advice) => {
                self.notes.push(note(place.step, Some(index), advice, (code, label, reason))?);
                return Ok(());
            }
            Method::Percent(rate) => (MethodUsed::Percent(normalized(rate)), line.amount.times(rate)?),
            Method::Amount(amount) => (MethodUsed::Amount, Amount::from_decimal(amount)?),
            Method::Minimum(minimum) => (MethodUsed::Minimum, missing_to(minimum, self.running(index)?)?),
            Method::Reprice(portions) => {
                let portions = portions.into_iter().map(with_shown_label).collect::<Result<Vec<_>, _>>()?;
                if self.portions.iter().any(|(other, _)| *other == index) {
                    return Err(Fault::violation("a line is repriced twice in one step"));
                }
                let amount = reprice::amount(line, &portions, place)?;
                self.portions.push((index, Portions::of_policy(portions.clone())));
                (MethodUsed::Reprice(portions), amount)
            }
            Method::Measure(measurement) => {
                let list_amount = measured_amount(line, &measurement)?;
                if self.measured.iter().any(|(other, _, _)| *other == index) {
                    return Err(Fault::violation("a line is measured twice"));
                }
                self.measured.push((index, measurement, list_amount));
                self.add_to(index, list_amount)?;
                (MethodUsed::Measure, Amount::ZERO)
            }
        };
        self.add_to(index, amount)?;
        let step = place.step.id.clone();
        let (step_index, scope) = (Some(place.index), AdjustmentScope::Line);
        let applied = AppliedAdjustment { step, step_index, scope, kind, code, label, reason, method, amount, facts };
        self.adjustments.push((index, applied));
        Ok(())
    }

    fn running(&self, index: usize) -> Result<Amount, Fault> {
        self.running.get(index).copied().ok_or_else(unknown_line)
    }

    pub(super) fn add_to(&mut self, index: usize, amount: Amount) -> Result<(), Fault> {
        let running = self.running.get_mut(index).ok_or_else(unknown_line)?;
        *running = running.plus(amount)?;
        Ok(())
    }

    fn add_lines(&mut self, step: &Step, group: Group, added: Vec<AddedLine>) -> Result<(), Fault> {
        // Beside the one line that every quote has, these find no room in any.
        if added.len() >= MAX_LINES {
            return Err(Fault::violation(format!("more than {MAX_LINES} lines")));
        }
        for line in added {
            let parent = match line.parent {
                Some(key) => Some(group.line(key).ok_or_else(unknown_line)?),
                None => group.only(),
            };
            text::check_code(&line.unit)?;
            let is_gpu_time = matches!(line.unit.as_str(), "gpu_second" | "gpu_hour" | "task");
            if is_gpu_time || line.quantity.is_sign_negative() || line.unit_price.is_sign_negative() {
                return Err(Fault::violation("an added line needs a unit other than GPU time, and nothing negative"));
            }
            check_produced(step, &line.code)?;
            let list_amount = Amount::product(line.unit_price, line.quantity, 1)?;
            let mut said = line.facts;
            said.push(Fact::new("added.code", line.code));
            self.added.push(Line {
                reference: None,
                parent,
                description: text::shown(line.label)?,
                unit: LineUnit::Other(line.unit),
                quantity: line.quantity,
                list_unit_price: line.unit_price,
                list_amount,
                adjustments: Vec::new(),
                amount: list_amount,
                item: None,
                said,
                portions: Portions::default(),
                // Storage or a block is no GPU time, so what its parent's GPUs did is nothing to it.
                usage: None,
                has_percent: false,
                policy_adjustments: 0,
            });
        }
        Ok(())
    }

    fn keep_facts(&mut self, step: &Step, group: Group, facts: Vec<Fact>) {
        for fact in facts {
            let fact = Fact { key: format!("step.{}.{}", step.id, fact.key), value: fact.value };
            match (step.scope, group.only()) {
                (Scope::Line, Some(line)) => self.line_facts.push((line, fact)),
                _ => self.quote_facts.push(fact),
            }
        }
    }

    fn raise_negative_lines(&mut self, place: Place<'_>) -> Result<(), Fault> {
        let here = Where { step: &place.step.id, step_index: Some(place.index), scope: AdjustmentScope::Line };
        for (index, running) in self.running.iter_mut().enumerate() {
            if let Some(raise) = raise_to_zero(*running, here)? {
                *running = Amount::ZERO;
                self.adjustments.push((index, raise));
            }
        }
        Ok(())
    }

    fn check_limits(&self, state: &State, step: &Step) -> Result<(), Fault> {
        let mut said = state.lines.iter().zip(self.said());
        if said.any(|(line, new)| line.policy_adjustments.saturating_add(new) > MAX_ADJUSTMENTS_PER_LINE) {
            return Err(Fault::violation(format!("more than {MAX_ADJUSTMENTS_PER_LINE} adjustments on a line")));
        }
        let takes_percent = |line: usize| {
            self.adjustments.iter().any(|(of, made)| *of == line && matches!(made.method, MethodUsed::Percent(_)))
        };
        if !step.is_base() && self.portions.iter().any(|(line, _)| takes_percent(*line)) {
            return Err(Fault::violation("a reprice and a percentage of one line in one step"));
        }
        let asking = |notes: &[Note]| notes.iter().filter(|note| !note.what_if.is_empty()).count();
        if asking(&state.notes).saturating_add(asking(&self.notes)) > MAX_WHAT_IFS {
            return Err(Fault::violation(format!("more than {MAX_WHAT_IFS} notes with a what-if")));
        }
        Ok(())
    }

    /// How many lines there would be, where one quote does not hold them.
    pub(super) fn too_many_lines(&self, state: &State) -> Option<usize> {
        let lines = state.lines.len().saturating_add(self.added.len());
        (!self.added.is_empty() && lines > MAX_LINES).then_some(lines)
    }

    /// How many adjustments and notes by the policy this is on each line.
    fn said(&self) -> Vec<usize> {
        let mut said = vec![0usize; self.running.len()];
        let by_policy = self.adjustments.iter().filter(|(_, made)| KINDS.contains(&made.kind.as_str()));
        for line in by_policy.map(|(line, _)| *line).chain(self.notes.iter().filter_map(|note| note.line)) {
            if let Some(count) = said.get_mut(line) {
                *count = count.saturating_add(1);
            }
        }
        said
    }

    /// Makes the changes. Nothing here can fail: all of it was computed before.
    pub(super) fn commit(self, state: &mut State, step: &Step) {
        for (line, said) in state.lines.iter_mut().zip(self.said()) {
            line.policy_adjustments = line.policy_adjustments.saturating_add(said);
        }
        for (index, adjustment) in self.adjustments {
            if let Some(line) = state.lines.get_mut(index) {
                line.has_percent |= matches!(adjustment.method, MethodUsed::Percent(_)) && !step.is_base();
                line.adjustments.push(adjustment);
            }
        }
        for (index, measurement, list_amount) in self.measured {
            if let Some(line) = state.lines.get_mut(index) {
                line.unit = LineUnit::Other(measurement.unit);
                line.quantity = measurement.quantity;
                line.list_unit_price = measurement.unit_price;
                line.list_amount = list_amount;
            }
        }
        for (line, amount) in state.lines.iter_mut().zip(self.running) {
            line.amount = amount;
        }
        for (index, portions) in self.portions {
            if let Some(line) = state.lines.get_mut(index) {
                line.portions = portions;
            }
        }
        for (index, fact) in self.line_facts {
            if let Some(line) = state.lines.get_mut(index) {
                line.said.push(fact);
            }
        }
        state.lines.extend(self.added);
        state.facts.extend(self.quote_facts);
        state.notes.extend(self.notes);
    }
}

fn note(
    step: &Step,
    line: Option<usize>,
    advice: Advice,
    (code, label, reason): (String, String, String),
) -> Result<Note, Fault> {
    if !LEVELS.contains(&advice.level.as_str()) {
        return Err(Fault::violation(format!("unknown level `{}` of a note", text::excerpt(&advice.level, 40))));
    }
    let text = if reason.is_empty() { label } else { reason };
    let what_if = plain_facts(advice.what_if);
    Ok(Note { step: step.id.clone(), line, level: advice.level, code, text, what_if })
}

/// A code appears once on a line, and once on the whole quote.
fn check_codes_differ(adjustments: &[Adjustment]) -> Result<(), Fault> {
    let mut codes: Vec<(Option<u32>, &str)> = adjustments.iter().map(|it| (it.line, it.code.as_str())).collect();
    codes.sort_unstable();
    match codes.array_windows().find(|[one, next]| one == next) {
        Some([(_, code), _]) => Err(Fault::violation(format!("code `{}` twice on one line", text::excerpt(code, 40)))),
        None => Ok(()),
    }
}

fn unknown_line() -> Fault {
    Fault::violation("names a line that is not there")
}

/// max(0, minimum − amount)
pub(super) fn missing_to(minimum: rust_decimal::Decimal, amount: Amount) -> Result<Amount, AmountTooLarge> {
    Ok(Amount::from_decimal(minimum)?.minus(amount)?.max(Amount::ZERO))
}

fn measured_amount(line: &Line, measurement: &Measurement) -> Result<Amount, Fault> {
    if line.unit != LineUnit::Task {
        return Err(Fault::violation("measures a line that is not an unmeasured task"));
    }
    text::check_code(&measurement.unit)?;
    let is_gpu_time = matches!(measurement.unit.as_str(), "gpu_second" | "gpu_hour" | "task");
    if is_gpu_time || measurement.quantity.is_sign_negative() || measurement.unit_price.is_sign_negative() {
        return Err(Fault::violation("a measurement needs a unit other than GPU time, and nothing negative"));
    }
    Ok(Amount::product(measurement.unit_price, measurement.quantity, 1)?)
}

/// An adjustment whose words may be passed on: known kind, own code, texts for people without control characters.
fn checked_words(step: &Step, adjustment: Adjustment) -> Result<Adjustment, Fault> {
    if !KINDS.contains(&adjustment.kind.as_str()) {
        return Err(Fault::violation(format!("unknown kind `{}`", text::excerpt(&adjustment.kind, 40))));
    }
    check_produced(step, &adjustment.code)?;
    Ok(Adjustment {
        facts: plain_facts(adjustment.facts),
        label: text::shown(adjustment.label)?,
        reason: text::shown(adjustment.reason)?,
        ..adjustment
    })
}

fn plain_facts(facts: Vec<Fact>) -> Vec<Fact> {
    facts.into_iter().map(|fact| Fact { key: text::plain(fact.key), value: text::plain(fact.value) }).collect()
}

fn check_produced(step: &Step, code: &str) -> Result<(), Fault> {
    text::check_code(code)?;
    if !step.may_produce(code) {
        return Err(Fault::violation(format!("code `{}` is not among those it produces", text::excerpt(code, 40))));
    }
    Ok(())
}

fn with_shown_label(portion: Portion) -> Result<Portion, Fault> {
    Ok(Portion { label: text::shown(portion.label)?, ..portion })
}
