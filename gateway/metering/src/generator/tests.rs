//! Curves against the published figures, over a day as it is generated; the fixtures and the docs against their commands.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args as _, FromArgMatches as _};
use sha2::{Digest as _, Sha256};

use super::facts::ONE;
use super::*;
use crate::tick::{DeviceTick, Metric};

/// A file of the repository.
fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn options(arguments: &str) -> Result<Options, clap::Error> {
    let command = Options::augment_args(clap::Command::new("generate").no_binary_name(true));
    Options::from_arg_matches(&command.try_get_matches_from(arguments.split_whitespace())?)
}

fn generated(arguments: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    run(&options(arguments).unwrap(), &mut bytes).unwrap();
    bytes
}

/// All values of a metric that a fleet's devices read, in order.
struct Sample(Vec<u64>);

impl Sample {
    fn of(arguments: &str, metric: Metric) -> Self {
        let ticks = Generator::new(&options(arguments).unwrap()).unwrap();
        let read = |device: &DeviceTick| device.readings.newest(metric);
        let mut values: Vec<_> =
            ticks.flat_map(|tick| tick.devices.iter().filter_map(read).collect::<Vec<_>>()).collect();
        values.sort_unstable();
        Self(values)
    }

    /// In per cent.
    fn share(&self, holds: impl Fn(u64) -> bool) -> f64 {
        100.0 * self.0.iter().filter(|value| holds(**value)).count() as f64 / self.0.len() as f64
    }

    fn quantile(&self, share: f64) -> u64 {
        self.0[(share * self.0.len() as f64) as usize]
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / self.0.len() as f64
    }
}

fn assert_near(found: f64, published: f64, tolerance: f64, what: &str) {
    assert!((found - published).abs() <= tolerance, "{what}: {found:.2}, published {published}");
}

const PERCENT: f64 = 10_000.0;
/// Eight devices for a day, a pass each ten seconds.
const DAY: &str = "--devices 8 --duration 24h --tick 10s";

/// Zero, below 30, above 70, in per cent.
fn assert_shares(fleet: &str, metric: Metric, published: (f64, f64, f64)) -> Sample {
    let sample = Sample::of(&format!("--fleet {fleet} {DAY}"), metric);
    assert_near(sample.share(|value| value == 0), published.0, 1.0, &format!("{fleet}, zero"));
    assert_near(sample.share(|value| value < 300_000), published.1, 1.0, &format!("{fleet}, below 30"));
    assert_near(sample.share(|value| value > 700_000), published.2, 1.0, &format!("{fleet}, above 70"));
    sample
}

#[test]
fn over_a_day_each_fleet_has_its_published_distribution() {
    let published = [
        ("seren", (31.0, 32.0, 66.0), 99.0),
        ("kalos", (34.0, 36.0, 61.0), 97.0),
        ("philly", (32.0, 42.0, 40.0), 49.0),
        ("pai", (36.0, 84.0, 11.0), 4.0),
    ];
    for (fleet, shares, median) in published {
        let sample = assert_shares(fleet, Metric::GpuUtil, shares);
        assert_near(sample.quantile(0.5) as f64 / PERCENT, median, 2.0, &format!("{fleet}, median"));
    }
    let inference = assert_shares("gentd26", Metric::GpuUtil, (67.0, 94.0, 1.3));
    assert_near(inference.mean() / PERCENT, 7.0, 0.5, "gentd26, mean");
    assert_near(inference.quantile(0.9) as f64 / PERCENT, 25.0, 2.0, "gentd26, p90");
}

#[test]
fn seren_has_its_published_sm_util_and_power_as_well() {
    let sm_util = assert_shares("seren", Metric::SmUtil, (30.0, 38.0, 30.0));
    assert_near(sm_util.quantile(0.5) as f64 / PERCENT, 50.0, 2.0, "sm_util, median");
    assert_near(sm_util.quantile(0.9) as f64 / PERCENT, 81.0, 2.0, "sm_util, p90");
    let power = Sample::of(&format!("--fleet seren {DAY}"), Metric::PowerW);
    for (share, watts) in [(0.25, 66.0), (0.5, 97.0), (0.75, 291.0), (0.9, 395.0)] {
        assert_near(power.quantile(share) as f64 / 1000.0, watts, watts * 0.05, &format!("power, p{share}"));
    }
}

#[test]
fn the_shares_hold_for_other_seeds_and_for_few_devices() {
    for seed in 2..8 {
        let sample =
            Sample::of(&format!("--fleet philly --devices 1 --duration 24h --tick 10s --seed {seed}"), Metric::GpuUtil);
        assert_near(sample.share(|value| value == 0), 32.0, 1.0, &format!("seed {seed}, zero"));
        assert_near(sample.share(|value| value > 700_000), 40.0, 1.0, &format!("seed {seed}, above 70"));
    }
}

