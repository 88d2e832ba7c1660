//! Asking for memory before it is needed, so that several keys wait for it at the same time.
//!
//! Called by whoever knows which rows come next: `index`, and the columns. A hint: nothing depends on it.

/// Bytes that come from memory together.
const LINE: usize = 64;

/// Lines of one value that are asked for at most; the processor sees by itself how a longer one goes on.
const LINES_MAX: usize = 4;

#[cfg(test)]
thread_local! {
    static LINES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many lines this thread has asked for.
#[cfg(test)]
pub(crate) fn lines() -> usize {
    LINES.get()
}

/// Asks for the line that something begins in.
#[inline]
pub(crate) fn line<T>(place: &T) {
    #[cfg(test)]
    LINES.set(LINES.get() + 1);
    // Miri has no caches, and knows no prefetch.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE is part of x86-64, and a prefetch reads nothing that the program could see.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = place;
}

/// Asks for the lines of some bytes.
#[inline]
pub(crate) fn bytes(bytes: &[u8]) {
    bytes.chunks(LINE).take(LINES_MAX).for_each(|chunk| line(&chunk[0]));
    if let Some(last) = bytes.last().filter(|_| bytes.len() <= LINE * LINES_MAX) {
        line(last);
    }
}
