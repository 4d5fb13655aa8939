//! The snapshot that a quote was priced on, on the wire.

use farebox_pricing::exact;
use farebox_pricing::offer::LineUsage;
use farebox_pricing::plan::Plan;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = SnapshotUsed)]
pub(crate) struct SnapshotView<'a> {
    /// RFC 3339 UTC; of the oldest snapshot in it.
    observed_at: String,
    /// At the priced instant.
    age_ms: u64,
    #[schema(example = "gpu_util")]
    metric: String,
    #[schema(example = "mean")]
    statistic: String,
    #[schema(example = "7d")]
    window: &'static str,
    /// A share of 1 for utilisations; absent where the device does not report the metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.82")]
    value: Option<String>,
    /// Observed ÷ held GPU-time in the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<String>,
    /// `gpu_model` or `tenant`.
    scope: &'static str,
    /// `ok`, or the code of the message that says why it does not count, or only downwards.
    quality: &'a str,
}

/// The statistic that the plan reads first, as it was observed; `None` if nothing was.
pub(crate) fn snapshot_of<'a>(usage: &LineUsage, plan: &Plan) -> Option<SnapshotView<'a>> {
    let observation = usage.observation.as_ref()?;
    let shown = plan.shown_stat();
    let stat = observation.stats.iter().map(|observed| &observed.stat).find(|stat| {
        stat.metric == shown.metric && stat.statistic == shown.statistic && stat.window_s == shown.window.seconds()
    });
    Some(SnapshotView {
        observed_at: Timestamp::from_millisecond(observation.observed_at_ms).ok()?.to_string(),
        age_ms: observation.age_ms,
        value: stat.map(|stat| exact::print(stat.value)),
        coverage: stat.map(|stat| exact::print(stat.coverage)),
        metric: shown.metric,
        statistic: shown.statistic,
        window: shown.window.as_str(),
        scope: observation.scope.as_str(),
        quality: usage.judged.findings.first().map_or("ok", |finding| finding.code()),
    })
}
