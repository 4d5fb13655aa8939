//! GPU and memory utilisation: from the driver's sample buffers, each row once, or where it keeps none from the rate of now.

use nvml_wrapper::Device;

use super::asking::{Asking, Field};
use super::raw::{self, Buffer};
use super::sieve::Intake;
use crate::clock::Now;
use crate::tick::{Metric, Reading};

/// Passes without a new row after which a buffer is taken to be dead: the rate is asked instead, until rows come again.
const DRY_PASSES: u32 = 10;

/// The time that a pass tells of, on the wall clock, by which the driver dates its rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    now_us: i64,
    /// Back to the last pass, and at least two ticks.
    length_us: i64,
    /// How far a row may lie ahead of the pass: its clock and this one are read at different moments.
    ahead_us: i64,
}

impl Span {
    pub(super) fn new(now: Now, last_mono_us: Option<u64>, tick_us: u64) -> Self {
        let two_ticks = tick_us.saturating_mul(2);
        let passed = last_mono_us.map_or(0, |last| now.mono_us.saturating_sub(last));
        let signed = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
        Self { now_us: now.wall_us, length_us: signed(passed.max(two_ticks)), ahead_us: signed(two_ticks) }
    }

    /// What is new is later than this: the last row seen, or the span's beginning. A last row in the future was dated by a clock
    /// that has been set back since; what it knew is forgotten.
    pub(super) fn since(&self, last_seen_us: &mut u64) -> u64 {
        if !self.is_past_or_now(*last_seen_us) {
            *last_seen_us = 0;
        }
        let beginning = u64::try_from(self.now_us.saturating_sub(self.length_us)).unwrap_or(0);
        beginning.max(*last_seen_us)
    }

    pub(super) fn holds(&self, at_us: u64) -> bool {
        self.is_past_or_now(at_us) && self.ago(at_us) <= self.length_us
    }

    /// Rows of after the pass's moment, taken while it went on, belong to the next one.
    fn has_come(&self, at_us: u64) -> bool {
        i64::try_from(at_us).is_ok_and(|at_us| at_us <= self.now_us)
    }

    fn is_past_or_now(&self, at_us: u64) -> bool {
        i64::try_from(at_us).is_ok_and(|at_us| at_us <= self.now_us.saturating_add(self.ahead_us))
    }

    fn ago(&self, at_us: u64) -> i64 {
        self.now_us.saturating_sub(i64::try_from(at_us).unwrap_or(i64::MAX)).max(0)
    }
}

/// What is known of one buffer of one device.
#[derive(Debug, Default)]
pub(super) struct Seen {
    last_us: u64,
    dry_passes: u32,
}

#[derive(Debug, Default)]
pub(super) struct Buffers {
    gpu: Seen,
    memory: Seen,
}

pub(super) fn read(
    asking: &mut Asking<'_>,
    device: &Device<'_>,
    buffers: &mut Buffers,
    span: Span,
    intake: Intake<'_>,
) {
    let kinds = [
        (Field::GpuSamples, Buffer::Gpu, Metric::GpuUtil, &mut buffers.gpu),
        (Field::MemSamples, Buffer::Memory, Metric::MemUtil, &mut buffers.memory),
    ];
    let mut without_rows = Vec::new();
    for (field, buffer, metric, seen) in kinds {
        let since = span.since(&mut seen.last_us);
        let mut rows = asking.ask(field, || raw::samples(device, buffer, since)).unwrap_or_default();
        // A ring buffer's rows need not come in their order, and some drivers repeat what was seen.
        rows.retain(|(at_us, _)| *at_us > since && span.holds(*at_us) && span.has_come(*at_us));
        rows.sort_by_key(|(at_us, _)| *at_us);
        rows.dedup_by_key(|(at_us, _)| *at_us);
        seen.last_us = rows.last().map_or(seen.last_us, |(at_us, _)| *at_us);
        seen.dry_passes = if rows.is_empty() { seen.dry_passes.saturating_add(1) } else { 0 };
        for (at_us, number) in rows {
            let ago_us = u32::try_from(span.ago(at_us)).unwrap_or(u32::MAX);
            if let Some(value) = intake.sieve.share(number.map_or(f64::NAN, raw::Number::real)) {
                intake.readings.0.entry(metric).or_default().push(Reading { ago_us, value });
            }
        }
        if asking.is_refused(field) || seen.dry_passes >= DRY_PASSES {
            without_rows.push(metric);
        }
    }
    if without_rows.is_empty() {
        return;
    }
    if let Some(rates) = asking.ask(Field::Rates, || device.utilization_rates()) {
        for metric in without_rows {
            let percent = if metric == Metric::GpuUtil { rates.gpu } else { rates.memory };
            if let Some(value) = intake.sieve.share(percent.into()) {
                intake.readings.push(metric, value);
            }
        }
    }
}
