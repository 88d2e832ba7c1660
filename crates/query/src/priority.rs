//! The priority of the threads that plan and run queries: below that of the threads that serve connections.
//!
//! Called by the query pool, on each of its threads as it starts. If both want a core, a key operation that has
//! arrived runs at once, and the query continues when there is none. The decision and its figures:
//! `docs/decisions/2026-11-22-queries-yield-to-keys.md`.

/// How much nicer than the others. A query that competes with threads of the doors that never pause still gets three
/// hundredths of the core; at 19 it would be one and a half, and no GET was faster for it.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 15;

/// Lowers the priority of the calling thread.
#[cfg(target_os = "linux")]
pub(crate) fn yield_to_doors() {
    // In Linux the calling thread, and not its process, is what process 0 means here.
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::warn!(%error, "queries run at the priority of connections");
    }
}

/// Elsewhere a thread has no priority of its own that this could set without the whole process.
#[cfg(not(target_os = "linux"))]
pub(crate) fn yield_to_doors() {}
