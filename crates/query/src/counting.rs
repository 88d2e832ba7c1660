//! The allocator of this crate's unit tests: it counts the bytes that each thread holds, and has ever asked for.

#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not given back; other tests run on others.
    static LIVE: Cell<i64> = const { Cell::new(0) };
    /// Bytes that this thread has allocated in all.
    static ALLOCATED: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

fn count(bytes: i64) {
    LIVE.with(|live| live.set(live.get() + bytes));
    ALLOCATED.with(|allocated| allocated.set(allocated.get() + bytes.max(0)));
}

/// Bytes that this thread has allocated, whatever became of them.
pub(crate) fn allocated() -> i64 {
    ALLOCATED.get()
}

/// Bytes that this thread has allocated and not given back.
pub(crate) fn live() -> i64 {
    LIVE.get()
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the pointer came from `System`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size as i64 - layout.size() as i64);
        // SAFETY: the pointer came from `System`, with this layout.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
