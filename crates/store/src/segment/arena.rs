//! Bytes that readers on other threads borrow without copying: the memory under every column.
//!
//! ```text
//!   memory (shared by Arc)   [ published, immutable while lent . | unwritten ...... ]
//!                              ^ readers' buffers end at or before ^ len               ^ capacity
//! ```
//! One writer, which holds the `Arena` by `&mut`, writes at and after `len`, and below it only while nobody else
//! holds the memory. A reader's buffer covers bytes below the `len` at which it was made, and holds the memory. When
//! borrowed memory must grow, the bytes are copied into new memory, and the old one lives on until its last reader
//! is gone; memory that nobody borrows grows where it is. Called by `column` and `bitmap`; never by anything else.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow::buffer::Buffer;
use ashlar_base::Result;

use crate::memory::{Account, Charge};

/// Alignment of every arena: that of the widest value, `i128`.
const ALIGNMENT: usize = 16;
/// Memory from here on grows by a quarter instead of a half.
const LARGE: usize = 64 << 10;

/// A growing array of bytes, appended to by one writer and borrowed by many readers.
pub(crate) struct Arena {
    memory: Option<Arc<Memory>>,
    len: usize,
    account: Arc<Account>,
}

/// One allocation.
struct Memory {
    start: NonNull<u8>,
    capacity: usize,
    charge: Charge,
}

// SAFETY: `Memory` owns its allocation. Bytes are written only through `&mut Arena`: beyond what any reader was
// given, or while no reader holds the memory, so that a byte is never written while another thread may read it.
unsafe impl Send for Memory {}
// SAFETY: as above; `&Memory` alone gives no access to the bytes.
unsafe impl Sync for Memory {}

/// Types that are plain bytes: no padding, and every bit pattern is a value.
///
/// # Safety
/// Implement it only for such types.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: integers and floats are plain bytes.
unsafe impl Plain for i16 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for i64 {}
// SAFETY: as above.
unsafe impl Plain for i128 {}
// SAFETY: as above.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for f64 {}
// SAFETY: as above.
unsafe impl Plain for [u8; 16] {}

impl Memory {
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, ALIGNMENT).expect("arenas are far smaller than the address space")
    }

    /// `capacity` is not zero.
    fn new(capacity: usize, charge: Charge) -> Self {
        assert!(capacity > 0, "an arena without bytes has no memory");
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Self { start, capacity, charge }
    }
}

