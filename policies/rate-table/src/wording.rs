//! Words for people: the values that matched in place of `{key}`, and a reason where the table gives none.

use farebox_sdk::prelude::*;

use crate::clock::LocalTime;
use crate::compiled::{FactCondition, HOUR_SECONDS, Rule, UsageCondition};

pub(crate) const GPU_SECOND: &str = "gpu_second";

/// Bytes of a text of which the first 200 characters are shown. Facts of steps are long, and could be named many times.
const ENOUGH: usize = 800;

/// Pieces of a template: text, and keys between braces. `None` where a brace is open or closed for nothing.
pub(crate) fn pieces(template: &str) -> Option<Vec<(&str, Option<&str>)>> {
    let mut pieces = Vec::new();
    for part in template.split('{').enumerate() {
        match part {
            (0, text) => pieces.push((text, None)),
            (_, part) => {
                let (key, text) = part.split_once('}')?;
                pieces.push((text, Some(key)));
            }
        }
    }
    pieces.iter().all(|(text, _)| !text.contains('}')).then_some(pieces)
}

impl Rule<'_> {
    /// The template with the values that made this rule match.
    pub(crate) fn filled(&self, template: &str, line: Line<'_>) -> Result<String, Refusal> {
        let mut text = String::with_capacity(template.len());
        for (plain, key) in pieces(template).unwrap_or_default() {
            if text.len() > ENOUGH {
                break;
            }
            let condition = key.and_then(|key| self.conditions.facts.iter().find(|condition| condition.key == key));
            if let Some(condition) = condition {
                text.push_str(condition.hit(line)?.map_or("", |hit| hit.value));
            }
            text.push_str(plain);
        }
        Ok(text)
    }

    /// The table's reason, or else its conditions and what the effect has to add.
    pub(crate) fn reason_for(&self, line: Line<'_>, of_effect: Option<String>) -> Result<String, Refusal> {
        if let Some(template) = self.action.reason {
            return self.filled(template, line);
        }
        let mut said = Vec::new();
        for condition in &self.conditions.facts {
            said.push(condition.said(line)?);
        }
        said.extend(self.conditions.usage.as_ref().and_then(|usage| usage.said(line)));
        let now = line.context().at.filter(|_| self.conditions.time.is_some());
        said.extend(now.map(|at| LocalTime::of(at).to_string()));
        said.extend(of_effect);
        Ok(if said.is_empty() { "every line".to_owned() } else { said.join(", ") })
    }
}

impl FactCondition<'_> {
    /// `image v2.6`
    fn said(&self, line: Line<'_>) -> Result<String, Refusal> {
        let word = self.key.rsplit('.').next().unwrap_or_default().replace('_', " ");
        let value = self.hit(line)?.map_or("", |hit| hit.value);
        Ok(if value.is_empty() { format!("no {word}") } else { format!("{word} {value}") })
    }
}

impl UsageCondition<'_> {
    /// `mean GPU utilisation 81.8929 % over 7 d`: shares are cut to what anybody reads, so that 69.999 never reads as 70.
    fn said(&self, line: Line<'_>) -> Option<String> {
        let value = self.observed(line)?;
        let name = match self.metric {
            "gpu_util" => "GPU utilisation",
            "sm_util" => "SM utilisation",
            other => other,
        };
        let shown = match self.metric.ends_with("_util").then(|| value.checked_mul(Decimal::ONE_HUNDRED)).flatten() {
            Some(percent) => format!("{} %", percent.trunc_with_scale(4).normalize()),
            None => value.normalize().to_string(),
        };
        Some(format!("{} {name} {shown} over {}", self.statistic.as_str(), self.window.label()))
    }
}

/// `10500 GPU-hours`; in seconds where hours are not exact.
pub(crate) fn quantity(value: Decimal, unit: &str) -> String {
    if unit != GPU_SECOND {
        return format!("{} {unit}", value.normalize());
    }
    let hours = value / Decimal::from(HOUR_SECONDS);
    // 3600 is 2⁴ · 3² · 5²: only the nines can make a fraction without end.
    let is_exact = (value % Decimal::from(9)).is_zero();
    if is_exact { bound(hours, unit) } else { format!("{} GPU-seconds", value.normalize()) }
}

/// A tier's bound, which is in hours for GPU time.
pub(crate) fn bound(value: Decimal, unit: &str) -> String {
    let unit = if unit == GPU_SECOND { "GPU-hours" } else { unit };
    format!("{} {unit}", value.normalize())
}
