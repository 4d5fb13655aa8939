//! How far the gateway's clock is ahead of the server's, so that the age of what the server received is true by the gateway's.

/// Clocks drift apart: an interval that nothing narrows grows by one part in so many.
const DRIFT: i64 = 5_000;

/// Between asking and hearing the server's time lies the moment at which it was told: every answer bounds the offset from both
/// sides, tightly where the answer was quick. What all answers so far allow is kept, so that one that was slow on its way, or
/// waited for entries, takes nothing away.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offset(Option<Interval>);

#[derive(Clone, Copy, Debug)]
struct Interval {
    least_ms: i64,
    most_ms: i64,
    /// By the gateway's clock.
    heard_ms: i64,
}

impl Offset {
    /// The server's time was `server_ms` somewhen between `asked_ms` and `heard_ms` by the gateway's clock.
    pub(super) fn measure(&mut self, asked_ms: i64, server_ms: i64, heard_ms: i64) {
        let asked_ms = asked_ms.min(heard_ms);
        let (least, most) = (asked_ms.saturating_sub(server_ms), heard_ms.saturating_sub(server_ms));
        // Whole ms on both sides.
        let new = Interval { least_ms: least.saturating_sub(1), most_ms: most.saturating_add(1), heard_ms };
        self.0 = Some(match self.0 {
            Some(old) => old.grown(heard_ms).narrowed(new).unwrap_or(new),
            None => new,
        });
    }

    /// When by the gateway's clock the server had this time; never later than now.
    pub(super) fn ours(&self, server_ms: i64, now_ms: i64) -> i64 {
        let offset = self.0.map_or(0, |Interval { least_ms, most_ms, .. }| {
            least_ms.saturating_add(most_ms.saturating_sub(least_ms).div_euclid(2))
        });
        server_ms.saturating_add(offset).min(now_ms)
    }
}

impl Interval {
    fn grown(self, now_ms: i64) -> Self {
        let drift = now_ms.saturating_sub(self.heard_ms).saturating_abs().div_euclid(DRIFT);
        Self { least_ms: self.least_ms.saturating_sub(drift), most_ms: self.most_ms.saturating_add(drift), ..self }
    }

    /// `None` where they have nothing in common: one of the clocks was set.
    fn narrowed(self, new: Self) -> Option<Self> {
        let (least_ms, most_ms) = (self.least_ms.max(new.least_ms), self.most_ms.min(new.most_ms));
        // What was grown by less than a whole ms must not be forgotten.
        let heard_ms = if new.heard_ms.saturating_sub(self.heard_ms) < DRIFT { self.heard_ms } else { new.heard_ms };
        (least_ms <= most_ms).then_some(Self { least_ms, most_ms, heard_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_answer_says_more_than_any_slow_one_after_it() {
        let mut offset = Offset::default();
        offset.measure(10_000, 4_000, 10_002);
        assert_eq!(offset.ours(5_000, 99_000), 11_001);
        let is_near = |ms: i64| (11_000..=11_002).contains(&ms);
        // An answer that waited for a second, and one that was two seconds on its way each way.
        offset.measure(11_000, 6_000, 12_001);
        assert!(is_near(offset.ours(5_000, 99_000)));
        offset.measure(13_000, 9_000, 17_000);
        assert!(is_near(offset.ours(5_000, 99_000)));
    }

    #[test]
    fn it_is_never_in_the_future() {
        let mut offset = Offset::default();
        assert_eq!(offset.ours(7_000, 6_000), 6_000);
        offset.measure(10_000, 4_000, 10_000);
        assert_eq!(offset.ours(5_000, 10_500), 10_500);
    }

    #[test]
    fn a_clock_that_was_set_is_believed_at_once() {
        let mut offset = Offset::default();
        offset.measure(10_000, 10_000, 10_002);
        for hours in [1_i64, -1] {
            let set = 10_000 + hours * 3_600_000;
            offset.measure(set, 11_000, set + 2);
            assert_eq!(offset.ours(11_000, i64::MAX), set + 1, "{hours}");
        }
    }

    #[test]
    fn drift_is_followed() {
        let mut offset = Offset::default();
        offset.measure(0, 0, 2);
        // A server that loses 100 µs a second, asked each second; answers are quick.
        for second in 1..=10_000 {
            let heard = second * 1_000;
            offset.measure(heard, heard - second / 10, heard + 2);
        }
        let at = 10_000_000;
        assert!((999..=1_003).contains(&(offset.ours(at - 1_000, i64::MAX) - at + 1_000)));
    }
}
