//! The utilisation to expect, on the wire: of a quote, and of a tenant.

use farebox_metering::mirror::Forecast;
use farebox_pricing::exact;
use rust_decimal::Decimal;
use serde::Serialize;
use utoipa::ToSchema;

/// Decimals of a share: a hundredth of a per cent.
const DECIMALS: u32 = 4;

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

impl ExpectedUtilisation {
    pub(super) fn of(forecast: &Forecast) -> Self {
        let share = |share: Decimal| exact::print(share.round_dp(DECIMALS));
        Self {
            expected: share(forecast.expected),
            low: forecast.band.map(|(low, _)| share(low)),
            high: forecast.band.map(|(_, high)| share(high)),
            metric: forecast.metric,
            basis: forecast.basis.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use farebox_metering::mirror::{Basis, BasisScope};
    use farebox_pricing::usage::Window;
    use serde_json::json;

    use super::*;

    #[test]
    fn shares_have_four_decimals_and_what_is_not_known_is_null() {
        let share = |text: &str| exact::parse(text).unwrap();
        let basis = Basis { scope: BasisScope::Tenant, window: Window::D7 };
        let known = Forecast {
            expected: share("0.82005"),
            band: Some((share("0.770"), share("0.860151"))),
            metric: "gpu_util",
            basis,
        };
        let shown = |forecast: &Forecast| serde_json::to_value(ExpectedUtilisation::of(forecast)).unwrap();
        let expected =
            json!({"expected": "0.82", "low": "0.77", "high": "0.8602", "basis": "tenant_7d", "metric": "gpu_util"});
        assert_eq!(shown(&known), expected);
        let basis = Basis { scope: BasisScope::JobKind, window: Window::D30 };
        let bandless = Forecast { band: None, metric: "dram_active", basis, ..known };
        let expected =
            json!({"expected": "0.82", "low": null, "high": null, "basis": "job_kind_30d", "metric": "dram_active"});
        assert_eq!(shown(&bandless), expected);
    }
}
