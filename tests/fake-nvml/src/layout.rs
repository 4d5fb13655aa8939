//! The structures of the C header, written down from it and not from the wrapper's bindings, with their sizes.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

/// `nvmlMemory_t`.
#[repr(C)]
pub(crate) struct Memory {
    pub(crate) total: c_ulonglong,
    pub(crate) free: c_ulonglong,
    pub(crate) used: c_ulonglong,
}

/// `nvmlMemory_v2_t`. `used` does not include `reserved`.
#[repr(C)]
pub(crate) struct MemoryV2 {
    pub(crate) version: c_uint,
    pub(crate) total: c_ulonglong,
    pub(crate) reserved: c_ulonglong,
    pub(crate) free: c_ulonglong,
    pub(crate) used: c_ulonglong,
}

/// `nvmlProcessInfo_t`.
#[repr(C)]
pub(crate) struct ProcessInfo {
    pub(crate) pid: c_uint,
    pub(crate) used_gpu_memory: c_ulonglong,
    pub(crate) gpu_instance: c_uint,
    pub(crate) compute_instance: c_uint,
}

/// `nvmlUtilization_t`.
#[repr(C)]
pub(crate) struct Rates {
    pub(crate) gpu: c_uint,
    pub(crate) memory: c_uint,
}

/// `nvmlSample_t`.
#[repr(C)]
pub(crate) struct Sample {
    pub(crate) time_stamp: c_ulonglong,
    pub(crate) value: c_ulonglong,
}

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
pub(crate) struct ProcessSample {
    pub(crate) pid: c_uint,
    pub(crate) time_stamp: c_ulonglong,
    pub(crate) sm_util: c_uint,
    pub(crate) mem_util: c_uint,
    pub(crate) enc_util: c_uint,
    pub(crate) dec_util: c_uint,
}

/// `nvmlFieldValue_t`.
#[repr(C)]
pub(crate) struct FieldValue {
    pub(crate) field_id: c_uint,
    pub(crate) scope_id: c_uint,
    pub(crate) timestamp: i64,
    pub(crate) latency_us: i64,
    pub(crate) value_type: c_uint,
    pub(crate) nvml_return: c_uint,
    pub(crate) value: c_ulonglong,
}

/// `nvmlDeviceAttributes_t`.
#[repr(C)]
pub(crate) struct Attributes {
    pub(crate) multiprocessors: c_uint,
    pub(crate) engines: [c_uint; 5],
    pub(crate) gpu_instance_slices: c_uint,
    pub(crate) compute_instance_slices: c_uint,
    pub(crate) memory_mb: c_ulonglong,
}

/// `nvmlEventData_t`.
#[repr(C)]
pub(crate) struct EventData {
    pub(crate) device: usize,
    pub(crate) event_type: c_ulonglong,
    pub(crate) event_data: c_ulonglong,
    pub(crate) gpu_instance: c_uint,
    pub(crate) compute_instance: c_uint,
}

/// `nvmlGpmSupport_t`.
#[repr(C)]
pub(crate) struct GpmSupport {
    pub(crate) version: c_uint,
    pub(crate) is_supported: c_uint,
}

/// `nvmlGpmMetric_t`.
#[repr(C)]
pub(crate) struct GpmMetric {
    pub(crate) id: c_uint,
    pub(crate) nvml_return: c_uint,
    pub(crate) value: f64,
    pub(crate) names: [*const c_char; 3],
}

/// `nvmlGpmMetricsGet_t`.
#[repr(C)]
pub(crate) struct GpmMetricsGet {
    pub(crate) version: c_uint,
    pub(crate) count: c_uint,
    pub(crate) samples: [usize; 2],
    pub(crate) metrics: [GpmMetric; 210],
}

const _: () = {
    assert!(size_of::<Memory>() == 24);
    assert!(size_of::<MemoryV2>() == 40);
    assert!(size_of::<ProcessInfo>() == 24);
    assert!(size_of::<Rates>() == 8);
    assert!(size_of::<Sample>() == 16);
    assert!(size_of::<ProcessSample>() == 32);
    assert!(size_of::<FieldValue>() == 40);
    assert!(size_of::<Attributes>() == 40);
    assert!(size_of::<EventData>() == 32);
    assert!(size_of::<GpmSupport>() == 8);
    assert!(size_of::<GpmMetric>() == 40);
    assert!(size_of::<GpmMetricsGet>() == 8_424);
    assert!(size_of::<c_int>() == 4);
};
