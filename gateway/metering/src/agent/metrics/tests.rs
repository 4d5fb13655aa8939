//! What `/metrics` says, and what it leaves out.

use std::collections::BTreeMap;

use super::*;
use crate::meter::{MeterCounters, Totals};
use crate::tick::{DeviceInfo, DeviceState, DeviceTick, InstanceId, InstanceTick, Library, Metric, Readings, Tick};

fn device(uuid: &str, state: DeviceState) -> DeviceTick {
    DeviceTick {
        info: DeviceInfo { uuid: uuid.to_owned(), name: "NVIDIA \"A100\"\n".to_owned(), ..DeviceInfo::default() },
        state,
        readings: Readings::default(),
        energy_mj: None,
        throttle_mask: None,
        processes: None,
        instances: Vec::new(),
        refused_readings: 0,
        clamped_readings: Vec::new(),
    }
}

fn text(devices: Vec<DeviceTick>, totals: Vec<Totals>) -> String {
    let tick = Tick { wall_us: 0, mono_us: 0, library_run: 1, library: Library::Present, devices, xids: Vec::new() };
    let seen = Arc::new(Seen {
        tick: Some(Arc::new(tick)),
        at_us: 1_000_000,
        is_stalled: false,
        tells: 1,
        totals,
        meter: MeterCounters { ticks: 7, ..MeterCounters::default() },
        xids: BTreeMap::from([(("GPU-1".to_owned(), 79), 2)]),
    });
    let delivery = Some(DeliveryCounters {
        applied: 5,
        waiting: 2,
        away: true,
        clock_skew_us: Some(-7_500_000),
        ..DeliveryCounters::default()
    });
    let observe = move || Observed { seen: Arc::clone(&seen), now_us: 1_500_000, delivery, log_lines_dropped: 0 };
    Metrics::new(observe).encode()
}

fn totals(job: &str) -> Totals {
    Totals {
        tenant: "acme".to_owned(),
        job: Some(job.to_owned()),
        gpu_model: Some("A100".to_owned()),
        metered: 7_000_500_000_000_000,
        unmetered: 199_500_000_000_000,
        busy_us: Some(5_904_000_000),
        energy_mj: None,
    }
}

#[test]
fn devices_are_told_in_the_names_of_opentelemetry() {
    let mut device = device("GPU-1", DeviceState::Ok);
    for (metric, value) in [
        (Metric::GpuUtil, 820_000),
        (Metric::MemUsedBytes, 40 << 30),
        (Metric::PowerW, 301_500),
        (Metric::SmClockMhz, 1_410),
    ] {
        device.readings.push(metric, value);
    }
    device.info.memory_total_bytes = Some(80 << 30);
    device.energy_mj = Some(2_500);
    device.throttle_mask = Some(0x44);
    let text = text(vec![device], vec![totals("job-9")]);
    let whole = r#"{hw_id="GPU-1",hw_model="NVIDIA \"A100\"\n",hw_type="gpu",hw_parent="",instance_id=""}"#;
    let board = r#"{hw_id="GPU-1",hw_model="NVIDIA \"A100\"\n",hw_type="gpu"}"#;
    for line in [
        format!("hw_gpu_utilization_ratio{whole} 0.82"),
        format!("hw_gpu_memory_usage_bytes{whole} 42949672960.0"),
        format!("hw_gpu_memory_limit_bytes{whole} 85899345920.0"),
        format!("hw_gpu_memory_utilization_ratio{whole} 0.5"),
        format!("farebox_agent_gpu_sm_clock_hertz{whole} 1410000000.0"),
        format!("hw_power_watts{board} 301.5"),
        format!("hw_energy_joules_total{board} 2.5"),
        format!("farebox_agent_gpu_clocks_event_reasons{board} 68.0"),
        r#"hw_errors_total{hw_id="GPU-1",hw_model="NVIDIA \"A100\"\n",hw_type="gpu",error_type="xid_79"} 2.0"#
            .to_owned(),
        r#"farebox_agent_held_seconds_total{tenant="acme",job="job-9",gpu_model="A100"} 7200.0"#.to_owned(),
        r#"farebox_agent_busy_seconds_total{tenant="acme",job="job-9",gpu_model="A100"} 5904.0"#.to_owned(),
        r#"farebox_agent_metered_seconds_total{tenant="acme",job="job-9",gpu_model="A100"} 7000.5"#.to_owned(),
        r#"farebox_agent_unmetered_seconds_total{tenant="acme",job="job-9",gpu_model="A100"} 199.5"#.to_owned(),
        "farebox_agent_ticks_total 7".to_owned(),
        "farebox_agent_last_tick_age_seconds 0.5".to_owned(),
        "farebox_agent_delivery_applied_total 5".to_owned(),
        "farebox_agent_spool_snapshots 2.0".to_owned(),
        "farebox_agent_gateway_away 1.0".to_owned(),
        "farebox_agent_clock_skew_seconds -7.5".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n") && !text.contains("farebox_agent_energy_joules"));
}

#[test]
fn what_a_device_does_not_report_has_no_series() {
    let text = text(vec![device("GPU-1", DeviceState::Lost)], Vec::new());
    for name in ["hw_gpu_", "hw_power", "hw_energy", "clocks_event_reasons", "held_seconds"] {
        assert!(!text.contains(name), "{name}\n{text}");
    }
    assert!(text.contains("hw_state=\"failed\"} 1.0\n") && text.contains("hw_state=\"ok\"} 0.0\n"), "{text}");
}

#[test]
fn instances_have_their_own_series() {
    let mut device = device("GPU-1", DeviceState::Ok);
    let mut readings = Readings::default();
    readings.push(Metric::SmUtil, 500_000);
    let id = InstanceId { gpu_instance: 1, compute_instance: 0 };
    let (multiprocessors, memory_total_bytes, processes) = (None, None, None);
    device.instances.push(InstanceTick {
        id,
        uuid: "MIG-1".to_owned(),
        multiprocessors,
        memory_total_bytes,
        readings,
        processes,
    });
    let text = text(vec![device], Vec::new());
    let labels = r#"hw_type="gpu",hw_parent="GPU-1",instance_id="1/0"} 0.5"#;
    assert!(
        text.lines()
            .any(|line| line.starts_with("farebox_agent_gpu_sm_utilization_ratio{hw_id=\"MIG-1\"")
                && line.ends_with(labels)),
        "{text}"
    );
    assert!(!text.contains("hw_gpu_utilization_ratio"));
}

#[test]
fn no_series_is_there_twice_and_there_are_only_so_many() {
    let totals = (0..1_501).map(|number| totals(&number.to_string())).collect();
    let text = text(Vec::new(), totals);
    let held = |line: &&str| line.starts_with("farebox_agent_held_seconds_total{");
    let lines: Vec<_> = text.lines().filter(held).collect();
    let distinct: std::collections::BTreeSet<_> = lines.iter().collect();
    assert_eq!((lines.len(), distinct.len()), (1_000, 1_000));
    assert!(text.contains("farebox_agent_holdings_omitted 501.0\n"));
}
