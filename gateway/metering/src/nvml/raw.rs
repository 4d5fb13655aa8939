//! The calls that the wrapper does not have, or in which it loses something or believes the driver's lengths: sample rows of
//! any value type, lists of processes, ids of MIG instances, the whole mask of throttle reasons, events with their instance, field values by position.
#![expect(unsafe_code, reason = "calls of the C interface; each says why it is sound")]

use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::{Device, EventSet, Nvml};

/// More rows than a driver has new ones in two seconds (at most one in 10 ms).
const ROWS: u32 = 256;
/// More than any driver keeps.
const MOST_ROWS: u32 = 16_384;
/// A list may grow between asking for its length and for itself.
const HEADROOM: u32 = 16;

/// `nvmlSample_t`. A row of a sample buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// By the driver's host clock, Unix µs.
    pub(super) at_us: u64,
    bits: u64,
}

/// `nvmlProcessInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListedProcess {
    pub(super) pid: u32,
    /// `NVML_VALUE_NOT_AVAILABLE` where it may not be told.
    pub(super) memory_bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessRow {
    pub(super) pid: u32,
    pub(super) at_us: u64,
    /// Percent.
    pub(super) sm_util: u32,
    others: [u32; 3],
}

/// `nvmlFieldValue_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct FieldValue {
    field_id: u32,
    scope_id: u32,
    timestamp: i64,
    latency_us: i64,
    value_type: u32,
    nvml_return: u32,
    bits: u64,
}

/// `nvmlEventData_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct EventData {
    device: *mut std::ffi::c_void,
    event_type: u64,
    event_data: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

const _: () = {
    assert!(size_of::<Sample>() == 16);
    assert!(size_of::<ListedProcess>() == 24);
    assert!(size_of::<ProcessRow>() == 32);
    assert!(size_of::<FieldValue>() == 40);
    assert!(size_of::<EventData>() == 32);
    assert!(cfg!(target_endian = "little"), "narrow values are taken from the low bytes of the union");
};

#[derive(Clone, Copy, Debug)]
pub(super) enum Buffer {
    Gpu = 1,
    Memory = 2,
}

/// The lists that a process may be in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Listing {
    Compute,
    Graphics,
    Mps,
}

/// A number as the driver typed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Real(f64),
    Whole(i128),
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) uuid: Option<String>,
    /// GPU and compute instance.
    pub(super) instance: Option<(u32, u32)>,
    pub(super) xid: u64,
}

impl Number {
    /// By `nvmlValueType_t`: `double`, `unsigned int`, `unsigned long`, `unsigned long long`, `long long`, `int`, `unsigned
    /// short`. The rest of the union is not the value's.
    #[expect(clippy::cast_possible_truncation, reason = "the value is in the low bytes")]
    pub(super) fn decode(value_type: u32, bits: u64) -> Option<Self> {
        Some(match value_type {
            0 => Self::Real(f64::from_bits(bits)),
            1 => Self::Whole((bits as u32).into()),
            2 | 3 => Self::Whole(bits.into()),
            4 => Self::Whole(bits.cast_signed().into()),
            5 => Self::Whole((bits as u32).cast_signed().into()),
            6 => Self::Whole((bits as u16).into()),
            _ => return None,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "percentages; what is larger than 2^53 is refused anyway")]
    pub(super) fn real(self) -> f64 {
        match self {
            Self::Real(value) => value,
            Self::Whole(value) => value as f64,
        }
    }

    /// A negative number or a fraction is none.
    pub(super) fn whole(self) -> Option<u64> {
        match self {
            Self::Real(_) => None,
            Self::Whole(value) => u64::try_from(value).ok(),
        }
    }
}

/// Rows later than `last_seen_us`, as far as the driver honours that, in its order. `None`: of a type that no header knows.
pub(super) fn samples(
    device: &Device<'_>,
    buffer: Buffer,
    last_seen_us: u64,
) -> Result<Vec<(u64, Option<Number>)>, NvmlError> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetSamples.as_ref())?;
    let mut value_type = 0;
    let rows = list(|count, place: *mut Sample| {
        // SAFETY: `place` has room for `count` rows of the header's layout; all places outlive the call.
        unsafe { call(device.handle(), buffer as u32, last_seen_us, &raw mut value_type, count, place.cast()) }
    })?;
    Ok(rows.into_iter().map(|row| (row.at_us, Number::decode(value_type, row.bits))).collect())
}

