//! Zeros under load: an utilisation of 0 while power and clocks say that the device works. A short run of them may be true; a
//! long one is no observation, and must not become a surcharge through a histogram of days.

/// The shortest window: what is 0 under load for longer is `suspect_zero` in all that follow.
const LONGEST_RUN_US: u64 = 10_000_000;

/// The run of zeros under load that is going on. Weights are of a histogram's bin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    since: Option<u64>,
    /// Not counted yet, since the run may still become a long one.
    pending: u128,
}

impl Doubt {
    /// Takes in a reading of 0 over (from, to]; what of it, and of those before it, counts as 0.
    pub(super) fn zero(&mut self, (from, to): (u64, u64), weight: u128, is_under_load: bool) -> u128 {
        if !is_under_load {
            return self.end() + weight;
        }
        let since = *self.since.get_or_insert(from);
        self.pending += weight;
        if to.saturating_sub(since) > LONGEST_RUN_US {
            self.pending = 0;
        }
        0
    }

    /// The run is at its end; what of it counts as 0.
    pub(super) fn end(&mut self) -> u128 {
        self.since = None;
        std::mem::take(&mut self.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: u64) -> (u64, u64) {
        (at * 1_000_000, (at + 1) * 1_000_000)
    }

    #[test]
    fn a_short_run_counts_once_it_has_ended_and_a_long_one_never() {
        let mut doubt = Doubt::default();
        let short: u128 = (0..10).map(|at| doubt.zero(second(at), 1, true)).sum();
        assert_eq!((short, doubt.end(), doubt.end()), (0, 10, 0), "ten seconds wait for what comes next");
        let long: u128 = (20..60).map(|at| doubt.zero(second(at), 1, true)).sum();
        assert_eq!((long, doubt.end()), (0, 0));
        assert_eq!(doubt.zero(second(60), 1, false), 1, "an idle device is idle at once");
        doubt.zero(second(61), 1, true);
        assert_eq!(doubt.zero(second(62), 1, false), 2);
    }
}
