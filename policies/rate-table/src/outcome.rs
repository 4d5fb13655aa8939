//! What a rule that matched says of a line.

use farebox_sdk::prelude::*;

use crate::compiled::{Effect, Rule};
use crate::facts;
use crate::written::fee_code;
use crate::{ramp, tiers};

impl Rule<'_> {
    /// Rows and messages. None where the rule would raise a price by a statistic and only a discount is fair.
    pub(crate) fn outcome(&self, line: Line<'_>) -> Result<Vec<Adjustment>, Refusal> {
        if let Effect::Refuse { detail, at } = &self.action.effect {
            let detail = self.filled(detail, line)?;
            let refusal = Refusal::new(self.action.code, detail);
            let pointer = at.map(|key| self.pointer(key, line)).transpose()?.flatten();
            return Err(pointer.into_iter().fold(refusal, Refusal::at));
        }
        let mut rows = Vec::new();
        match &self.action.effect {
            Effect::Rate(rate) => rows.push(self.percent(line, *rate)?),
            Effect::Ramp(points) => {
                let value = self.conditions.usage.as_ref().and_then(|usage| usage.observed(line));
                match value.and_then(|value| ramp::rate(points, value)) {
                    Some(rate) => rows.push(self.percent(line, rate)?),
                    None => return Ok(rows),
                }
            }
            Effect::Amount(amount) => {
                let amount = amount.value();
                let kind = match amount.cmp(&Decimal::ZERO) {
                    std::cmp::Ordering::Less => "discount",
                    std::cmp::Ordering::Equal => "standard",
                    std::cmp::Ordering::Greater => "surcharge",
                };
                rows.push(self.row(line, kind, Method::Amount(amount.into()), None)?);
            }
            Effect::Minimum(minimum) => {
                rows.push(self.row(line, "fee", Method::Minimum(minimum.value().into()), None)?);
            }
            // Tiers, but none: the line keeps the price that it has, and the rule says that it matched.
            Effect::Graduated(tiers) | Effect::Volume(tiers) if tiers.is_empty() => {
                let unchanged = Method::Amount(Decimal::ZERO.into());
                rows.push(self.row(line, "standard", unchanged, Some("no tiers".to_owned()))?);
            }
            Effect::UnitPrice(_) | Effect::Graduated(_) | Effect::Volume(_) => self.reprice(line, &mut rows)?,
            Effect::Nothing | Effect::Refuse { .. } => {}
        }
        if self.conditions.usage.is_some()
            && rows.iter().any(raises)
            && line.usage().is_none_or(|usage| !usage.surcharge_allowed)
        {
            return Ok(Vec::new());
        }
        if let Some(note) = &self.action.note {
            let text = self.filled(note.text, line)?;
            rows.push(Adjustment::note(note.level.as_str(), note.code, self.action.label).because(text));
        }
        Ok(rows)
    }

    fn percent(&self, line: Line<'_>, rate: Rate) -> Result<Adjustment, Refusal> {
        let (code, label) = (self.action.code, self.action.label);
        let row = match self.action.kind {
            Some(kind) => Adjustment::percent_of_kind(kind.as_str(), code, label, rate),
            None => Adjustment::percent(code, label, rate),
        };
        Ok(row.because(self.reason_for(line, None)?))
    }

    fn row(&self, line: Line<'_>, kind: &str, method: Method, said: Option<String>) -> Result<Adjustment, Refusal> {
        let kind = self.action.kind.map_or(kind, |kind| kind.as_str());
        let row = Adjustment::new(kind, self.action.code, self.action.label, method);
        Ok(row.because(self.reason_for(line, said)?))
    }

    fn reprice(&self, line: Line<'_>, rows: &mut Vec<Adjustment>) -> Result<(), Refusal> {
        let Some(repriced) = tiers::reprice(&self.action.effect, line) else { return Ok(()) };
        rows.push(self.row(line, "usage", Method::Reprice(repriced.portions), Some(repriced.reason))?);
        if let Some(fee) = repriced.flat_fee {
            let label = format!("{}: flat fee", self.action.label);
            let reason = "once, for the tiers that the quantity reaches";
            rows.push(
                Adjustment::new("fee", fee_code(self.action.code), label, Method::Amount(fee.into())).because(reason),
            );
        }
        Ok(())
    }

    /// The field of the item that made the condition on `key` hold.
    fn pointer(&self, key: &str, line: Line<'_>) -> Result<Option<String>, Refusal> {
        let Some(condition) = self.conditions.facts.iter().find(|condition| condition.key == key) else {
            return Ok(None);
        };
        Ok(condition.hit(line)?.and_then(|hit| facts::pointer(key, hit.index)))
    }
}

fn raises(row: &Adjustment) -> bool {
    let value = match &row.method {
        Method::Percent(value) | Method::Amount(value) | Method::Minimum(value) => value.exact(),
        Method::Reprice(_) | Method::Measure(_) | Method::Note(_) => None,
    };
    value.is_some_and(|value| value > Decimal::ZERO)
}
