//! The store's locks and atomics: the machine's, or in tests those of a scheduler that explores thread interleavings.
//!
//! In a build with `--cfg shuttle` (`./x shuttle`, and nothing else) they are shuttle's, behind the same calls, so that
//! the store itself runs under its schedules and not a model of it. Pure counters stay the machine's there too: bytes
//! in `memory`, uses of rows in `segment::life`. The compactor's thread does not run in such a build.

pub(crate) use ashlar_base::sync::atomic;

#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};

#[cfg(shuttle)]
mod scheduled;
#[cfg(shuttle)]
pub(crate) use scheduled::{Mutex, MutexGuard, RwLock};
