//! Which numbers of the driver are readings, and which cannot be.

use crate::tick::Readings;

/// Shares are of 1, in millionths.
const WHOLE: u64 = 1_000_000;
/// What is over 100 % by no more than that is a rounding.
const MOST_PERCENT: f64 = 101.0;
/// 2³¹−16 and 2⁶³−16: no GPU has as many milliwatts, megahertz or bytes. Above lie all sentinels that are known (−1 in either
/// width, the largest signed numbers, and DCGM's blanks just below those).
const LEAST_BLANK_32: u32 = 0x7fff_fff0;
const LEAST_BLANK_64: u64 = 0x7fff_ffff_ffff_fff0;

/// Sifts the numbers of one pass over one device, and counts what it refused.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    pub(super) refused: u32,
    /// Millionths.
    pub(super) clamped: Vec<u64>,
}

/// Where the readings of a device or instance go, through the device's sieve.
#[derive(Debug)]
pub(super) struct Intake<'a> {
    pub(super) sieve: &'a mut Sieve,
    pub(super) readings: &'a mut Readings,
}

impl Sieve {
    /// A share of 1 in millionths, from percent.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1,010,000")]
    pub(super) fn share(&mut self, percent: f64) -> Option<u64> {
        if !(0.0..=MOST_PERCENT).contains(&percent) {
            self.refused = self.refused.saturating_add(1);
            return None;
        }
        let share = (percent * 10_000.0).round() as u64;
        if share > WHOLE {
            self.clamped.push(share);
        }
        Some(share.min(WHOLE))
    }

    /// Of a quantity that the C header has as `unsigned int`.
    pub(super) fn narrow(&mut self, value: u32) -> Option<u64> {
        self.unless(value >= LEAST_BLANK_32, value.into())
    }

    pub(super) fn wide(&mut self, value: u64) -> Option<u64> {
        self.unless(value >= LEAST_BLANK_64, value)
    }

    fn unless(&mut self, is_blank: bool, value: u64) -> Option<u64> {
        self.refused = self.refused.saturating_add(is_blank.into());
        (!is_blank).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_taken_clamped_or_refused() {
        let both_sides = [
            (0.0, Some(0)),
            (-0.0, Some(0)),
            (37.5, Some(375_000)),
            (100.0, Some(WHOLE)),
            (100.000_01, Some(WHOLE)),
            (100.4, Some(WHOLE)),
            (101.0, Some(WHOLE)),
            (101.000_1, None),
            (-0.01, None),
            (255.0, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (f64::from(u32::MAX), None),
            (9.22e18, None),
        ];
        for (percent, share) in both_sides {
            let mut sieve = Sieve::default();
            assert_eq!(sieve.share(percent), share, "{percent} %");
            assert_eq!(sieve.refused, u32::from(share.is_none()), "{percent} %");
        }
        let mut sieve = Sieve::default();
        for percent in [100.0, 100.4, 101.0] {
            sieve.share(percent);
        }
        assert_eq!((sieve.clamped, sieve.refused), (vec![1_004_000, 1_010_000], 0));
    }

    #[test]
    fn blank_quantities_are_refused() {
        let mut sieve = Sieve::default();
        assert_eq!([sieve.narrow(0), sieve.narrow(700_000)], [Some(0), Some(700_000)]);
        assert_eq!(sieve.wide(1 << 60), Some(1 << 60));
        assert_eq!(sieve.refused, 0);
        for blank in [u32::MAX, 0x7fff_ffff, 0x7fff_fff0] {
            assert_eq!(sieve.narrow(blank), None, "{blank:#x}");
        }
        for blank in [u64::MAX, (1 << 63) - 1, 0x7fff_ffff_ffff_fff0, 1 << 63] {
            assert_eq!(sieve.wide(blank), None, "{blank:#x}");
        }
        assert_eq!(sieve.refused, 7);
    }
}
