//! The seam for atomics: the machine's, or in tests those of a scheduler that explores thread interleavings.
//!
//! Used by the lock-free code that threads share: the clock here, and the store. A build with `--cfg shuttle` is for
//! the tests of `./x shuttle` only, which run the types themselves under shuttle's schedules; in every other build this
//! is the standard library.

#[cfg(not(shuttle))]
pub use std::sync::atomic;

#[cfg(shuttle)]
pub use shuttle::sync::atomic;