/// A list of the header: asked for with room for the usual, and once more where the driver says that there is more. That it
/// has written more than there was room for is not believed. What it left blank is zeros.
fn list<T: Copy + Default>(mut call: impl FnMut(*mut u32, *mut T) -> u32) -> Result<Vec<T>, NvmlError> {
    let mut rows = Vec::new();
    let mut ask = |room: u32| {
        let mut count = room;
        rows.resize(usize::try_from(room).unwrap_or(0), T::default());
        let answer = nvml_try(call(&raw mut count, rows.as_mut_ptr()));
        (answer, count)
    };
    let (answer, told) = match ask(ROWS) {
        (Err(NvmlError::InsufficientSize(_)), told) => ask(told.saturating_add(HEADROOM).clamp(ROWS, MOST_ROWS)),
        asked => asked,
    };
    answer?;
    rows.truncate(usize::try_from(told).unwrap_or(0));
    Ok(rows)
}

pub(super) fn processes(device: &Device<'_>, listing: Listing) -> Result<Vec<ListedProcess>, NvmlError> {
    let lib = device.nvml().lib();
    let call = nvml_sym(match listing {
        Listing::Compute => lib.nvmlDeviceGetComputeRunningProcesses_v3.as_ref(),
        Listing::Graphics => lib.nvmlDeviceGetGraphicsRunningProcesses_v3.as_ref(),
        Listing::Mps => lib.nvmlDeviceGetMPSComputeRunningProcesses_v3.as_ref(),
    })?;
    // SAFETY: `place` has room for `count` processes of the header's layout; both places outlive the call.
    list(|count, place: *mut ListedProcess| unsafe { call(device.handle(), count, place.cast()) })
}

/// Rows later than `last_seen_us`, as far as the driver honours that.
pub(super) fn process_rows(device: &Device<'_>, last_seen_us: u64) -> Result<Vec<ProcessRow>, NvmlError> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetProcessUtilization.as_ref())?;
    // SAFETY: `place` has room for `count` rows of the header's layout; both places outlive the call.
    list(|count, place: *mut ProcessRow| unsafe { call(device.handle(), place.cast(), count, last_seen_us) })
}

/// Of a MIG device: its GPU instance's id and its own.
pub(super) fn instance_ids(device: &Device<'_>) -> Result<(u32, u32), NvmlError> {
    let lib = device.nvml().lib();
    let (gpu, compute) =
        (nvml_sym(lib.nvmlDeviceGetGpuInstanceId.as_ref())?, nvml_sym(lib.nvmlDeviceGetComputeInstanceId.as_ref())?);
    let (mut gpu_instance, mut compute_instance) = (0, 0);
    // SAFETY: the handle is the wrapper's, and the places outlive the calls.
    unsafe {
        nvml_try(gpu(device.handle(), &raw mut gpu_instance))?;
        nvml_try(compute(device.handle(), &raw mut compute_instance))?;
    }
    Ok((gpu_instance, compute_instance))
}

/// All bits, those that the wrapper has no name for as well. Drivers before 535 have only the old name.
pub(super) fn throttle_mask(device: &Device<'_>) -> Result<u64, NvmlError> {
    let lib = device.nvml().lib();
    let mut mask = 0;
    // SAFETY: the handle is the wrapper's, and the place outlives the calls.
    unsafe {
        if let Ok(call) = lib.nvmlDeviceGetCurrentClocksEventReasons.as_ref() {
            match nvml_try(call(device.handle(), &raw mut mask)) {
                Err(NvmlError::FunctionNotFound) => {}
                answer => return answer.map(|()| mask),
            }
        }
        let call = nvml_sym(lib.nvmlDeviceGetCurrentClocksThrottleReasons.as_ref())?;
        nvml_try(call(device.handle(), &raw mut mask))?;
    }
    Ok(mask)
}

