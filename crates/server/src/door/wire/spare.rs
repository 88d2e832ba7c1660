//! Buffers that no connection of a thread needs now.
//!
//! A connection that waits for its client has no buffers: it takes them when bytes come, and leaves them when all has been understood and answered.
//! So the buffers that a thread works with are few and in its cache, however many clients it has, and a client that says nothing costs none.
//! Those for what comes and those for what goes are kept apart, for they grow in other ways.

use std::cell::RefCell;
use std::thread::LocalKey;

/// Buffers of a list.
const SPARE_MAX: usize = 16;

/// Room that a new one has.
pub(super) const NEW_BYTES: usize = 8 * 1024;

/// One for what comes is not kept if it grew beyond this.
pub(super) const KEEP_BYTES: usize = 64 * 1024;

/// One for what goes: sent whenever it has as much as `KEEP_BYTES`, it has room for twice that.
const KEEP_OUTGOING_BYTES: usize = 2 * KEEP_BYTES;

/// A list of a thread.
pub(super) struct Spares {
    list: RefCell<Vec<Vec<u8>>>,
    keep_bytes: usize,
}

thread_local! {
    /// For what comes.
    pub(super) static INCOMING: Spares = const { Spares { list: RefCell::new(Vec::new()), keep_bytes: KEEP_BYTES } };
    /// For what goes.
    pub(super) static OUTGOING: Spares = const { Spares { list: RefCell::new(Vec::new()), keep_bytes: KEEP_OUTGOING_BYTES } };
}

/// An empty buffer: that which was left last, which is the nearest.
pub(super) fn take(spares: &'static LocalKey<Spares>) -> Vec<u8> {
    let last = spares.try_with(|spares| spares.list.try_borrow_mut().ok()?.pop()).ok().flatten();
    last.unwrap_or_else(|| Vec::with_capacity(NEW_BYTES))
}

/// Leaves a buffer to the thread's connections; what is in it is gone.
pub(super) fn give(spares: &'static LocalKey<Spares>, mut buffer: Vec<u8>) {
    buffer.clear();
    // Where the thread ends it goes with it.
    let _ = spares.try_with(|spares| {
        if (NEW_BYTES..=spares.keep_bytes).contains(&buffer.capacity())
            && let Ok(mut list) = spares.list.try_borrow_mut()
            && list.len() < SPARE_MAX
        {
            list.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_comes_first_and_large_ones_and_many_are_not_kept() {
        let known = |buffer: &Vec<u8>| buffer.as_ptr();
        for (spares, large) in [(&INCOMING, KEEP_BYTES + 1), (&OUTGOING, KEEP_OUTGOING_BYTES + 1)] {
            let kept = || spares.with(|spares| spares.list.borrow().len());
            let (mut first, second) = (take(spares), take(spares));
            first.extend_from_slice(b"words");
            let (of_first, of_second) = (known(&first), known(&second));
            give(spares, second);
            give(spares, first);
            let again = take(spares);
            assert!(known(&again) == of_first && again.is_empty());
            assert_eq!(known(&take(spares)), of_second);
            give(spares, Vec::with_capacity(large));
            give(spares, Vec::new());
            assert_eq!(kept(), 0);
            give(spares, Vec::with_capacity(large - 1));
            assert_eq!(kept(), 1);
            let many: Vec<Vec<u8>> = (0..2 * SPARE_MAX).map(|_| take(spares)).collect();
            many.into_iter().for_each(|buffer| give(spares, buffer));
            assert_eq!(kept(), SPARE_MAX);
        }
    }
}