impl Memory {
    /// Moves the bytes to an allocation of another size, which is not zero. What is above it is lost.
    fn set_capacity(&mut self, capacity: usize) {
        assert!(capacity > 0, "an arena without bytes has no memory");
        let layout = Self::layout(capacity);
        // SAFETY: `&mut self` shows that nobody else points at this allocation; it has the layout of its capacity,
        // and the new size is not zero.
        let moved = unsafe { realloc(self.start.as_ptr(), Self::layout(self.capacity), layout.size()) };
        let Some(start) = NonNull::new(moved) else { handle_alloc_error(layout) };
        self.start = start;
        self.capacity = capacity;
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`, or moved in `set_capacity`, with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

impl Arena {
    /// Without memory.
    pub(crate) fn new(account: &Arc<Account>) -> Self {
        Self { memory: None, len: 0, account: Arc::clone(account) }
    }

    /// Bytes written.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that fit without growing.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.capacity)
    }

    /// Whether so many more bytes fit without growing.
    #[inline]
    pub(crate) fn has_room(&self, additional: usize) -> bool {
        self.len + additional <= self.capacity()
    }

    /// Makes room for `additional` more bytes, at most `ceiling` in all unless more are needed: by about half, so
    /// that appending costs a constant number of copies. Says 53200 and changes nothing over the bound.
    pub(crate) fn reserve(&mut self, additional: usize, ceiling: usize) -> Result<()> {
        let needed = self.len + additional;
        let capacity = self.capacity();
        if needed <= capacity {
            return Ok(());
        }
        let step = if capacity < LARGE { capacity / 2 } else { capacity / 4 };
        let grown = (capacity + step).min(ceiling).max(needed).next_multiple_of(ALIGNMENT);
        if let Some(memory) = self.memory.as_mut().and_then(Arc::get_mut) {
            memory.charge.try_resize(grown)?;
            memory.set_capacity(grown);
            return Ok(());
        }
        let charge = Charge::new(&self.account, grown)?;
        self.resize(grown, charge);
        Ok(())
    }

    /// Makes room for exactly `additional` more bytes, even over the memory bound: for what is copied in order to
    /// give more back.
    pub(crate) fn reserve_exact(&mut self, additional: usize) {
        let needed = self.len + additional;
        if needed > self.capacity() {
            self.resize(needed, Charge::forced(&self.account, needed));
        }
    }

    fn resize(&mut self, capacity: usize, charge: Charge) {
        let memory = Memory::new(capacity, charge);
        if let Some(old) = &self.memory {
            // SAFETY: `len` bytes of the old memory are written, the new one has room for more than that, and the
            // two do not overlap. Nobody writes to the old memory: its one writer is this `&mut self`.
            unsafe { std::ptr::copy_nonoverlapping(old.start.as_ptr(), memory.start.as_ptr(), self.len) }
        }
        self.memory = Some(Arc::new(memory));
    }

    /// Like [`Arena::reserve`], for one that goes on to grow until it is shrunk: at least twice the room it had, where there is
    /// memory for that, so that each byte is copied once on the way, and not four times.
    pub(crate) fn reserve_twice(&mut self, additional: usize, ceiling: usize) -> Result<()> {
        if self.has_room(additional) {
            return Ok(());
        }
        let twice = (2 * self.capacity()).min(ceiling).saturating_sub(self.len);
        if twice > additional && self.reserve(twice, ceiling).is_ok() {
            return Ok(());
        }
        self.reserve(additional, ceiling)
    }

    /// Gives back what is above `len`, where no reader borrows the memory.
    pub(crate) fn shrink(&mut self) {
        if self.len == 0 {
            self.memory = None;
            return;
        }
        let Some(memory) = self.memory.as_mut().and_then(Arc::get_mut) else { return };
        if memory.capacity > self.len {
            memory.set_capacity(self.len);
            memory.charge.resize(self.len);
        }
    }

    /// Like [`Arena::shrink`], where that gives back more than an eighth.
    pub(crate) fn trim(&mut self) {
        if self.capacity() - self.len > self.capacity() / 8 {
            self.shrink();
        }
    }

    /// Whether no reader borrows the memory, so that [`Arena::overwrite`] may write. Only the writer lends it, so
    /// that this holds until it does.
    pub(crate) fn is_unshared(&self) -> bool {
        self.memory.as_ref().is_none_or(|memory| Arc::strong_count(memory) == 1)
    }

    /// Forgets what was written and keeps the memory, which no reader borrows: see [`Arena::is_unshared`].
    pub(crate) fn clear(&mut self) {
        // As in `overwrite`: whoever held it is done reading.
        let is_own = self.memory.as_mut().is_none_or(|memory| Arc::get_mut(memory).is_some());
        assert!(is_own, "memory that is lent is not written again");
        self.len = 0;
    }

    /// Puts other bytes in the place of written ones. No reader borrows the memory: see [`Arena::is_unshared`].
    pub(crate) fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len, "what is unwritten is not overwritten");
        if bytes.is_empty() {
            return;
        }
        let memory = self.memory.as_mut().and_then(Arc::get_mut).expect("memory that is lent is not overwritten");
        // SAFETY: [at, at + bytes.len()) is written, so inside the allocation. `get_mut` shows that nobody else
        // holds the memory, and that whoever held it is done reading; `&mut self` keeps borrows of `bytes()` away,
        // so that `bytes` is of another allocation.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.start.as_ptr().add(at), bytes.len()) }
    }

    /// Appends bytes into room that was reserved.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = self.len + bytes.len();
        assert!(end <= self.capacity(), "room is reserved before bytes are appended");
        let memory = self.memory.as_ref().expect("a capacity that is not zero has memory");
        // SAFETY: [len, end) is inside the allocation and published to no reader; `bytes` is a live borrow, which
        // cannot be of the unwritten part.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.start.as_ptr().add(self.len), bytes.len()) }
        self.len = end;
    }

    /// Appends one value into room that was reserved.
    #[inline]
    pub(crate) fn push_value<T: Plain>(&mut self, value: T) {
        assert!(self.try_push(value), "room is reserved before values are appended");
    }

    /// Appends one value; false, and nothing has changed, where there is no room for it.
    #[inline]
    pub(crate) fn try_push<T: Plain>(&mut self, value: T) -> bool {
        let end = self.len + size_of::<T>();
        let Some(memory) = self.memory.as_ref().filter(|memory| end <= memory.capacity) else { return false };
        // SAFETY: as in `push`; the write may be unaligned.
        unsafe { memory.start.as_ptr().add(self.len).cast::<T>().write_unaligned(value) }
        self.len = end;
        true
    }

    /// Appends values of another arena of `T`, given by their numbers, into room that was reserved.
    pub(crate) fn gather<T: Plain>(&mut self, source: &Self, numbers: &[u32]) {
        let end = self.len + numbers.len() * size_of::<T>();
        assert!(end <= self.capacity(), "room is reserved before values are appended");
        let (Some(memory), Some(lender)) = (&self.memory, &source.memory) else {
            assert!(numbers.is_empty(), "values are read below the length");
            return;
        };
        let count = source.len / size_of::<T>();
        let from = lender.start.as_ptr().cast::<T>();
        // SAFETY: `len` is inside the allocation, or at its end.
        let to = unsafe { memory.start.as_ptr().add(self.len) }.cast::<T>();
        for (place, &number) in numbers.iter().enumerate() {
            let number = number as usize;
            assert!(number < count, "values are read below the length");
            // SAFETY: the value's bytes are below the source's `len`, so written, and every bit pattern is a `T`. Those that
            // are written to are in [len, end), so inside the allocation and published to no reader. The source is another
            // arena, whose memory is its own. Both may be unaligned.
            unsafe { to.add(place).write_unaligned(from.add(number).read_unaligned()) }
        }
        self.len = end;
    }

    /// Appends a copy of bytes already here, into room that was reserved.
    pub(crate) fn push_within(&mut self, from: usize, count: usize) {
        assert!(from + count <= self.len && self.len + count <= self.capacity(), "copies inside the arena");
        if let Some(memory) = &self.memory {
            let start = memory.start.as_ptr();
            // SAFETY: the source is written, the target is unwritten and inside the allocation, so that they do
            // not overlap.
            unsafe { std::ptr::copy_nonoverlapping(start.add(from), start.add(self.len), count) }
        }
        self.len += count;
    }

    /// What was written.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.memory {
            // SAFETY: the first `len` bytes are written, and the borrow of `self` keeps the memory and its writer
            // in place.
            Some(memory) => unsafe { std::slice::from_raw_parts(memory.start.as_ptr(), self.len) },
            None => &[],
        }
    }

    /// The value number `index` of an arena of `T`.
    pub(crate) fn value<T: Plain>(&self, index: usize) -> T {
        assert!((index + 1) * size_of::<T>() <= self.len, "values are read below the length");
        let memory = self.memory.as_ref().expect("a length that is not zero has memory");
        // SAFETY: the value's bytes are below `len`, so written; every bit pattern is a `T`; unaligned is allowed.
        unsafe { memory.start.as_ptr().add(index * size_of::<T>()).cast::<T>().read_unaligned() }
    }

    /// The first `len` bytes as a buffer that keeps the memory alive.
    pub(crate) fn share(&self, len: usize) -> Buffer {
        assert!(len <= self.len, "what is unwritten cannot be shared");
        match &self.memory {
            Some(memory) => {
                let owner: Arc<Memory> = Arc::clone(memory);
                // SAFETY: the bytes are inside the allocation that `owner` keeps alive, and are not written while
                // it does.
                unsafe { Buffer::from_custom_allocation(memory.start, len, owner) }
            }
            None => Buffer::from_vec(Vec::<i128>::new()),
        }
    }
}

#[cfg(test)]
mod tests;
