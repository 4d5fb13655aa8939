//! The functions of the C interface that the agent and its wrapper call.
#![expect(
    unsafe_code,
    unreachable_pub,
    reason = "exported under the names of the C header; every pointer is the caller's promise, as with the driver's library"
)]

mod devices;
mod events;
mod gpm;
mod instances;
mod processes;
mod samples;
mod system;

use std::ffi::{c_char, c_uint};

use crate::state::{Answer, INSUFFICIENT_SIZE, INVALID_ARGUMENT};

/// Writes where the caller said.
fn put<T>(place: *mut T, value: T) -> Answer {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: the caller gives a place for one `T`, as the header asks.
    unsafe { place.write(value) };
    Ok(())
}

/// Writes a list as the header's lists work: `count` says how much fits, and is told how much there is.
fn put_list<T>(count: *mut c_uint, place: *mut T, list: Vec<T>) -> Answer {
    if count.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let there = c_uint::try_from(list.len()).map_err(|_| INVALID_ARGUMENT)?;
    // SAFETY: the caller gives a count, as the header asks.
    let fits = unsafe { count.replace(there) };
    if list.is_empty() {
        return Ok(());
    }
    if fits < there || place.is_null() {
        return Err(INSUFFICIENT_SIZE);
    }
    for (position, item) in list.into_iter().enumerate() {
        // SAFETY: `place` has room for `fits` items, and there are no more than that.
        unsafe { place.add(position).write(item) };
    }
    Ok(())
}

fn put_text(place: *mut c_char, length: c_uint, text: &str) -> Answer {
    let fits = usize::try_from(length).unwrap_or(0);
    if place.is_null() || fits <= text.len() {
        return Err(INSUFFICIENT_SIZE);
    }
    for (position, byte) in text.bytes().chain([0]).enumerate() {
        // SAFETY: `place` has room for `length` characters, and text and NUL are no longer than that.
        unsafe { place.add(position).write(c_char::from_ne_bytes([byte])) };
    }
    Ok(())
}

/// Blank sentinels are given on as they are, cut to the width of the C type.
fn narrow(value: u64) -> c_uint {
    c_uint::try_from(value).unwrap_or(c_uint::MAX)
}
