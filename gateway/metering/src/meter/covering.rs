//! Which time a reading covers: from the one before it, at most two ticks. What no reading covers is a gap, and is never
//! filled in.

use std::collections::BTreeMap;

use crate::tick::{Metric, Reading, Readings, Unit as MetricUnit};

/// A petabyte; no memory is as large.
pub(super) const PETABYTE: u64 = 1_000_000_000_000_000;

/// A value that held over (from, to], monotonic µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) value: u64,
}

/// One metric of a unit.
#[derive(Debug, Default)]
pub(super) struct Mark {
    /// The newest reading's instant.
    previous: u64,
    /// What is at or before is decided: covered, or not.
    settled: u64,
    /// What the last pass brought, in the order of time.
    covers: Vec<Cover>,
}

impl Mark {
    pub(super) fn covers(&self) -> &[Cover] {
        &self.covers
    }

    pub(super) fn settled(&self) -> u64 {
        self.settled
    }
}

/// What readings come from: a device, or an instance of one.
#[derive(Debug, Default)]
pub(super) struct Unit {
    marks: BTreeMap<Metric, Mark>,
    /// Before this instant, nothing is covered any more: the clock was set, the driver reloaded, the device unreadable.
    barrier: u64,
    two_ticks: u64,
    now: u64,
}

impl Unit {
    /// Known since `since`; readings cover nothing before.
    pub(super) fn new(since: u64, tick_us: u64) -> Self {
        let two_ticks = tick_us.saturating_mul(2);
        Self { marks: BTreeMap::new(), barrier: since, two_ticks, now: since }
    }

    /// Forgets what the last pass brought.
    pub(super) fn begin(&mut self) {
        self.marks.values_mut().for_each(|mark| mark.covers.clear());
    }

    /// The open interval ends at the last reading there was; readings until now cover nothing.
    pub(super) fn open_gap(&mut self, now: u64) {
        self.barrier = self.barrier.max(now);
    }

    /// Takes in the readings of a pass at `now`; tells how many could not be ones.
    pub(super) fn cover(&mut self, readings: &Readings, now: u64) -> u64 {
        let mut refused = 0;
        for (metric, values) in &readings.0 {
            let mark = self.marks.entry(*metric).or_default();
            for reading in values {
                if !is_possible(*metric, reading.value) {
                    refused += 1;
                    continue;
                }
                let Some(at) = at(reading, now).filter(|at| *at > mark.previous.max(self.barrier)) else { continue };
                let from = at.saturating_sub(self.two_ticks).max(mark.previous).max(self.barrier).max(mark.settled);
                if from < at {
                    mark.covers.push(Cover { from, to: at, value: reading.value });
                }
                mark.previous = at;
            }
        }
        refused
    }

    /// No reading that is still to come covers what is settled now.
    pub(super) fn settle(&mut self, now: u64) {
        self.now = self.now.max(now);
        let horizon = self.horizon();
        for mark in self.marks.values_mut() {
            mark.settled = mark.settled.max(mark.previous).max(horizon);
        }
    }

    pub(super) fn mark(&self, metric: Metric) -> Option<&Mark> {
        self.marks.get(&metric)
    }

    /// Where a metric that was never read is settled.
    pub(super) fn horizon(&self) -> u64 {
        self.now.saturating_sub(self.two_ticks).max(self.barrier)
    }

    pub(super) fn barrier(&self) -> u64 {
        self.barrier
    }

    /// Of a device: the use of its time where it tells that, else of its multiprocessors. Defines what is metered.
    pub(super) fn utilisation(&self) -> Metric {
        if self.marks.contains_key(&Metric::GpuUtil) { Metric::GpuUtil } else { Metric::SmUtil }
    }
}

fn at(reading: &Reading, now: u64) -> Option<u64> {
    now.checked_sub(u64::from(reading.ago_us))
}

