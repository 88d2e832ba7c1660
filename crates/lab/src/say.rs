//! What the lab says to people: results on standard output, everything else on standard error.

use std::io::{self, Write};

/// Writes a line of a result. A closed pipe is the reader's choice, no failure.
pub(crate) fn result(line: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout().lock(), "{line}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Writes a remark.
pub(crate) fn note(line: &str) {
    // Nowhere is left to complain when standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// So many threads.
pub(crate) fn threads(count: u32) -> String {
    format!("{count} {}", if count == 1 { "thread" } else { "threads" })
}
