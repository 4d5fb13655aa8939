//! What is counted of a part, exactly: sums in µs × millionths of a device, so that fractions of shares never add up to a drift.

use ethnum::U256;

use super::covering::Cover;
use super::devices::Split;
use super::held::Held;
use super::jobs::WHOLE;

/// Millionths in one.
const ONE: u128 = WHOLE as u128;

/// Since the boot epoch or the job's start, whichever is later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// µs × millionths.
    pub(super) metered: u128,
    /// µs × millionths.
    pub(super) unmetered: u128,
    /// µs × millionths × millionths; `None` where no utilisation was reported.
    pub(super) busy: Option<u128>,
    /// mJ × millionths × millionths; `None` where there is no energy counter.
    pub(super) energy: Option<u128>,
}

impl Counted {
    pub(super) fn held(&self) -> u128 {
        self.metered + self.unmetered
    }

    /// From 0 again; what was never reported stays so.
    pub(super) fn restart(&mut self) {
        *self = Self { busy: self.busy.map(|_| 0), energy: self.energy.map(|_| 0), ..Self::default() };
    }

    pub(super) fn add(&mut self, other: &Self) {
        let either = |one: Option<u128>, other: Option<u128>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self.metered += other.metered;
        self.unmetered += other.unmetered;
        self.busy = either(self.busy, other.busy);
        self.energy = either(self.energy, other.energy);
    }

    pub(super) fn held_us(&self) -> u64 {
        whole(self.held() / ONE)
    }

    pub(super) fn busy_us(&self) -> Option<u64> {
        Some(whole(self.busy? / (ONE * ONE)))
    }

    pub(super) fn energy_mj(&self) -> Option<u64> {
        Some(whole(self.energy? / (ONE * ONE)))
    }

    /// Counts what was held over (from, to]: metered where a utilisation reading covers it, else not.
    pub(super) fn count(&mut self, held: &Held, from: u64, to: u64, read: Utilisation<'_>) {
        let mut metered = 0;
        for cover in read.covers {
            for span in held.overlaps(cover.from.max(from), cover.to.min(to)) {
                if !read.whole_only || u128::from(span.share) == ONE {
                    metered += span.weight();
                    *self.busy.get_or_insert(0) += span.weight() * u128::from(cover.value);
                }
            }
        }
        self.metered += metered;
        self.unmetered += held.between(from, to).saturating_sub(metered);
    }

    /// Counts what is held because, and as long as, it is used.
    pub(super) fn count_used(&mut self, held: &Held, from: u64, to: u64) {
        let used = held.between(from, to);
        self.metered += used;
        *self.busy.get_or_insert(0) += used * ONE;
    }

    /// Adds this part's part of what its device used while it was held in part.
    pub(super) fn count_energy(&mut self, mj: u64, held: u128, span_us: u64, split: Split) {
        let energy = self.energy.get_or_insert(0);
        let used = U256::from(mj) * U256::from(held) * U256::from(split.part) * U256::from(ONE);
        let times = U256::from(span_us) * U256::from(split.whole);
        *energy += used.checked_div(times).map_or(0, U256::as_u128);
    }
}

/// Readings of what defines metered time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Utilisation<'a> {
    pub(super) covers: &'a [Cover],
    /// They are of the whole device, and say nothing of a part of it.
    pub(super) whole_only: bool,
}

/// What a counter may state at most is SHAPES' 10¹⁸.
fn whole(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX).min(crate::snapshot::MAX_COUNTER)
}