#[test]
fn utilisation_lasts_as_jobs_do() {
    let ticks = Generator::new(&options("--fleet philly --devices 1 --duration 4h").unwrap()).unwrap();
    let values: Vec<_> = ticks.map(|tick| tick.devices[0].readings.newest(Metric::GpuUtil).unwrap()).collect();
    let far = values.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > 100_000).count();
    assert!((4..=120).contains(&far), "{far} jumps in {} ticks", values.len());
    // Of white noise with these shares, about four in ten pairs would differ so.
    let noise =
        values.iter().zip(values.iter().skip(values.len() / 2)).filter(|(a, b)| a.abs_diff(**b) > 100_000).count();
    assert!(noise * 5 > values.len() / 2, "{noise}");
}

#[test]
fn both_utilisations_are_of_the_same_jobs() {
    for tick in Generator::new(&options("--fleet seren --duration 4h --tick 10s").unwrap()).unwrap() {
        for device in &tick.devices {
            let (gpu, sm) = (device.readings.newest(Metric::GpuUtil), device.readings.newest(Metric::SmUtil));
            assert!(sm >= Some(120_000) || gpu <= Some(700_000), "{gpu:?} beside {sm:?}");
            assert!(sm < Some(500_000) || gpu >= Some(990_000), "{gpu:?} beside {sm:?}");
        }
    }
}

#[test]
fn power_clocks_and_energy_follow_utilisation() {
    let mut before = BTreeMap::new();
    let mut idle = 0;
    for tick in Generator::new(&options("--fleet kalos --model h200 --duration 2h --tick 1500ms").unwrap()).unwrap() {
        for device in &tick.devices {
            let read = |metric| device.readings.newest(metric).unwrap();
            let (util, power, clock) = (read(Metric::GpuUtil), read(Metric::PowerW), read(Metric::SmClockMhz));
            match util {
                0 => assert_eq!((power, clock, device.throttle_mask), (78_000, 345, Some(1))),
                ONE => assert_eq!((power, clock, read(Metric::MemUtil)), (627_000, 1980, 70_000)),
                _ => assert!(power > 78_000 && power < 627_000 && clock > 345 && clock <= 1980),
            }
            idle += u64::from(util == 0);
            let energy = device.energy_mj.unwrap();
            if let Some(before) = before.insert(device.info.uuid.clone(), energy) {
                assert!((energy - before).abs_diff(power * 3 / 2) <= 1, "{power} mW for 1.5 s is {}", energy - before);
            }
            assert!(read(Metric::MemUsedBytes) < device.info.memory_total_bytes.unwrap());
        }
    }
    assert!(idle > 0);
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_every_machine() {
    let arguments = "--fleet seren --devices 2 --duration 10m --tenants acme,globex --seed";
    let once = generated(&format!("{arguments} 1"));
    assert_eq!(once, generated(&format!("{arguments} 1")));
    assert_ne!(once, generated(&format!("{arguments} 2")));
    let digest: String = Sha256::digest(&once).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest, "4ef66d05788651fc", "whoever changes the generator changes every recording made with it");
}

#[test]
fn under_mig_instances_report_and_devices_do_not() {
    let ticks = Generator::new(&options("--mig 4 --devices 2 --tenants acme,globex --duration 1m").unwrap()).unwrap();
    for device in ticks.flat_map(|tick| tick.devices) {
        assert!(device.info.mig && device.processes.is_none() && device.instances.len() == 4);
        assert_eq!((device.readings.newest(Metric::GpuUtil), device.readings.newest(Metric::SmUtil)), (None, None));
        assert!(device.readings.newest(Metric::PowerW).is_some(), "power is the board's");
        assert_eq!(device.readings.newest(Metric::MemUsedBytes), None, "memory is the instances'");
        let owner = if device.info.uuid.ends_with("00") { "/tenants/acme" } else { "/tenants/globex" };
        for instance in &device.instances {
            assert!(
                instance.readings.newest(Metric::SmUtil).is_some()
                    && instance.readings.newest(Metric::GpuUtil).is_none()
            );
            let process = &instance.processes.as_ref().unwrap()[0];
            assert_eq!((process.cgroup.as_deref(), process.sm_util), (Some(owner), None));
        }
    }
}

#[test]
fn a_model_without_gpm_has_no_sm_util() {
    let tick = Generator::new(&options("--fleet seren --model a100").unwrap()).unwrap().next().unwrap();
    assert!(tick.devices.iter().all(|device| device.readings.newest(Metric::SmUtil).is_none()));
}

