//! The guest's allocator: a bump arena in the module's initial memory.
//!
//! An instance lives for one call, so nothing is ever worth freeing; what a fresh instance costs is page faults and heap
//! growth (SANDBOX.md: 5–6 µs against 12–18 µs). The arena therefore starts inside the memory that an instance is born
//! with, and asks for more only when that is used up. The last block can shrink, grow and go in place, so that a string
//! or a list under construction does not leave its old copies behind.

use std::alloc::Layout;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A run of free memory, as addresses. Atomics because a static must be `Sync`; on wasm32 they are plain loads and stores.
struct Arena {
    next: AtomicUsize,
    end: AtomicUsize,
}

impl Arena {
    const fn new() -> Self {
        Self { next: AtomicUsize::new(0), end: AtomicUsize::new(0) }
    }

    /// The address of a new block, or `None` where neither the arena nor `more` has room. `more(bytes)` gives a fresh run
    /// of at least that size as (start, end).
    fn take(&self, layout: Layout, more: impl FnOnce(usize) -> Option<(usize, usize)>) -> Option<usize> {
        if let Some(block) = self.place(layout) {
            return Some(block);
        }
        let (start, end) = more(layout.size().checked_add(layout.align())?)?;
        // A run that continues this one joins it; the rest of any other is lost.
        if start != self.end.load(Relaxed) {
            self.next.store(start, Relaxed);
        }
        self.end.store(end, Relaxed);
        self.place(layout)
    }

    fn place(&self, layout: Layout) -> Option<usize> {
        let block = self.next.load(Relaxed).checked_next_multiple_of(layout.align())?;
        let next = block.checked_add(layout.size())?;
        if next > self.end.load(Relaxed) {
            return None;
        }
        self.next.store(next, Relaxed);
        Some(block)
    }

    /// Resizes the last block in place; false where `block` is not the last or has no room.
    fn resize(&self, block: usize, old_size: usize, new_size: usize) -> bool {
        let Some(next) = block.checked_add(new_size) else { return false };
        if block + old_size != self.next.load(Relaxed) || next > self.end.load(Relaxed) {
            return false;
        }
        self.next.store(next, Relaxed);
        true
    }
}

#[cfg(target_arch = "wasm32")]
mod global {
    #![expect(unsafe_code, reason = "GlobalAlloc is an unsafe trait: it hands out raw memory")]

    use std::alloc::{GlobalAlloc, Layout};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::Arena;

    /// In the initial memory, after stack and data: what is left of one page by the shipped policies, since each further
    /// page costs a fresh instance about 1 µs. An evaluation of one line takes 2 to 3 KiB; one that takes more grows.
    const INITIAL_BYTES: usize = 6 * 1024;
    const PAGE_BYTES: usize = 64 * 1024;

    #[repr(align(16))]
    struct Initial(#[expect(dead_code, reason = "used by address only")] std::cell::UnsafeCell<[u8; INITIAL_BYTES]>);

    // SAFETY: only its address is taken, and a module without threads has nobody to share it with.
    unsafe impl Sync for Initial {}

    static INITIAL: Initial = Initial(std::cell::UnsafeCell::new([0; INITIAL_BYTES]));
    static INITIAL_USED: AtomicBool = AtomicBool::new(false);

    struct Guest(Arena);

    #[global_allocator]
    static GUEST: Guest = Guest(Arena::new());

    fn more(bytes: usize) -> Option<(usize, usize)> {
        if !INITIAL_USED.swap(true, Relaxed) && bytes <= INITIAL_BYTES {
            let start = (&raw const INITIAL).addr();
            return Some((start, start + INITIAL_BYTES));
        }
        let pages = bytes.div_ceil(PAGE_BYTES);
        let before = core::arch::wasm32::memory_grow::<0>(pages);
        if before == usize::MAX {
            return None;
        }
        let start = before.checked_mul(PAGE_BYTES)?;
        Some((start, start.checked_add(pages * PAGE_BYTES)?))
    }

    // SAFETY: blocks come from the initial arena or from fresh pages, aligned and never overlapping: `next` only moves
    // back over the last block, when that block is freed or shrunk.
    unsafe impl GlobalAlloc for Guest {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            self.0.take(layout, more).map_or(std::ptr::null_mut(), std::ptr::with_exposed_provenance_mut)
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            self.0.resize(block.addr(), layout.size(), 0);
        }

        unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
            if self.0.resize(block.addr(), layout.size(), new_size) {
                return block;
            }
            // SAFETY: the caller vouches that `new_size` with this alignment is a layout.
            let target = unsafe { self.alloc(Layout::from_size_align_unchecked(new_size, layout.align())) };
            if !target.is_null() {
                // SAFETY: both blocks are live, do not overlap, and are at least this long.
                unsafe { std::ptr::copy_nonoverlapping(block, target, layout.size().min(new_size)) };
            }
            target
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    fn none(_: usize) -> Option<(usize, usize)> {
        None
    }

    fn arena(start: usize, end: usize) -> Arena {
        Arena { next: AtomicUsize::new(start), end: AtomicUsize::new(end) }
    }

    #[test]
    fn blocks_are_aligned_disjoint_and_inside() {
        let arena = arena(1, 64);
        assert_eq!(arena.take(layout(1, 1), none), Some(1));
        assert_eq!(arena.take(layout(8, 8), none), Some(8));
        assert_eq!(arena.take(layout(48, 16), none), Some(16));
        assert_eq!(arena.take(layout(1, 1), none), None);
        assert_eq!(arena.take(layout(0, 1), none), Some(64));
    }

    #[test]
    fn only_the_last_block_is_resized_in_place() {
        let arena = arena(0, 100);
        let first = arena.take(layout(10, 1), none).unwrap();
        let second = arena.take(layout(10, 1), none).unwrap();
        assert!(!arena.resize(first, 10, 20));
        assert!(arena.resize(second, 10, 90));
        assert!(!arena.resize(second, 90, 91));
        assert!(!arena.resize(second, 90, usize::MAX));
        assert!(arena.resize(second, 90, 0));
        assert_eq!(arena.take(layout(5, 1), none), Some(second));
    }

    #[test]
    fn more_memory_joins_or_replaces_the_run() {
        let arena = Arena::new();
        assert_eq!(arena.take(layout(8, 8), |bytes| (bytes == 16).then_some((160, 192))), Some(160));
        assert_eq!(arena.take(layout(40, 8), |_| Some((192, 256))), Some(168), "continues the run");
        assert_eq!(arena.take(layout(64, 8), |_| Some((512, 1024))), Some(512), "starts a new one");
        assert_eq!(arena.take(layout(1024, 8), none), None);
        assert_eq!(arena.take(layout(8, 8), none), Some(576), "a failure loses nothing");
    }
}
