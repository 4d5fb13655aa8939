//! Who is at which rank when: phases with dwell times, as jobs have them, whose ranks are spread evenly all the same.
//!
//! A block of time is cut into phases, row by row. All phases of the block are put in a random order and laid end to end along
//! the ranks from 0 to 1; a phase is at the ranks that it lies over. So a row stays at about one value for as long as its
//! phase lasts, phases of any length follow one another at random, and over a block every rank occurs equally often: a
//! curve's shares come out as they are published, not only in the long run.

use super::facts::ONE;
use super::random::Random;

/// Within a phase, ranks wander over one part in this many.
const WANDERING: u64 = 32;
const WIDTH: u64 = ONE / WANDERING;

/// Lengths in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rhythm {
    pub(super) shortest: u64,
    pub(super) longest: u64,
    pub(super) block: u64,
}

#[derive(Debug)]
pub(super) struct Phases {
    random: Random,
    rhythm: Rhythm,
    rows: Vec<Row>,
    /// Ticks of this block, and those to come in later ones.
    block: u64,
    left: u64,
}

/// A row's phases in this block, the current one last, and where it stands.
#[derive(Debug, Default)]
struct Row {
    phases: Vec<Phase>,
    /// The rank, where it is kept for another tick.
    kept: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Phase {
    ticks: u64,
    done: u64,
    /// Where it lies among all phases of the block, in ticks.
    start: u64,
}

impl Phases {
    pub(super) fn new(seed: u64, rows: usize, rhythm: Rhythm, ticks: u64) -> Self {
        let rows = (0..rows).map(|_| Row::default()).collect();
        Self { random: Random::new(seed), rhythm, rows, block: 0, left: ticks }
    }

    /// The rank of each row at the next tick, millionths, and whether a phase began.
    pub(super) fn next(&mut self) -> Vec<(u64, bool)> {
        if self.rows.iter().all(|row| row.phases.is_empty()) {
            self.cut();
        }
        let total = (self.block * self.rows.len() as u64).max(1);
        self.rows.iter_mut().map(|row| row.next(&mut self.random, total)).collect()
    }

    fn cut(&mut self) {
        self.block = self.rhythm.block.min(self.left).max(1);
        self.left = self.left.saturating_sub(self.block);
        let mut lengths: Vec<(usize, u64)> = Vec::new();
        for row in 0..self.rows.len() {
            let mut left = self.block;
            while left > 0 {
                let ticks = self.length().min(left);
                lengths.push((row, ticks));
                left -= ticks;
            }
        }
        self.random.shuffle(&mut lengths);
        let mut start = 0;
        for (row, ticks) in lengths {
            // The order in time is as random as that among the ranks, but not the same.
            if let Some(row) = self.rows.get_mut(row) {
                row.phases.push(Phase { ticks, done: 0, start });
            }
            start += ticks;
        }
        for row in &mut self.rows {
            self.random.shuffle(&mut row.phases);
        }
    }

    /// Many short phases, few long ones.
    fn length(&mut self) -> u64 {
        let over = self.rhythm.longest.saturating_sub(self.rhythm.shortest);
        let within = self.random.below(over + 1);
        self.rhythm.shortest.max(1) + self.random.below(within + 1)
    }
}

impl Row {
    fn next(&mut self, random: &mut Random, total: u64) -> (u64, bool) {
        let Some(phase) = self.phases.last_mut() else { return (0, false) };
        let began = phase.done == 0;
        let at = (phase.start + phase.done) * ONE / total;
        phase.done += 1;
        if phase.done >= phase.ticks {
            self.phases.pop();
        }
        // A draw from the part of the ranks that this one is in leaves all of them equally frequent.
        let part = (at / WIDTH).min(WANDERING - 1);
        let kept = self.kept.filter(|kept| !began && kept / WIDTH == part && random.below(4) > 0);
        let rank = kept.unwrap_or_else(|| part * WIDTH + random.below(WIDTH));
        self.kept = Some(rank);
        (rank, began)
    }
}
