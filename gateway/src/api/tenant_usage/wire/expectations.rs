//! What utilisation to expect, on the wire.

use farebox_metering::mirror::{Expectation, ForecastError};
use serde::Serialize;
use utoipa::ToSchema;

use super::share;
use crate::api::effective_utilisation::ExpectedUtilisation;

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

pub(super) fn job_kind_forecast(expectation: Expectation) -> JobKindForecast {
    let error = |error: ForecastError| UtilisationForecastError {
        days: error.days,
        mean_absolute: share(error.mean_absolute),
        bias: share(error.bias),
        in_band: share(error.in_band),
    };
    JobKindForecast {
        expected: ExpectedUtilisation::of(&expectation.forecast),
        error: expectation.error.map(error),
        job_kind: expectation.job_kind,
    }
}
