//! `./x bench`: measures the server beside its rivals on this machine, with real clients, and writes a Markdown table.
//!
//! Rules of every benchmark here: rivals run in the same session and the runs are interleaved; the server is pinned to
//! one core and the client to the other unless the row says otherwise; the figure is the median; what cannot be
//! measured says why instead of showing a number.

mod clients;
mod data;
mod first_figures;
mod grids;
mod keys;
mod latency;
mod machine;
mod noop;
mod program;
mod servers;
mod table;
mod tables;

use anyhow::{Result, bail};
use clap::Parser;

/// Options of `./x bench first-figures`.
#[derive(Parser)]
#[command(name = "./x bench first-figures", bin_name = "./x bench first-figures")]
struct Options {
    /// Cargo profile of the server; `release` is the slowest to build and the fastest to run
    #[arg(long, default_value = "figures")]
    profile: String,
    /// Interleaved runs of each measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Groups of rows, separated by commas: resp, puts, cores, memory, latency, sql, scan, value, copy, json
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// A hundredth of the work: shows that everything runs, measures nothing worth keeping
    #[arg(long)]
    quick: bool,
    /// A tenth of the work: figures that tell the order of things, in some ten minutes
    #[arg(long, conflicts_with = "quick")]
    short: bool,
    /// Leave Hazelcast and Geode out of the rows about memory: their 20 million overwrites take most of an hour
    #[arg(long)]
    no_grids: bool,
    /// Put the table into docs/benchmarks.md
    #[arg(long)]
    write: bool,
}

/// Runs the benchmark of this name.
pub(crate) fn bench(name: &str, options: &[String]) -> Result<()> {
    match name {
        "list" => {
            println!("first-figures   every row of the table in docs/benchmarks.md (./x bench first-figures --help)");
            Ok(())
        }
        "first-figures" => {
            let words = std::iter::once(name.to_owned()).chain(options.iter().cloned());
            first_figures::run(&Options::parse_from(words))
        }
        other => bail!("there is no benchmark {other}; ./x bench list names them"),
    }
}
