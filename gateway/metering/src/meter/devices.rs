//! A device as its passes tell it: what each covered, whether it is well, what it did with its energy.

use std::collections::BTreeMap;

use super::attribution::{Pids, Use};
use super::covering::{Cover, Unit};
use super::health::{Health, Reasons};
use super::models::NAMELESS;
use super::windows::LONGEST_US;
use crate::tick::{DeviceInfo, DeviceState, DeviceTick, InstanceId, InstanceTick, MAX_INSTANCES, Metric};

/// An energy counter that ran backwards this often, in so long, is broken: its energy is refused.
const MOST_BACKWARDS: usize = 3;
const BACKWARDS_KEPT_US: u64 = 600_000_000;
/// A device's energy cannot grow faster than four times its power limit, or 3 kW where that is not known.
const POWER_MARGIN: u64 = 4;
const MOST_POWER_MW: u64 = 3_000_000;
/// It is under load, for doubting an utilisation of 0, at this part of its power limit and of its highest SM clock.
const LOAD_POWER_PERCENT: u64 = 30;
const LOAD_CLOCK_PERCENT: u64 = 60;

/// When a pass was, and when the one before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) now: u64,
    /// The pass itself, from which its readings are dated: `now`, unless that was told of already while the reader hung.
    pub(super) read_at: u64,
    /// 0 before the first.
    pub(super) last: u64,
    pub(super) tick_us: u64,
}

#[derive(Debug)]
pub(super) struct Device {
    /// As in the price book. `None`: the driver has not named it yet.
    pub(super) model: Option<String>,
    nameless_passes: u32,
    pub(super) mig: bool,
    pub(super) health: Health,
    /// Readings came with the last pass.
    pub(super) is_read: bool,
    pub(super) board: Unit,
    /// Whether it was under load, as a share of 1, over what its power readings cover.
    pub(super) load: Vec<Cover>,
    pub(super) instances: BTreeMap<InstanceId, Instance>,
    /// Of the board, as the driver tells.
    multiprocessors: Option<u32>,
    /// The most that the instances of its model have come to.
    pub(super) most_multiprocessors: u64,
    pub(super) energy: Option<EnergyUse>,
    /// What its processes did since the last pass.
    pub(super) used: Use,
    pub(super) reasons: Reasons,
    /// Until when what nobody holds has been counted.
    pub(super) shared_out: u64,
    pub(super) pids: Pids,
    energy_read: Option<(u64, u64)>,
    /// When its energy counter ran backwards; the newest.
    backwards: Vec<u64>,
    seen: u64,
}

/// A part of a board, by multiprocessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) part: u64,
    pub(super) whole: u64,
}

#[derive(Debug)]
pub(super) struct Instance {
    pub(super) unit: Unit,
    pub(super) multiprocessors: Option<u32>,
    /// There at the last pass.
    pub(super) is_present: bool,
    pub(super) used: Use,
    seen: u64,
}

/// mJ used over (from, to].
#[derive(Clone, Copy, Debug)]
pub(super) struct EnergyUse {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) mj: u64,
}

/// What a pass over a device had that meets the eye.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noticed {
    pub(super) gaps: u64,
    pub(super) refused: u64,
}

impl Device {
    pub(super) fn new(pass: Pass) -> Self {
        Self {
            model: None,
            nameless_passes: 0,
            mig: false,
            health: Health::Ok,
            is_read: false,
            board: Unit::new(pass.last, pass.tick_us),
            load: Vec::new(),
            instances: BTreeMap::new(),
            multiprocessors: None,
            most_multiprocessors: 0,
            energy: None,
            used: Use::default(),
            reasons: Reasons::default(),
            shared_out: pass.now,
            pids: Pids::default(),
            energy_read: None,
            backwards: Vec::new(),
            seen: pass.now,
        }
    }

    /// It keeps the first that was told; after so many good passes without one it has none.
    pub(super) fn learn_model(&mut self, told: Option<String>, patience: u32) {
        if self.model.is_some() {
            return;
        }
        self.nameless_passes += u32::from(told.is_none() && self.health == Health::Ok);
        let is_nameless = self.nameless_passes >= patience;
        self.model = told.or_else(|| is_nameless.then(|| NAMELESS.to_owned()));
    }

