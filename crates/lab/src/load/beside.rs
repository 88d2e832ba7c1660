//! What is asked beside the callers: one connection that asks again and again, from their start until they have ended.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Answer, Caller, KindSample};
use crate::clock::Clock;

/// What was seen of it.
#[derive(Debug)]
pub(crate) struct Beside {
    /// Its whole answers.
    pub(crate) calls: KindSample,
    /// Wrong ones.
    pub(crate) errors: u64,
    /// The first of them.
    pub(crate) first_error: Option<String>,
    /// Why the connection was lost, if it was.
    pub(crate) broken: Option<String>,
}

/// Asks until `over` is set; a question under way is waited for.
pub(crate) fn ask_beside(clock: &dyn Clock, caller: &mut dyn Caller, over: &AtomicBool) -> Beside {
    let name = caller.kinds().first().copied().unwrap_or("beside");
    let calls = KindSample { name, latencies: crate::record::histogram::empty(), retries: 0 };
    let mut seen = Beside { calls, errors: 0, first_error: None, broken: None };
    while !over.load(Ordering::Relaxed) && seen.broken.is_none() {
        caller.make();
        let start = clock.now();
        let outcome = caller.call(&mut || {
            seen.calls.latencies.saturating_record(clock.now().saturating_sub(start).max(1));
        });
        caller.judge(&mut |answer| {
            if let Answer::Wrong(what) = answer {
                seen.errors += 1;
                seen.first_error.get_or_insert(what);
            }
        });
        seen.broken = outcome.err().map(|error| format!("{error:#}"));
    }
    seen
}
