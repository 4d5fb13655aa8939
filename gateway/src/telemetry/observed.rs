//! Numbers that are counted elsewhere and read at each scrape.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use farebox_metering::mirror::MirrorCounters;
use farebox_sandbox::MemoCounters;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive as _;

/// The state of the mirror, of the memo, of the quote store and of the servers at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Observed {
    pub mirror: MirrorCounters,
    pub memo: MemoCounters,
    /// Quotes kept in memory.
    pub quotes_kept: usize,
    pub what_ifs: WhatIfs,
    /// Connections beyond the limit, since the start.
    pub connections_refused: u64,
    /// How far off forecasts of utilisation have been, a share of 1.
    pub forecast_error: Option<f64>,
}

/// A share of 1 that is found out now and then; unknown at first.
#[derive(Debug)]
pub(crate) struct LatestShare(AtomicU64);

impl Default for LatestShare {
    fn default() -> Self {
        Self(AtomicU64::new(f64::NAN.to_bits()))
    }
}

impl LatestShare {
    pub(crate) fn set(&self, share: Option<Decimal>) {
        let share = share.and_then(|share| share.to_f64()).unwrap_or(f64::NAN);
        self.0.store(share.to_bits(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Option<f64> {
        Some(f64::from_bits(self.0.load(Ordering::Relaxed))).filter(|share| !share.is_nan())
    }
}

/// How the what-ifs of quotes ended, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WhatIfs {
    pub saving: u64,
    pub without_saving: u64,
    pub not_priced: u64,
    pub faulted: u64,
}

pub(super) struct Collector<Observe>(Observe);

impl<Observe: Fn() -> Observed> Collector<Observe> {
    pub(super) fn new(observe: Observe) -> Self {
        Self(observe)
    }
}

impl<Observe> fmt::Debug for Collector<Observe> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Collector")
    }
}

impl<Observe> prometheus_client::collector::Collector for Collector<Observe>
where
    Observe: Fn() -> Observed + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Observed { mirror, memo, quotes_kept, what_ifs, connections_refused, forecast_error } = (self.0)();
        let gauges = [
            ("quote_store_quotes", "Quotes kept in memory.", quotes_kept),
            ("mirror_snapshots", "Usage snapshots in the mirror.", mirror.entries),
            ("mirror_roll_ups", "Pairs of tenant and GPU model whose long windows are rolled up.", mirror.roll_ups),
            ("mirror_kinds", "Kinds of jobs whose long windows are rolled up by themselves.", mirror.kinds),
            ("mirror_holdings", "Holdings of which what was rolled up is remembered.", mirror.holdings),
            ("memo_outcomes", "Outcomes of policies that are kept for reuse.", memo.entries),
            (
                "memo_quarantined_policies",
                "Policies that are evaluated every time: a kept outcome differed.",
                memo.quarantined,
            ),
        ];
        let gauges = gauges.map(|(name, help, value)| (name, help, u64::try_from(value).unwrap_or(u64::MAX)));
        encode_gauges(&mut encoder, &gauges)?;
        let bytes = ConstGauge::new(memo.bytes);
        let help = "Memory of the outcomes that are kept, estimated.";
        bytes.encode(encoder.encode_descriptor("memo", help, Some(&Unit::Bytes), MetricType::Gauge)?)?;
        if let Some(error) = forecast_error {
            let unit = Unit::Other("ratio".to_owned());
            let help = "Mean absolute error of forecasts of utilisation over past days, weighted by held GPU-time.";
            let gauge = ConstGauge::new(error);
            let descriptor =
                encoder.encode_descriptor("forecast_absolute_error", help, Some(&unit), MetricType::Gauge)?;
            gauge.encode(descriptor)?;
        }
        let counters = [
            ("mirror_snapshots_applied", "Snapshots that became the newest of their key.", mirror.applied),
            ("mirror_snapshots_not_newer", "Snapshots that came late or twice.", mirror.not_newer),
            ("mirror_snapshots_quarantined", "Snapshots kept with their counters only.", mirror.quarantined),
            ("mirror_snapshots_refused", "Snapshots refused because the mirror was full.", mirror.refused_full),
            ("mirror_readings_dropped", "Readings that could not be ones.", mirror.dropped_readings),
            ("mirror_histograms_refused", "Histograms that say more than was held.", mirror.histograms_refused),
            ("mirror_roll_ups_evicted", "Unused pairs that made room for others.", mirror.roll_ups_evicted),
            ("mirror_roll_ups_skipped", "Snapshots that there was no room to roll up.", mirror.roll_ups_skipped),
            ("mirror_kinds_let_go", "Kinds of jobs that made room for others.", mirror.kinds_let_go),
            ("mirror_kinds_skipped", "Snapshots that are in their pair's long windows only.", mirror.kinds_skipped),
            ("mirror_holdings_let_go", "Holdings that made room for others.", mirror.holdings_let_go),
            ("memo_hits", "Evaluations answered from a kept outcome.", memo.hits),
            ("memo_misses", "Evaluations whose input was not known.", memo.misses),
            ("memo_recomputed", "Hits that were evaluated again and compared.", memo.recomputed),
            ("memo_differences", "Comparisons that differed: each is an alarm.", memo.differences),
            ("what_ifs_saving", "What-ifs of quotes that would cost less.", what_ifs.saving),
            ("what_ifs_without_saving", "What-ifs that would not: none is advised.", what_ifs.without_saving),
            ("what_ifs_not_priced", "What-ifs that nobody could ask for, or too dear to price.", what_ifs.not_priced),
            (
                "what_ifs_faulted",
                "What-ifs in which a policy or the sandbox failed; the quote stood.",
                what_ifs.faulted,
            ),
            ("http_connections_refused", "Connections beyond the limit.", connections_refused),
        ];
        encode_counters(&mut encoder, &counters)
    }
}

/// A metric without unit or labels: its name, what it is, and its value.
pub(super) type Row = (&'static str, &'static str, u64);

pub(super) fn encode_gauges(encoder: &mut DescriptorEncoder<'_>, rows: &[Row]) -> fmt::Result {
    for (name, help, value) in rows {
        ConstGauge::new(*value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
    }
    Ok(())
}

pub(super) fn encode_counters(encoder: &mut DescriptorEncoder<'_>, rows: &[Row]) -> fmt::Result {
    for (name, help, value) in rows {
        ConstCounter::new(*value).encode(encoder.encode_descriptor(name, help, None, MetricType::Counter)?)?;
    }
    Ok(())
}
