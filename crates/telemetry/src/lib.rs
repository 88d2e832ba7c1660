//! What a process says of itself: its log, what its allocator holds, and profiles of its processors' time, of its threads'
//! time and of its memory, as flame graphs and as the difference of two.
//!
//! Used by the server, which serves them, and by the lab, which draws and compares them.

pub mod allocator;
pub mod difference;
pub mod flame;
pub mod log;
pub mod pprof;
pub mod profile;
mod stacks;

pub use stacks::Stacks;
