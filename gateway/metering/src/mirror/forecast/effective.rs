//! Effective utilisation: one number for how much of what a GPU can give was used.

use farebox_pricing::usage::UsageRules;
use rust_decimal::Decimal;

use crate::tick::Metric;

/// Share of its time in which device memory can move data at most: refreshes and turning from reads to writes take the rest.
/// DCGM's manual on `DCGM_FI_PROF_DRAM_ACTIVE`: "in practice a peak of ~0.8 (80%) is the maximum achievable".
pub const DRAM_PEAK: Decimal = Decimal::from_parts(8, 0, 0, false, 1);
/// Share of its time in which the tensor pipes can be busy at most, as dense matrix products of a good size are seen to.
pub const TENSOR_PEAK: Decimal = Decimal::from_parts(93, 0, 0, false, 2);
/// A multiprocessor can always have a warp.
const SM_PEAK: Decimal = Decimal::ONE;
/// What GPM measures, with the peak that can be reached. Where two limit alike, the first is named.
const GPM: [(Metric, Decimal); 3] =
    [(Metric::SmUtil, SM_PEAK), (Metric::DramActive, DRAM_PEAK), (Metric::TensorActive, TENSOR_PEAK)];
/// Of a value that does not come out even.
const DECIMALS: u32 = 12;

/// What there is of one metric over some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) mean: Decimal,
    /// Held GPU-time, µs.
    pub(super) held_us: u64,
    /// Observed ÷ held, 0 to 1.
    pub(super) coverage: Decimal,
}

/// How little is too little.
#[derive(Clone, Copy, Debug)]
pub(super) struct Enough {
    pub(super) min_coverage: Decimal,
    pub(super) thin_held_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effective {
    /// 0 to 1.
    pub(super) value: Decimal,
    /// The one that limits.
    pub(super) metric: Metric,
    pub(super) held_us: u64,
}

/// Whether GPM or the driver's sampling is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Gpm,
    GpuUtil,
}

impl Enough {
    /// What a price asks for unless its plan says otherwise.
    pub(super) fn standard() -> Self {
        let UsageRules { min_coverage, thin_held_us, .. } = UsageRules::default();
        Self { min_coverage, thin_held_us }
    }

    fn of(self, part: &Part) -> bool {
        part.held_us >= self.thin_held_us && part.coverage >= self.min_coverage
    }
}

/// max(SM, DRAM ÷ 0.8, tensor ÷ 0.93), at most 1, where GPM measures; else `gpu_util`. `None` where there is not enough.
pub(super) fn effective(of: impl Fn(Metric) -> Option<Part>, enough: Enough) -> Option<Effective> {
    by(Source::Gpm, &of, enough).or_else(|| by(Source::GpuUtil, &of, enough))
}

/// By one source only, so that two times are told of alike.
///
/// GPM tells where it measures multiprocessors for as good as all that was held: of a tenant that holds an H100 beside ten A100, it
/// would tell of the one.
pub(super) fn by(source: Source, of: impl Fn(Metric) -> Option<Part>, enough: Enough) -> Option<Effective> {
    let device = of(Metric::GpuUtil);
    if source == Source::GpuUtil {
        let Part { mean, held_us, .. } = device.filter(|part| enough.of(part))?;
        return Some(Effective { value: mean.min(Decimal::ONE), metric: Metric::GpuUtil, held_us });
    }
    let held_us = of(Metric::SmUtil).filter(|part| enough.of(part))?.held_us;
    let needed_us = device.map_or(Decimal::ZERO, |device| Decimal::from(device.held_us) * enough.min_coverage);
    if Decimal::from(held_us) < needed_us {
        return None;
    }
    let limits = GPM.into_iter().filter_map(|(metric, peak)| {
        let part = of(metric).filter(|part| enough.of(part))?;
        Some((metric, share_of_peak(part.mean, peak)))
    });
    let (metric, value) = limits.reduce(|most, next| if next.1 > most.1 { next } else { most })?;
    Some(Effective { value, metric, held_us })
}

/// A value of a metric as a share of what that can reach.
pub(super) fn scaled_to_peak(metric: Metric, value: Decimal) -> Decimal {
    let peak = GPM.into_iter().find(|(of, _)| *of == metric).map_or(Decimal::ONE, |(_, peak)| peak);
    share_of_peak(value, peak)
}

