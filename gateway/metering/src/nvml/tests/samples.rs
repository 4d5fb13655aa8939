//! The driver's sample buffers: each row once, none that is old, and the rate where there are no rows.

use fake_nvml::{Device, Row, Samples, Value};

use super::{Rig, START, a100, one, readings, returning};
use crate::clock::Now;
use crate::tick::{DeviceState, Metric};

fn with_rows(rows: impl IntoIterator<Item = (i64, u64)>) -> Device {
    Device { gpu_samples: Some(Samples::rows(rows)), ..a100(1) }
}

fn typed(rows: Vec<(i64, u64)>, value_type: u32, repeats: bool) -> Device {
    let rows = rows.into_iter().map(|(at_us, value)| Row { at_us, value }).collect();
    Device { gpu_samples: Some(Samples::Rows { rows, value_type, repeats }), ..a100(1) }
}

#[test]
fn a_row_is_told_once_even_by_a_driver_that_repeats_itself() {
    for repeats in [false, true] {
        let first = vec![(START - 600_000, 10), (START - 300_000, 20)];
        let mut rig = Rig::new(&one(typed(first.clone(), 1, repeats)));
        let told = readings(&rig.device_after(0).readings, Metric::GpuUtil);
        assert_eq!(told, [(600_000, 100_000), (300_000, 200_000)]);
        let second = [first, vec![(START + 250_000, 30), (START + 1_000_000, 40)]].concat();
        rig.change(&one(typed(second, 1, repeats)));
        let told = readings(&rig.device_after(1_000).readings, Metric::GpuUtil);
        assert_eq!(told, [(750_000, 300_000), (0, 400_000)]);
        assert_eq!(readings(&rig.device_after(1_000).readings, Metric::GpuUtil), []);
    }
}

#[test]
fn hundreds_of_stale_rows_are_dropped() {
    let stale = (0..240).map(|number| (START - 3_600_000_000 + number * 10_000, 99));
    let old = [(START - 2_000_001, 99), (START - 2_000_000, 50)];
    let device = typed(stale.chain(old).collect(), 1, true);
    let told = Rig::new(&one(device)).device_after(0);
    assert_eq!(readings(&told.readings, Metric::GpuUtil), []);
    assert_eq!((told.refused_readings, told.state), (0, DeviceState::Ok));
    let edge = typed(vec![(START - 1_999_999, 50)], 1, true);
    assert_eq!(readings(&Rig::new(&one(edge)).device_after(0).readings, Metric::GpuUtil), [(1_999_999, 500_000)]);
}

#[test]
fn a_buffer_longer_than_expected_is_read_to_its_end() {
    let rows = (0..1_000).map(|number| (START - 1_900_000 + number * 1_000, 50));
    let told = readings(&Rig::new(&one(with_rows(rows))).device_after(0).readings, Metric::GpuUtil);
    assert_eq!((told.len(), told[0], told[999]), (1_000, (1_900_000, 500_000), (901_000, 500_000)));
}

#[test]
fn not_found_is_nothing_new_and_no_fault() {
    let told = Rig::new(&one(with_rows([]))).device_after(0);
    assert_eq!(readings(&told.readings, Metric::GpuUtil), []);
    assert_eq!(readings(&told.readings, Metric::MemUtil), [(500_000, 350_000)]);
    assert_eq!(told.state, DeviceState::Ok);
}

#[test]
fn rows_are_told_in_the_order_of_time_and_twins_once() {
    let rows = [(START - 100_000, 3), (START - 900_000, 1), (START - 500_000, 2), (START - 500_000, 2)];
    let told = Rig::new(&one(with_rows(rows))).device_after(0);
    assert_eq!(readings(&told.readings, Metric::GpuUtil), [(900_000, 10_000), (500_000, 20_000), (100_000, 30_000)]);
}

#[test]
fn a_row_of_after_the_passs_moment_is_the_next_ones_at_its_own_time() {
    // Sampled while the pass went on: three rows, of which the first would have stood for all.
    let rows = [(START - 100_000, 6), (START + 40_000, 7), (START + 200_000, 90), (START + 360_000, 95)];
    for repeats in [false, true] {
        let mut rig = Rig::new(&one(typed(rows.to_vec(), 1, repeats)));
        assert_eq!(readings(&rig.device_after(0).readings, Metric::GpuUtil), [(100_000, 60_000)]);
        let told = readings(&rig.device_after(1_000).readings, Metric::GpuUtil);
        assert_eq!(told, [(960_000, 70_000), (800_000, 900_000), (640_000, 950_000)]);
        assert_eq!(readings(&rig.device_after(1_000).readings, Metric::GpuUtil), []);
    }
    let told = Rig::new(&one(with_rows([(START + 3_600_000_000, 8)]))).device_after(0);
    assert_eq!(readings(&told.readings, Metric::GpuUtil), []);
}

#[test]
fn after_the_clock_was_set_back_rows_go_on() {
    let mut rig = Rig::new(&one(with_rows([(START - 10_000, 60)])));
    assert_eq!(readings(&rig.device_after(0).readings, Metric::GpuUtil), [(10_000, 600_000)]);
    let hour = 3_600_000_000;
    rig.now = Now { wall_us: START - hour, ..rig.now };
    rig.change(&one(with_rows([(START - 10_000, 60), (START - hour + 900_000, 65)])));
    assert_eq!(readings(&rig.device_after(1_000).readings, Metric::GpuUtil), [(100_000, 650_000)]);
}

