//! Read timestamps: who registers one, and what the writers must keep for them.
//!
//! `Store::snapshot` registers; every commit looks at the registry after it took its own timestamp. No lock: a
//! snapshot first stores a pin that stands for any timestamp, then reads the clock, then stores what it read. So a
//! writer that does not see the pin has a timestamp that the snapshot's clock reading includes, and a writer that
//! the snapshot does not include sees the pin, or the timestamp.

use std::fmt;
use std::sync::{Arc, OnceLock};

use ashlar_base::Timestamp;
use ashlar_base::clock::{HybridClock, Wall};

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A slot that nobody uses.
const EMPTY: u64 = u64::MAX;
/// A slot whose owner is reading the clock: it may become any timestamp.
const PIN: u64 = 0;
/// Slots of the first chunk; every next chunk has twice as many. Schedules of threads stop at each slot that is looked at.
const FIRST_CHUNK: usize = if cfg!(shuttle) { 2 } else { 64 };
/// Chunks at most: four million snapshots at one time.
const CHUNK_COUNT: usize = 16;

/// Slots, of which most are empty once a burst of snapshots is over.
struct Chunk {
    /// Slots that are in use or about to be: counted before one is claimed, and until it is empty again, so that a
    /// writer that reads zero need not look at the slots.
    used: AtomicUsize,
    slots: Box<[AtomicU64]>,
}

/// The snapshots that are open.
pub(crate) struct Registry {
    chunks: [OnceLock<Chunk>; CHUNK_COUNT],
    /// Snapshots that are open or being opened; a writer that reads zero need not look at the slots.
    open: AtomicUsize,
    /// Transactions with buffered writes: these compare versions at timestamps that they read but need not keep
    /// registered, all of them after the one they do.
    holds: AtomicUsize,
    /// Where a free slot is looked for first.
    hint: AtomicUsize,
    /// Snapshots are to know the time, as rows may end by it.
    reads_time: AtomicBool,
    clock: HybridClock,
}

/// What a writer with a timestamp must keep for the snapshots that do not include it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Horizon {
    /// No snapshot is older than this.
    pub(crate) oldest: Timestamp,
    /// No snapshot that is older than the writer is newer than this; zero when there is none.
    pub(crate) newest: Timestamp,
}

impl Registry {
    #[cfg(test)]
    pub(crate) fn new() -> Arc<Self> {
        Self::following(Wall::Machine)
    }

    pub(crate) fn following(wall: Wall) -> Arc<Self> {
        Arc::new(Self {
            chunks: [const { OnceLock::new() }; CHUNK_COUNT],
            open: AtomicUsize::new(0),
            holds: AtomicUsize::new(0),
            hint: AtomicUsize::new(0),
            reads_time: AtomicBool::new(false),
            clock: HybridClock::following(wall),
        })
    }

    /// A timestamp for a commit. Take it with every lock of the commit held.
    pub(crate) fn tick(&self) -> Timestamp {
        self.clock.tick()
    }

    /// Lets timestamps catch up with the wall clock.
    pub(crate) fn advance(&self) {
        self.clock.advance();
    }

    /// The last timestamp given out.
    pub(crate) fn last(&self) -> Timestamp {
        self.clock.last()
    }

    /// The time, as a timestamp: see [`HybridClock::peek`].
    pub(crate) fn peek(&self) -> Timestamp {
        self.clock.peek()
    }

    /// Rows may end by the time from now on: snapshots know it, to the microsecond.
    pub(crate) fn read_time(&self) {
        self.reads_time.store(true, Ordering::Release);
    }

    /// Opens a snapshot of everything that is committed.
    pub(crate) fn open(self: &Arc<Self>) -> Snapshot {
        if self.reads_time.load(Ordering::Acquire) {
            self.clock.advance();
        }
        self.open.fetch_add(1, Ordering::SeqCst);
        let slot = self.claim();
        let timestamp = self.clock.last();
        self.slot(slot).1.store(timestamp.0.max(1), Ordering::SeqCst);
        Snapshot(Arc::new(Registered { timestamp: Timestamp(timestamp.0.max(1)), slot, registry: Arc::clone(self) }))
    }

