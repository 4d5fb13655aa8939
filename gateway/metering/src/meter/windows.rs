//! Sliding windows of one metric: pieces of covered time that enter once and leave each window once.

use std::collections::VecDeque;

use farebox_pricing::usage::Window;

use super::held::Span;
use super::weighted::{Weighted, quantised};
use crate::tick::Metric;

/// What the agent tells windows of, µs.
pub(super) const WINDOWS: [(Window, u64); 4] =
    [(Window::S10, 10_000_000), (Window::M1, 60_000_000), (Window::M5, 300_000_000), (Window::M15, 900_000_000)];
/// Of the longest window.
pub(super) const LONGEST_US: u64 = 900_000_000;
/// Over 18 readings a second for 15 minutes. Where a driver gives more, the oldest leave their windows early, uncovered.
const MOST_PIECES: usize = 16_384;

/// Covered time with one value, in 24 bytes.
#[derive(Clone, Copy, Debug)]
struct Piece {
    to: u64,
    length: u32,
    share: u32,
    value: u64,
}

impl Piece {
    fn from(self) -> u64 {
        self.to - u64::from(self.length)
    }

    /// µs × millionths of a part of it; under 2⁵².
    fn weight(self, length: u64) -> u64 {
        length * u64::from(self.share)
    }
}

/// What is in one window: exact sums.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// µs × millionths of a device.
    pub(super) covered: u128,
    /// The metric's unit × µs × millionths.
    pub(super) sum: u128,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    /// What is at or before has left.
    cut: u64,
    /// The first piece that has not left wholly.
    first: usize,
    sums: Sums,
}

/// The multisets of the windows of one metric, pooled over the devices of a holding.
pub(super) type Pooled = [Weighted; 4];

/// The pieces of one metric on one part.
#[derive(Debug)]
pub(super) struct Series {
    metric: Metric,
    pieces: VecDeque<Piece>,
    tails: [Tail; 4],
    /// Until when it is known what was covered and what was not.
    end: u64,
}

impl Series {
    pub(super) fn new(metric: Metric) -> Self {
        Self { metric, pieces: VecDeque::new(), tails: [Tail::default(); 4], end: 0 }
    }

    /// Covered time; no earlier than what came before.
    pub(super) fn push(&mut self, span: Span, value: u64, pooled: &mut Pooled) {
        let mut from = span.from;
        while from < span.to {
            // A tick may be a day; a piece is at most 71 minutes.
            let length = u32::try_from(span.to - from).unwrap_or(u32::MAX);
            let piece = Piece { to: from + u64::from(length), length, share: span.share, value };
            self.enter(piece, pooled);
            from = piece.to;
        }
        if self.pieces.len() > MOST_PIECES
            && let Some(oldest) = self.pieces.front().map(|piece| piece.to)
        {
            self.evict([oldest; 4], pooled);
        }
    }

    fn enter(&mut self, piece: Piece, pooled: &mut Pooled) {
        let quanta = quantised(self.metric, piece.value);
        for (tail, set) in self.tails.iter_mut().zip(pooled.iter_mut()) {
            // A reading may reach back behind what has left a short window: that part never enters it.
            let weight = piece.weight(piece.to.saturating_sub(piece.from().max(tail.cut)));
            tail.sums.covered += u128::from(weight);
            tail.sums.sum += u128::from(weight) * u128::from(piece.value);
            set.add(quanta, weight);
        }
        self.push_piece(piece);
    }

    fn push_piece(&mut self, piece: Piece) {
        let is_whole = self.tails.iter().all(|tail| tail.first < self.pieces.len());
        if let Some(last) = self.pieces.back_mut()
            && is_whole
            && (last.to, last.share, last.value) == (piece.from(), piece.share, piece.value)
            && let Some(length) = last.length.checked_add(piece.length)
        {
            (last.to, last.length) = (piece.to, length);
            return;
        }
        self.pieces.push_back(piece);
    }

    /// Moves all windows on to this instant.
    pub(super) fn advance(&mut self, end: u64, pooled: &mut Pooled) {
        self.end = self.end.max(end);
        self.evict(WINDOWS.map(|(_, length)| self.end.saturating_sub(length)), pooled);
    }

