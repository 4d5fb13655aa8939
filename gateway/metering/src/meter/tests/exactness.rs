//! Sums that hold whatever happens, and memory that stays bounded.

use proptest::prelude::*;

use super::*;

/// One thing that happens, by a number for its kind, one for time and some for values.
type Step = (u8, u64, u64, u64, u16);

/// GPU-1 whole or shared, GPU-2 by use, GPU-3 in two instances: four units in all.
const UNITS: u64 = 4;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0_u8..16, 1_u64..3_000_000, 0_u64..=1_000_000, 0_u64..=1_000_000, any::<u16>());
    proptest::collection::vec(step, 1..80)
}

/// Jobs of all kinds; some cannot run beside each other.
fn jobs() -> Vec<Job> {
    vec![
        whole("whole", "GPU-1"),
        job("third", &[("GPU-1", None, 333_333)], &["/third"]),
        job("rest", &[("GPU-1", None, 666_667)], &[]),
        job("slice", &[("GPU-3", Some(1), 1_000_000)], &[]),
        job("shares", &[("GPU-3", Some(2), 142_857), ("GPU-2", None, 1)], &["/shares"]),
        job("follows", &[], &["/follows"]),
        job("also", &[], &["/also"]),
    ]
}

/// The devices as a pass reads them, with gaps, stale and future-less rows, failures and more use than there is.
fn read(rig: &Rig, (_, dt, one, two, flags): Step, energy_mj: u64) -> Vec<DeviceTick> {
    let has = |bit: u16| flags & (1 << bit) != 0;
    let per_cent = |value: u64| Some(value / 10_000);
    let mut first =
        with(gpu("GPU-1", &[(Metric::PowerW, one)]), &[process(1, "/third", per_cent(one).filter(|_| has(0)))]);
    if has(1) {
        let ago = |part: u64| u32::try_from(dt / part).unwrap();
        let rows = [(ago(1), two), (ago(2), one), (ago(3), two), (if has(2) { 0 } else { ago(9) }, one)];
        let rows = rows.map(|(ago_us, value)| Reading { ago_us, value });
        first.readings.0.insert(Metric::GpuUtil, rows.to_vec());
    }
    let started = if has(3) { 5 } else { rig.mono_us };
    let follows = Process { started: Some(started), ..process(2, "/follows", per_cent(one)) };
    let processes =
        [follows, process(3, "/also", per_cent(two)), process(4, "/nobody", per_cent(two).filter(|_| has(4)))];
    let second = with_energy(with(gpu("GPU-2", &[(Metric::GpuUtil, two)]), &processes), energy_mj);
    let mut slices = vec![slice(1, 42, &[(Metric::SmUtil, one)]), slice(2, 56, &[])];
    slices[0].processes = has(7).then(|| vec![process(5, if has(8) { "/follows" } else { "/also" }, None)]);
    let mut devices = vec![first, second, partitioned("GPU-3", &[(Metric::PowerW, 200_000)], slices)];
    if has(5) && has(6) {
        devices[usize::from(flags % 3)].state = DeviceState::Unreadable;
    }
    devices
}

/// Adds up, over boot epochs and tombstones, all that was counted for whoever held it.
#[derive(Default)]
struct Ledger {
    /// µs × millionths, of epochs that are over.
    before: u128,
    tombstones: u128,
    epoch: Option<i64>,
    now: u128,
}

impl Ledger {
    fn read(&mut self, rig: &Rig) {
        if rig.meter.epoch_us() != self.epoch {
            self.before += self.now;
            self.epoch = rig.meter.epoch_us();
        }
        self.now = rig.meter.totals().iter().map(|totals| totals.metered + totals.unmetered).sum();
    }
}

fn total_of(rig: &Rig, tenant: &str) -> u128 {
    let of = |totals: &Totals| totals.tenant == tenant;
    rig.meter.totals().iter().filter(|totals| of(totals)).map(|totals| totals.metered + totals.unmetered).sum()
}

/// The multisets that percentiles come from are of the time that the sums are of, whatever came and went.
fn check_pools(meter: &Meter) {
    let holdings = meter.holdings.iter().chain([&meter.remainders.idle, &meter.remainders.unattributed]);
    for holding in holdings.filter(|holding| !holding.is_told) {
        for (index, pool) in holding.pools.iter().enumerate() {
            for (metric, sets) in &pool.windows {
                let parts = holding.parts.iter().filter(|part| part.pool == Some(index));
                let sums: Vec<_> =
                    parts.filter_map(|part| part.series.get(metric)).map(|series| series.sums()).collect();
                for (window, set) in sets.iter().enumerate() {
                    assert_eq!(set.total(), sums.iter().map(|sums| sums[window].covered).sum::<u128>());
                }
            }
        }
    }
}