    /// The snapshots older than `before`. Nothing at all is registered: `oldest` is `before`.
    pub(crate) fn horizon(&self, before: Timestamp) -> Horizon {
        let mut horizon = Horizon { oldest: before, newest: Timestamp(0) };
        if self.open.load(Ordering::SeqCst) == 0 {
            return horizon;
        }
        let chunks = self.chunks.iter().map_while(OnceLock::get);
        for chunk in chunks.filter(|chunk| chunk.used.load(Ordering::SeqCst) > 0) {
            for slot in &chunk.slots {
                let seen = Timestamp(slot.load(Ordering::SeqCst));
                if seen < before {
                    horizon.oldest = horizon.oldest.min(seen);
                    let newest = if seen.0 == PIN { Timestamp(before.0 - 1) } else { seen };
                    horizon.newest = horizon.newest.max(newest);
                }
            }
        }
        // After the slots: a snapshot that was closed before its slot was read left its hold first.
        if horizon.oldest < before && self.holds.load(Ordering::SeqCst) > 0 {
            horizon.newest = Timestamp(before.0 - 1);
        }
        horizon
    }

    /// Nothing that ended or was committed at or before this timestamp is told apart by any snapshot, present or
    /// future.
    pub(crate) fn oldest(&self) -> Timestamp {
        let now = self.clock.last();
        self.horizon(Timestamp(now.0 + 1)).oldest.min(now)
    }

    /// Counts a transaction that will compare versions later.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        self.holds.fetch_add(1, Ordering::SeqCst);
        Hold(Arc::clone(self))
    }

    /// The chunk that a slot is in, and the slot.
    fn slot(&self, slot: usize) -> (&Chunk, &AtomicU64) {
        let number = (slot / FIRST_CHUNK + 1).ilog2() as usize;
        let chunk = self.chunks[number].get_or_init(|| Chunk {
            used: AtomicUsize::new(0),
            slots: (0..FIRST_CHUNK << number).map(|_| AtomicU64::new(EMPTY)).collect(),
        });
        (chunk, &chunk.slots[slot - FIRST_CHUNK * ((1 << number) - 1)])
    }

    /// Finds an empty slot and pins it.
    fn claim(&self) -> usize {
        let hint = self.hint.load(Ordering::Relaxed);
        if self.try_claim(hint) {
            return hint;
        }
        let slots = FIRST_CHUNK * ((1 << CHUNK_COUNT) - 1);
        let free = (0..slots).find(|&slot| self.try_claim(slot));
        let free = free.expect("fewer than four million snapshots are open");
        self.hint.store(free, Ordering::Relaxed);
        free
    }

    fn try_claim(&self, slot: usize) -> bool {
        let (chunk, slot) = self.slot(slot);
        if slot.load(Ordering::Relaxed) != EMPTY {
            return false;
        }
        chunk.used.fetch_add(1, Ordering::SeqCst);
        let claimed = slot.compare_exchange(EMPTY, PIN, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if !claimed {
            chunk.used.fetch_sub(1, Ordering::SeqCst);
        }
        claimed
    }

    fn release(&self, slot: usize) {
        let (chunk, place) = self.slot(slot);
        place.store(EMPTY, Ordering::SeqCst);
        chunk.used.fetch_sub(1, Ordering::SeqCst);
        // The lower, the fewer slots a writer looks at.
        self.hint.fetch_min(slot, Ordering::Relaxed);
    }

    /// Slots that a writer looks at.
    #[cfg(test)]
    fn looked_at(&self) -> usize {
        let chunks = self.chunks.iter().map_while(OnceLock::get);
        chunks.filter(|chunk| chunk.used.load(Ordering::SeqCst) > 0).map(|chunk| chunk.slots.len()).sum()
    }
}

/// A read timestamp that the store keeps old versions for, until the last clone is dropped.
#[derive(Clone)]
pub struct Snapshot(Arc<Registered>);

struct Registered {
    timestamp: Timestamp,
    slot: usize,
    registry: Arc<Registry>,
}

impl Snapshot {
    /// Everything committed at or before this is seen.
    pub fn timestamp(&self) -> Timestamp {
        self.0.timestamp
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.0.registry
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({})", self.0.timestamp)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.registry.release(self.slot);
        self.registry.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// While it lives, versions are kept for every timestamp after the oldest snapshot, registered or not.
pub(crate) struct Hold(Arc<Registry>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
