//! What watches a guest's memory and tables while it runs.

use wasmtime::ResourceLimiter;

use crate::limits::Limits;

/// Denies growth over the limits, where the guest sees −1 and may go on, always in the same way. Where the host itself
/// has no memory left the call ends instead: pressure on the machine must never change a price.
#[derive(Debug)]
pub(crate) struct Guard {
    limits: Limits,
    memory_bytes: usize,
    table_elements: usize,
    denied: bool,
}

/// The operating system did not give the memory that the limits allow.
#[derive(Debug, thiserror::Error)]
#[error("the host has no memory left for a guest")]
pub(crate) struct HostMemoryExhausted;

impl Guard {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, memory_bytes: 0, table_elements: 0, denied: false }
    }

    /// Starts the count for a new instance.
    pub(crate) fn arm(&mut self) {
        (self.memory_bytes, self.table_elements, self.denied) = (0, 0, false);
    }

    /// Linear memory of the armed instance, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// True if the armed instance asked for more than its limits.
    pub(crate) fn denied(&self) -> bool {
        self.denied
    }

    fn judge(&mut self, total: usize, limit: usize, desired: usize, maximum: Option<usize>) -> bool {
        let granted = total <= limit && maximum.is_none_or(|maximum| desired <= maximum);
        self.denied |= !granted;
        granted
    }
}

impl ResourceLimiter for Guard {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory_bytes.saturating_sub(current).saturating_add(desired);
        let granted = self.judge(total, self.limits.memory_bytes, desired, maximum);
        if granted {
            self.memory_bytes = total;
        }
        Ok(granted)
    }

    // INVARIANT: every limit was checked above, so what fails after that is the host.
    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        Err(HostMemoryExhausted.into())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.table_elements.saturating_sub(current).saturating_add(desired);
        let granted = self.judge(total, self.limits.table_elements, desired, maximum);
        if granted {
            self.table_elements = total;
        }
        Ok(granted)
    }

    // Tables lie in the pool, so only a size that overflows can fail here: a denial like any other.
    fn table_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.denied = true;
        Ok(())
    }
}
