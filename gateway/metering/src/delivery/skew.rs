//! How far this host's clock is from the other side's.

/// Further apart, and no window of this host may be used.
const OFF_US: u64 = 5_000_000;
/// Nearer again, and they may. Apart from the other, so that a clock at the limit does not change it with every call.
const AGREES_US: u64 = 4_000_000;

/// A call, and what the other side's clock said between its two ends. Unix µs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// By this host's clock.
    pub(super) sent_us: i64,
    pub(super) received_us: i64,
    /// By the other side's, which may tell seconds only: between these.
    pub(super) least_us: i64,
    pub(super) most_us: i64,
}

#[derive(Debug, Default)]
pub(super) struct Skew {
    us: Option<i64>,
    is_off: bool,
}

impl Skew {
    /// How far this host's clock is ahead at least, below 0: behind; 0: they may agree. `None`: not known yet.
    pub(super) fn us(&self) -> Option<i64> {
        self.us
    }

    pub(super) fn is_off(&self) -> bool {
        self.is_off
    }

    /// The other side's time is of some moment of the call, so by this host's clock of one between its ends.
    pub(super) fn compare(&mut self, call: Call, name: &str) {
        let ahead = call.sent_us.saturating_sub(call.most_us).max(0);
        let behind = call.received_us.saturating_sub(call.least_us).min(0);
        let skew_us = if ahead > 0 { ahead } else { behind };
        self.us = Some(skew_us);
        let was_off = self.is_off;
        self.is_off = skew_us.unsigned_abs() > if was_off { AGREES_US } else { OFF_US };
        let ahead_s = skew_us / 1_000_000;
        if self.is_off && !was_off {
            tracing::warn!(
                ahead_s,
                "this host's clock and that of {name} differ (below 0: behind): windows are not sent until they agree; set \
                 them both"
            );
        } else if was_off && !self.is_off {
            tracing::info!(ahead_s, "this host's clock and that of {name} agree again: windows are sent");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn compared(skew: &mut Skew, ahead_us: i64) -> (Option<i64>, bool) {
        let now = 1_796_083_200 * SECOND;
        let call = Call { sent_us: now + ahead_us, received_us: now + ahead_us, least_us: now, most_us: now };
        skew.compare(call, "Redis");
        (skew.us(), skew.is_off())
    }

    #[test]
    fn a_clock_is_off_beyond_five_seconds_and_agrees_again_within_four() {
        let mut skew = Skew::default();
        assert_eq!((skew.us(), skew.is_off()), (None, false));
        for (ahead_us, is_off) in [
            (5 * SECOND, false),
            (5 * SECOND + 1, true),
            (4 * SECOND + 1, true),
            (-4 * SECOND - 1, true),
            (4 * SECOND, false),
            (5 * SECOND, false),
            (-5 * SECOND - 1, true),
            (0, false),
        ] {
            assert_eq!(compared(&mut skew, ahead_us), (Some(ahead_us), is_off), "{ahead_us}");
        }
    }

    #[test]
    fn what_a_slow_answer_leaves_open_is_no_skew() {
        let mut skew = Skew::default();
        // Ten seconds on the way, and a date to the second.
        let mut call =
            Call { sent_us: 100 * SECOND, received_us: 110 * SECOND, least_us: 104 * SECOND, most_us: 105 * SECOND };
        skew.compare(call, "the gateway");
        assert_eq!((skew.us(), skew.is_off()), (Some(0), false));
        (call.least_us, call.most_us) = (90 * SECOND, 91 * SECOND);
        skew.compare(call, "the gateway");
        assert_eq!((skew.us(), skew.is_off()), (Some(9 * SECOND), true));
        (call.least_us, call.most_us) = (119 * SECOND, 120 * SECOND);
        skew.compare(call, "the gateway");
        assert_eq!((skew.us(), skew.is_off()), (Some(-9 * SECOND), true));
        // A clock that was set back during the call.
        (call.sent_us, call.received_us) = (i64::MAX, i64::MIN);
        skew.compare(call, "the gateway");
    }
}