/// The values of these fields, in this order: drivers from 580.82 on answer with other ids than they were asked for. `None`
/// where the device does not have one or has it in a type that no header knows.
pub(super) fn field_values<const N: usize>(
    device: &Device<'_>,
    ids: [u32; N],
) -> Result<[Option<Number>; N], NvmlError> {
    let call = nvml_sym(device.nvml().lib().nvmlDeviceGetFieldValues.as_ref())?;
    // The return code of a field that the driver left alone must not read as a success.
    let mut values = ids.map(|field_id| FieldValue { field_id, nvml_return: 999, ..FieldValue::default() });
    // SAFETY: `values` has room for `N` values of the header's layout and outlives the call.
    let code = unsafe { call(device.handle(), i32::try_from(N).unwrap_or(0), values.as_mut_ptr().cast()) };
    nvml_try(code)?;
    Ok(values.map(|value| if value.nvml_return == 0 { Number::decode(value.value_type, value.bits) } else { None }))
}

/// Adds a device's Xid errors to a set. The wrapper's own call loses the set where a device refuses.
pub(super) fn register_xids(device: &Device<'_>, set: &EventSet<'_>) -> Result<(), NvmlError> {
    const XID: u64 = 8;
    let call = nvml_sym(device.nvml().lib().nvmlDeviceRegisterEvents.as_ref())?;
    // SAFETY: both handles are the wrapper's and live.
    nvml_try(unsafe { call(device.handle(), XID, set.handle()) })
}

/// Waits for the next Xid error.
pub(super) fn wait_for_xid(nvml: &Nvml, set: &EventSet<'_>, timeout_ms: u32) -> Result<Event, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlEventSetWait_v2.as_ref())?;
    let mut data = EventData {
        device: std::ptr::null_mut(),
        event_type: 0,
        event_data: 0,
        gpu_instance: u32::MAX,
        compute_instance: u32::MAX,
    };
    // SAFETY: the set is the wrapper's and lives; `data` has the header's layout and outlives the call.
    nvml_try(unsafe { call(set.handle(), (&raw mut data).cast(), timeout_ms) })?;
    // SAFETY: a handle that is not null is one that the driver has just given.
    let device = (!data.device.is_null()).then(|| unsafe { Device::new(data.device.cast(), nvml) });
    let has_instance = data.gpu_instance != u32::MAX && data.compute_instance != u32::MAX;
    Ok(Event {
        uuid: device.and_then(|device| device.uuid().ok()),
        instance: has_instance.then_some((data.gpu_instance, data.compute_instance)),
        xid: data.event_data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_type_are_read_from_their_own_bytes() {
        let noise = 0xdead_beef_0000_0000;
        assert_eq!(Number::decode(0, 37.5_f64.to_bits()), Some(Number::Real(37.5)));
        assert_eq!(Number::decode(1, noise | 7), Some(Number::Whole(7)));
        assert_eq!(Number::decode(2, 1 << 40), Some(Number::Whole(1 << 40)));
        assert_eq!(Number::decode(3, u64::MAX), Some(Number::Whole(u64::MAX.into())));
        assert_eq!(Number::decode(4, u64::MAX), Some(Number::Whole(-1)));
        assert_eq!(Number::decode(5, noise | 0xffff_fffe), Some(Number::Whole(-2)));
        assert_eq!(Number::decode(6, noise | 0xabcd_0009), Some(Number::Whole(9)));
        assert_eq!(Number::decode(7, 0), None);
        assert_eq!(
            [Number::Whole(-2).whole(), Number::Real(1.0).whole(), Number::Whole(5).whole()],
            [None, None, Some(5)]
        );
        assert!((Number::Whole(42).real() - 42.0).abs() < f64::EPSILON);
    }
}
