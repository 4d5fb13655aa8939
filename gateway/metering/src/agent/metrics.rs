//! `/metrics`: devices in the names of OpenTelemetry's `hw.*` conventions, everything else under `farebox_agent_`. What a device
//! does not report has no series.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::seen::Seen;
use crate::delivery::DeliveryCounters;

mod devices;
mod holdings;
#[cfg(test)]
mod tests;

/// The media type of [`Metrics::encode`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The agent at one moment.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) seen: Arc<Seen>,
    /// By the monotonic clock.
    pub(crate) now_us: u64,
    pub(crate) delivery: Option<DeliveryCounters>,
    pub(crate) log_lines_dropped: u64,
}

/// All metrics of an agent. Everything is read at the scrape.
#[derive(Debug)]
pub(crate) struct Metrics(Registry);

struct Agent<Observe>(Observe);

/// Values of one metric by their labels.
type Series<'a, const N: usize> = Vec<([(&'a str, String); N], f64)>;

impl Metrics {
    pub(crate) fn new(observe: impl Fn() -> Observed + Send + Sync + 'static) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Agent(observe)));
        Self(registry)
    }

    /// OpenMetrics text, of type [`CONTENT_TYPE`].
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` does not fail.
        let _ = encode(&mut text, &self.0);
        text
    }
}

impl<Observe> fmt::Debug for Agent<Observe> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Agent")
    }
}

impl<Observe: Fn() -> Observed + Send + Sync + 'static> Collector for Agent<Observe> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let observed = (self.0)();
        own(&mut encoder, &observed)?;
        if let Some(tick) = &observed.seen.tick {
            devices::encode(&mut encoder, tick, &observed.seen.xids)?;
        }
        holdings::encode(&mut encoder, &observed.seen.totals)
    }
}

/// What the agent says of itself.
fn own(encoder: &mut DescriptorEncoder<'_>, observed: &Observed) -> fmt::Result {
    let meter = observed.seen.meter;
    let mut counters = vec![
        ("farebox_agent_ticks", "Passes over the devices that were metered.", meter.ticks),
        ("farebox_agent_gaps", "Clock steps, new boot epochs and missed passes.", meter.gaps),
        ("farebox_agent_readings_refused", "Readings that could not be ones.", meter.refused_readings),
        ("farebox_agent_readings_clamped", "Readings over 1 by a rounding.", meter.clamped_readings),
        ("farebox_agent_xids_unplaced", "Xid events of a device that is not known.", meter.unplaced_xids),
        ("farebox_agent_log_lines_dropped", "Log lines that stderr did not take.", observed.log_lines_dropped),
    ];
    if let Some(delivery) = &observed.delivery {
        counters.extend([
            ("farebox_agent_delivery_applied", "Snapshots that were taken.", delivery.applied),
            ("farebox_agent_delivery_not_newer", "Snapshots that were there, or newer ones.", delivery.not_newer),
            ("farebox_agent_delivery_from_the_future", "Of those, without windows.", delivery.from_the_future),
            ("farebox_agent_delivery_refused", "Snapshots that were refused.", delivery.refused),
            ("farebox_agent_delivery_failed", "Tries without receipt or refusal.", delivery.failed),
            ("farebox_agent_windows_withheld", "Snapshots without windows: a clock is off.", delivery.windows_withheld),
            ("farebox_agent_spool_evicted", "Snapshots given up because the spool was full.", delivery.evicted),
            ("farebox_agent_spool_torn_lines", "Lines of an earlier spool that were torn.", delivery.torn_lines),
            ("farebox_agent_spool_saves_failed", "Times the spool could not be written.", delivery.saves_failed),
        ]);
    }
    for (name, help, value) in counters {
        let counter = ConstCounter::new(value);
        counter.encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
    }
    if let Some(age) = observed.seen.age(observed.now_us) {
        gauge(encoder, "farebox_agent_last_tick_age", "Since the last pass.", Some(&Unit::Seconds), age.as_secs_f64())?;
    }
    let stalled = f64::from(u8::from(observed.seen.is_stalled));
    gauge(encoder, "farebox_agent_stalled", "1 while the driver hangs.", None, stalled)?;
    if let Some(delivery) = &observed.delivery {
        let away = f64::from(u8::from(delivery.away));
        gauge(encoder, "farebox_agent_gateway_away", "1 while the gateway, or Redis, takes nothing.", None, away)?;
        // Lossless to 2⁵³, which no spool comes near.
        let waiting = delivery.waiting as f64;
        gauge(encoder, "farebox_agent_spool_snapshots", "Snapshots that wait to be taken.", None, waiting)?;
        if let Some(skew_us) = delivery.clock_skew_us {
            let help = "How far this clock is ahead of the gateway's or Redis', at least.";
            gauge(encoder, "farebox_agent_clock_skew", help, Some(&Unit::Seconds), skew_us as f64 / 1e6)?;
        }
        let bytes = delivery.waiting_bytes as f64;
        gauge(encoder, "farebox_agent_spool", "Snapshots that wait, as JSON.", Some(&Unit::Bytes), bytes)?;
    }
    Ok(())
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, unit: Option<&Unit>, value: f64) -> fmt::Result {
    ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?)
}

/// A metric, and how it is told.
#[derive(Clone, Copy, Debug)]
struct Described<'a> {
    name: &'a str,
    help: &'a str,
    unit: Option<&'a str>,
    is_counter: bool,
}

/// One metric with all its series; nothing at all where there is none.
fn family<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: Described<'_>,
    series: &Series<'_, N>,
) -> fmt::Result {
    if series.is_empty() {
        return Ok(());
    }
    let unit = metric.unit.map(|unit| Unit::Other(unit.to_owned()));
    let kind = if metric.is_counter { MetricType::Counter } else { MetricType::Gauge };
    let mut metric_encoder = encoder.encode_descriptor(metric.name, metric.help, unit.as_ref(), kind)?;
    for (labels, value) in series {
        let one = metric_encoder.encode_family(labels)?;
        match metric.is_counter {
            true => ConstCounter::new(*value).encode(one)?,
            false => ConstGauge::new(*value).encode(one)?,
        }
    }
    Ok(())
}
