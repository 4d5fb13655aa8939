//! From one tick to the next: what a pass read is taken in, shared out and counted; restarts and set clocks are noticed.

use std::collections::{BTreeMap, BTreeSet};

use super::attribution::{Claims, Use, works};
use super::devices::{Device, Noticed, Pass};
use super::health::Health;
use super::holdings::Holding;
use super::models::model_of;
use super::sharing::share_out;
use super::{LastTick, Meter, admission};
use crate::tick::{DeviceTick, Library, MAX_DEVICES, Tick, Xid};

/// The wall clock may go on by this much more or less than the monotonic one from a pass to the next; else somebody set it.
const CLOCK_STEP_US: u128 = 50_000;
/// And by this part of the span, 500 ppm: as fast as a clock is slewed that runs after a time server.
const SLEWED_PART: u128 = 2_000;
/// A device that has had no name for so many passes will have none.
const NAMELESS_PASSES: u32 = 10;

impl Meter {
    /// Takes in what a pass read. One that is not later than the last is dropped.
    pub fn observe(&mut self, tick: &Tick) {
        self.counters.ticks += 1;
        if self.last_tick.is_some_and(|last| tick.mono_us <= last.mono_us) {
            self.counters.gaps += 1;
            return;
        }
        let pass = self.begin_pass(tick.mono_us);
        self.is_stalled = false;
        let is_reloaded = self.notice_restart(tick, pass.now);
        if self.notice_clock_step(tick) || is_reloaded {
            self.devices.values_mut().for_each(|device| device.open_gap(pass.now));
        }
        let since = if is_reloaded { pass.now } else { pass.last };
        let mut noticed = self.observe_devices(tick, pass, since);
        let missing = if tick.library == Library::Gone { Health::LibraryGone } else { Health::Degraded };
        let read: BTreeSet<&str> = tick.devices.iter().map(|read| read.info.uuid.as_str()).collect();
        for (_, device) in self.devices.iter_mut().filter(|(uuid, _)| !read.contains(uuid.as_str())) {
            device.fail(missing, pass.now, &mut noticed);
        }
        tick.xids.iter().for_each(|xid| self.see_xid(xid, pass.now));
        self.counters.gaps += noticed.gaps;
        self.counters.refused_readings += noticed.refused;
        let (wall_us, mono_us) = (tick.wall_us, tick.mono_us);
        self.last_tick = Some(LastTick { wall_us, mono_us, library_run: tick.library_run, library: tick.library });
        self.finish_pass(pass);
    }

    /// Nothing came from the reader, which hangs: held time goes on, unmetered; `stalled` from now on.
    pub fn stalled(&mut self, mono_us: u64) {
        self.counters.gaps += u64::from(!self.is_stalled);
        self.is_stalled = true;
        let pass = self.begin_pass(mono_us);
        self.finish_pass(pass);
    }

    fn observe_devices(&mut self, tick: &Tick, pass: Pass, since: u64) -> Noticed {
        let Self { devices, holdings, settings, counters, .. } = self;
        let claims = Claims::of(holdings);
        let mut noticed = Noticed::default();
        let mut seen = BTreeSet::new();
        for read in &tick.devices {
            let uuid = &read.info.uuid;
            let is_one_more = devices.len() >= MAX_DEVICES && !devices.contains_key(uuid);
            // A nameless device cannot be told of.
            if is_one_more || !seen.insert(uuid) || !admission::is_name(uuid) {
                noticed.refused += 1;
                continue;
            }
            let new = || Device::new(Pass { last: since, ..pass });
            let device = devices.entry(uuid.clone()).or_insert_with(new);
            let of_device = device.observe(read, pass);
            noticed.gaps += of_device.gaps;
            noticed.refused += of_device.refused;
            // A name that failed once is asked for again.
            device.learn_model(model_of(&read.info.name, &settings.models), NAMELESS_PASSES);
            attribute(device, read, &claims);
            counters.refused_readings += u64::from(read.refused_readings);
            counters.clamped_readings += u64::try_from(read.clamped_readings.len()).unwrap_or_default();
        }
        noticed
    }

    fn begin_pass(&mut self, mono_us: u64) -> Pass {
        let tick_us = u64::try_from(self.settings.tick.as_micros()).unwrap_or(u64::MAX).clamp(1, 86_400_000_000);
        let pass = Pass { now: mono_us.max(self.now), read_at: mono_us, last: self.now, tick_us };
        self.devices.values_mut().for_each(Device::begin);
        pass
    }