#[test]
fn devices_that_are_gone_for_good_leave_their_counts_only() {
    let mut rig = Rig::new();
    rig.run(
        60,
        &[at("GPU-1", 0), at("GPU-2", 0), partitioned("GPU-3", &[], vec![slice(1, 14, &[(Metric::SmUtil, 0)])])],
    );
    let before = rig.of("_idle").unwrap().counters.held_us;
    assert_eq!(before, 3 * 59 * S);
    for pass in 0..1_000 {
        rig.run(1, &[restless("GPU-1", pass), partitioned("GPU-3", &[], Vec::new())]);
        check_pools(&rig.meter);
    }
    assert_eq!(rig.meter.devices.keys().collect::<Vec<_>>(), ["GPU-1", "GPU-3"]);
    assert!(rig.meter.devices["GPU-3"].instances.is_empty());
    assert_eq!(rig.meter.remainders.idle.parts.len(), 2, "of the devices that there are");
    // GPU-3 as a whole is idle since its instance is gone. Nothing is read of it, which is settled after two ticks.
    assert_eq!(rig.of("_idle").unwrap().counters.held_us, before + 998 * S);
}

fn apply(rig: &mut Rig, step: Step, energy_mj: &mut u64) {
    let (kind, dt, one, two, flags) = step;
    rig.wait(dt);
    match kind {
        0 | 1 => drop(rig.meter.start(jobs()[usize::from(flags) % 7].clone(), rig.mono_us)),
        2 => drop(rig.meter.end(&jobs()[usize::from(flags) % 7].tenant, Some("job-9"), JobEnd::Ended, rig.mono_us)),
        3 => rig.meter.stalled(rig.mono_us),
        4 if flags % 3 == 0 => rig.library_run += 1,
        5 if flags % 3 == 0 => rig.wall_us += i64::try_from(one).unwrap() - 500_000,
        6 if flags % 3 == 0 => *energy_mj = 0,
        _ => {
            *energy_mj += two / 1_000;
            rig.meter.observe(&rig.tick_of(&read(rig, step, *energy_mj)));
        }
    }
}