#[test]
fn options_out_of_bounds_are_refused_with_the_bounds() {
    let refused = |arguments: &str| run(&options(arguments).unwrap(), &mut io::sink()).unwrap_err().to_string();
    assert_eq!(refused("--devices 0"), "`devices` is 0; it is from 1 to 64");
    assert_eq!(refused("--devices 65"), "`devices` is 65; it is from 1 to 64");
    assert_eq!(refused("--mig 8"), "`mig` is 8; it is from 0 to 7");
    assert_eq!(refused("--host 10000"), "`host` is 10000; it is from 0 to 9999");
    assert_eq!(refused("--tick 99ms"), "`tick` is PT0.099S; it is from PT0.1S to PT1M");
    assert_eq!(refused("--tick 100.5ms"), "`tick` is PT0.1005S; it is a whole number of milliseconds");
    assert_eq!(refused("--duration 768h"), "`duration` is PT768H; it is from PT1S to PT744H");
    assert_eq!(refused("--duration=-1s"), "`duration` is -PT1S; it is from PT1S to PT744H");
    assert!(refused("--tenants a,b/c").starts_with("`b/c` is no tenant's name"));
    assert!(refused("--tenants a,").starts_with("`` is no tenant's name"));
    for wrong in ["--fleet acme", "--model v100", "--devices -1", "--seed x", "--start today"] {
        assert!(options(wrong).is_err(), "{wrong}");
    }
}

/// The commands of the fixtures' README, by the file that each writes.
fn commands() -> Vec<(String, String)> {
    let readme = std::fs::read_to_string(file("fixtures/recordings/README.md")).unwrap();
    let commands = readme.lines().filter_map(|line| line.strip_prefix("farebox-agent generate "));
    let split = |command: &str| {
        let (arguments, output) = command.split_once(" --output ").unwrap();
        (arguments.to_owned(), output.to_owned())
    };
    commands.map(split).collect()
}

#[test]
fn the_recordings_of_the_fixtures_are_what_their_commands_write() {
    let commands = commands();
    assert_eq!(commands.len(), 2);
    for (arguments, output) in commands {
        let expected = generated(&arguments);
        if std::fs::read(file(&output)).ok().as_ref() != Some(&expected) {
            let fresh = std::env::temp_dir().join(Path::new(&output).file_name().unwrap());
            std::fs::write(&fresh, expected).unwrap();
            panic!(
                "{output} is not what its command in fixtures/recordings/README.md writes; that is in {}",
                fresh.display()
            );
        }
    }
}

#[test]
fn the_demo_uses_its_gpus_at_82_per_cent() {
    let (arguments, output) = commands().remove(0);
    let sample = Sample::of(&arguments, Metric::GpuUtil);
    assert_eq!(sample.0.len(), 8 * 600);
    assert_near(sample.mean() / PERCENT, 82.0, 0.005, "mean");
    // Whenever a quote is asked for, once two minutes are over.
    let (mut sum, mut count) = (0, 0);
    for (second, tick) in Generator::new(&options(&arguments).unwrap()).unwrap().enumerate() {
        let values = tick.devices.iter().filter_map(|device| device.readings.newest(Metric::GpuUtil));
        (sum, count) = values.fold((sum, count), |(sum, count), value| (sum + value, count + 1));
        if second >= 120 {
            assert_near(sum as f64 / f64::from(count) / PERCENT, 82.0, 1.0, &format!("mean of {second} s"));
        }
    }
    // What `steady-82.json` says of the same GPUs.
    assert_eq!([0.0, 0.5, 0.95, 0.9999].map(|share| sample.quantile(share) / 10_000), [10, 85, 97, 100]);
    assert!(std::fs::metadata(file(&output)).unwrap().len() <= 600_000);
    let snapshot = std::fs::read_to_string(file("fixtures/snapshots/steady-82.json")).unwrap();
    let tick = Generator::new(&options(&arguments).unwrap()).unwrap().next().unwrap();
    assert!(tick.devices.iter().all(|device| snapshot.contains(&device.info.uuid)));
}

fn table() -> String {
    let mut table = "| fleet | metric | over 70 %: −10 % | 30 to 70 % | 20 to 30 %: +5 % | 10 to 20 %: +10 % | under 10 %: +20 % | mean |\n".to_owned();
    table.push_str("|---|---|--:|--:|--:|--:|--:|--:|\n");
    let rows = [
        ("seren", Metric::GpuUtil),
        ("seren", Metric::SmUtil),
        ("kalos", Metric::GpuUtil),
        ("philly", Metric::GpuUtil),
        ("pai", Metric::GpuUtil),
        ("gentd26", Metric::GpuUtil),
    ];
    for (fleet, metric) in rows {
        let sample = Sample::of(&format!("--fleet {fleet} {DAY}"), metric);
        let within = |from: u64, to: u64| sample.share(|value| value >= from && value < to);
        let shares = [
            within(700_001, 2 * ONE),
            within(300_000, 700_001),
            within(200_000, 300_000),
            within(100_000, 200_000),
            within(0, 100_000),
        ];
        let shares: Vec<_> = shares.iter().map(|share| format!("{share:.1} %")).collect();
        writeln!(
            table,
            "| {fleet} | `{}` | {} | {:.1} % |",
            metric.name(),
            shares.join(" | "),
            sample.mean() / PERCENT
        )
        .unwrap();
    }
    table
}

#[test]
fn the_table_of_the_page_on_metrics_is_what_the_generator_gives() {
    let page = std::fs::read_to_string(file("docs/metrics.md")).unwrap();
    let table = table();
    assert!(page.contains(&table), "docs/metrics.md should have\n\n{table}");
}
