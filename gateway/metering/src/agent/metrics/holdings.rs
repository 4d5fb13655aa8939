//! What tenants hold and use, from the last snapshots.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Described, Series, family};
use crate::snapshot::{WireCounter, WireSnapshot};

/// Jobs come and go; a scraper keeps all their series. What is beyond is counted.
const MOST: usize = 1000;

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, snapshots: &[WireSnapshot]) -> fmt::Result {
    // A job that ended and began again within a tick would have each series twice.
    let running: Vec<_> = snapshots.iter().filter(|snapshot| snapshot.health != "ended").collect();
    let told = running.get(..MOST).unwrap_or(&running);
    let of = |counter: &dyn Fn(&WireSnapshot) -> Option<&WireCounter>, divisor: f64| -> Series<'_, 3> {
        let value = |snapshot: &WireSnapshot| {
            let labels = [
                ("tenant", snapshot.tenant.clone()),
                ("job", snapshot.job.clone().unwrap_or_default()),
                ("gpu_model", snapshot.gpu_model.clone()),
            ];
            Some((labels, number(counter(snapshot)?)? / divisor))
        };
        told.iter().copied().filter_map(value).collect()
    };
    let counter = |name, help, unit| Described { name, help, unit: Some(unit), is_counter: true };
    let held = of(&|snapshot| Some(&snapshot.counters.held_us), 1e6);
    family(encoder, counter("farebox_agent_held", "GPU-time held.", "seconds"), &held)?;
    let busy = of(&|snapshot| snapshot.counters.busy_us.as_ref(), 1e6);
    family(encoder, counter("farebox_agent_busy", "GPU-time busy.", "seconds"), &busy)?;
    let energy = of(&|snapshot| snapshot.counters.energy_mj.as_ref(), 1e3);
    family(encoder, counter("farebox_agent_energy", "Energy used.", "joules"), &energy)?;
    let omitted = ConstGauge::new(running.len().saturating_sub(MOST) as f64);
    let help = "Holdings that are not told here, because there are too many.";
    omitted.encode(encoder.encode_descriptor("farebox_agent_holdings_omitted", help, None, MetricType::Gauge)?)
}

fn number(counter: &WireCounter) -> Option<f64> {
    match &counter.0 {
        serde_json::Value::String(text) => text.parse().ok(),
        other => other.to_string().parse().ok(),
    }
}