/// No tenant's devices come to more than they are, and with what is nobody's to exactly that.
fn check_shares(rig: &Rig, is_read: bool) {
    let mut shares: BTreeMap<(String, Option<String>), rust_decimal::Decimal> = BTreeMap::new();
    let parts = rig.meter.holdings.iter().flat_map(|holding| holding.parts.iter().map(move |part| (holding, part)));
    // What is told though nobody can say that it is held is not shared out.
    let missed: Vec<_> = parts
        .filter(|(holding, part)| part.is_missed && holding.end.is_none())
        .map(|(holding, part)| (holding.tenant.clone(), part.gpu_uuid.clone(), part.instance.map(|id| id.to_string())))
        .collect();
    let live = rig.wire.iter().filter(|wire| wire.health != "ended");
    for (tenant, device) in live.flat_map(|wire| wire.devices.iter().map(|device| (&wire.tenant, device))) {
        if missed.contains(&(tenant.clone(), device.gpu_uuid.clone(), device.instance.clone())) {
            continue;
        }
        let key = (device.gpu_uuid.clone(), device.instance.clone());
        *shares.entry(key).or_default() += crate::samples::decimal(device.share.0.as_str().unwrap());
    }
    for (unit, share) in &shares {
        assert!(*share <= rust_decimal::Decimal::ONE, "{unit:?}: {share}");
    }
    if is_read {
        let sum: rust_decimal::Decimal = shares.values().sum();
        assert_eq!(sum, UNITS.into(), "{shares:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn metered_and_unmetered_sum_to_the_wall_span_of_every_unit(steps in steps()) {
        let mut rig = Rig::new();
        let mut ledger = Ledger::default();
        let mut energy_mj = 1_000_000;
        rig.meter.observe(&rig.tick_of(&read(&rig, (7, 1, 0, 0, 0), energy_mj)));
        ledger.read(&rig);
        let mut ended = 0;
        for step in &steps {
            apply(&mut rig, *step, &mut energy_mj);
            ledger.read(&rig);
            let snapshots = rig.snapshots();
            let last = snapshots.iter().filter(|snapshot| snapshot.reasons == ["ended"]);
            for tombstone in last {
                ended += 1;
                // Cut to whole µs.
                ledger.tombstones += u128::from(tombstone.counters.held_us) * 1_000_000;
            }
            ledger.now = rig.meter.totals().iter().map(|totals| totals.metered + totals.unmetered).sum();
            check_shares(&rig, step.0 >= 7);
            check_pools(&rig.meter);
        }
        // A pass that could not read anything settles all up to itself.
        rig.wait(1);
        let mut unread = read(&rig, (7, 1, 0, 0, 0), energy_mj);
        unread.iter_mut().for_each(|device| device.state = DeviceState::Lost);
        rig.meter.observe(&rig.tick_of(&unread));
        ledger.read(&rig);
        let span = gpu_time(rig.mono_us - T0, 1_000_000 * UNITS);
        let counted = ledger.before + ledger.tombstones + ledger.now;
        prop_assert!(counted <= span && span - counted < 1_000_000 * (ended + 1), "{counted} of {span}, {ended} ended");
    }

    #[test]
    fn at_every_pass_what_is_metered_and_not_is_share_times_time(
        share in 1_u32..=1_000_000,
        passes in proptest::collection::vec((1_u64..4_000_000, 0_u32..4_000_000, any::<bool>()), 1..50),
    ) {
        let mut rig = Rig::new();
        rig.start(job("acme", &[("GPU-1", None, share)], &["/acme"]));
        let mut settled = 0;
        for (dt, ago_us, is_known) in passes {
            rig.wait(dt);
            let mut device = with(gpu("GPU-1", &[]), &[process(1, "/acme", is_known.then_some(1))]);
            device.readings.0.insert(Metric::GpuUtil, vec![Reading { ago_us, value: 500_000 }]);
            rig.meter.observe(&rig.tick_of(&[device]));
            let counted = total_of(&rig, "acme");
            prop_assert_eq!(counted % u128::from(share), 0);
            let until = u64::try_from(counted / u128::from(share)).unwrap();
            prop_assert!(until >= settled && until + 2 * S >= rig.mono_us - T0 && until <= rig.mono_us - T0);
            settled = until;
        }
        rig.wait(123_457);
        rig.end("acme");
        let last = rig.of("acme").unwrap();
        let exact = gpu_time(rig.mono_us - T0, u64::from(share)) / 1_000_000;
        prop_assert_eq!(u128::from(last.counters.held_us), exact);
    }

    /// Against the covering rule, spelt out over all readings at once.
    #[test]
    fn windows_and_counters_are_those_of_the_covering_rule(
        passes in proptest::collection::vec((300_000_u64..1_900_000, 0_u32..300_000, 0_u64..=1_000_000, 0_u8..5), 20..120),
    ) {
        let mut rig = Rig::new();
        rig.start(whole("acme", "GPU-1"));
        let (start, mut previous) = (rig.mono_us, 0);
        let mut covers: Vec<(u64, u64, u64)> = Vec::new();
        for (dt, ago_us, value, luck) in passes {
            rig.wait(dt);
            let mut device = gpu("GPU-1", &[]);
            if luck > 0 {
                let at = rig.mono_us - u64::from(ago_us);
                device.readings.0.insert(Metric::GpuUtil, vec![Reading { ago_us, value }]);
                if at > previous {
                    covers.push(((at - 2 * S).max(previous).max(start), at, value));
                    previous = at;
                }
            }
            rig.meter.observe(&rig.tick_of(&[device]));
        }
        let settled = previous.max(rig.mono_us - 2 * S).max(start);
        let totals = rig.totals("acme");
        let covered = |from: u64| covers.iter().map(move |(a, b, _)| b.max(&from) - a.max(&from)).sum::<u64>();
        prop_assert_eq!(totals.metered, gpu_time(covered(start), 1_000_000));
        prop_assert_eq!(totals.metered + totals.unmetered, gpu_time(settled - start, 1_000_000));
        let snapshot = rig.of("acme").unwrap();
        let from = (settled - 10 * S).max(start);
        let found = snapshot.metric(Window::S10, "gpu_util");
        prop_assert_eq!(found.is_some(), covered(from) > 0);
        if let Some(found) = found {
            let sum: u128 = covers.iter().map(|(a, b, value)| gpu_time(b.max(&from) - a.max(&from), *value)).sum();
            prop_assert_eq!(found.mean, weighted::mean(Metric::GpuUtil, sum, u128::from(covered(from))));
            prop_assert_eq!(found.coverage, weighted::ratio(u128::from(covered(from)), u128::from(settled - from)));
            prop_assert_eq!(found.held_us, Some(settled - from));
            let mut by_value: Vec<(u32, u64)> = covers
                .iter()
                .map(|(a, b, value)| (weighted::quantised(Metric::GpuUtil, *value), b.max(&from) - a.max(&from)))
                .filter(|(_, time)| *time > 0)
                .collect();
            by_value.sort_unstable();
            let rank = |percent: u64| {
                let mut below = 0;
                let found = by_value.iter().find(|(_, time)| {
                    below += time;
                    below * 100 >= covered(from) * percent
                });
                found.map(|(value, _)| weighted::shown(Metric::GpuUtil, *value))
            };
            prop_assert_eq!([found.p50, found.p95], [rank(50), rank(95)]);
            prop_assert_eq!([found.min, found.max], [rank(0), rank(100)]);
        }
    }
}

fn entries(meter: &Meter) -> usize {
    let holdings = meter.holdings.iter().chain([&meter.remainders.idle, &meter.remainders.unattributed]);
    let of_holding = |holding: &Holding| {
        let parts = holding.parts.iter().map(|part| {
            let series: usize = part.series.values().map(|series| series.entries()).sum();
            series + part.load.series.entries() + part.held.entries() + part.own.len() + 1
        });
        let sets = holding.pools.iter().flat_map(|pool| pool.windows.values()).flatten();
        parts.sum::<usize>() + sets.map(|set| set.entries()).sum::<usize>() + 1
    };
    let devices = meter.devices.values().map(|device| device.pids.entries() + device.instances.len() + 1);
    holdings.map(of_holding).sum::<usize>() + devices.sum::<usize>()
}

/// A pass in which every reading has another value than the last, so that nothing can be held together.
fn restless(uuid: &str, pass: u64) -> DeviceTick {
    let noise = |seed: u64| (pass + seed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed) >> 40;
    let mut device = gpu(uuid, &[]);
    let rows = (0..6).map(|row| Reading { ago_us: (5 - row) * 166_000, value: noise(u64::from(row)) % 1_000_001 });
    device.readings.0.insert(Metric::GpuUtil, rows.collect());
    for (seed, metric) in Metric::ALL.into_iter().enumerate().skip(1) {
        let most = if metric.unit() == crate::tick::Unit::Millionths { 1_000_001 } else { 700_000 };
        device.readings.push(metric, noise(seed as u64 + 7) % most);
    }
    let pid = u32::try_from(pass % 30_000).unwrap();
    with_energy(with(device, &[process(pid, "/follows", Some(noise(3) % 100))]), pass * 200_000)
}

#[test]
fn memory_is_bounded_over_a_day_of_passes() {
    let mut rig = Rig::new();
    rig.start(job("follows", &[], &["/follows"]));
    let mut most_by_hour = [0; 24];
    for (hour, most) in most_by_hour.iter_mut().enumerate() {
        for second in 0..3_600 {
            let pass = hour as u64 * 3_600 + second;
            // A job comes and goes every five minutes.
            if second % 300 == 0 {
                rig.start(whole("acme", "GPU-1"));
            } else if second % 300 == 200 {
                rig.end("acme");
            }
            let mut tick = rig.tick_of(&[restless("GPU-1", pass)]);
            tick.xids = vec![Xid { uuid: None, instance: None, code: pass }];
            rig.meter.observe(&tick);
            rig.wait(S);
            if second % 60 == 0 {
                rig.snapshots();
                *most = entries(&rig.meter).max(*most);
            }
        }
    }
    assert_eq!(rig.meter.counters().refused_readings, 0);
    let later = most_by_hour[1..].iter().max().unwrap();
    assert!(*later <= most_by_hour[0] + most_by_hour[0] / 10, "{most_by_hour:?}");
    // 15 minutes of six rows and nine readings a second, and their values in the four windows.
    assert!(*later < 900 * (6 + 9) * 2, "{most_by_hour:?}");
}