    fn evict(&mut self, cuts: [u64; 4], pooled: &mut Pooled) {
        for ((tail, set), cut) in self.tails.iter_mut().zip(pooled.iter_mut()).zip(cuts) {
            let cut = cut.max(tail.cut);
            while let Some(piece) = self.pieces.get(tail.first) {
                let (from, to) = (piece.from().max(tail.cut), piece.to.min(cut));
                if from < to {
                    let weight = piece.weight(to - from);
                    tail.sums.covered -= u128::from(weight);
                    tail.sums.sum -= u128::from(weight) * u128::from(piece.value);
                    set.remove(quantised(self.metric, piece.value), weight);
                }
                if piece.to > cut {
                    break;
                }
                tail.first += 1;
            }
            tail.cut = cut;
        }
        let gone = self.tails.iter().map(|tail| tail.first).min().unwrap_or_default();
        self.pieces.drain(..gone);
        self.tails.iter_mut().for_each(|tail| tail.first -= gone);
    }

    /// The end of its windows, which is where its readings have come to.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn sums(&self) -> [Sums; 4] {
        self.tails.map(|tail| tail.sums)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.pieces.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    fn push(series: &mut Series, pooled: &mut Pooled, (from, to): (u64, u64), value: u64) {
        series.push(Span { from, to, share: 1_000_000 }, value, pooled);
        series.advance(to, pooled);
        for (sums, set) in series.sums().iter().zip(pooled.iter()) {
            assert_eq!(sums.covered, set.total(), "sums and multisets are of the same time");
        }
    }

    #[test]
    fn each_window_forgets_in_its_own_time() {
        let (mut series, mut pooled) = (Series::new(Metric::GpuUtil), Pooled::default());
        push(&mut series, &mut pooled, (0, 5 * S), 1_000_000);
        push(&mut series, &mut pooled, (5 * S, 12 * S), 0);
        let busy = |series: &Series| series.sums().map(|sums| sums.sum / 1_000_000_000_000_000_000);
        assert_eq!(busy(&series), [3, 5, 5, 5]);
        series.advance(62 * S, &mut pooled);
        assert_eq!(busy(&series), [0, 3, 5, 5]);
        series.advance(302 * S, &mut pooled);
        assert_eq!(busy(&series), [0, 0, 3, 5]);
        series.advance(903 * S, &mut pooled);
        assert_eq!(busy(&series), [0, 0, 0, 2]);
        series.advance(912 * S, &mut pooled);
        assert!(series.is_empty() && pooled.iter().all(|set| set.entries() == 0));
    }

    #[test]
    fn equal_values_are_held_together() {
        let (mut series, mut pooled) = (Series::new(Metric::GpuUtil), Pooled::default());
        (0..4_000).for_each(|pass| push(&mut series, &mut pooled, (pass * S, (pass + 1) * S), 700_000));
        assert_eq!(series.entries(), 1);
        assert_eq!(series.sums().map(|sums| sums.covered / 1_000_000_000_000), [10, 60, 300, 900]);
    }

    #[test]
    fn a_flood_of_readings_is_bounded_and_costs_coverage() {
        let (mut series, mut pooled) = (Series::new(Metric::PowerW), Pooled::default());
        (0..90_000).for_each(|row| push(&mut series, &mut pooled, (row * 10_000, (row + 1) * 10_000), row % 7_919));
        assert_eq!(series.entries(), MOST_PIECES);
        let covered = series.sums().map(|sums| sums.covered / 10_000_000_000);
        assert_eq!(covered, [1_000, 6_000, 16_384, 16_384], "of 90,000 rows in the longest");
    }

    #[test]
    fn what_reaches_back_behind_a_window_never_enters_it() {
        let (mut series, mut pooled) = (Series::new(Metric::GpuUtil), Pooled::default());
        push(&mut series, &mut pooled, (0, 5 * S), 1_000_000);
        series.advance(30 * S, &mut pooled);
        push(&mut series, &mut pooled, (10 * S, 30 * S), 500_000);
        assert_eq!(series.sums().map(|sums| sums.covered / 1_000_000_000_000), [10, 25, 25, 25]);
        series.advance(45 * S, &mut pooled);
        assert_eq!(series.sums().map(|sums| sums.covered), [0, 25, 25, 25].map(|s| s * 1_000_000_000_000));
        series.advance(930 * S, &mut pooled);
        assert!(series.is_empty() && pooled.iter().all(|set| set.entries() == 0));
    }

    #[test]
    fn a_tick_of_hours_is_no_special_case() {
        let (mut series, mut pooled) = (Series::new(Metric::GpuUtil), Pooled::default());
        push(&mut series, &mut pooled, (0, 86_400 * S), 500_000);
        assert_eq!(series.sums().map(|sums| sums.covered / 1_000_000_000_000), [10, 60, 300, 900]);
        assert!(series.entries() <= 2, "of 71 minutes each, what is in the longest window");
    }
}
