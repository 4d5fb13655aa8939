//! What utilisation to expect: effective utilisation by tenant, GPU model and job kind, with its band, and how far off such
//! expectations have been.
//!
//! An expectation is the past: the mean over the basis. It is merged as prices merge it, so that a quote never states two
//! numbers for one thing. Unlike a price it may be told of what was observed long ago, and where nothing is held at the moment.

mod effective;
mod error;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use farebox_pricing::usage::{ObservedStat, StatKey, StatQuality, Window};
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::rollup::Windows;
use super::series::Merged;
use super::tenant::{Held, Tenant};
use super::{Mirror, merge};
use crate::snapshot::job_kind;
use crate::tick::Metric;
pub use effective::{DRAM_PEAK, TENSOR_PEAK};
use effective::{Effective, Enough, Part, effective, scaled_to_peak};

pub use error::ForecastError;
pub(super) use error::forecast_error;

/// In the order in which they are asked: the narrowest first, and of each a week, which is what is most like the next days.
const BASES: [Basis; 5] = [
    Basis { scope: BasisScope::JobKind, window: Window::D7 },
    Basis { scope: BasisScope::JobKind, window: Window::D30 },
    Basis { scope: BasisScope::Tenant, window: Window::D7 },
    Basis { scope: BasisScope::Tenant, window: Window::D30 },
    Basis { scope: BasisScope::Tenant, window: Window::H24 },
];

/// Of whose GPUs to tell.
#[derive(Clone, Copy, Debug)]
pub struct ForecastQuery<'a> {
    pub tenant: &'a str,
    /// `None`: of all of the tenant's. All count also where the tenant holds none of this model.
    pub gpu_model: Option<&'a str>,
    pub job_kind: Option<&'a str>,
    /// Least coverage of a window that it is made of, a plan parameter.
    pub min_coverage: Decimal,
    /// Least held GPU-time in it, µs, a plan parameter.
    pub thin_held_us: u64,
    /// As in a [`UsageQuery`](super::UsageQuery), so that both are told of the same snapshots; a plan parameter.
    pub hard_stale_ms: u64,
    pub now: Timestamp,
}

/// Shares of 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forecast {
    pub expected: Decimal,
    /// p25 and p75 of the observed time; `None` where no histogram tells.
    pub band: Option<(Decimal, Decimal)>,
    /// Where GPM is measured, the metric that limits: `sm_util`, `dram_active` or `tensor_active`; else `gpu_util`.
    pub metric: &'static str,
    pub basis: Basis,
}

/// What a forecast is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basis {
    pub scope: BasisScope,
    pub window: Window,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BasisScope {
    /// The tenant's jobs of this kind.
    JobKind,
    /// All of the tenant's, of this model where it holds any.
    Tenant,
}

impl Basis {
    /// `tenant_7d`, `job_kind_30d`
    pub fn name(self) -> String {
        let scope = match self.scope {
            BasisScope::JobKind => "job_kind",
            BasisScope::Tenant => "tenant",
        };
        format!("{scope}_{}", self.window.as_str())
    }
}

impl Mirror {
    /// The narrowest and most usual basis that holds enough: the job kind's week, its month, then the tenant's. `None` where
    /// nothing does, or where a device's 0 contradicts its power and clocks.
    pub fn forecast(&self, query: &ForecastQuery<'_>) -> Option<Forecast> {
        forecast(&*self.tenant(query.tenant)?, query, |held| !self.is_expired(held, query.now))
    }
}

/// Of one tenant.
pub(super) fn forecast(
    tenant: &Tenant,
    query: &ForecastQuery<'_>,
    is_kept: impl Fn(&Held) -> bool,
) -> Option<Forecast> {
    let live: Vec<_> = tenant.live(is_kept).cloned().collect();
    let of = |model: &&str| live.iter().any(|held| held.snapshot.gpu_model == *model);
    let was_held = |model: &&str| live.is_empty() && tenant.roll_ups.contains_key(*model);
    let gpu_model = query.gpu_model.filter(|model| of(model) || was_held(model));
    let is_asked = |held: &Arc<Held>| gpu_model.is_none_or(|asked| asked == held.snapshot.gpu_model);
    let live = live.into_iter().filter(is_asked).collect();
    let held = merge::freshest(live, query.hard_stale_ms, query.now);
    let known = Known { tenant, gpu_model, held, now: query.now };
    let enough = Enough { min_coverage: query.min_coverage, thin_held_us: query.thin_held_us };
    BASES.into_iter().find_map(|basis| match (basis.scope, query.job_kind) {
        (BasisScope::Tenant, _) => known.forecast(basis, None, enough),
        (BasisScope::JobKind, Some(kind)) => known.forecast(basis, Some(kind), enough),
        (BasisScope::JobKind, None) => None,
    })
}

/// What is rolled up of one model or all, of one kind of jobs or all.
fn windows<'a>(
    tenant: &'a Tenant,
    gpu_model: Option<&'a str>,
    kind: Option<&'a str>,
) -> impl Iterator<Item = &'a Windows> {
    let of_model = tenant.roll_ups.iter().filter(move |(model, _)| gpu_model.is_none_or(|asked| asked == &***model));
    of_model.filter_map(move |(_, roll_up)| kind.map_or_else(|| Some(roll_up.total()), |kind| roll_up.kind(kind)))
}

/// What is known of the GPUs that are asked about.
struct Known<'a> {
    tenant: &'a Tenant,
    gpu_model: Option<&'a str>,
    held: Vec<Arc<Held>>,
    now: Timestamp,
}

impl Known<'_> {
    fn forecast(&self, basis: Basis, kind: Option<&str>, enough: Enough) -> Option<Forecast> {
        let is_of_kind = |held: &&Arc<Held>| kind.is_none() || kind == held.snapshot.job.as_deref().map(job_kind);
        let held: Vec<_> = self.held.iter().filter(is_of_kind).cloned().collect();
        let stat = |metric: Metric, statistic: &str| {
            let rolled = self.rolled(metric, basis.window, kind);
            merge::stat(&held, &key(metric, statistic, basis.window), Some(&rolled))
        };
        let Effective { value, metric, .. } = effective(|metric| part(&stat(metric, "mean")?), enough)?;
        let quartile = |statistic| Some(scaled_to_peak(metric, stat(metric, statistic)?.stat.value));
        // A snapshot that brings the window itself brings no quartiles; nor are those of the rest those of all.
        let is_brought = held.iter().any(|held| held.snapshot.metric(basis.window, metric.name()).is_some());
        let band = if is_brought { None } else { quartile("p25").zip(quartile("p75")) };
        Some(Forecast { expected: value, band, metric: metric.name(), basis })
    }

    fn rolled(&self, metric: Metric, window: Window, kind: Option<&str>) -> Merged {
        let mut sum = Merged::default();
        for windows in windows(self.tenant, self.gpu_model, kind) {
            windows.add_to(&mut sum, metric.name(), window, self.now);
        }
        sum
    }
}

fn key(metric: Metric, statistic: &str, window: Window) -> StatKey {
    StatKey { metric: metric.name().to_owned(), statistic: statistic.to_owned(), window }
}

/// `None` for what contradicts power and clocks: it is no expectation.
fn part(observed: &ObservedStat) -> Option<Part> {
    let ObservedStat { stat, held_us, quality } = observed;
    (*quality == StatQuality::Ok).then_some(Part { mean: stat.value, held_us: *held_us, coverage: stat.coverage })
}
