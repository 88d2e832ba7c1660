//! The memory of one query: what DataFusion's operators and ours charge to their pool.
//!
//! [`QueryPool`] stands before the pool that all queries share. It counts what this query holds and, where the
//! session has set `query_memory_max`, limits it, with a fair share for each operator that can write to files.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ashlar_functions::error::QUERY_MEMORY_MAX;
use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use parking_lot::Mutex;

/// See the module.
#[derive(Debug)]
pub(crate) struct QueryPool {
    all: Arc<dyn MemoryPool>,
    /// Bytes; the greatest number for no limit.
    max: usize,
    held: Mutex<Held>,
    most: AtomicUsize,
}

/// Who holds how much.
#[derive(Debug, Default)]
struct Held {
    /// Consumers that can go to files.
    spillers: usize,
    /// Bytes that those hold.
    spillable: usize,
    /// Bytes that the others hold.
    unspillable: usize,
}

impl Held {
    fn of(&mut self, can_spill: bool) -> &mut usize {
        if can_spill { &mut self.spillable } else { &mut self.unspillable }
    }

    fn total(&self) -> usize {
        self.spillable + self.unspillable
    }

    /// Bytes that somebody who holds `own` may have more, of `max` in all. Who can go to files has an equal part of what the
    /// others leave: DataFusion's `FairSpillPool` does the same for a whole server.
    fn free(&self, max: usize, can_spill: bool, own: usize) -> usize {
        let left = max.saturating_sub(self.total());
        if !can_spill {
            return left;
        }
        let part = max.saturating_sub(self.unspillable) / self.spillers.max(1);
        left.min(part.saturating_sub(own))
    }
}

impl QueryPool {
    /// The pool of a query that may hold so many bytes, or as many as the pool of all has.
    pub(crate) fn new(all: Arc<dyn MemoryPool>, max: Option<usize>) -> Self {
        let held = Mutex::new(Held::default());
        Self { all, max: max.unwrap_or(usize::MAX), held, most: AtomicUsize::new(0) }
    }

    /// The most bytes that were held at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    fn refused(&self, reservation: &MemoryReservation, additional: usize) -> DataFusionError {
        let (max, who) = (self.max.div_ceil(1024), reservation.consumer().name());
        let (has, more) = (reservation.size().div_ceil(1024), additional.div_ceil(1024));
        DataFusionError::ResourcesExhausted(format!(
            "the query needs more memory than its {QUERY_MEMORY_MAX} of {max} kB: {who} has {has} kB and wanted {more} kB more"
        ))
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.all, f)
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() {
            self.held.lock().spillers += 1;
        }
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if consumer.can_spill() {
            let mut held = self.held.lock();
            held.spillers = held.spillers.saturating_sub(1);
        }
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
        let mut held = self.held.lock();
        *held.of(reservation.consumer().can_spill()) += additional;
        self.most.fetch_max(held.total(), Ordering::Relaxed);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        *self.held.lock().of(reservation.consumer().can_spill()) -= shrink;
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> datafusion::common::Result<()> {
        let can_spill = reservation.consumer().can_spill();
        let total = {
            let mut held = self.held.lock();
            if additional > held.free(self.max, can_spill, reservation.size()) {
                return Err(self.refused(reservation, additional));
            }
            *held.of(can_spill) += additional;
            held.total()
        };
        if let Err(error) = self.all.try_grow(reservation, additional) {
            *self.held.lock().of(can_spill) -= additional;
            return Err(error);
        }
        self.most.fetch_max(total, Ordering::Relaxed);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.held.lock().total()
    }

    fn memory_limit(&self) -> MemoryLimit {
        match self.all.memory_limit() {
            MemoryLimit::Finite(all) => MemoryLimit::Finite(all.min(self.max)),
            other if self.max == usize::MAX => other,
            _ => MemoryLimit::Finite(self.max),
        }
    }
}

#[cfg(test)]
mod tests;
