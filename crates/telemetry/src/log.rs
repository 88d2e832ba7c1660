//! Logs, the recorder of metrics, and what the allocator says.
//!
//! Set up once by the command line before anything else runs. Logs go to standard error; standard output belongs to
//! the commands.

use anyhow::Context;
use ashlar_base::config::{LogConfig, LogFormat, LogLevel};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tikv_jemalloc_ctl::{Access, AsName, arenas, epoch, stats};
use tracing_subscriber::EnvFilter;

/// Starts logging. Libraries beneath us are heard from `warn` on, or less if the whole log is.
pub fn start_log(config: &LogConfig) -> anyhow::Result<()> {
    let level = config.level.as_str();
    let beneath = match config.level {
        LogLevel::Error => "error",
        LogLevel::Warn | LogLevel::Info | LogLevel::Debug | LogLevel::Trace => "warn",
    };
    let filter = EnvFilter::try_new(format!("{beneath},ashlar={level}"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match config.format {
        LogFormat::Text => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            builder.with_ansi(colours).try_init()
        }
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))?;
    // A panic belongs into the log as well, with its session and in its format.
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let backtrace = std::backtrace::Backtrace::capture();
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(message, place, %backtrace, "panic");
    }));
    Ok(())
}

/// Makes the recorder of this process; there can be one.
pub fn start_metrics() -> anyhow::Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new().install_recorder().context("cannot start the metrics")?;
    crate::door::meters::describe();
    Ok(handle)
}

/// Milliseconds after which memory that was freed goes back to the operating system.
const DECAY_MS: isize = 1000;

/// Tells the allocator to give freed memory back soon, and from a thread of its own, so that an idle server shrinks.
pub fn tune_allocator() {
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
