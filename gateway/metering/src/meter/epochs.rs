//! Boot epochs and sequence numbers: what makes a later snapshot later, however the clock is set.

use jiff::Timestamp;

/// The agent's boot epoch and the last sequence number in it.
#[derive(Debug)]
pub(super) struct Epochs {
    /// Unix µs; the next epoch is later.
    last_us: i64,
    begun: bool,
    seq: u64,
}

impl Epochs {
    pub(super) fn after(last_us: i64) -> Self {
        Self { last_us, begun: false, seq: 0 }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// At this wall time, or just after the last where the clock says something earlier.
    pub(super) fn begin(&mut self, wall_us: i64) {
        let (earliest, latest) = (Timestamp::MIN.as_second() * 1_000_000, Timestamp::MAX.as_second() * 1_000_000);
        self.last_us = wall_us.clamp(earliest, latest).max(self.last_us.saturating_add(1)).min(latest);
        self.begun = true;
        self.seq = 0;
    }

    /// Unix µs.
    pub(super) fn epoch_us(&self) -> Option<i64> {
        self.begun.then_some(self.last_us)
    }

    /// RFC 3339 with µs.
    pub(super) fn name(&self) -> String {
        let instant = Timestamp::from_microsecond(self.last_us).unwrap_or(Timestamp::UNIX_EPOCH);
        format!("{instant:.6}")
    }

    pub(super) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_rise_though_the_clock_is_set_back() {
        let mut epochs = Epochs::after(1_764_547_200_000_005);
        epochs.begin(1_764_547_200_000_000);
        assert_eq!(epochs.name(), "2025-12-01T00:00:00.000006Z");
        assert_eq!((epochs.next_seq(), epochs.next_seq()), (1, 2));
        epochs.begin(0);
        assert_eq!(epochs.name(), "2025-12-01T00:00:00.000007Z");
        assert_eq!(epochs.next_seq(), 1, "sequences restart");
        epochs.begin(i64::MAX);
        assert_eq!(epochs.name().parse::<Timestamp>().unwrap(), Timestamp::from_microsecond(epochs.last_us).unwrap());
    }
}
