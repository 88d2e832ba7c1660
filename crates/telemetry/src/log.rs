//! The log of a process: set up once by its command line, before anything else runs. It goes to standard error; standard
//! output belongs to the commands.

use ashlar_base::config::{LogConfig, LogFormat, LogLevel};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging. Libraries beneath us are heard from `warn` on, or less if the whole log is.
pub fn start(config: &LogConfig) -> anyhow::Result<()> {
    let level = config.level.as_str();
    let beneath = match config.level {
        LogLevel::Error => "error",
        LogLevel::Warn | LogLevel::Info | LogLevel::Debug | LogLevel::Trace => "warn",
    };
    // Asked once for each place that logs: a filter that spans could change is asked whenever one is entered, by every poll of a
    // connection.
    let filter: Targets = format!("{beneath},ashlar={level}").parse()?;
    let log = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let started = match config.format {
        LogFormat::Text => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            log.with(layer.with_ansi(colours)).try_init()
        }
        LogFormat::Json => log.with(layer.json().flatten_event(true)).try_init(),
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
