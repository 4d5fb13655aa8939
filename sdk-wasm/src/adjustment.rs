//! What a rule answers: adjustments, outcomes and refusals, each from as few words as possible.

use crate::contract::{Adjustment, Advice, Method, Outcome, Refusal};
use crate::exact::Rate;

/// Characters of a label or a reason; the host calls more a violation of the contract.
const MAX_CHARS: usize = 200;

impl Adjustment {
    /// An adjustment of any method; the `kind` is one of the contract's words. The line is filled in by
    /// [`every_line`](crate::every_line), or by [`on`](Self::on) in a policy of scope `quote`.
    pub fn new(kind: &str, code: impl Into<String>, label: impl Into<String>, method: Method) -> Self {
        let (code, label) = (code.into(), shortened(label.into()));
        Self { line: None, kind: kind.into(), code, label, reason: String::new(), method, facts: Vec::new() }
    }

    /// `rate` × the amount that entered the step: a `surcharge` above 0, a `discount` below, `standard` at 0.
    pub fn percent(code: impl Into<String>, label: impl Into<String>, rate: Rate) -> Self {
        let kind = if rate > Rate::ZERO { "surcharge" } else { "discount" };
        Self::percent_of_kind(kind, code, label, rate)
    }

    /// Like [`percent`](Self::percent), with a kind of its own where the rate is not 0.
    pub fn percent_of_kind(kind: &str, code: impl Into<String>, label: impl Into<String>, rate: Rate) -> Self {
        let kind = if rate == Rate::ZERO { "standard" } else { kind };
        Self::new(kind, code, label, Method::Percent(rate.value().into()))
    }

    /// A message without money: `level` is `info`, `advice` or `warning`.
    pub fn note(level: &str, code: impl Into<String>, label: impl Into<String>) -> Self {
        Self::new("note", code, label, Method::Note(Advice { level: level.into(), what_if: Vec::new() }))
    }

    /// Says why, for people. Text from a request may stand in it: what is over 200 characters is cut off, as in a label.
    pub fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: shortened(reason.into()), ..self }
    }

    /// Binds it to a line by its key.
    pub fn on(self, line: u32) -> Self {
        Self { line: Some(line), ..self }
    }
}

impl From<Vec<Adjustment>> for Outcome {
    fn from(adjustments: Vec<Adjustment>) -> Self {
        Self { adjustments, ..Self::default() }
    }
}

impl From<Option<Adjustment>> for Outcome {
    fn from(adjustment: Option<Adjustment>) -> Self {
        Self::from(Vec::from_iter(adjustment))
    }
}

impl From<Adjustment> for Outcome {
    fn from(adjustment: Adjustment) -> Self {
        Self::from(vec![adjustment])
    }
}

impl Refusal {
    /// A business answer: 422 to the caller. The line is filled in by [`every_line`](crate::every_line).
    pub fn new(code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { code: code.into(), detail: detail.into(), line: None, pointer: None }
    }

    /// Points into the item, or into the parameters where they are refused: `/workload/image`.
    pub fn at(self, pointer: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), ..self }
    }

    /// Binds it to a line by its key.
    pub fn on(self, line: u32) -> Self {
        Self { line: Some(line), ..self }
    }
}

fn shortened(text: String) -> String {
    // Bytes are never fewer than characters, so most texts need no counting.
    if text.len() <= MAX_CHARS || text.chars().count() <= MAX_CHARS {
        return text;
    }
    text.chars().take(MAX_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_of_a_rate_gives_the_kind() {
        for (percent, kind, premium) in
            [(5, "surcharge", "premium"), (-5, "discount", "premium"), (0, "standard", "standard")]
        {
            assert_eq!(Adjustment::percent("c", "l", Rate::percent(percent)).kind, kind);
            assert_eq!(Adjustment::percent_of_kind("premium", "c", "l", Rate::percent(percent)).kind, premium);
        }
    }

    #[test]
    fn labels_and_reasons_are_cut_by_characters() {
        let exactly = "é".repeat(200);
        let adjustment = Adjustment::note("info", "c", exactly.clone()).because(exactly.clone() + "é");
        assert_eq!(adjustment.label, exactly);
        assert_eq!(adjustment.reason, "é".repeat(199) + "…");
    }
}