    /// Shares out and counts the time since the last pass.
    fn finish_pass(&mut self, pass: Pass) {
        self.now = pass.now;
        self.devices.values_mut().for_each(|device| device.settle(pass.now));
        self.learn_board_sizes();
        share_out(&mut self.devices, &mut self.holdings, &mut self.remainders, pass);
        self.holdings.retain(|holding| !holding.is_told);
        for holding in self.holdings.iter_mut().chain(self.remainders.both()) {
            holding.observe(&self.devices, pass);
        }
        self.remainders.idle.count_uncut(&self.devices);
        // By now, all that was read of them has left the windows.
        self.devices.retain(|_, device| !device.is_forgotten(pass.now));
        let all = self.holdings.iter_mut().chain(self.remainders.both());
        all.filter(|holding| holding.follows_use).for_each(|holding| holding.forget_parts(&self.devices));
    }

    /// A board whose driver does not tell has as many multiprocessors as its model's instances have ever come to.
    fn learn_board_sizes(&mut self) {
        let mut most: BTreeMap<String, u64> = BTreeMap::new();
        for device in self.devices.values() {
            let entry = most.entry(device.model.clone().unwrap_or_default()).or_default();
            *entry = device.most_multiprocessors.max(*entry);
        }
        for device in self.devices.values_mut().filter(|device| device.model.is_some()) {
            device.most_multiprocessors = device.model.as_ref().and_then(|model| most.get(model)).copied().unwrap_or(0);
        }
    }

    /// A driver that was loaded anew, by its own word or by a counter that runs backwards, is a new boot epoch. True by its
    /// own word: then nothing that was read before goes on. A counter says so of its own device only.
    fn notice_restart(&mut self, tick: &Tick, now: u64) -> bool {
        let is_reloaded = self.last_tick.is_some_and(|last| last.library_run != tick.library_run);
        let mut is_anew = is_reloaded;
        if is_reloaded {
            self.devices.values_mut().for_each(Device::forget_energy);
        }
        for read in &tick.devices {
            if let Some(device) = self.devices.get_mut(&read.info.uuid) {
                is_anew |= device.notice_backwards(read, now);
            }
        }
        if is_anew || !self.epochs.has_begun() {
            self.counters.gaps += u64::from(is_anew);
            self.epochs.begin(tick.wall_us);
            self.holdings.iter_mut().chain(self.remainders.both()).for_each(Holding::restart_counters);
        }
        is_reloaded
    }

    /// True where the wall clock was set since the last pass, so that what drivers date by it cannot be trusted.
    fn notice_clock_step(&mut self, tick: &Tick) -> bool {
        let is_set = self.last_tick.is_some_and(|last| {
            let wall = i128::from(tick.wall_us) - i128::from(last.wall_us);
            let mono = i128::from(tick.mono_us) - i128::from(last.mono_us);
            (wall - mono).unsigned_abs() > CLOCK_STEP_US + mono.unsigned_abs() / SLEWED_PART
        });
        self.counters.gaps += u64::from(is_set);
        is_set
    }

    /// Where the driver does not say of which device, or names one that is none, of all.
    fn see_xid(&mut self, xid: &Xid, now: u64) {
        let named = xid.uuid.as_ref().filter(|uuid| self.devices.contains_key(*uuid));
        self.counters.unplaced_xids += u64::from(xid.uuid.is_some() && named.is_none());
        // The instance is one of the device that was named.
        let instance = xid.instance.filter(|_| named.is_some());
        let concerned = self.devices.iter_mut().filter(|(uuid, _)| named.is_none_or(|of| of == *uuid));
        concerned.for_each(|(_, device)| device.reasons.see_xid(instance, xid.code, now));
    }
}

/// What the processes of a device and of its instances did.
fn attribute(device: &mut Device, read: &DeviceTick, claims: &Claims<'_>) {
    if device.health != Health::Ok {
        return;
    }
    device.used = match &read.processes {
        Some(processes) => device.pids.attribute(&device.board, processes, claims),
        None => Use { works: works(&device.board, None), ..Use::default() },
    };
    for of_instance in &read.instances {
        if let Some(instance) = device.instances.get_mut(&of_instance.id) {
            // Under MIG drivers tell no process's utilisation.
            instance.used = claims.of_instance(&instance.unit, of_instance.processes.as_deref());
        }
    }
}
