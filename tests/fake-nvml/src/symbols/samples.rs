//! The driver's sample buffers.

use std::ffi::{c_uint, c_ulonglong};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{put, put_list};
use crate::layout::Sample;
use crate::scenario::{Row, Samples};
use crate::state::{Answer, Call, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, answer};

/// As many rows as a driver keeps.
const KEPT: i64 = 120;

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetSamples(
    device: usize,
    kind: c_uint,
    last_seen: c_ulonglong,
    value_type: *mut c_uint,
    count: *mut c_uint,
    rows: *mut Sample,
) -> c_uint {
    answer("nvmlDeviceGetSamples", device, |call| {
        let of = call.device(device)?;
        let samples = match kind {
            1 => of.gpu_samples.as_ref(),
            2 => of.memory_samples.as_ref(),
            _ => None,
        };
        let samples = samples.filter(|_| of.mig != Some(true)).ok_or(NOT_SUPPORTED)?;
        give(call, samples, last_seen, Places { value_type, count, rows })
    })
}

/// Where the caller wants its answer.
struct Places {
    value_type: *mut c_uint,
    count: *mut c_uint,
    rows: *mut Sample,
}

fn give(call: &Call, samples: &Samples, last_seen: u64, places: Places) -> Answer {
    let Places { value_type, count, rows: place } = places;
    let (rows, kind, repeats) = match samples {
        Samples::Dated { every_ms, value } => (dated(call, *every_ms, value.whole(call.elapsed_ms)), 1, false),
        Samples::Rows { rows, value_type, repeats } => (rows.clone(), *value_type, *repeats),
    };
    let new: Vec<Sample> = rows
        .into_iter()
        .map(|row| Sample { time_stamp: row.at_us.cast_unsigned(), value: row.value })
        .filter(|row| repeats || row.time_stamp > last_seen)
        .collect();
    if new.is_empty() {
        return Err(NOT_FOUND);
    }
    put(value_type, kind)?;
    // Asking with no place for them is asking how many fit, which succeeds.
    if place.is_null() {
        return put(count, c_uint::try_from(new.len()).map_err(|_| INVALID_ARGUMENT)?);
    }
    put_list(count, place, new)
}

fn dated(call: &Call, every_ms: u64, value: u64) -> Vec<Row> {
    let every_us = i64::try_from(every_ms.max(1)).unwrap_or(1).saturating_mul(1_000);
    let newest = now_us() / every_us;
    let at = |number: i64| number * every_us + call.scenario.sample_clock_offset_us;
    (newest - KEPT + 1..=newest).map(|number| Row { at_us: at(number), value }).collect()
}

/// The machine's clock, as the driver dates its rows.
#[expect(clippy::disallowed_methods, reason = "a driver dates its rows by the machine's clock")]
pub(super) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
