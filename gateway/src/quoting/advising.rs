//! What a quote advises, and what each advice would save: notes of policies in their order, then the engine's own.

use std::cmp::Reverse;

use farebox_metering::mirror::UsageQuery;
use farebox_pricing::amount::Amount;
use farebox_pricing::pipeline::Note;
use farebox_pricing::request::QuoteRequest;
use farebox_pricing::settle::Settled;

use super::Road;
use super::advice::{self, Asked, Candidate, Evidence};
use super::what_if::{Quoted, WhatIfs};
use crate::ledger::Message;

/// What is said of savings beside a quote that stands.
pub(super) struct Advised {
    /// By note of the settled quote: what it would save, if it asks and does.
    pub(super) of_notes: Vec<Option<Amount>>,
    /// The engine's own, as they will be shown.
    pub(super) own: Vec<Message>,
}

/// An advice, and what it was found to save.
struct Weighed {
    candidate: Candidate,
    saves: Option<Amount>,
}

pub(super) fn advise(road: &Road, request: &QuoteRequest, quoted: Quoted<'_>) -> Advised {
    let mut what_ifs = WhatIfs::of(road, quoted);
    let notes = &quoted.settled.notes;
    let of_notes = notes.iter().map(|note| saves_of_note(&mut what_ifs, quoted.settled, note, request)).collect();

    let evidence = evidence(road, request, quoted);
    let (plan, rules) = (quoted.input.plan(), &quoted.version.advice);
    let mut candidates = advice::candidates(Asked { request, plan, rules, evidence: &evidence });
    // A policy that gives the same advice has said it in its own words.
    candidates.retain(|found| !notes.iter().any(|note| note.code == found.code.as_str()));
    // Only some are priced: first what is about the most money.
    candidates.sort_by_key(|found| (Reverse(amount_of(quoted.settled, &found.items)), found.code));
    let weighed = candidates.into_iter().filter_map(|candidate| {
        let asks = !candidate.what_if.is_empty();
        let saves = asks.then(|| what_ifs.saves(&candidate.items, &candidate.what_if)).flatten();
        // What could be priced and saves nothing is no advice.
        (saves.is_some() || !asks).then_some(Weighed { candidate, saves })
    });
    let mut weighed: Vec<Weighed> = weighed.collect();
    weighed.sort_by_key(|weighed| (Reverse(weighed.saves), weighed.candidate.code));
    let own = weighed.into_iter().map(|weighed| weighed.into_message(request.items.len())).collect();
    Advised { of_notes, own }
}

impl Weighed {
    /// With its line, where it is about one line of several.
    fn into_message(self, items: usize) -> Message {
        let Candidate { code, items: concerned, text, .. } = self.candidate;
        let line = match concerned.as_slice() {
            [only] if items > 1 => Some(*only),
            _ => None,
        };
        Message { level: "advice".to_owned(), code: code.as_str().to_owned(), text, line, saves: self.saves }
    }
}

/// A note asks of its line's item, or of all items where it is about the whole quote.
fn saves_of_note(what_ifs: &mut WhatIfs<'_>, settled: &Settled, note: &Note, request: &QuoteRequest) -> Option<Amount> {
    if note.what_if.is_empty() {
        return None;
    }
    let items = match note.line {
        Some(line) => vec![item_of(settled, line)],
        None => (0..request.items.len()).collect(),
    };
    what_ifs.saves(&items, &note.what_if)
}

/// The item that a line belongs to: its own, or that of the line that it was added to. A parent is older than its lines, so
/// the way up ends; items come first, each with its line.
fn item_of(settled: &Settled, mut line: usize) -> usize {
    while let Some(parent) = settled.lines.get(line).and_then(|line| line.parent) {
        line = parent;
    }
    line
}

/// What the items come to, together.
fn amount_of(settled: &Settled, items: &[usize]) -> Amount {
    let amounts = items.iter().filter_map(|item| settled.lines.get(*item)).map(|line| line.amount);
    Amount::sum(amounts).unwrap_or_default()
}

/// A second look into the mirror, of which the price knows nothing; not at all where nothing was observed for the quote.
fn evidence(road: &Road, request: &QuoteRequest, quoted: Quoted<'_>) -> Vec<Evidence> {
    let (offer, rules) = (quoted.input.offer(), &quoted.input.plan().usage);
    let is_observed = |model: &str| {
        let of_model = offer.items.iter().position(|item| item.gpu_model == model);
        of_model.and_then(|item| quoted.input.usage(item)).is_some_and(|usage| usage.observation.is_some())
    };
    advice::evidence_of(request, rules, |gpu_model| {
        let query = UsageQuery {
            tenant: &request.tenant_id,
            gpu_model,
            keys: advice::stats(),
            hard_stale_ms: rules.hard_stale_ms,
            now: offer.priced_at,
        };
        is_observed(gpu_model).then(|| road.mirror.observe(&query)).flatten()
    })
}