    /// Of what is to come, nothing is of this pass yet.
    pub(super) fn begin(&mut self) {
        self.is_read = false;
        self.energy = None;
        self.load.clear();
        self.used = Use::default();
        self.board.begin();
        for instance in self.instances.values_mut() {
            instance.unit.begin();
            instance.used = Use::default();
        }
    }

    /// True where its energy counter is below what it was: the driver was loaded anew, or the counter reset. One that does so
    /// again and again is broken, and says nothing of the driver.
    pub(super) fn notice_backwards(&mut self, tick: &DeviceTick, now: u64) -> bool {
        self.backwards.retain(|at| now.saturating_sub(*at) < BACKWARDS_KEPT_US);
        let read = self.energy_read.zip(tick.energy_mj.filter(|_| tick.state == DeviceState::Ok));
        if read.is_none_or(|((_, before), counter)| counter >= before) {
            return false;
        }
        let is_broken = self.has_broken_energy();
        if is_broken {
            self.backwards.remove(0);
        } else {
            self.open_gap(now);
        }
        self.backwards.push(now);
        !is_broken
    }

    fn has_broken_energy(&self) -> bool {
        self.backwards.len() >= MOST_BACKWARDS
    }

    pub(super) fn open_gap(&mut self, now: u64) {
        self.board.open_gap(now);
        self.instances.values_mut().for_each(|instance| instance.unit.open_gap(now));
    }

    /// The next energy reading is the first.
    pub(super) fn forget_energy(&mut self) {
        self.energy_read = None;
    }

    pub(super) fn observe(&mut self, tick: &DeviceTick, pass: Pass) -> Noticed {
        let mut noticed = Noticed::default();
        self.seen = pass.now;
        let health = Health::of(tick.state);
        if health != Health::Ok {
            self.fail(health, pass.now, &mut noticed);
            return noticed;
        }
        self.health = health;
        self.mig = tick.info.mig;
        self.multiprocessors = tick.info.multiprocessors;
        noticed.refused += self.board.cover(&tick.readings, pass.read_at);
        self.observe_load(&tick.info, tick);
        self.observe_instances(&tick.instances, pass, &mut noticed);
        self.observe_energy(tick, pass, &mut noticed);
        self.reasons.see_throttles(tick.throttle_mask.unwrap_or_default(), pass.now);
        self.is_read = !tick.readings.is_empty() || tick.instances.iter().any(|instance| !instance.readings.is_empty());
        noticed
    }

    /// Not in this pass, or not well: the open interval ends at the last good reading.
    pub(super) fn fail(&mut self, health: Health, now: u64, noticed: &mut Noticed) {
        noticed.gaps += u64::from(self.health == Health::Ok);
        self.health = health;
        self.open_gap(now);
    }

    fn observe_load(&mut self, info: &DeviceInfo, tick: &DeviceTick) {
        let at_least = |value: Option<u64>, limit: Option<u64>, percent: u64| {
            let (value, limit) = value.zip(limit.filter(|limit| *limit > 0))?;
            Some(value.saturating_mul(100) >= limit.saturating_mul(percent))
        };
        let power = at_least(tick.readings.newest(Metric::PowerW), info.power_limit_mw, LOAD_POWER_PERCENT);
        let clock = at_least(tick.readings.newest(Metric::SmClockMhz), info.max_sm_clock_mhz, LOAD_CLOCK_PERCENT);
        let Some((power, clock)) = power.zip(clock) else { return };
        let value = if power && clock { 1_000_000 } else { 0 };
        let covers = self.board.mark(Metric::PowerW).into_iter().flat_map(|mark| mark.covers());
        self.load.extend(covers.map(|cover| Cover { value, ..*cover }));
    }

    fn observe_instances(&mut self, ticks: &[InstanceTick], pass: Pass, noticed: &mut Noticed) {
        self.instances.values_mut().for_each(|instance| instance.is_present = false);
        for tick in ticks {
            if self.instances.len() >= MAX_INSTANCES && !self.instances.contains_key(&tick.id) {
                noticed.refused += 1;
                continue;
            }
            let instance = self.instances.entry(tick.id).or_insert_with(|| Instance::new(pass));
            noticed.refused += instance.unit.cover(&tick.readings, pass.read_at);
            instance.multiprocessors = tick.multiprocessors.filter(|count| *count > 0);
            instance.is_present = true;
            instance.seen = pass.now;
        }
        for instance in self.instances.values_mut().filter(|instance| !instance.is_present) {
            instance.unit.open_gap(pass.now);
        }
        self.instances.retain(|_, instance| pass.now - instance.seen < LONGEST_US);
        self.most_multiprocessors = self.most_multiprocessors.max(self.cut_multiprocessors().unwrap_or_default());
    }