#[test]
fn what_the_driver_sampled_while_no_pass_was_made_is_told() {
    let mut rig = Rig::new(&one(with_rows([(START - 10_000, 60)])));
    rig.device_after(0);
    rig.change(&one(with_rows([(START + 1_000_000, 61), (START + 9_500_000, 62)])));
    let told = readings(&rig.device_after(10_000).readings, Metric::GpuUtil);
    assert_eq!(told, [(9_000_000, 610_000), (500_000, 620_000)]);
}

#[test]
fn a_row_is_told_once_by_two_runs_of_the_library_too() {
    let rows = [(START - 10_000, 60), (START + 900_000, 61)];
    let mut rig = Rig::new(&one(with_rows(rows)));
    assert_eq!(
        readings(&rig.device_after(1_000).readings, Metric::GpuUtil),
        [(1_010_000, 600_000), (100_000, 610_000)]
    );
    rig.change(&one(returning(&a100(1), "*", 9)));
    assert_eq!(rig.pass_after(500).library_run, 1);
    rig.change(&one(with_rows(rows)));
    rig.pass_after(1_000);
    let tick = rig.pass_until("a new run", |tick| !tick.devices.is_empty());
    assert_eq!((tick.library_run, readings(&tick.devices[0].readings, Metric::GpuUtil)), (2, vec![]));
}

#[test]
fn rows_that_cannot_be_readings_are_refused_and_roundings_are_clamped() {
    let rows = vec![
        (START - 700_000, 100.4_f64.to_bits()),
        (START - 600_000, f64::NAN.to_bits()),
        (START - 500_000, 9.22e18_f64.to_bits()),
        (START - 400_000, 101.5_f64.to_bits()),
        (START - 300_000, (-1.0_f64).to_bits()),
        (START - 200_000, 62.5_f64.to_bits()),
    ];
    let told = Rig::new(&one(typed(rows, 0, false))).device_after(0);
    assert_eq!(readings(&told.readings, Metric::GpuUtil), [(700_000, 1_000_000), (200_000, 625_000)]);
    assert_eq!((told.refused_readings, told.clamped_readings), (4, vec![1_004_000]));
}

#[test]
fn blank_rows_of_every_integer_type_are_refused() {
    let max_signed = (1_u64 << 63) - 1;
    for (value_type, blank) in
        [(1, u64::from(u32::MAX)), (2, u64::MAX), (3, max_signed), (4, max_signed), (5, 0xffff_ffff)]
    {
        let told = Rig::new(&one(typed(vec![(START - 5, blank), (START - 4, 42)], value_type, false))).device_after(0);
        assert_eq!(readings(&told.readings, Metric::GpuUtil), [(4, 420_000)], "type {value_type}");
        assert_eq!(told.refused_readings, 1, "type {value_type}");
    }
    let short = typed(vec![(START - 5, 0xabcd_0000 | 42)], 6, false);
    assert_eq!(readings(&Rig::new(&one(short)).device_after(0).readings, Metric::GpuUtil), [(5, 420_000)]);
    let unknown = Rig::new(&one(typed(vec![(START - 5, 42)], 7, false))).device_after(0);
    assert_eq!((readings(&unknown.readings, Metric::GpuUtil), unknown.refused_readings), (vec![], 1));
}

#[test]
fn where_there_are_no_buffers_the_rate_is_one_reading() {
    let rates = Some((Value::Constant(55), Value::Constant(12)));
    let device = Device { gpu_samples: None, rates: rates.clone(), ..a100(1) };
    let told = Rig::new(&one(device)).device_after(0);
    assert_eq!(readings(&told.readings, Metric::GpuUtil), [(0, 550_000)]);
    // Memory has a buffer, and is not told twice.
    assert_eq!(readings(&told.readings, Metric::MemUtil), [(500_000, 350_000)]);
    let blank = Some((Value::Constant(u32::MAX.into()), Value::Constant(12)));
    let device = Device { gpu_samples: None, memory_samples: None, rates: blank, ..a100(1) };
    let told = Rig::new(&one(device)).device_after(0);
    assert_eq!((readings(&told.readings, Metric::GpuUtil), told.refused_readings), (vec![], 1));
    assert_eq!(readings(&told.readings, Metric::MemUtil), [(0, 120_000)]);
}

#[test]
fn a_buffer_that_stays_dry_is_replaced_by_the_rate_until_rows_come_again() {
    let rates = Some((Value::Constant(55), Value::Constant(12)));
    let mut rig = Rig::new(&one(Device { rates: rates.clone(), ..with_rows([]) }));
    for pass in 1..=12 {
        let told = readings(&rig.device_after(1_000).readings, Metric::GpuUtil);
        assert_eq!(told, if pass < 10 { vec![] } else { vec![(0, 550_000)] }, "pass {pass}");
    }
    rig.change(&one(Device { rates, ..with_rows([(START + 12_800_000, 70)]) }));
    assert_eq!(readings(&rig.device_after(1_000).readings, Metric::GpuUtil), [(200_000, 700_000)]);
}
