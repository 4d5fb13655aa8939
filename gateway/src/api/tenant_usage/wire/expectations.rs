//! What utilisation to expect, on the wire.

use farebox_metering::mirror::{Expectation, Forecast, ForecastError};
use serde::Serialize;
use utoipa::ToSchema;

use super::share;

/// Shares of 1 with at most four decimals, rounded half-even.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExpectedUtilisation {
    /// The mean of the basis.
    #[schema(example = "0.82")]
    expected: String,
    /// The 25th percentile of the observed time; `null` where only a snapshot's own window tells.
    #[schema(example = "0.77")]
    low: Option<String>,
    /// The 75th.
    #[schema(example = "0.86")]
    high: Option<String>,
    /// What was measured: the metric that limits, `sm_util`, `dram_active` or `tensor_active`, where the GPUs report them; else
    /// `gpu_util`.
    #[schema(example = "gpu_util")]
    metric: &'static str,
    /// Whose past it is, and how much of it: `job_kind_7d`, `job_kind_30d`, `tenant_7d`, `tenant_30d` or `tenant_24h`.
    #[schema(example = "tenant_7d")]
    basis: String,
}

/// What to expect of the jobs of one kind.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobKindForecast {
    /// `null`: of all jobs.
    #[schema(example = "train-resnet50")]
    job_kind: Option<String>,
    #[serde(flatten)]
    expected: ExpectedUtilisation,
    /// How far off such forecasts have been; `null` where there is no whole day to tell it by.
    error: Option<UtilisationForecastError>,
}

/// Of the last 30 days, those that were forecast by up to seven days before them, held against what they were. Shares of 1.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UtilisationForecastError {
    /// Days that could be told.
    #[schema(example = 12)]
    days: u32,
    /// Mean of |forecast − actual|.
    #[schema(example = "0.0412")]
    mean_absolute: String,
    /// Mean of forecast − actual: above 0, more was forecast than came.
    #[schema(example = "-0.0105")]
    bias: String,
    /// Of these days, those whose mean lay within p25 and p75 of the days before.
    #[schema(example = "0.5833")]
    in_band: String,
}

pub(super) fn expected(forecast: &Forecast) -> ExpectedUtilisation {
    ExpectedUtilisation {
        expected: share(forecast.expected),
        low: forecast.band.map(|(low, _)| share(low)),
        high: forecast.band.map(|(_, high)| share(high)),
        metric: forecast.metric,
        basis: forecast.basis.name(),
    }
}

pub(super) fn job_kind_forecast(expectation: Expectation) -> JobKindForecast {
    let error = |error: ForecastError| UtilisationForecastError {
        days: error.days,
        mean_absolute: share(error.mean_absolute),
        bias: share(error.bias),
        in_band: share(error.in_band),
    };
    JobKindForecast {
        expected: expected(&expectation.forecast),
        error: expectation.error.map(error),
        job_kind: expectation.job_kind,
    }
}
