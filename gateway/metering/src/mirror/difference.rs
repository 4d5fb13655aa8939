//! What one snapshot adds to those before it: the held time and the histograms since the last one that was counted.
//!
//! Counters and histograms run since the boot epoch or the job's start. What is decided here is decided by the two
//! snapshots alone, so that every replica that counted the same ones comes to the same roll-up.

use crate::snapshot::{BINS, Snapshot};

/// A holding that is seen for the first time and began within this long before is counted from its beginning; of one that
/// began earlier nobody knows which bucket its past belongs to. µs of wall time.
const LONGEST_UNSEEN_US: u128 = 3_600_000_000;
/// Bins count modulo this: over as long a span, in ms, they do not tell how often they went round.
const BINS_GO_ROUND_MS: u64 = 1 << 32;
/// What the bins may exceed the held time by, ms: each is cut to a whole one.
const ROUNDING_MS: u64 = BINS as u64;

/// What came since.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference<'a> {
    /// Held GPU-time, µs.
    pub(super) held_us: u64,
    /// By metric, what was observed of it: ms in each bin. A metric that is not here was not observed.
    pub(super) observed: Vec<(&'a str, [u32; BINS])>,
    /// Metrics whose bins say more than was held, and so say nothing.
    pub(super) refused: u64,
}

/// From what was counted last of this key to `snapshot`; `None` where there is nothing to begin from.
pub(super) fn since<'a>(counted: Option<&Snapshot>, snapshot: &'a Snapshot) -> Option<Difference<'a>> {
    let counted = counted.filter(|counted| is_continued(counted, snapshot));
    if counted.is_none() && !began_recently(snapshot) {
        return None;
    }
    let held_before = counted.map_or(0, |counted| counted.counters.held_us);
    let held_us = snapshot.counters.held_us.saturating_sub(held_before);
    let mut difference = Difference { held_us, ..Difference::default() };
    let held_ms = held_us.div_ceil(1_000);
    if held_ms >= BINS_GO_ROUND_MS {
        return Some(difference);
    }
    for (metric, histogram) in &snapshot.histograms {
        // A zero that power and clocks contradict was not observed.
        if snapshot.is_suspect(metric) {
            continue;
        }
        let before = counted.and_then(|counted| counted.histograms.get(metric));
        let mut bins = *histogram.0;
        for (bin, before) in bins.iter_mut().zip(before.iter().flat_map(|before| before.0.iter())) {
            *bin = bin.wrapping_sub(*before);
        }
        if bins.iter().copied().map(u64::from).sum::<u64>() > held_ms.saturating_add(ROUNDING_MS) {
            difference.refused = difference.refused.saturating_add(1);
        } else {
            difference.observed.push((metric, bins));
        }
    }
    Some(difference)
}

/// False where the counters began anew: another run of the agent, or another job of the same name.
fn is_continued(counted: &Snapshot, snapshot: &Snapshot) -> bool {
    counted.boot_epoch == snapshot.boot_epoch
        && !counted.has_ended()
        && counted.counters.held_us <= snapshot.counters.held_us
}

fn began_recently(snapshot: &Snapshot) -> bool {
    snapshot.held_wall_us() <= LONGEST_UNSEEN_US
}
