//! GPM: what two samples, one pass apart, say of the time between them.
#![expect(unsafe_code, reason = "a sample is kept between passes, which the wrapper's lifetimes do not allow")]

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use nvml_wrapper::GpmSample;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;

use super::asking::{Asking, Field};
use super::library::Library;
use super::sieve::Intake;
use crate::tick::Metric;

const METRICS: [(GpmMetricId, Metric); 4] = [
    (GpmMetricId::SmUtil, Metric::SmUtil),
    (GpmMetricId::SmOccupancy, Metric::SmOccupancy),
    (GpmMetricId::AnyTensorUtil, Metric::TensorActive),
    (GpmMetricId::DramBwUtil, Metric::DramActive),
];

/// The last pass's sample. Freed with its owner, before the library is.
#[derive(Debug)]
pub(super) struct Held {
    library: Arc<Library>,
    handle: *mut c_void,
}

// SAFETY: NVML is thread-safe, and a sample is used by its owner only.
unsafe impl Send for Held {}

impl Held {
    pub(super) fn new(library: &Arc<Library>, sample: GpmSample<'_>) -> Self {
        Self { library: Arc::clone(library), handle: sample.into_handle().cast() }
    }

    /// For the library that it was held of; of another one it is freed here.
    pub(super) fn release<'l>(mut self, library: &'l Library) -> Option<GpmSample<'l>> {
        if !ptr::eq(&raw const *self.library, library) {
            return None;
        }
        let handle = std::mem::replace(&mut self.handle, ptr::null_mut());
        // SAFETY: the handle came out of a sample by `into_handle`, and this owner has just forgotten it.
        Some(unsafe { GpmSample::from_handle(library.nvml(), handle.cast()) })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle came out of a sample by `into_handle`; this is its only owner, at its end.
            drop(unsafe { GpmSample::from_handle(self.library.nvml(), self.handle.cast()) });
        }
    }
}

/// The wrapper frees samples when it drops them, and panics where it cannot.
pub(super) fn is_usable(library: &Library) -> bool {
    library.nvml().lib().nvmlGpmSampleFree.is_ok()
}

/// Takes a sample and says what happened since the one before. After a pass without one, there is none to compare with.
pub(super) fn read<'l>(
    asking: &mut Asking<'_>,
    library: &'l Arc<Library>,
    held: &mut Option<Held>,
    take: impl FnOnce() -> Result<GpmSample<'l>, NvmlError>,
    intake: Intake<'_>,
) {
    let before = held.take().and_then(|held| held.release(library));
    let Some(now) = asking.ask(Field::GpmSample, take) else { return };
    if let Some(before) = before {
        let ids = METRICS.map(|(id, _)| id);
        let answers = asking.ask(Field::GpmMetrics, || gpm_metrics_get(library.nvml(), &before, &now, &ids));
        for ((_, metric), answer) in METRICS.iter().zip(answers.unwrap_or_default()) {
            // A metric that this device lacks is absent.
            if let Some(value) = answer.ok().and_then(|answer| intake.sieve.share(answer.value)) {
                intake.readings.push(*metric, value);
            }
        }
    }
    *held = Some(Held::new(library, now));
}
