//! What one snapshot adds to those before it: the held time and the histograms since the last one that was counted.
//!
//! What is decided here is decided by the snapshots alone, never by when they were received, so that every replica that
//! counted the same ones comes to the same roll-up. What was counted of a holding is remembered for as long as the roll-up
//! is: a holding that was away for hours goes on where it was, and a snapshot that is replayed adds nothing.

use jiff::Timestamp;

use crate::snapshot::{BINS, BootEpoch, HISTOGRAMS, Histogram, ONE, Snapshot, scaled};
use crate::tick::Metric;

/// A holding that is seen for the first time and began within this long before is counted from its beginning; of one that
/// began earlier nobody knows which bucket its past belongs to. µs of wall time.
const LONGEST_UNSEEN_US: u128 = 3_600_000_000;
/// Bins count modulo this: over as long a span, in ms, they do not tell how often they went round.
const BINS_GO_ROUND_MS: u64 = 1 << 32;
/// What the bins may exceed the held time by, ms, as each is cut to a whole one.
const ROUNDING_MS: u64 = BINS as u64;
/// And as held time is told up to the newest reading of one metric, bins up to that of their own: readings of the metric that
/// the held time waits for.
const READINGS_AHEAD: u128 = 2;

/// What came since.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Of the metrics that the snapshot has a histogram of. A holding without one is no part of what is rolled up of it.
    pub(super) metrics: Vec<MetricDifference>,
    /// Metrics whose bins say more than was held, and so say nothing.
    pub(super) refused: u64,
}

/// What came since of one metric.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MetricDifference {
    pub(super) metric: &'static str,
    /// Held GPU-time, µs; above 0.
    pub(super) held_us: u64,
    /// ms in each bin; `None` where nothing can be said: held, and not observed.
    pub(super) observed: Option<[u32; BINS]>,
}

/// What has been counted of one holding.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub(super) boot_epoch: BootEpoch,
    pub(super) seq: u64,
    pub(super) has_ended: bool,
    /// The latest of those that were counted.
    pub(super) observed_at: Timestamp,
    pub(super) held_us: u64,
    /// By metric, in the order of [`HISTOGRAMS`].
    pub(super) upto: [Option<Upto>; HISTOGRAMS.len()],
}

/// How far a metric has been counted.
#[derive(Clone, Debug)]
pub(super) struct Upto {
    pub(super) held_us: u64,
    pub(super) bins: Histogram,
}

/// From what was counted of this holding to `snapshot`, and what is counted then; `None` where that is no newer.
///
/// `let_go_at` tells what was counted last of holdings that are not remembered any more: one that began before may be
/// one of them.
pub(super) fn since(
    counted: Option<&Counted>,
    snapshot: &Snapshot,
    let_go_at: Option<Timestamp>,
) -> Option<(Difference, Counted)> {
    if counted.is_some_and(|counted| !counted.is_before(snapshot)) {
        return None;
    }
    let continued = counted.filter(|counted| counted.is_continued_by(snapshot));
    let mut next = Counted::upto(snapshot, counted);
    if continued.is_none() && !is_counted_from_its_beginning(counted, snapshot, let_go_at) {
        return Some((Difference::default(), next));
    }
    let mut difference = Difference::default();
    let held_before = continued.map_or(0, |counted| counted.held_us);
    for (index, metric) in HISTOGRAMS.into_iter().enumerate() {
        let before = continued.and_then(|counted| counted.upto.get(index)?.as_ref());
        let held_before = before.map_or(held_before, |before| before.held_us);
        let held_us = snapshot.counters.held_us.saturating_sub(held_before);
        match snapshot.histograms.get(metric.name()) {
            Some(histogram) if held_us > 0 => {
                difference.add(metric, held_us, added(histogram, before), ahead_ms(snapshot));
            }
            // Not there; or bins that are ahead of the held time, which are counted together with it.
            _ => next.upto.get_mut(index).into_iter().for_each(|upto| *upto = before.cloned()),
        }
    }
    if next.has_ended {
        next.upto = HISTOGRAMS.map(|_| None);
    }
    Some((difference, next))
}

impl Difference {
    fn add(&mut self, metric: Metric, held_us: u64, added: [u32; BINS], ahead_ms: u64) {
        let held_ms = held_us.div_ceil(1_000);
        let said_ms: u64 = added.iter().copied().map(u64::from).sum();
        let goes_round = held_ms >= BINS_GO_ROUND_MS;
        let says_too_much = said_ms > held_ms.saturating_add(ROUNDING_MS).saturating_add(ahead_ms);
        self.refused = self.refused.saturating_add(u64::from(says_too_much && !goes_round));
        let observed = (!says_too_much && !goes_round).then_some(added);
        self.metrics.push(MetricDifference { metric: metric.name(), held_us, observed });
    }
}

fn added(histogram: &Histogram, before: Option<&Upto>) -> [u32; BINS] {
    let mut added = *histogram.0;
    for (bin, before) in added.iter_mut().zip(before.iter().flat_map(|before| before.bins.0.iter())) {
        *bin = bin.wrapping_sub(*before);
    }
    added
}

fn ahead_ms(snapshot: &Snapshot) -> u64 {
    // INVARIANT: at most 2 × 2³² × 10²⁷.
    let ahead = READINGS_AHEAD * u128::from(snapshot.tick_ms) * scaled(snapshot.device_shares);
    u64::try_from(ahead.div_ceil(ONE)).unwrap_or(u64::MAX)
}

/// A holding that is not known, or another run of one that is: an agent's, or of a later job by the same name.
fn is_counted_from_its_beginning(counted: Option<&Counted>, snapshot: &Snapshot, let_go_at: Option<Timestamp>) -> bool {
    let since_us = |at: Timestamp| u128::try_from(snapshot.observed_at.duration_since(at).as_micros()).unwrap_or(0);
    let held_us = snapshot.held_wall_us();
    match (counted, let_go_at) {
        (Some(counted), _) => held_us <= LONGEST_UNSEEN_US.max(since_us(counted.observed_at)),
        (None, Some(let_go_at)) => held_us <= LONGEST_UNSEEN_US.min(since_us(let_go_at)),
        (None, None) => held_us <= LONGEST_UNSEEN_US,
    }
}

impl Counted {
    /// All of a snapshot.
    fn upto(snapshot: &Snapshot, before: Option<&Self>) -> Self {
        let held_us = snapshot.counters.held_us;
        let upto = |metric: Metric| {
            let bins = snapshot.histograms.get(metric.name())?.clone();
            Some(Upto { held_us, bins })
        };
        Self {
            boot_epoch: snapshot.boot_epoch.clone(),
            seq: snapshot.seq,
            has_ended: snapshot.has_ended(),
            observed_at: before.map_or(snapshot.observed_at, |before| before.observed_at.max(snapshot.observed_at)),
            held_us,
            upto: HISTOGRAMS.map(upto),
        }
    }

    /// False for what was counted already. Within a run the sequence tells. Another run is later if it was observed later: its
    /// epoch may be lower, of an agent that lost its state, but a snapshot that someone kept was observed before.
    fn is_before(&self, snapshot: &Snapshot) -> bool {
        if self.boot_epoch == snapshot.boot_epoch {
            self.seq < snapshot.seq
        } else {
            self.observed_at < snapshot.observed_at
        }
    }

    /// False where the counters began anew: another run of the agent, or another job of the same name.
    fn is_continued_by(&self, snapshot: &Snapshot) -> bool {
        self.boot_epoch == snapshot.boot_epoch && !self.has_ended && self.held_us <= snapshot.counters.held_us
    }
}
