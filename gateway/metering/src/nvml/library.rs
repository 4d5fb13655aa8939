//! The driver's library, opened and initialised; shut down and closed when the last that uses it is done.
#![expect(
    unsafe_code,
    reason = "a library that cannot shut down must not be dropped, which is for its owner to decide"
)]

use std::ffi::OsStr;
use std::mem::ManuallyDrop;
use std::path::Path;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

#[derive(Debug)]
pub(super) struct Library(ManuallyDrop<Nvml>);

impl Library {
    /// `path`: the wrapper's default, `libnvidia-ml.so.1` where the linker finds it, unless told.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, NvmlError> {
        let mut builder = Nvml::builder();
        if let Some(path) = path {
            builder.lib_path(OsStr::new(path));
        }
        Ok(Self(ManuallyDrop::new(builder.init()?)))
    }

    pub(super) fn nvml(&self) -> &Nvml {
        &self.0
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // The wrapper's own `drop` panics without this symbol, and its `shutdown` ends in that `drop` where it fails. Then the
        // library stays loaded and initialised, once more with each session.
        if self.0.lib().nvmlShutdown.is_err() {
            tracing::warn!("the NVML library has no `nvmlShutdown`; it stays loaded");
            return;
        }
        // SAFETY: nothing uses the field after its owner's `drop`.
        let nvml = unsafe { ManuallyDrop::take(&mut self.0) };
        if let Err(error) = nvml.shutdown() {
            tracing::debug!(%error, "the NVML library did not shut down");
        }
    }
}

/// The wrapper's structures against the C header, whatever bindings it was built with.
const _: () = {
    const fn size_behind<D, T, E>(_: fn(&Nvml) -> &Result<unsafe extern "C" fn(D, *mut T) -> u32, E>) -> usize {
        size_of::<T>()
    }
    const fn size_of_one<T, E>(_: fn(&Nvml) -> &Result<unsafe extern "C" fn(*mut T) -> u32, E>) -> usize {
        size_of::<T>()
    }
    const fn size_of_item<D, C, T, E>(
        _: fn(&Nvml) -> &Result<unsafe extern "C" fn(D, *mut C, *mut T) -> u32, E>,
    ) -> usize {
        size_of::<T>()
    }
    assert!(size_behind(|nvml| &nvml.lib().nvmlDeviceGetMemoryInfo_v2) == 40, "nvmlMemory_v2_t");
    assert!(size_behind(|nvml| &nvml.lib().nvmlDeviceGetUtilizationRates) == 8, "nvmlUtilization_t");
    assert!(size_behind(|nvml| &nvml.lib().nvmlDeviceGetAttributes_v2) == 40, "nvmlDeviceAttributes_t");
    assert!(size_of_item(|nvml| &nvml.lib().nvmlDeviceGetComputeRunningProcesses_v3) == 24, "nvmlProcessInfo_t");
    assert!(size_of_one(|nvml| &nvml.lib().nvmlGpmMetricsGet) == 8_424, "nvmlGpmMetricsGet_t");
};
