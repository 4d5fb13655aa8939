//! What ails a device, and what explains its readings: words for snapshots.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::windows::LONGEST_US;
use crate::tick::{DeviceState, InstanceId};

/// Of one device. Where there are more, those seen longest ago are forgotten.
const MOST_REASONS: usize = 64;
/// What a snapshot takes.
const MOST_TOLD: usize = 32;

/// Bits of `nvmlClocksEventReasons` that are the provider's doing. Idle clocks (0x1), application clocks (0x2), the power
/// cap (0x4), sync boost (0x10) and display clocks (0x100) are no reason: they come with the work or were asked for.
const HW_SLOWDOWN: u64 = 0x08;
const SW_THERMAL_SLOWDOWN: u64 = 0x20;
const HW_THERMAL_SLOWDOWN: u64 = 0x40;
const HW_POWER_BRAKE_SLOWDOWN: u64 = 0x80;
const THROTTLES: [(u64, &str); 3] = [
    (HW_SLOWDOWN, "throttled_hw"),
    (SW_THERMAL_SLOWDOWN | HW_THERMAL_SLOWDOWN, "throttled_thermal"),
    (HW_POWER_BRAKE_SLOWDOWN, "throttled_power_brake"),
];

/// How a device, or the reading of it, is. The later ails more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Health {
    Ok,
    /// Unreadable for now, or not there.
    Degraded,
    ResetRequired,
    Lost,
    LibraryGone,
    /// The reader hangs.
    Stalled,
}

impl Health {
    pub(super) fn of(state: DeviceState) -> Self {
        match state {
            DeviceState::Ok => Self::Ok,
            DeviceState::Lost => Self::Lost,
            DeviceState::ResetRequired => Self::ResetRequired,
            DeviceState::Unreadable => Self::Degraded,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::ResetRequired => "reset_required",
            Self::Lost => "lost",
            Self::LibraryGone => "library_gone",
            Self::Stalled => "stalled",
        }
    }
}

/// What was seen of one device, and when last.
#[derive(Debug, Default)]
pub(super) struct Reasons(BTreeMap<(Option<InstanceId>, Cow<'static, str>), u64>);

impl Reasons {
    pub(super) fn see_xid(&mut self, instance: Option<InstanceId>, code: u64, now: u64) {
        self.see(instance, format!("xid_{code}").into(), now);
    }

    pub(super) fn see_throttles(&mut self, mask: u64, now: u64) {
        for (bits, word) in THROTTLES {
            if mask & bits != 0 {
                self.see(None, word.into(), now);
            }
        }
    }

    fn see(&mut self, instance: Option<InstanceId>, word: Cow<'static, str>, now: u64) {
        self.0.insert((instance, word), now);
        if self.0.len() > MOST_REASONS
            && let Some(oldest) = self.0.iter().min_by_key(|(_, seen)| **seen).map(|(reason, _)| reason.clone())
        {
            self.0.remove(&oldest);
        }
    }

    /// Reasons are told as long as the longest window has readings from when they were last seen.
    pub(super) fn forget(&mut self, now: u64) {
        self.0.retain(|_, seen| now.saturating_sub(*seen) < LONGEST_US);
    }

    /// Those that concern a part: of its device, and of its own instance. What was seen before it was held is the business of
    /// whoever held it then.
    pub(super) fn of(&self, instance: Option<InstanceId>, since: u64) -> impl Iterator<Item = (u64, &str)> {
        let concerns = move |of: &Option<InstanceId>| of.is_none() || instance.is_none() || *of == instance;
        let found = self.0.iter().filter(move |((of, _), seen)| concerns(of) && **seen > since);
        found.map(|((_, word), seen)| (*seen, word.as_ref()))
    }
}

/// Each once, the newest where there are too many, sorted.
pub(super) fn told<'a>(reasons: impl Iterator<Item = (u64, &'a str)>) -> Vec<String> {
    let mut newest: BTreeMap<&str, u64> = BTreeMap::new();
    for (seen, word) in reasons {
        let entry = newest.entry(word).or_default();
        *entry = seen.max(*entry);
    }
    let mut by_age: Vec<(&str, u64)> = newest.into_iter().collect();
    by_age.sort_by_key(|(word, seen)| (std::cmp::Reverse(*seen), *word));
    let mut words: Vec<String> = by_age.into_iter().take(MOST_TOLD).map(|(word, _)| word.to_owned()).collect();
    words.sort();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 60_000_000;

    fn instance(gpu_instance: u32) -> Option<InstanceId> {
        Some(InstanceId { gpu_instance, compute_instance: 0 })
    }

    #[test]
    fn only_throttling_by_the_provider_is_a_reason() {
        let told_for = |mask| {
            let mut reasons = Reasons::default();
            reasons.see_throttles(mask, 1);
            told(reasons.of(None, 0))
        };
        assert!(told_for(0x1 | 0x2 | 0x4 | 0x10 | 0x100).is_empty());
        assert_eq!(told_for(0x8), ["throttled_hw"]);
        assert_eq!(told_for(0x20), ["throttled_thermal"]);
        assert_eq!(told_for(0x40 | 0x20), ["throttled_thermal"]);
        assert_eq!(told_for(0x80 | 0x4), ["throttled_power_brake"]);
        assert_eq!(told_for(u64::MAX), ["throttled_hw", "throttled_power_brake", "throttled_thermal"]);
    }

    #[test]
    fn reasons_concern_their_instance_and_last_fifteen_minutes() {
        let mut reasons = Reasons::default();
        reasons.see_xid(None, 79, M);
        reasons.see_xid(instance(1), 13, 2 * M);
        assert_eq!(told(reasons.of(None, 0)), ["xid_13", "xid_79"]);
        assert_eq!(told(reasons.of(instance(1), 0)), ["xid_13", "xid_79"]);
        assert_eq!(told(reasons.of(instance(2), 0)), ["xid_79"]);
        assert_eq!(told(reasons.of(None, M)), ["xid_13"], "before it was held");
        reasons.forget(16 * M - 1);
        assert_eq!(told(reasons.of(None, 0)), ["xid_13", "xid_79"]);
        reasons.forget(16 * M);
        assert_eq!(told(reasons.of(None, 0)), ["xid_13"]);
    }

    #[test]
    fn a_storm_of_xids_is_bounded_and_tells_the_newest() {
        let mut reasons = Reasons::default();
        for code in 0..1_000 {
            reasons.see_xid(None, code, code + 1);
        }
        assert_eq!(reasons.0.len(), MOST_REASONS);
        let told = told(reasons.of(None, 0));
        assert_eq!(told.len(), MOST_TOLD);
        assert!(told.contains(&"xid_999".to_owned()) && !told.contains(&"xid_900".to_owned()));
    }
}
