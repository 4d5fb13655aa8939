//! What was held when: the spans of one part, with running totals.

use std::collections::VecDeque;

/// From (exclusive) to (inclusive) in monotonic µs; the share in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) share: u32,
}

impl Span {
    /// µs × millionths.
    pub(super) fn weight(self) -> u128 {
        u128::from(self.to - self.from) * u128::from(self.share)
    }
}

/// Spans in the order of time, each with what was held before it. Old ones are forgotten, the totals are not.
#[derive(Debug, Default)]
pub(super) struct Held {
    spans: VecDeque<(u128, Span)>,
    /// µs × millionths.
    total: u128,
}

impl Held {
    /// Adds a span; no earlier than those before.
    pub(super) fn extend(&mut self, span: Span) {
        if span.from >= span.to || span.share == 0 {
            return;
        }
        match self.spans.back_mut() {
            Some((_, last)) if last.to == span.from && last.share == span.share => last.to = span.to,
            _ => self.spans.push_back((self.total, span)),
        }
        self.total += span.weight();
    }

    /// Held until then, µs × millionths.
    pub(super) fn until(&self, at: u64) -> u128 {
        let after = self.spans.partition_point(|(_, span)| span.from < at);
        let Some((before, span)) = after.checked_sub(1).and_then(|index| self.spans.get(index)) else {
            return self.spans.front().map_or(self.total, |(before, _)| *before);
        };
        before + Span { to: span.to.min(at), ..*span }.weight()
    }

    pub(super) fn between(&self, from: u64, to: u64) -> u128 {
        self.until(to).saturating_sub(self.until(from))
    }

    /// The parts of (from, to] that were held, in the order of time.
    pub(super) fn overlaps(&self, from: u64, to: u64) -> impl Iterator<Item = Span> {
        let first = self.spans.partition_point(|(_, span)| span.to <= from);
        let found = self.spans.range(first..).take_while(move |(_, span)| span.from < to);
        let clipped = found.map(move |(_, span)| Span { from: span.from.max(from), to: span.to.min(to), ..*span });
        // Nothing is in what ends before it begins.
        clipped.filter(|span| span.from < span.to)
    }

    /// When it was held last.
    pub(super) fn end(&self) -> Option<u64> {
        Some(self.spans.back()?.1.to)
    }

    /// Forgets the spans that ended before.
    pub(super) fn forget(&mut self, before: u64) {
        while self.spans.len() > 1 && self.spans.front().is_some_and(|(_, span)| span.to < before) {
            self.spans.pop_front();
        }
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.spans.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(spans: &[(u64, u64, u32)]) -> Held {
        let mut held = Held::default();
        spans.iter().for_each(|(from, to, share)| held.extend(Span { from: *from, to: *to, share: *share }));
        held
    }

    #[test]
    fn totals_stay_when_spans_are_forgotten() {
        let mut held = held(&[(0, 10, 100), (10, 20, 100), (20, 30, 50), (40, 50, 100)]);
        assert_eq!(held.entries(), 3, "a span that goes on is one");
        let at = |held: &Held| [0, 5, 20, 25, 35, 45, 99].map(|at| held.until(at));
        assert_eq!(at(&held), [0, 500, 2_000, 2_250, 2_500, 3_000, 3_500]);
        assert_eq!(held.between(5, 45), 2_500);
        held.forget(31);
        assert_eq!(held.entries(), 1);
        assert_eq!([35, 45, 99].map(|at| held.until(at)), [2_500, 3_000, 3_500]);
    }

    #[test]
    fn overlaps_are_clipped() {
        let held = held(&[(0, 10, 100), (20, 30, 50), (40, 50, 100)]);
        let found: Vec<Span> = held.overlaps(5, 45).collect();
        let expected = [(5, 10, 100), (20, 30, 50), (40, 45, 100)];
        assert_eq!(found, expected.map(|(from, to, share)| Span { from, to, share }));
        assert_eq!(held.overlaps(10, 20).count(), 0);
        assert_eq!(held.overlaps(8, 7).count(), 0);
    }
}
