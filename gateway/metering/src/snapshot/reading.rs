//! Numbers of a snapshot: which are values, which are blanks, which are wrong.

use farebox_pricing::exact;
use rust_decimal::Decimal;
use serde_json::Value;

use super::{MAX_COUNTER, ViolationCode};

/// What NVML and drivers write into a 32-bit field that they cannot fill.
const BLANK_U32: u64 = 0xFFFF_FFFF;
/// No reading reaches this (10¹⁵ bytes are a petabyte); 2⁶³ − 1, 2⁶⁴ − 1 and 9.22e18 do.
const TOO_LARGE: u64 = 1_000_000_000_000_000;
/// Shares up to 1.01 are roundings of 1.
const LARGEST_ROUNDED_SHARE: Decimal = Decimal::from_parts(101, 0, 0, false, 2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadingKind {
    /// A utilisation or coverage, 0 to 1.
    Share,
    /// Bytes, watts, megahertz …
    Quantity,
}

impl ReadingKind {
    /// By the metric's name, as NVML and DCGM name shares of time.
    pub(super) fn of(metric: &str) -> Self {
        let is_share = ["_util", "_active", "_occupancy"].iter().any(|suffix| metric.ends_with(suffix));
        if is_share { Self::Share } else { Self::Quantity }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Measured(Decimal),
    /// Cannot be a reading: as if the device had not reported it.
    Blank,
}

pub(super) type NumberError = (ViolationCode, String);

/// Reads a statistic. Nothing is clamped into a price except a rounding of 1 (`metering.md` case 2).
pub(super) fn reading(sent: &Value, kind: ReadingKind) -> Result<Reading, NumberError> {
    let text = number_text(sent)?;
    let value = match exact::parse(&text) {
        Ok(value) => value,
        // The float decides only that this is no reading; it never becomes a value.
        Err(_) if text.parse::<f64>().is_ok_and(|float| !float.is_finite() || float >= TOO_LARGE as f64) => {
            return Ok(Reading::Blank);
        }
        Err(error) => return Err((ViolationCode::InvalidNumber, error.to_string())),
    };
    if value < Decimal::ZERO {
        return Err((
            ViolationCode::OutOfRange,
            format!("`{}` is negative; leave out what was not read", exact::print(value)),
        ));
    }
    Ok(match kind {
        ReadingKind::Share if value > LARGEST_ROUNDED_SHARE => Reading::Blank,
        ReadingKind::Share => Reading::Measured(value.min(Decimal::ONE)),
        ReadingKind::Quantity if value >= TOO_LARGE.into() || value == BLANK_U32.into() => Reading::Blank,
        ReadingKind::Quantity => Reading::Measured(value),
    })
}

/// Reads a device's share of 1, above 0.
pub(super) fn share(sent: &Value) -> Result<Decimal, NumberError> {
    let text = number_text(sent)?;
    let value = exact::parse(&text).map_err(|error| (ViolationCode::InvalidNumber, error.to_string()))?;
    if value > Decimal::ZERO && value <= Decimal::ONE {
        return Ok(value);
    }
    Err((ViolationCode::OutOfRange, format!("`{}` is not a share above 0 and at most 1", exact::print(value))))
}

/// Reads a counter of µs or mJ; `None` where it is larger than any counter gets, so a blank sentinel.
pub(super) fn counter(sent: &Value) -> Result<Option<u64>, NumberError> {
    let text = number_text(sent)?;
    let is_whole = !text.is_empty() && text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_whole {
        return Err((ViolationCode::InvalidNumber, "is not a whole number from 0 to 10¹⁸".to_owned()));
    }
    Ok(text.parse().ok().filter(|counted| *counted <= MAX_COUNTER))
}

/// The digits as they were sent: numbers keep their text, so nothing passes through a float.
fn number_text(sent: &Value) -> Result<String, NumberError> {
    match sent {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            Err((ViolationCode::InvalidNumber, "is neither a number nor a string".to_owned()))
        }
    }
}
