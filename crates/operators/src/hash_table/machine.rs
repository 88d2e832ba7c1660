//! What the processor can do and the language has no word for: sixteen bytes compared at once, and memory asked for before it is needed.
//!
//! All `unsafe` code of this crate, behind functions that are safe whatever they are given. On other processors, and where Miri interprets,
//! a twin in plain Rust does the same. Called by the tables beside it; knows nothing of them.
#![allow(unsafe_code, reason = "instructions that the language has no word for")]

/// A bit for each of sixteen bytes that is `byte`, the first one lowest.
#[inline]
pub(crate) fn equal_bytes(bytes: &[u8; 16], byte: u8) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE2 is part of x86-64; sixteen bytes are read of sixteen, in a way that asks for no alignment.
    unsafe {
        use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
        let all = _mm_loadu_si128(std::ptr::from_ref(bytes).cast());
        let equal = _mm_cmpeq_epi8(all, _mm_set1_epi8(byte.cast_signed()));
        _mm_movemask_epi8(equal).cast_unsigned()
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    equal_bytes_one_by_one(bytes, byte)
}

#[cfg(any(not(target_arch = "x86_64"), miri, test))]
fn equal_bytes_one_by_one(bytes: &[u8; 16], byte: u8) -> u32 {
    bytes.iter().enumerate().fold(0, |bits, (at, known)| bits | u32::from(*known == byte) << at)
}

/// Asks for the memory of a place of a slice, if there is one: whoever asks for that of many places before he reads the first waits for all
/// of them at the same time. A hint; nothing depends on it.
#[inline]
pub(crate) fn ask_for<T>(all: &[T], at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(place) = all.get(at) {
        // SAFETY: SSE is part of x86-64, and a prefetch reads nothing that the program could see.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
        }
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = (all, at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::tests::scrambled;

    #[test]
    fn bytes_are_found_as_one_by_one() {
        for number in 0..5000 {
            // Few different ones, so that several are equal; none, and all.
            let bytes: [u8; 16] =
                std::array::from_fn(|at| (scrambled(number * 16 + at as u64) % (1 + number % 6)) as u8);
            for byte in [0, 1, 2, 5, 128, 255] {
                let found = equal_bytes(&bytes, byte);
                assert_eq!(found, equal_bytes_one_by_one(&bytes, byte), "{bytes:?} {byte}");
                assert!((0..16).all(|at| (found >> at & 1 == 1) == (bytes[at] == byte)), "{bytes:?} {byte}");
            }
        }
        // Those whose highest bit is set are no less than zero here.
        let all: [u8; 16] = std::array::from_fn(|at| at as u8 * 17);
        assert!((0..16).all(|at| equal_bytes(&all, at as u8 * 17) == 1 << at));
    }

    #[test]
    fn what_is_not_there_may_be_asked_for() {
        (0..5).for_each(|at| ask_for(&[1_u64, 2, 3], at));
        ask_for::<u8>(&[], usize::MAX);
    }
}
