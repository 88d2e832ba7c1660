//! The memory of an operator, charged to the engine's pool before it is allocated.

use arrow::error::ArrowError;
use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::MemoryReservation;
use datafusion_physical_plan::metrics::Gauge;

use crate::hash_table::account::Account;
pub(crate) use crate::hash_table::account::Wish;

/// Whether an error says that there is no memory left, or no room in a table of which only smaller ones can be made.
pub(crate) fn is_full(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => true,
        DataFusionError::ArrowError(error, _) => matches!(error.as_ref(), ArrowError::MemoryError(_)),
        _ => false,
    }
}

/// Whether it says the latter: memory there may be.
pub(crate) fn is_array_full(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ArrowError(error, _) => matches!(error.as_ref(), ArrowError::MemoryError(_)),
        _ => false,
    }
}

/// The charge of one operator, shared by its tasks.
pub(crate) struct Memory {
    reservation: MemoryReservation,
    /// The most that was charged at once, bytes.
    peak: Gauge,
}

impl Memory {
    pub(crate) fn new(reservation: MemoryReservation, peak: Gauge) -> Self {
        Self { reservation, peak }
    }

    /// Charges bytes that are about to be taken.
    ///
    /// # Errors
    /// Where the pool has none left.
    pub(crate) fn try_grow(&self, bytes: usize) -> Result<()> {
        self.reservation.try_grow(bytes)?;
        self.peak.set_max(self.reservation.size());
        Ok(())
    }

    /// Charges bytes that are held already, whether the pool has them or not.
    pub(crate) fn grow(&self, bytes: usize) {
        self.reservation.grow(bytes);
        self.peak.set_max(self.reservation.size());
    }

    /// Whether the pool has so many bytes left.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        let has = self.reservation.try_grow(bytes).is_ok();
        if has {
            self.reservation.shrink(bytes);
        }
        has
    }

    /// Gives bytes back that have been freed.
    pub(crate) fn shrink(&self, bytes: usize) {
        self.reservation.shrink(bytes);
    }

    /// A charge of no bytes yet.
    pub(crate) fn charge(self: &std::sync::Arc<Self>) -> Charge {
        Charge { memory: std::sync::Arc::clone(self), bytes: 0 }
    }
}

/// Bytes that somebody holds; given back when it goes.
pub(crate) struct Charge {
    memory: std::sync::Arc<Memory>,
    bytes: usize,
}

impl Charge {
    /// Bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// One of no bytes, of the same operator.
    pub(crate) fn another(&self) -> Self {
        self.memory.charge()
    }

    /// Charges bytes that are about to be taken.
    ///
    /// # Errors
    /// Where the pool has none left.
    pub(crate) fn grow(&mut self, bytes: usize, wish: Wish) -> Result<()> {
        match wish {
            Wish::IfFree => {
                self.memory.try_grow(bytes)?;
                self.bytes += bytes;
            }
            Wish::Anyway => self.take(bytes),
        }
        Ok(())
    }

    /// Charges bytes that must be had, whether the pool has them or not.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.memory.grow(bytes);
        self.bytes += bytes;
    }

    /// Is of so many bytes from now on: those that are held, whether the pool has them or not.
    pub(crate) fn settle(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.memory.grow(bytes - self.bytes);
        } else {
            self.memory.shrink(self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Account for Charge {
    type Error = DataFusionError;

    fn charged(&self) -> usize {
        self.bytes
    }

    fn charge(&mut self, bytes: usize, wish: Wish) -> Result<()> {
        self.grow(bytes, wish)
    }

    fn correct(&mut self, bytes: usize) {
        self.settle(bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.shrink(self.bytes);
    }
}

#[cfg(test)]
impl Memory {
    /// Of a pool that has no end.
    pub(crate) fn unlimited() -> std::sync::Arc<Self> {
        use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
        let pool: std::sync::Arc<dyn MemoryPool> = std::sync::Arc::new(UnboundedMemoryPool::default());
        std::sync::Arc::new(Self::new(MemoryConsumer::new("test").register(&pool), Gauge::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_is_as_good_as_no_memory() {
        let exhausted = DataFusionError::ResourcesExhausted("nothing left".to_owned());
        let full = ArrowError::MemoryError("too many groups".to_owned());
        assert!(is_full(&exhausted) && !is_array_full(&exhausted));
        let full = DataFusionError::from(full);
        assert!(is_full(&full) && is_array_full(&full));
        // As it comes through what knows of no engine.
        let through = ArrowError::from(exhausted);
        assert!(is_full(&through.into()));
        assert!(!is_full(&ArrowError::ComputeError("something else".to_owned()).into()));
    }
}
