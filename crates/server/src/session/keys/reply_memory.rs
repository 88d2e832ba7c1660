//! The memory of replies until their clients have read them: one bound for all connections together.
//!
//! Used by `mod.rs` after each command and by `transaction` before a commit. A reply is built directly in the buffer it
//! is sent from, so it is checked once it is there: each thread builds one at a time. Small replies are not counted;
//! there are at most as many as connections. Never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ashlar_base::{Error, ErrorCode};

/// Bytes of a connection's replies that are not counted: more than the door lets collect before it sends, unless it is told to.
const UNCOUNTED_BYTES: usize = 1 << 20;

/// The part of the store's bound that replies may take beside it.
const PART: u64 = 4;

/// The bound, and what is taken of it.
pub(super) struct ReplyBound {
    used: AtomicU64,
    max: u64,
}

impl ReplyBound {
    /// Beside a store that may take so many bytes.
    pub(super) fn beside(memory_max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), max: memory_max / PART })
    }
}

/// What one connection's replies take of it.
pub(super) struct ReplyMemory {
    bound: Arc<ReplyBound>,
    bytes: u64,
}

impl ReplyMemory {
    /// Nothing yet.
    pub(super) fn of(bound: &Arc<ReplyBound>) -> Self {
        Self { bound: Arc::clone(bound), bytes: 0 }
    }

    /// Whether so many bytes in all need no look at what others take.
    #[inline]
    pub(super) fn covers(&self, bytes: usize) -> bool {
        bytes <= UNCOUNTED_BYTES || bytes as u64 <= self.bytes
    }

    /// Takes so many bytes in all. Where nobody else has any, there is always room.
    ///
    /// # Errors
    /// 53200 where those of others leave none; then it has what it had.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<(), Error> {
        if self.covers(bytes) {
            return Ok(());
        }
        let (bytes, own) = (bytes as u64, self.bytes);
        let within = |used: u64| (used <= own || used - own + bytes <= self.bound.max).then(|| used - own + bytes);
        match self.bound.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within) {
            Ok(_) => {
                self.bytes = bytes;
                Ok(())
            }
            Err(_) => Err(Error::new(ErrorCode::OutOfMemory, "replies that are not read take too much memory")),
        }
    }

    /// The same of a reply to what is done already, beyond the bound too.
    pub(super) fn keep_anyway(&mut self, bytes: usize) {
        if !self.covers(bytes) {
            self.bound.used.fetch_add(bytes as u64 - self.bytes, Ordering::Relaxed);
            self.bytes = bytes as u64;
        }
    }

    /// Everything was sent.
    #[inline]
    pub(super) fn give_back(&mut self) {
        if self.bytes > 0 {
            self.bound.used.fetch_sub(self.bytes, Ordering::Relaxed);
            self.bytes = 0;
        }
    }
}

impl Drop for ReplyMemory {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn replies_have_room_while_those_of_others_leave_some() {
        let bound = ReplyBound::beside(PART * 10 * MIB as u64);
        let (mut one, mut two) = (ReplyMemory::of(&bound), ReplyMemory::of(&bound));
        one.keep(MIB).unwrap();
        assert_eq!(bound.used.load(Ordering::Relaxed), 0, "small ones are not counted");
        one.keep(50 * MIB).unwrap();
        one.keep(60 * MIB).unwrap();
        assert_eq!(two.keep(2 * MIB).unwrap_err().code(), ErrorCode::OutOfMemory);
        one.give_back();
        two.keep(2 * MIB).unwrap();
        one.keep(8 * MIB).unwrap();
        assert!(one.keep(8 * MIB + 1).is_err());
        assert!(one.covers(8 * MIB) && !one.covers(8 * MIB + 1));
        two.keep_anyway(30 * MIB);
        assert_eq!(bound.used.load(Ordering::Relaxed), 38 * MIB as u64);
        drop((one, two));
        assert_eq!(bound.used.load(Ordering::Relaxed), 0);
    }
}
