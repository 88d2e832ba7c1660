//! Saying what a test cannot do on this machine. Called by the tests in this folder and in `tests`; `./x test` reads it.

use std::io::Write;

/// Says that the test that calls this cannot be done on this machine, and why. It is counted as skipped: so no test may say it twice.
pub(crate) fn skipped(why: &str) {
    say("SKIPPED  ", why);
}

/// Says that the test that calls this does less than elsewhere, because something is not on this machine. It is shown, and the test
/// is counted as what it is otherwise.
pub(crate) fn without(why: &str) {
    say("WITHOUT  ", why);
}

/// One line, of which the first of the reason is enough: what installs a program says much when it fails.
fn say(mark: &str, why: &str) {
    let thread = std::thread::current();
    let first = why.lines().next().unwrap_or_default();
    let line = format!("{mark}{}: {first}\n", thread.name().unwrap_or("a test"));
    // Written and not printed: what a test prints is shown only where it fails.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
