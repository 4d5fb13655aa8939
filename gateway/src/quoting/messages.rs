//! What a quote says beside its price.

use farebox_pricing::amount::Amount;
use farebox_pricing::offer::PricedInput;
use farebox_pricing::settle::Settled;
use farebox_pricing::usage::UsageFinding;

use crate::catalog::OfferNote;
use crate::ledger::Message;

/// Where messages come from, in the order of the road.
pub(super) struct Said<'a> {
    pub(super) offer: &'a [OfferNote],
    pub(super) input: &'a PricedInput,
    pub(super) settled: &'a Settled,
    /// By note of `settled`: what it would save.
    pub(super) saves: &'a [Option<Amount>],
    /// The engine's own, which come last.
    pub(super) advice: Vec<Message>,
}

pub(super) fn of(said: Said<'_>) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for note in said.offer {
        messages.push(Message {
            level: "info".to_owned(),
            code: note.code.to_owned(),
            text: note.text.clone(),
            line: Some(note.item),
            saves: None,
        });
    }
    messages.extend(usage_messages(said.input));
    for (note, saves) in said.settled.notes.iter().zip(said.saves) {
        // An advice that asks for a saving and has none is no advice; whatever else a policy says, it says.
        if note.level == "advice" && !note.what_if.is_empty() && saves.is_none() {
            continue;
        }
        messages.push(Message {
            level: note.level.clone(),
            code: note.code.clone(),
            text: note.text.clone(),
            line: note.line,
            saves: *saves,
        });
    }
    messages.extend(said.advice);
    messages
}

/// One message for each finding that a step of the plan could have been moved by; with its line where lines differ.
fn usage_messages(input: &PricedInput) -> Vec<Message> {
    if input.plan().stats_read().next().is_none() {
        return Vec::new();
    }
    let one_for_all = input.usages().len() == 1;
    let mut messages = Vec::new();
    for usage in input.usages() {
        let first_line = (0..input.offer().items.len()).find(|item| input.usage(*item) == Some(usage));
        for finding in &usage.judged.findings {
            messages.push(Message {
                level: level(*finding).to_owned(),
                code: finding.code().to_owned(),
                text: finding.text().to_owned(),
                line: first_line.filter(|_| !one_for_all),
                saves: None,
            });
        }
    }
    messages
}

/// A missing snapshot is normal for a new tenant; the rest says that something is amiss.
fn level(finding: UsageFinding) -> &'static str {
    match finding {
        UsageFinding::NoSnapshot | UsageFinding::Thin | UsageFinding::GracePeriod | UsageFinding::MigNoUtilisation => {
            "info"
        }
        UsageFinding::HardStale
        | UsageFinding::LowCoverage
        | UsageFinding::SoftStale
        | UsageFinding::DeviceUnhealthy
        | UsageFinding::SuspectZero => "warning",
    }
}