    fn observe_energy(&mut self, tick: &DeviceTick, pass: Pass, noticed: &mut Noticed) {
        let Some(now) = tick.energy_mj else { return };
        if self.has_broken_energy() {
            noticed.refused += 1;
        } else if let Some((from, before)) = self.energy_read
            && let Some(mj) = now.checked_sub(before)
        {
            let power_mw = tick.info.power_limit_mw.filter(|limit| *limit > 0);
            let power_mw = power_mw.map_or(MOST_POWER_MW, |limit| limit.saturating_mul(POWER_MARGIN));
            // Drivers count in steps, so that a short while may hold a step of a longer one.
            let most_mj = u128::from(power_mw) * u128::from((pass.now - from).saturating_add(pass.tick_us)) / 1_000_000;
            if u128::from(mj) <= most_mj {
                self.energy = Some(EnergyUse { from, to: pass.now, mj });
            } else {
                noticed.refused += 1;
                noticed.gaps += 1;
            }
        } else {
            self.energy = Some(EnergyUse { from: pass.now, to: pass.now, mj: 0 });
        }
        self.energy_read = Some((pass.now, now));
    }

    pub(super) fn settle(&mut self, now: u64) {
        self.board.settle(now);
        self.instances.values_mut().for_each(|instance| instance.unit.settle(now));
        self.reasons.forget(now);
    }

    pub(super) fn is_forgotten(&self, now: u64) -> bool {
        now.saturating_sub(self.seen) >= LONGEST_US
    }

    /// That of the instances where there are any, else of the device as a whole.
    pub(super) fn is_partitioned(&self) -> bool {
        self.mig && self.instances.values().any(|instance| instance.is_present)
    }

    /// Of all instances that there are; `None` where the driver does not tell.
    fn cut_multiprocessors(&self) -> Option<u64> {
        let present = self.instances.values().filter(|instance| instance.is_present);
        present.map(|instance| instance.multiprocessors.map(u64::from)).sum()
    }

    fn board_multiprocessors(&self) -> u64 {
        self.multiprocessors.filter(|count| *count > 0).map_or(self.most_multiprocessors, u64::from)
    }

    /// An instance's multiprocessors and the board's: what board power and energy are split by. `None` where the driver does
    /// not tell.
    pub(super) fn split(&self, id: InstanceId) -> Option<Split> {
        let cut = self.cut_multiprocessors()?;
        let own = self.instances.get(&id).filter(|instance| instance.is_present)?.multiprocessors?;
        Some(Split { part: u64::from(own), whole: self.board_multiprocessors().max(cut) })
    }

    /// Of a partitioned board, what is in no instance.
    pub(super) fn uncut(&self) -> Option<Split> {
        let cut = self.cut_multiprocessors().filter(|_| self.is_partitioned())?;
        let whole = self.board_multiprocessors();
        Some(Split { part: whole.checked_sub(cut)?, whole }).filter(|rest| rest.part > 0)
    }

    /// Whether the pass at `now` told who uses it; an instance that is no more is used by nobody.
    pub(super) fn tells_use(&self, instance: Option<InstanceId>, now: u64) -> bool {
        let is_told = match instance {
            None => self.mig || self.used.by_holding.is_some(),
            Some(id) => {
                let instance = self.instances.get(&id).filter(|instance| instance.is_present);
                instance.is_none_or(|instance| instance.used.by_holding.is_some())
            }
        };
        is_told && self.health == Health::Ok && self.seen == now
    }

    pub(super) fn instance_health(&self, id: InstanceId) -> Health {
        let is_present = self.instances.get(&id).is_some_and(|instance| instance.is_present);
        if is_present { self.health } else { self.health.max(Health::Degraded) }
    }
}

impl Instance {
    fn new(pass: Pass) -> Self {
        Self {
            unit: Unit::new(pass.last, pass.tick_us),
            multiprocessors: None,
            is_present: true,
            used: Use::default(),
            seen: pass.now,
        }
    }
}
