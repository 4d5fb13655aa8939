//! What the metering thread has seen last, for those who ask over HTTP: swapped whole, never changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::meter::{MeterCounters, Totals};
use crate::tick::{Library, Tick};

/// Distinct (device, code) that are counted. A driver has some hundred codes, of which a machine sees a few.
const MOST_XIDS: usize = 1024;

#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The last one; `None`: none came yet.
    pub(crate) tick: Option<Arc<Tick>>,
    /// When it came, by the monotonic clock.
    pub(crate) at_us: u64,
    pub(crate) is_stalled: bool,
    /// How often snapshots have been handed over.
    pub(crate) tells: u64,
    /// Of every holding, and of nobody's.
    pub(crate) totals: Vec<Totals>,
    pub(crate) meter: MeterCounters,
    /// Since the start, by device (empty where the driver did not say) and code.
    pub(crate) xids: BTreeMap<(String, u64), u64>,
}

/// How metering is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Ok,
    /// No tick has come yet.
    Starting,
    /// The driver hangs.
    Stalled,
    /// No tick has come for a while, for no reason that is known.
    Late,
    NoLibrary,
}

#[derive(Debug, Default)]
pub(crate) struct Published(Mutex<Arc<Seen>>);

impl Published {
    pub(crate) fn set(&self, seen: Seen) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(seen);
    }

    pub(crate) fn get(&self) -> Arc<Seen> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Seen {
    pub(crate) fn count_xids(&mut self, tick: &Tick) {
        for xid in &tick.xids {
            let key = (xid.uuid.clone().unwrap_or_default(), xid.code);
            if self.xids.len() < MOST_XIDS || self.xids.contains_key(&key) {
                let count = self.xids.entry(key).or_default();
                *count = count.saturating_add(1);
            }
        }
    }

    /// `None`: no tick has come yet.
    pub(crate) fn age(&self, now_us: u64) -> Option<Duration> {
        self.tick.as_ref().map(|_| Duration::from_micros(now_us.saturating_sub(self.at_us)))
    }

    pub(crate) fn health(&self, now_us: u64, tick: Duration) -> Health {
        // Three passes, and a little for a machine that is busy.
        let patience = tick.saturating_mul(3).saturating_add(Duration::from_secs(2));
        match (&self.tick, self.age(now_us)) {
            _ if self.is_stalled => Health::Stalled,
            (Some(_), Some(age)) if age > patience => Health::Late,
            (Some(last), _) if last.library == Library::Gone => Health::NoLibrary,
            (Some(_), _) => Health::Ok,
            (None, _) => Health::Starting,
        }
    }
}

impl Health {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Starting => "starting",
            Self::Stalled => "stalled",
            Self::Late => "late",
            Self::NoLibrary => "no_library",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tick::Xid;

    fn tick(library: Library, xids: Vec<Xid>) -> Tick {
        Tick { wall_us: 0, mono_us: 0, library_run: 1, library, devices: Vec::new(), xids }
    }

    #[test]
    fn health_says_what_ails() {
        let second = Duration::from_secs(1);
        let mut seen = Seen::default();
        assert_eq!(seen.health(0, second), Health::Starting);
        seen.tick = Some(Arc::new(tick(Library::Present, Vec::new())));
        seen.at_us = 10_000_000;
        assert_eq!(seen.health(15_000_000, second), Health::Ok);
        assert_eq!(seen.health(15_000_001, second), Health::Late);
        assert_eq!(seen.health(15_000_001, second * 60), Health::Ok);
        seen.tick = Some(Arc::new(tick(Library::Gone, Vec::new())));
        assert_eq!(seen.health(10_000_000, second), Health::NoLibrary);
        seen.is_stalled = true;
        assert_eq!(seen.health(10_000_000, second), Health::Stalled);
    }

    #[test]
    fn xids_are_counted_within_a_bound() {
        let xid = |code| Xid { uuid: Some("GPU-1".to_owned()), instance: None, code };
        let mut seen = Seen::default();
        for code in (0..2_000).chain([79, 79]) {
            seen.count_xids(&tick(Library::Present, vec![xid(code)]));
        }
        assert_eq!((seen.xids.len(), seen.xids[&("GPU-1".to_owned(), 79)]), (MOST_XIDS, 3));
    }
}