/// The reader refuses blanks by kind of field; this bounds what sums are made of, whatever a recording holds.
fn is_possible(metric: Metric, value: u64) -> bool {
    value
        <= match metric.unit() {
            MetricUnit::Millionths => 1_000_000,
            MetricUnit::Bytes => PETABYTE - 1,
            // A megawatt, a terahertz.
            MetricUnit::Milliwatts => 1_000_000_000,
            MetricUnit::Megahertz => 1_000_000,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    fn read(unit: &mut Unit, now: u64, readings: &[(u32, u64)]) -> Vec<(u64, u64, u64)> {
        unit.begin();
        let values = readings.iter().map(|(ago_us, value)| Reading { ago_us: *ago_us, value: *value }).collect();
        unit.cover(&Readings(BTreeMap::from([(Metric::GpuUtil, values)])), now);
        unit.settle(now);
        let covers = unit.mark(Metric::GpuUtil).unwrap().covers();
        covers.iter().map(|cover| (cover.from, cover.to, cover.value)).collect()
    }

    #[test]
    fn a_reading_covers_since_the_one_before_it_at_most_two_ticks() {
        let mut unit = Unit::new(0, S);
        assert_eq!(read(&mut unit, 10 * S, &[(0, 1)]), [(8 * S, 10 * S, 1)]);
        assert_eq!(
            read(&mut unit, 11 * S, &[(500_000, 2), (0, 3)]),
            [(10 * S, 10 * S + 500_000, 2), (10 * S + 500_000, 11 * S, 3)]
        );
        assert_eq!(read(&mut unit, 15 * S, &[(0, 4)]), [(13 * S, 15 * S, 4)], "11 to 13 is a gap");
    }

    #[test]
    fn rows_at_or_before_the_last_one_are_dropped() {
        let mut unit = Unit::new(0, S);
        read(&mut unit, 10 * S, &[(0, 1)]);
        let stale: Vec<(u32, u64)> = (0..300).rev().map(|row| (1_000_000 + row * 1_000, 9)).collect();
        assert_eq!(read(&mut unit, 11 * S, &stale), []);
        assert_eq!(
            read(&mut unit, 12 * S, &[(0, 2), (0, 7), (100, 8)]),
            [(10 * S, 12 * S, 2)],
            "at one instant one row"
        );
        assert_eq!(read(&mut unit, 13 * S, &[]), [], "not found means nothing new");
        assert_eq!(read(&mut unit, 14 * S, &[(0, 3)]), [(12 * S, 14 * S, 3)], "and is no fault: the next covers it");
    }

    #[test]
    fn what_was_settled_is_never_covered_afterwards() {
        let mut unit = Unit::new(0, S);
        read(&mut unit, 10 * S, &[(0, 1)]);
        read(&mut unit, 20 * S, &[]);
        // A chain of rows that reaches back into time which has been told as not observed.
        let late: Vec<(u32, u64)> = (0..10).rev().map(|second| (second * 1_000_000, 5)).collect();
        let covers = read(&mut unit, 20 * S + 1, &late);
        assert_eq!(covers.first(), Some(&(18 * S, 18 * S + 1, 5)));
        assert_eq!(covers.iter().map(|(from, to, _)| to - from).sum::<u64>(), 2 * S + 1);
    }

    #[test]
    fn after_a_gap_nothing_before_it_is_covered() {
        let mut unit = Unit::new(0, S);
        read(&mut unit, 10 * S, &[(0, 1)]);
        unit.open_gap(11 * S);
        assert_eq!(read(&mut unit, 11 * S, &[(300_000, 1), (0, 1)]), []);
        assert_eq!(read(&mut unit, 12 * S, &[(0, 1)]), [(11 * S, 12 * S, 1)]);
    }

    #[test]
    fn what_cannot_be_a_reading_covers_nothing() {
        let mut unit = Unit::new(0, S);
        let readings = Readings(BTreeMap::from([
            (Metric::GpuUtil, vec![Reading { ago_us: 0, value: 1_000_001 }]),
            (Metric::MemUsedBytes, vec![Reading { ago_us: 0, value: u64::MAX }]),
            (Metric::PowerW, vec![Reading { ago_us: 0, value: 0xFFFF_FFFF }]),
        ]));
        assert_eq!(unit.cover(&readings, 10 * S), 3);
        assert!(unit.marks.values().all(|mark| mark.covers().is_empty()));
    }
}
