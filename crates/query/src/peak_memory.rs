//! How much memory one query holds at most, of what DataFusion's operators charge to their pool.
//!
//! Used by EXPLAIN ANALYZE: the pool of the server stands behind, so what is refused there is refused here.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ashlar_base::Result;
use ashlar_functions::error::from_datafusion;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};

/// Counts what goes through it to the pool of all queries.
#[derive(Debug)]
pub(crate) struct Watched {
    all: Arc<dyn MemoryPool>,
    held: AtomicUsize,
    most: AtomicUsize,
}

/// What one query runs in, and what counts its memory.
///
/// # Errors
/// As DataFusion's builder.
pub(crate) fn watch(runtime: &RuntimeEnv) -> Result<(Arc<RuntimeEnv>, Arc<Watched>)> {
    let all = Arc::clone(&runtime.memory_pool);
    let watched = Arc::new(Watched { all, held: AtomicUsize::new(0), most: AtomicUsize::new(0) });
    let pool = Arc::clone(&watched);
    let runtime = RuntimeEnvBuilder::from_runtime_env(runtime).with_memory_pool(pool).build_arc();
    Ok((runtime.map_err(from_datafusion)?, watched))
}

impl Watched {
    /// The most bytes that were held at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    fn grown(&self, bytes: usize) {
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most.fetch_max(held, Ordering::Relaxed);
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.all, f)
    }
}

impl MemoryPool for Watched {
    fn name(&self) -> &str {
        self.all.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.all.grow(reservation, additional);
        self.grown(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.all.shrink(reservation, shrink);
        self.held.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> datafusion::common::Result<()> {
        self.all.try_grow(reservation, additional)?;
        self.grown(additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.all.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.all.memory_limit()
    }
}
