//! Buffers that no connection of a thread needs now.
//!
//! A connection that waits for its client has no buffers: it takes them when bytes come, and leaves them when all has been understood and answered.
//! So the buffers that a thread works with are few and in its cache, however many clients it has, and a client that says nothing costs none.

use std::cell::RefCell;

/// Buffers of a thread.
const SPARE_MAX: usize = 16;

/// Room that a new one has.
pub(super) const NEW_BYTES: usize = 8 * 1024;

/// A buffer that grew beyond this is not kept.
pub(super) const KEEP_BYTES: usize = 64 * 1024;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer: that which was left last, which is the nearest.
pub(super) fn take() -> Vec<u8> {
    let last = SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop()).ok().flatten();
    last.unwrap_or_else(|| Vec::with_capacity(NEW_BYTES))
}

/// Leaves a buffer to the thread's connections; what is in it is gone.
pub(super) fn give(mut buffer: Vec<u8>) {
    if !(NEW_BYTES..=KEEP_BYTES).contains(&buffer.capacity()) {
        return;
    }
    buffer.clear();
    // Where the thread ends it goes with it.
    let _ = SPARE.try_with(|spare| {
        if let Ok(mut spare) = spare.try_borrow_mut()
            && spare.len() < SPARE_MAX
        {
            spare.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_comes_first_and_large_ones_and_many_are_not_kept() {
        let known = |buffer: &Vec<u8>| buffer.as_ptr();
        let (mut first, second) = (take(), take());
        first.extend_from_slice(b"words");
        let (of_first, of_second) = (known(&first), known(&second));
        give(second);
        give(first);
        let again = take();
        assert!(known(&again) == of_first && again.is_empty());
        assert_eq!(known(&take()), of_second);
        give(Vec::with_capacity(KEEP_BYTES + 1));
        give(Vec::new());
        SPARE.with(|spare| assert!(spare.borrow().is_empty()));
        let many: Vec<Vec<u8>> = (0..2 * SPARE_MAX).map(|_| take()).collect();
        many.into_iter().for_each(give);
        SPARE.with(|spare| assert_eq!(spare.borrow().len(), SPARE_MAX));
    }
}
