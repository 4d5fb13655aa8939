//! What utilisation to expect: effective utilisation by tenant, GPU model and job kind, with its band, and how far off such
//! expectations have been.

use farebox_pricing::usage::Window;
use jiff::Timestamp;
use rust_decimal::Decimal;

use super::Mirror;

/// Of whose GPUs to tell.
#[derive(Clone, Copy, Debug)]
pub struct ForecastQuery<'a> {
    pub tenant: &'a str,
    /// `None`: of all of the tenant's.
    pub gpu_model: Option<&'a str>,
    pub job_kind: Option<&'a str>,
    /// Least coverage of a window that it is made of, a plan parameter.
    pub min_coverage: Decimal,
    /// Least held GPU-time in it, µs, a plan parameter.
    pub thin_held_us: u64,
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

impl Mirror {
    /// The narrowest and most usual basis that holds enough: the job kind's week, its month, then the tenant's. `None` where
    /// nothing does.
    pub fn forecast(&self, _query: &ForecastQuery<'_>) -> Option<Forecast> {
        None
    }
}
