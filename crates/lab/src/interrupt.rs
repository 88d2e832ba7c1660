//! Ctrl-C, SIGTERM and a terminal that is closed: the run stops where it is, and what has been measured is kept.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// There is one terminal and one process, so there is one flag.
static STOP: AtomicBool = AtomicBool::new(false);

/// Set by the first signal, once [`watch`] was called.
pub(crate) fn flag() -> &'static AtomicBool {
    &STOP
}

/// Whether somebody wants the run to end.
pub(crate) fn is_set() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Whether somebody waits for signals.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// From now on the first of these signals sets the flag; later ones are ignored, for the lab is on its way out and has servers to
/// stop.
pub(crate) fn watch() -> Result<()> {
    if WATCHED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate, mut hangup) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?)
    };
    // Not joined: mostly there is no signal, and the process ends while the thread waits for one.
    std::thread::Builder::new()
        .name("lab-signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} _ = hangup.recv() => {} }
            });
            STOP.store(true, Ordering::Relaxed);
            crate::say::note("told to stop: what has been measured is kept");
        })
        .context("the thread that waits for signals")?;
    Ok(())
}