fn share_of_peak(value: Decimal, peak: Decimal) -> Decimal {
    // INVARIANT: no peak is 0. Rounds half-even.
    let share = value.checked_div(peak).unwrap_or(Decimal::ONE).round_dp(DECIMALS);
    share.min(Decimal::ONE).normalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::decimal;

    const HOUR_US: u64 = 3_600_000_000;

    fn enough() -> Enough {
        Enough::standard()
    }

    fn part(mean: &str) -> Part {
        Part { mean: decimal(mean), held_us: HOUR_US, coverage: decimal("0.8") }
    }

    fn of(parts: &[(Metric, Part)]) -> Option<(String, &'static str)> {
        let found = |metric| parts.iter().find(|(of, _)| *of == metric).map(|(_, part)| *part);
        effective(found, enough()).map(|effective| (effective.value.to_string(), effective.metric.name()))
    }

    #[test]
    fn the_metric_nearest_to_its_peak_limits() {
        use Metric::{DramActive, GpuUtil, SmUtil, TensorActive};
        let shown = |sm: &str, dram: &str, tensor: &str| {
            let parts = [(SmUtil, sm), (DramActive, dram), (TensorActive, tensor), (GpuUtil, "0.99")];
            of(&parts.map(|(metric, mean)| (metric, part(mean)))).unwrap()
        };
        let expected = |value: &str, metric: &'static str| (value.to_owned(), metric);
        assert_eq!(shown("0.7", "0.1", "0.2"), expected("0.7", "sm_util"));
        assert_eq!(shown("0.7", "0.6", "0.2"), expected("0.75", "dram_active"));
        assert_eq!(shown("0.5", "0.1", "0.62"), expected("0.666666666667", "tensor_active"), "two thirds, rounded");
        assert_eq!(shown("0.75", "0.6", "0.6975"), expected("0.75", "sm_util"), "three alike: the first");
        assert_eq!(shown("0.9", "0.81", "0"), expected("1", "dram_active"), "over its peak is at it");
        assert_eq!(shown("0", "0", "0"), expected("0", "sm_util"), "idle is measured, and gpu_util not asked");
    }

    #[test]
    fn without_gpm_it_is_gpu_util_and_without_enough_nothing() {
        use Metric::{DramActive, GpuUtil, SmUtil};
        let gpu = Some(("0.82".to_owned(), "gpu_util"));
        let device = (GpuUtil, part("0.82"));
        assert_eq!(of(&[device]), gpu);
        assert_eq!(of(&[device, (DramActive, part("0.8"))]), gpu, "memory alone says nothing of the multiprocessors");
        let thin = Part { held_us: HOUR_US - 1, ..part("0.5") };
        let sparse = Part { coverage: decimal("0.7999"), ..part("0.5") };
        for too_little in [thin, sparse] {
            assert_eq!(of(&[device, (SmUtil, too_little)]), gpu);
            assert_eq!(of(&[(GpuUtil, too_little)]), None);
            let limited = of(&[(SmUtil, part("0.3")), (DramActive, too_little)]);
            assert_eq!(limited, Some(("0.3".to_owned(), "sm_util")), "what is too little does not limit");
        }
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(SmUtil, part("0.4"))]), Some(("0.4".to_owned(), "sm_util")), "MIG has no gpu_util");
    }

    #[test]
    fn gpm_of_a_part_of_the_gpus_does_not_tell_of_all() {
        let device = (Metric::GpuUtil, Part { held_us: 10 * HOUR_US, ..part("0.82") });
        let gpm = |held_us| (Metric::SmUtil, Part { held_us, ..part("0.5") });
        assert_eq!(of(&[device, gpm(8 * HOUR_US - 1)]).unwrap().1, "gpu_util");
        assert_eq!(of(&[device, gpm(8 * HOUR_US)]).unwrap().1, "sm_util");
    }

    #[test]
    fn a_band_is_scaled_as_its_metric_is() {
        let shown = |metric, value: &str| scaled_to_peak(metric, decimal(value)).to_string();
        assert_eq!(shown(Metric::GpuUtil, "0.81"), "0.81");
        assert_eq!(shown(Metric::SmUtil, "0.81"), "0.81");
        assert_eq!(shown(Metric::DramActive, "0.4"), "0.5");
        assert_eq!(shown(Metric::DramActive, "1"), "1");
        assert_eq!(shown(Metric::TensorActive, "0.93"), "1");
    }
}
