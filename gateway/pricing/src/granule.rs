//! Billing granules: held time is billed by the second, the minute or the hour, rounded up on the cumulative.

/// The unit in which held wall time is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granule {
    Second,
    Minute,
    Hour,
}

impl Granule {
    pub fn seconds(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3600,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
        }
    }

    /// Billed seconds of a session that held its GPUs for `held_s` seconds of wall time: up to the next whole granule;
    /// nothing held, nothing billed. `None` beyond 2⁶⁴ seconds.
    ///
    /// ```
    /// # use farebox_pricing::granule::Granule;
    /// assert_eq!(Granule::Minute.billed(61), Some(120));
    /// assert_eq!(Granule::Minute.billed(0), Some(0));
    /// ```
    pub fn billed(self, held_s: u64) -> Option<u64> {
        held_s.div_ceil(self.seconds()).checked_mul(self.seconds())
    }

    /// Billed seconds of the part of a session between two cumulative readings: the difference of the ceilings, so that
    /// any tiling of a period bills the same total (SPEC §4.10). `None` if the readings run backwards.
    ///
    /// ```
    /// # use farebox_pricing::granule::Granule;
    /// assert_eq!(Granule::Minute.billed_between(0, 61), Some(120));
    /// assert_eq!(Granule::Minute.billed_between(61, 119), Some(0));
    /// ```
    pub fn billed_between(self, held_before_s: u64, held_after_s: u64) -> Option<u64> {
        held_after_s.checked_sub(held_before_s)?;
        self.billed(held_after_s)?.checked_sub(self.billed(held_before_s)?)
    }
}
