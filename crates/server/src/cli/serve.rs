//! `ashlar serve`: from the configuration to a running server, and from a signal to its end.
//!
//! Called by `cli`; the demo shares the signals and the ready file.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use tokio::runtime::Runtime;

use super::{EXIT_USAGE, ServeOptions, resolve};
use crate::door::meters;
use crate::runtime::{self, Addresses};
use crate::shutdown::{self, Phase, Stopper};

/// Runs a server until it is told to stop.
pub(super) fn serve(options: &ServeOptions) -> anyhow::Result<ExitCode> {
    ashlar_telemetry::allocator::tune();
    let Some(resolved) = resolve(&options.config)? else { return Ok(ExitCode::from(EXIT_USAGE)) };
    ashlar_telemetry::log::start(&resolved.config.log)?;
    for problem in &resolved.unknown {
        tracing::warn!("unknown configuration is ignored: {problem}");
    }
    let recorder = meters::start()?;
    let signals = Signals::watch()?;

    let server = runtime::start(resolved.config, recorder, true)?;
    if let Some(path) = &options.ready_file {
        write_ready_file(path, server.addresses())?;
    }
    signals.wait(server.stopper())?;
    server.stop()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the addresses of the doors, in one step: who sees the file sees all of it.
pub(crate) fn write_ready_file(path: &Path, addresses: Addresses) -> anyhow::Result<()> {
    let Addresses { pg, resp, http } = addresses;
    let pid = std::process::id();
    let text = format!("{{\"pid\": {pid}, \"pg\": \"{pg}\", \"resp\": \"{resp}\", \"http\": \"{http}\"}}\n");
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".unfinished");
    std::fs::write(&unfinished, text)
        .and_then(|()| std::fs::rename(&unfinished, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The signals that stop the server, caught from [`Signals::watch`] on.
pub(crate) struct Signals {
    runtime: Runtime,
    first: std::pin::Pin<Box<dyn Future<Output = &'static str> + Send>>,
}

impl Signals {
    /// Starts to catch SIGTERM and SIGINT.
    pub(crate) fn watch() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let first = {
            let _inside = runtime.enter();
            Box::pin(shutdown::requested().context("cannot catch signals")?)
        };
        Ok(Self { runtime, first })
    }

    /// Runs something until it is done, or the first signal comes: then it is dropped, and there is no result.
    pub(crate) fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        self.runtime.block_on(async {
            tokio::select! {
                _ = &mut self.first => None,
                done = work => Some(done),
            }
        })
    }

    /// Waits for the first signal; the second one ends the server's patience.
    pub(crate) fn wait(self, stopper: Arc<Stopper>) -> anyhow::Result<()> {
        let Self { runtime, first } = self;
        let signal = runtime.block_on(first);
        tracing::info!(signal, "told to stop");
        // Not joined: mostly there is no second signal, and the process ends while the thread waits for it.
        std::thread::Builder::new().name("ashlar-signal".to_owned()).spawn(move || {
            let second = {
                let _inside = runtime.enter();
                shutdown::requested()
            };
            if let Ok(second) = second {
                runtime.block_on(second);
                stopper.advance(Phase::Ending);
            }
        })?;
        Ok(())
    }
}
