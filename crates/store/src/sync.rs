//! What threads meet at in the store: the machine's locks and atomics, or those of a scheduler that tries one order of threads after the
//! other.
//!
//! In a build with `--cfg shuttle` (`./x shuttle`, and nothing else) they are shuttle's behind the same calls, so that the store itself
//! runs under its schedules and no model of it. What only counts stays the machine's there too: bytes in `memory`, uses of rows in
//! `segment::life`. The thread of the compactor does not run there.

pub(crate) use ashlar_base::sync::atomic;

#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};

#[cfg(shuttle)]
mod scheduled;
#[cfg(shuttle)]
pub(crate) use scheduled::{Mutex, MutexGuard, RwLock};
