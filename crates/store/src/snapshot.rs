//! Read timestamps: who registers one, and what the writers must keep for them.
//!
//! `Store::snapshot` registers; every commit looks at the registry after it took its own timestamp. No lock: a
//! snapshot first stores a pin that stands for any timestamp, then reads the clock, then stores what it read. So a
//! writer that does not see the pin has a timestamp that the snapshot's clock reading includes, and a writer that
//! the snapshot does not include sees the pin, or the timestamp.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use ashlar_base::Timestamp;
use ashlar_base::clock::HybridClock;

/// A slot that nobody uses.
const EMPTY: u64 = u64::MAX;
/// A slot whose owner is reading the clock: it may become any timestamp.
const PIN: u64 = 0;
/// Slots of the first chunk; every next chunk has twice as many.
const FIRST_CHUNK: usize = 64;
/// Chunks at most: four million snapshots at one time.
const CHUNK_COUNT: usize = 16;

/// The snapshots that are open.
pub(crate) struct Registry {
    chunks: [OnceLock<Box<[AtomicU64]>>; CHUNK_COUNT],
    /// Snapshots that are open or being opened; a writer that reads zero need not look at the slots.
    open: AtomicUsize,
    /// Transactions with buffered writes: these compare versions at timestamps that they read but need not keep
    /// registered, all of them after the one they do.
    holds: AtomicUsize,
    /// Where the last free slot was found.
    hint: AtomicUsize,
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
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            chunks: [const { OnceLock::new() }; CHUNK_COUNT],
            open: AtomicUsize::new(0),
            holds: AtomicUsize::new(0),
            hint: AtomicUsize::new(0),
            clock: HybridClock::new(),
        })
    }

    /// A timestamp for a commit. Take it with every lock of the commit held.
    pub(crate) fn tick(&self) -> Timestamp {
        self.clock.tick()
    }

    /// Opens a snapshot of everything that is committed.
    pub(crate) fn open(self: &Arc<Self>) -> Snapshot {
        self.open.fetch_add(1, Ordering::SeqCst);
        let slot = self.claim();
        let timestamp = self.clock.last();
        self.slot(slot).store(timestamp.0.max(1), Ordering::SeqCst);
        Snapshot(Arc::new(Registered { timestamp: Timestamp(timestamp.0.max(1)), slot, registry: Arc::clone(self) }))
    }

    /// The snapshots older than `before`. Nothing at all is registered: `oldest` is `before`.
    pub(crate) fn horizon(&self, before: Timestamp) -> Horizon {
        let mut horizon = Horizon { oldest: before, newest: Timestamp(0) };
        if self.open.load(Ordering::SeqCst) == 0 {
            return horizon;
        }
        for chunk in self.chunks.iter().map_while(OnceLock::get) {
            for slot in chunk {
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

    fn chunk(&self, chunk: usize) -> &[AtomicU64] {
        self.chunks[chunk].get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| AtomicU64::new(EMPTY)).collect())
    }

    fn slot(&self, slot: usize) -> &AtomicU64 {
        let chunk = (slot / FIRST_CHUNK + 1).ilog2() as usize;
        &self.chunk(chunk)[slot - FIRST_CHUNK * ((1 << chunk) - 1)]
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
        let slot = self.slot(slot);
        slot.load(Ordering::Relaxed) == EMPTY
            && slot.compare_exchange(EMPTY, PIN, Ordering::SeqCst, Ordering::Relaxed).is_ok()
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
        self.registry.slot(self.slot).store(EMPTY, Ordering::SeqCst);
        self.registry.hint.store(self.slot, Ordering::Relaxed);
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
