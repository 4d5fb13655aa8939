//! Snapshots for the tests of this crate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use farebox_pricing::usage::{StatKey, Window};
use jiff::{SignedDuration, Timestamp};
use rust_decimal::Decimal;
use serde_json::{Value, json};

use crate::mirror::UsageQuery;
use crate::snapshot::{InvalidSnapshot, Snapshot, WireSnapshot};

/// The body of SHAPES.md with its blanks filled in.
pub(crate) fn body() -> Value {
    json!({"schema":1,"node":"gpu-07","boot_epoch":"1","seq":41,"observed_at":"2026-12-01T00:00:00Z","tick_ms":1000,"health":"ok","reasons":[],
        "tenant":"acme","job":"job-9","gpu_model":"A100","devices":[{"gpu_uuid":"GPU-1","share":"1","method":"exclusive"}],
        "windows":{"15m":{
            "gpu_util":{"mean":"0.82","p50":"0.85","p95":"0.97","min":"0.10","max":"1","coverage":"0.99","quality":"ok","held_us":"900000000"},
            "sm_util":{},"mem_used_bytes":{"mean":"42949672960"},"power_w":{"mean":301.5}}},
        "counters":{"held_us":"7200000000","busy_us":"5904000000","energy_mj":"2170800000"},
        "histograms":{"gpu_util":{"bins":STANDARD.encode([0_u8; 404])}},"mac":"00ff"})
}

/// The sample with other values at some pointers; a pointer to a missing key adds it to its object.
pub(crate) fn body_with(changes: &[(&str, Value)]) -> Value {
    let mut changed = body();
    for (pointer, value) in changes {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        match changed.pointer_mut(parent).unwrap() {
            Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
            parent => parent[key] = value.clone(),
        }
    }
    changed
}

pub(crate) fn checked(body: Value) -> Result<Snapshot, InvalidSnapshot> {
    Snapshot::try_from(serde_json::from_value::<WireSnapshot>(body).unwrap())
}

/// One node's snapshot with `gpu_util` over 7 d.
pub(crate) fn node(node: &str, mean: &str, coverage: &str, held_us: u64) -> Snapshot {
    let windows =
        json!({"7d":{"gpu_util":{"mean":mean,"p50":mean,"p95":mean,"min":mean,"max":mean,"coverage":coverage}}});
    let counters = json!({"held_us":held_us});
    checked(body_with(&[("/node", json!(node)), ("/windows", windows), ("/counters", counters)])).unwrap()
}

/// What an agent has counted of a node's A100 so far: `held_ms` of GPU-time on one GPU, of which these ms at these per cents of
/// `gpu_util` were observed; without windows.
pub(crate) fn counted(seq: u64, observed_ms: i64, held_ms: u64, observed: &[(usize, u32)]) -> Snapshot {
    let bins = json!({"gpu_util":{"bins":bins(observed)}});
    let counters = json!({"held_us":held_ms * 1_000});
    let observed_at = json!(after_ms(observed_ms).to_string());
    let changes = [
        ("/seq", json!(seq)),
        ("/observed_at", observed_at),
        ("/windows", json!({})),
        ("/counters", counters),
        ("/histograms", bins),
    ];
    checked(body_with(&changes)).unwrap()
}

/// A histogram on the wire.
pub(crate) fn bins(observed: &[(usize, u32)]) -> String {
    let mut bins = [0_u32; 101];
    for (percent, ms) in observed {
        bins[*percent] = *ms;
    }
    STANDARD.encode(bins.map(u32::to_le_bytes).as_flattened())
}

pub(crate) fn key(metric: &str, statistic: &str, window: Window) -> StatKey {
    StatKey { metric: metric.to_owned(), statistic: statistic.to_owned(), window }
}

pub(crate) fn weekly_mean() -> [StatKey; 1] {
    [key("gpu_util", "mean", Window::D7)]
}

/// Milliseconds after the sample was observed.
pub(crate) fn after_ms(milliseconds: i64) -> Timestamp {
    "2026-12-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_millis(milliseconds)
}

pub(crate) fn query<'a>(keys: &'a [StatKey], now: Timestamp) -> UsageQuery<'a> {
    UsageQuery { tenant: "acme", gpu_model: "A100", keys, hard_stale_ms: 600_000, now }
}

pub(crate) fn decimal(text: &str) -> Decimal {
    farebox_pricing::exact::parse(text).unwrap()
}

/// A directory of one test's own, gone with it.
#[derive(Debug)]
pub(crate) struct Directory(std::path::PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("farebox-metering-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
