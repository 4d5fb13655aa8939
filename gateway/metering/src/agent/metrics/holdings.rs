//! What tenants hold and use, as the meter has counted it.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Described, Series, family};
use crate::meter::Totals;

/// Jobs come and go; a scraper keeps all their series. What is beyond is counted.
const MOST: usize = 1000;
/// The meter counts µs × millionths of a GPU.
const TO_SECONDS: f64 = 1e12;

pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, totals: &[Totals]) -> fmt::Result {
    let told = totals.get(..MOST).unwrap_or(totals);
    let of = |value: &dyn Fn(&Totals) -> Option<f64>| -> Series<'_, 3> {
        let value = |totals: &Totals| {
            let labels = [
                ("tenant", totals.tenant.clone()),
                ("job", totals.job.clone().unwrap_or_default()),
                ("gpu_model", totals.gpu_model.clone().unwrap_or_default()),
            ];
            Some((labels, value(totals)?))
        };
        told.iter().filter_map(value).collect()
    };
    let counter = |name, help, unit| Described { name, help, unit: Some(unit), is_counter: true };
    // An f64 is exact to 2⁵³; beyond, the last digits of a metric are nobody's bill.
    let held = of(&|totals| Some(totals.metered.saturating_add(totals.unmetered) as f64 / TO_SECONDS));
    family(encoder, counter("farebox_agent_held", "GPU-time held.", "seconds"), &held)?;
    let metered = of(&|totals| Some(totals.metered as f64 / TO_SECONDS));
    family(encoder, counter("farebox_agent_metered", "GPU-time held and observed.", "seconds"), &metered)?;
    let unmetered = of(&|totals| Some(totals.unmetered as f64 / TO_SECONDS));
    family(encoder, counter("farebox_agent_unmetered", "GPU-time held and not observed.", "seconds"), &unmetered)?;
    let busy = of(&|totals| Some(totals.busy_us? as f64 / 1e6));
    family(encoder, counter("farebox_agent_busy", "GPU-time busy.", "seconds"), &busy)?;
    let energy = of(&|totals| Some(totals.energy_mj? as f64 / 1e3));
    family(encoder, counter("farebox_agent_energy", "Energy used.", "joules"), &energy)?;
    let omitted = ConstGauge::new(totals.len().saturating_sub(MOST) as f64);
    let help = "Holdings that are not told here, because there are too many.";
    omitted.encode(encoder.encode_descriptor("farebox_agent_holdings_omitted", help, None, MetricType::Gauge)?)
}
