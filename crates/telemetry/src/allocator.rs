//! jemalloc, where a program has chosen it: when it gives memory back, and what it holds.

use tikv_jemalloc_ctl::{Access, AsName, arenas, epoch, stats};

/// Milliseconds after which memory that was freed goes back to the operating system.
const DECAY_MS: isize = 1000;

/// Tells the allocator to give freed memory back soon, and from a thread of its own, so that an idle server shrinks.
pub fn tune() {
    let tune = || -> Result<(), tikv_jemalloc_ctl::Error> {
        b"arenas.dirty_decay_ms\0"[..].name().write(DECAY_MS)?;
        // The setting above is for arenas to come; this process already has some.
        for arena in 0..arenas::narenas::read()? {
            let name = format!("arena.{arena}.dirty_decay_ms\0");
            if let Err(error) = name.as_str().name().write(DECAY_MS) {
                tracing::trace!(arena, %error, "an arena that is not in use");
            }
        }
        b"background_thread\0"[..].name().write(true)
    };
    if let Err(error) = tune() {
        tracing::debug!(%error, "the allocator keeps its defaults");
    }
}

/// What the allocator holds, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// In use by the program.
    pub allocated: usize,
    /// Backed by physical memory.
    pub resident: usize,
}

/// Asks the allocator.
pub fn memory() -> Memory {
    let ask = || -> Result<Memory, tikv_jemalloc_ctl::Error> {
        epoch::advance()?;
        Ok(Memory { allocated: stats::allocated::read()?, resident: stats::resident::read()? })
    };
    ask().unwrap_or_default()
}
