//! Bit-packed booleans: validity of a column, the values of a boolean column, and the dead rows of a segment.
//!
//! While a segment is active, its last byte holds bits of rows that readers know and of rows that they do not, so
//! readers get a copy; a frozen bitmap is lent. No `unsafe` here.

use std::sync::Arc;

use arrow::buffer::{BooleanBuffer, Buffer};

use super::arena::Arena;
use crate::memory::{Account, Charge};

/// A growing, then frozen, row of bits; bit 0 is the lowest of the first byte, as Arrow has it.
pub(crate) struct Bitmap {
    bits: Bits,
    len: usize,
}

enum Bits {
    Growing { bytes: Vec<u8>, charge: Charge },
    Frozen(Arena),
}

impl Bitmap {
    /// No bits.
    pub(crate) fn new(account: &Arc<Account>) -> Self {
        Self { bits: Bits::Growing { bytes: Vec::new(), charge: Charge::empty(account) }, len: 0 }
    }

    /// `len` bits, all of the same value.
    pub(crate) fn filled(account: &Arc<Account>, value: bool, len: usize) -> Self {
        let count = len.div_ceil(8);
        let charge = Charge::forced(account, count);
        Self { bits: Bits::Growing { bytes: vec![if value { 0xff } else { 0 }; count], charge }, len }
    }

    /// Bits in all.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends a bit. An eighth of a byte a row is charged over the bound too.
    pub(crate) fn push(&mut self, value: bool) {
        let Bits::Growing { bytes, charge } = &mut self.bits else {
            panic!("a sealed segment takes no more rows");
        };
        let bit = self.len % 8;
        if bit == 0 {
            if bytes.len() == bytes.capacity() {
                let capacity = (bytes.len() + bytes.len() / 2).max(8);
                charge.resize(capacity);
                bytes.reserve_exact(capacity - bytes.len());
            }
            bytes.push(0);
        }
        let last = &mut bytes[self.len / 8];
        *last = (*last & !(1 << bit)) | (u8::from(value) << bit);
        self.len += 1;
    }

    /// Whether no reader borrows the bits: growing ones never are.
    pub(crate) fn is_unshared(&self) -> bool {
        match &self.bits {
            Bits::Growing { .. } => true,
            Bits::Frozen(arena) => arena.is_unshared(),
        }
    }

    /// Puts another value in the place of a bit that no reader borrows.
    pub(crate) fn set(&mut self, index: usize, value: bool) {
        assert!(index < self.len, "bits are written below the length");
        let byte = self.bytes()[index / 8] & !(1 << (index % 8)) | u8::from(value) << (index % 8);
        match &mut self.bits {
            Bits::Growing { bytes, .. } => bytes[index / 8] = byte,
            Bits::Frozen(arena) => arena.overwrite(index / 8, &[byte]),
        }
    }

    /// The bit at `index`.
    pub(crate) fn get(&self, index: usize) -> bool {
        assert!(index < self.len, "bits are read below the length");
        self.bytes()[index / 8] >> (index % 8) & 1 == 1
    }

    fn bytes(&self) -> &[u8] {
        match &self.bits {
            Bits::Growing { bytes, .. } => bytes,
            Bits::Frozen(arena) => arena.bytes(),
        }
    }

    /// No bit changes any more; memory of exactly the size needed, where there is any.
    pub(crate) fn freeze(&mut self) {
        if let Bits::Growing { bytes, charge } = &self.bits {
            let mut arena = Arena::new(charge.account());
            arena.reserve_exact(bytes.len());
            arena.push(bytes);
            self.bits = Bits::Frozen(arena);
        }
    }

    /// The first `len` bits for a reader: lent when frozen, else copied.
    pub(crate) fn share(&self, len: usize) -> BooleanBuffer {
        assert!(len <= self.len, "what is unwritten cannot be shared");
        let count = len.div_ceil(8);
        let buffer = match &self.bits {
            Bits::Growing { bytes, .. } => Buffer::from_slice_ref(&bytes[..count]),
            Bits::Frozen(arena) => arena.share(count),
        };
        BooleanBuffer::new(buffer, 0, len)
    }
}

/// Which rows of a segment are ended. Allocated on the first death; grows with the segment.
pub(crate) struct Dead {
    words: Vec<u64>,
    charge: Charge,
}

impl Dead {
    /// Nobody dead.
    pub(crate) fn new(account: &Arc<Account>) -> Self {
        Self { words: Vec::new(), charge: Charge::empty(account) }
    }

    /// Marks a row; true when it was alive.
    pub(crate) fn insert(&mut self, row: usize, rows: usize) -> bool {
        if row / 64 >= self.words.len() {
            let words = rows.div_ceil(64).max(self.words.len() + self.words.len() / 2);
            self.charge.resize(words * 8);
            self.words.reserve_exact(words - self.words.len());
            self.words.resize(words, 0);
        }
        let word = &mut self.words[row / 64];
        let before = *word;
        *word |= 1 << (row % 64);
        *word != before
    }

    /// Takes a mark back.
    pub(crate) fn remove(&mut self, row: usize) {
        if let Some(word) = self.words.get_mut(row / 64) {
            *word &= !(1 << (row % 64));
        }
    }

    /// Whether the row is dead.
    pub(crate) fn contains(&self, row: usize) -> bool {
        self.words.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// The words, for the first `rows` rows, without bits beyond them.
    pub(crate) fn copy(&self, rows: usize) -> Vec<u64> {
        let mut words = vec![0; rows.div_ceil(64)];
        let known = words.len().min(self.words.len());
        words[..known].copy_from_slice(&self.words[..known]);
        if !rows.is_multiple_of(64)
            && let Some(last) = words.last_mut()
        {
            *last &= (1 << (rows % 64)) - 1;
        }
        words
    }
}

#[cfg(test)]
mod tests;
