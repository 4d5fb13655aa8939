//! The last 24 h of the GPUs behind some items, as far as anything may be said of them.

use std::sync::LazyLock;

use farebox_metering::mirror::{DRAM_PEAK, TENSOR_PEAK};
use farebox_pricing::request::QuoteRequest;
use farebox_pricing::usage::{Observation, ObservedStat, StatKey, UsageFinding, UsageRules, UsageScope, Window, judge};
use rust_decimal::Decimal;

/// What the rules ask of a day.
static STATS: LazyLock<[StatKey; 5]> = LazyLock::new(|| {
    let named = [("gpu_util", "mean"), ("gpu_util", "p95"), ("sm_util", "mean"), ("dram_active", "mean")];
    let [mean, p95, sm_util, dram] = named.map(|(metric, statistic)| key(metric, statistic));
    [mean, p95, sm_util, dram, key("tensor_active", "mean")]
});

/// What is known of a day of the GPUs behind these items. Shares of 1; `None`: not measured, or too little of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Evidence {
    /// Ascending.
    pub(super) items: Vec<usize>,
    /// `the A100`, or `your GPUs`
    pub(super) whose: String,
    pub(super) gpu_util: Option<Decimal>,
    pub(super) gpu_util_p95: Option<Decimal>,
    /// Observed GPU-time of the mean, µs.
    pub(super) observed_us: Option<Decimal>,
    pub(super) sm_util: Option<Decimal>,
    pub(super) tensor_active: Option<Decimal>,
    /// Activity as a share of what can be reached.
    pub(super) dram: Option<Decimal>,
    pub(super) tensor: Option<Decimal>,
}

fn key(metric: &str, statistic: &str) -> StatKey {
    StatKey { metric: metric.to_owned(), statistic: statistic.to_owned(), window: Window::H24 }
}

/// The statistics to observe.
pub(in super::super) fn stats() -> &'static [StatKey] {
    &*STATS
}

/// `observe` is asked once for each GPU model; models with one observation, such as a tenant-wide one, share it.
pub(in super::super) fn of(
    request: &QuoteRequest,
    rules: &UsageRules,
    mut observe: impl FnMut(&str) -> Option<Observation>,
) -> Vec<Evidence> {
    let mut models: Vec<(&str, Option<usize>)> = Vec::new();
    let mut found: Vec<(Observation, Evidence)> = Vec::new();
    for (index, item) in request.items.iter().enumerate() {
        let known = models.iter().find(|(model, _)| *model == item.gpu_model).map(|(_, at)| *at);
        let at = known.unwrap_or_else(|| {
            let at = observe(&item.gpu_model).map(|seen| {
                found.iter().position(|(other, _)| *other == seen).unwrap_or_else(|| {
                    let evidence = Evidence::of(&seen, &item.gpu_model, rules);
                    found.push((seen, evidence));
                    found.len().saturating_sub(1)
                })
            });
            models.push((&item.gpu_model, at));
            at
        });
        if let Some((_, evidence)) = at.and_then(|at| found.get_mut(at)) {
            evidence.items.push(index);
        }
    }
    found.into_iter().map(|(_, evidence)| evidence).collect()
}

impl Evidence {
    /// Nothing is said of what is too old, unhealthy or too young, nor where a partitioned device tells only half; of one
    /// statistic, nothing where it is thin, covered too little or suspect.
    fn of(observation: &Observation, gpu_model: &str, rules: &UsageRules) -> Self {
        let whose = match observation.scope {
            UsageScope::GpuModel => format!("the {gpu_model}"),
            UsageScope::Tenant => "your GPUs".to_owned(),
        };
        let judged = judge(Some(observation), rules);
        let barred = [UsageFinding::DeviceUnhealthy, UsageFinding::GracePeriod];
        let is_silent = judged.admitted.is_none()
            || observation.mig_without_metric
            || judged.findings.iter().any(|finding| barred.contains(finding));
        if is_silent {
            return Self { whose, ..Self::default() };
        }
        let stat = |metric: &str, statistic: &str| -> Option<&ObservedStat> {
            let is_fine = |seen: &&ObservedStat| !judged.stat_findings.iter().any(|(stat, _)| *stat == seen.stat);
            let named = |seen: &&ObservedStat| seen.stat.metric == metric && seen.stat.statistic == statistic;
            observation.stats.iter().find(named).filter(is_fine)
        };
        let mean = |metric: &str| stat(metric, "mean").map(|seen| seen.stat.value);
        let tensor_active = mean("tensor_active");
        Self {
            items: Vec::new(),
            whose,
            gpu_util: mean("gpu_util"),
            gpu_util_p95: stat("gpu_util", "p95").map(|seen| seen.stat.value),
            observed_us: stat("gpu_util", "mean")
                .and_then(|seen| Decimal::from(seen.held_us).checked_mul(seen.stat.coverage)),
            sm_util: mean("sm_util"),
            tensor_active,
            dram: mean("dram_active").and_then(|active| active.checked_div(DRAM_PEAK)),
            tensor: tensor_active.and_then(|active| active.checked_div(TENSOR_PEAK)),
        }
    }
}
