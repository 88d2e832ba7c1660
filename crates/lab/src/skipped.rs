//! Saying that a test cannot be done on this machine. Called by the tests in this folder and in `tests`.

use std::io::Write;

/// Says that the test that calls this cannot be done on this machine, and why. `./x test` reads that, and counts the test as skipped:
/// so no test may say it twice.
pub(crate) fn skipped(why: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED  {}: {why}\n", thread.name().unwrap_or("a test"));
    // Written and not printed: what a test prints is shown only where it fails.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
