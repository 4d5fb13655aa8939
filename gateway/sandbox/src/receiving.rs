//! What a policy answers, from the contract's words into the domain's, with every bound checked on the way.
//!
//! Which codes, kinds and lines make sense is the pipeline's to judge: only form is judged here.

use std::collections::BTreeMap;

use farebox_pricing::policy as domain;
use farebox_pricing::policy::Fault;
use rust_decimal::Decimal;

use crate::bindings as wire;
use crate::limits::Counts;

/// The largest scale of a decimal.
const SCALE: u8 = 28;

/// Reads answers under bounds. Every error is a contract violation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a Counts);

type Read<T> = Result<T, Fault>;

impl Reader<'_> {
    pub(crate) fn outcome(self, outcome: wire::Outcome) -> Read<domain::Outcome> {
        self.adjustments_per_line(&outcome.adjustments)?;
        Ok(domain::Outcome {
            adjustments: outcome.adjustments.into_iter().map(|given| self.adjustment(given)).collect::<Read<_>>()?,
            added: self.list("added lines", outcome.added, Self::added_line)?,
            facts: self.facts(outcome.facts)?,
        })
    }

    pub(crate) fn refusal(self, refusal: wire::Refusal) -> Read<domain::Refusal> {
        Ok(domain::Refusal {
            code: self.name(refusal.code)?,
            detail: at_most("bytes of a refusal's detail", refusal.detail, self.0.value_bytes, str::len)?,
            line: refusal.line,
            pointer: refusal.pointer.map(|pointer| self.name(pointer)).transpose()?,
        })
    }

    pub(crate) fn refusals(self, refusals: Vec<wire::Refusal>) -> Read<Vec<domain::Refusal>> {
        self.list("refusals", refusals, Self::refusal)
    }

    pub(crate) fn facts(self, facts: Vec<wire::FactResult>) -> Read<Vec<domain::Fact>> {
        self.list("facts", facts, |reader, fact| {
            let value = at_most("bytes of a fact", fact.value, reader.0.value_bytes, str::len)?;
            Ok(domain::Fact { key: reader.name(fact.key)?, value })
        })
    }

    pub(crate) fn names(self, names: Vec<String>) -> Read<Vec<String>> {
        self.list("names", names, Self::name)
    }

    fn adjustments_per_line(self, adjustments: &[wire::Adjustment]) -> Read<()> {
        let limit = self.0.adjustments_per_line;
        if adjustments.len() <= limit {
            return Ok(());
        }
        let mut counts = BTreeMap::<Option<u32>, usize>::new();
        for adjustment in adjustments {
            let count = counts.entry(adjustment.line).or_default();
            *count = count.saturating_add(1);
            bound("adjustments of a line", *count, limit)?;
        }
        Ok(())
    }

    fn adjustment(self, adjustment: wire::Adjustment) -> Read<domain::Adjustment> {
        Ok(domain::Adjustment {
            line: adjustment.line,
            kind: self.name(adjustment.kind)?,
            code: self.name(adjustment.code)?,
            label: self.text(adjustment.label)?,
            reason: self.text(adjustment.reason)?,
            method: self.method(adjustment.method)?,
            facts: self.facts(adjustment.facts)?,
        })
    }

    fn method(self, method: wire::Method) -> Read<domain::Method> {
        Ok(match method {
            wire::Method::Percent(rate) => domain::Method::Percent(decimal(rate)?),
            wire::Method::Amount(amount) => domain::Method::Amount(decimal(amount)?),
            wire::Method::Minimum(amount) => domain::Method::Minimum(decimal(amount)?),
            wire::Method::Reprice(portions) => {
                domain::Method::Reprice(self.list("portions", portions, Self::portion)?)
            }
            wire::Method::Measure(measured) => domain::Method::Measure(domain::Measurement {
                unit: self.name(measured.unit)?,
                quantity: decimal(measured.quantity)?,
                unit_price: decimal(measured.unit_price)?,
            }),
            wire::Method::Note(advice) => domain::Method::Note(domain::Advice {
                level: self.name(advice.level)?,
                what_if: self.facts(advice.what_if)?,
            }),
        })
    }

    fn portion(self, portion: wire::PortionResult) -> Read<domain::Portion> {
        Ok(domain::Portion {
            code: self.name(portion.code)?,
            label: self.text(portion.label)?,
            unit: self.name(portion.unit)?,
            quantity: decimal(portion.quantity)?,
            unit_price: decimal(portion.unit_price)?,
            draws: portion.draws.map(|balance| self.name(balance)).transpose()?,
        })
    }

    fn added_line(self, line: wire::AddedLine) -> Read<domain::AddedLine> {
        Ok(domain::AddedLine {
            parent: line.parent,
            code: self.name(line.code)?,
            label: self.text(line.label)?,
            unit: self.name(line.unit)?,
            quantity: decimal(line.quantity)?,
            unit_price: decimal(line.unit_price)?,
            facts: self.facts(line.facts)?,
        })
    }

    fn list<A, B>(self, what: &str, items: Vec<A>, read: impl Fn(Self, A) -> Read<B>) -> Read<Vec<B>> {
        bound(what, items.len(), self.0.items)?;
        items.into_iter().map(|item| read(self, item)).collect()
    }

    fn name(self, name: String) -> Read<String> {
        at_most("bytes of a name", name, self.0.name_bytes, str::len)
    }

    fn text(self, text: String) -> Read<String> {
        // Characters are never more than bytes, and few texts are long enough to be counted.
        if text.len() <= self.0.text_chars {
            return Ok(text);
        }
        at_most("characters of a text", text, self.0.text_chars, |text| text.chars().count())
    }
}

fn at_most(what: &str, text: String, limit: usize, measure: impl Fn(&str) -> usize) -> Read<String> {
    bound(what, measure(&text), limit)?;
    Ok(text)
}

fn bound(what: &str, found: usize, limit: usize) -> Read<()> {
    if found > limit { Err(Fault::violation(format!("{what}: {found}, at most {limit} allowed"))) } else { Ok(()) }
}

/// Takes exactly the encodings that the contract allows, so that equal values are equal bytes in every language.
fn decimal(value: wire::Decimal) -> Read<Decimal> {
    if value.scale > SCALE {
        return Err(Fault::violation(format!("a decimal has scale {}, at most {SCALE} allowed", value.scale)));
    }
    let read = Decimal::from_parts(value.lo, value.mid, value.hi, value.negative, value.scale.into());
    if value.negative && read.is_zero() {
        return Err(Fault::violation("a decimal is negative zero"));
    }
    Ok(read)
}
