//! What the processor can do and the language has no word for: sixteen bytes or eight words compared at once, and memory asked for before it is needed.
//!
//! All `unsafe` code of this crate, behind functions that are safe whatever they are given. On other processors, and where Miri interprets,
//! a twin in plain Rust does the same. Called by the tables beside it; knows nothing of them.
#![allow(unsafe_code, reason = "instructions that the language has no word for")]

/// Bytes that a processor's own cache holds: of less nothing needs to be asked for. Of tests a few hundred rows are more.
pub(crate) const NEAR: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };

/// Bytes that its nearest cache holds, and then some: of less nothing needs to be asked for where a guess of the processor may be wrong, after which it waits anew for
/// what it had begun to read.
pub(crate) const NEAREST: usize = if cfg!(test) { 1 << 12 } else { 1 << 16 };

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

/// The same of eight words of 32 bits.
#[inline]
pub(crate) fn equal_words(words: &[u32; 8], word: u32) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: SSE2 is part of x86-64; 32 bytes are read of 32, in a way that asks for no alignment.
    unsafe {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32,
            _mm_set1_epi32, _mm_setzero_si128,
        };
        let (all, word) = (std::ptr::from_ref(words).cast::<__m128i>(), _mm_set1_epi32(word.cast_signed()));
        let first = _mm_cmpeq_epi32(_mm_loadu_si128(all), word);
        let last = _mm_cmpeq_epi32(_mm_loadu_si128(all.add(1)), word);
        // All bits of a word or none: narrowed to as many bytes they are what they were.
        let bytes = _mm_packs_epi16(_mm_packs_epi32(first, last), _mm_setzero_si128());
        _mm_movemask_epi8(bytes).cast_unsigned()
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    equal_words_one_by_one(words, word)
}

#[cfg(any(not(target_arch = "x86_64"), miri, test))]
fn equal_words_one_by_one(words: &[u32; 8], word: u32) -> u32 {
    words.iter().enumerate().fold(0, |bits, (at, known)| bits | u32::from(*known == word) << at)
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
    use crate::hash_table::scrambled;

    const ROUNDS: u64 = if cfg!(miri) { 100 } else { 5000 };

    #[test]
    fn bytes_are_found_as_one_by_one() {
        for number in 0..ROUNDS {
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
    fn words_are_found_as_one_by_one() {
        let few = [0, 1, 2, 0xFF, 0x100, 0x7FFF_FFFF, 0x8000_0000, u32::MAX];
        for number in 0..ROUNDS {
            let words: [u32; 8] =
                std::array::from_fn(|at| few[(scrambled(number * 8 + at as u64) % (1 + number % 8)) as usize]);
            for word in few {
                let found = equal_words(&words, word);
                assert_eq!(found, equal_words_one_by_one(&words, word), "{words:?} {word}");
                assert!((0..8).all(|at| (found >> at & 1 == 1) == (words[at] == word)), "{words:?} {word}");
            }
        }
    }

    #[test]
    fn what_is_not_there_may_be_asked_for() {
        (0..5).for_each(|at| ask_for(&[1_u64, 2, 3], at));
        ask_for::<u8>(&[], usize::MAX);
    }
}
