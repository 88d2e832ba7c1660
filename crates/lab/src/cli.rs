//! The command line: what may be typed, and which module does it.
//!
//! Exit status: 0 all is well; 1 a run is partial, had wrong answers or unsent requests, or a comparison found something slower; 2
//! nothing could be done: bad input, no target, runs that are unlike or had wrong answers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use ashlar_telemetry::profile::Kind;
use clap::{Args, Parser, Subcommand};

use crate::suite::{self, Length, SUITES};
use crate::targets::{Answers, NAMED, Plant};
use crate::workload::{KINDS, Sizes, hash_build_keys};
use crate::{buckets, compare, report, run, say, targets};

/// Measures Ashlar and its peers, and says whether a change made it faster.
///
/// A run is a folder with everything that was measured. `compare` reads two of them and says faster, slower or no difference;
/// `report` draws them.
#[derive(Debug, Parser)]
#[command(name = "ashlar-lab", version, max_term_width = 100, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the workloads and the targets, and whether each target is here.
    List(ListOptions),
    /// Measure targets under a workload.
    Run(Box<RunOptions>),
    /// Say whether TEST is faster or slower than BASE.
    ///
    /// Each is the folder of a run; where a run has several targets, FOLDER:TARGET. Exit status 1 if anything is slower, 2 if
    /// the runs are unlike or answers were wrong.
    Compare(CompareOptions),
    /// Write report.html and report.md of some runs.
    Report(ReportOptions),
    /// Measure all rows of a table, and write it: `bench` for docs/benchmarks.md, `geode`, `hazelcast`, `impala` and `tpcc` for what
    /// others have shown of their products, `proxy` for what stands before PostgreSQL.
    ///
    /// Without --quick or --full a suite is of a length between the two: of `bench`, half an hour. Exit status 1 if a run failed or had
    /// wrong answers.
    Suite(SuiteOptions),
    /// Fill Impala's hash table, in its layouts before and after packing, with the keys of hash-build: bytes of an entry.
    ImpalaBuckets(BucketsOptions),
    /// The target noop, as its own process.
    #[command(hide = true)]
    NoopServer(NoopOptions),
    /// The relay of the target relay, as its own process.
    #[command(hide = true)]
    Relay(RelayOptions),
}

#[derive(Debug, Args)]
struct ListOptions {
    /// The program of Ashlar [default: the newest build under target/].
    #[arg(long, value_name = "PATH")]
    ashlar: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RunOptions {
    /// A workload, as `ashlar-lab list` names them.
    workload: String,
    /// Targets, as `ashlar-lab list` names them, ashlar=PATH of another build, host:port of a running server, or
    /// lettuce=TARGET for one of them through a client in Java, redis-benchmark=TARGET or pgbench=TARGET through these
    /// programs, pgbench-unrouted=ashlar-proxy through one whose sessions name a server. The lab writes keys `lab:...` and `ashlar_lab_...`, or tables `ashlar_lab_...` there.
    #[arg(long, required = true, value_delimiter = ',', value_name = "NAME,...")]
    target: Vec<String>,
    /// Threads, each with a connection; several numbers are measured one after the other [default: 8; 1 for workloads that
    /// have queries].
    #[arg(long, value_delimiter = ',', value_name = "COUNT,...",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// The queries that are measured, of a workload that has several [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    queries: Vec<String>,
    /// Requests a second over all threads, sent when they are due: an open loop. Without it each thread sends its next
    /// request when it has its answer: a closed loop.
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
    rate: Option<f64>,
    /// Seconds before each measured window.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=600))]
    warm_up: u32,
    /// Seconds of each measured window.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// How often each target is measured, in turn with the others.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// What the choice of keys depends on.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Profiles that are taken of the server within each measured window, one after the other: cpu, wall, heap, allocations.
    /// `compare` draws how those of two runs differ.
    #[arg(long, value_delimiter = ',', value_name = "KIND,...")]
    profile: Vec<Kind>,
    /// Cores of the server, as taskset takes them, all, or none [default: 0 of two or more].
    #[arg(long, value_name = "CORES")]
    server_cores: Option<String>,
    /// Cores of the client, all, or none [default: 1 of two or more].
    #[arg(long, value_name = "CORES")]
    client_cores: Option<String>,
    /// The program of Ashlar [default: the newest build under target/].
    #[arg(long, value_name = "PATH")]
    ashlar: Option<PathBuf>,
    /// The folder of the run [default: target/lab/TIME-WORKLOAD].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Leave out what the harness itself costs. Without this flag noop is measured beside the targets wherever it knows the
    /// answers, by each kind of client that they have.
    #[arg(long)]
    no_harness: bool,
    /// For tests of the lab: what the target noop does at every command beside answering it.
    #[arg(long, hide = true)]
    plant: Option<Plant>,
    #[command(flatten)]
    sizes: Sizes,
}

#[derive(Debug, Args)]
struct CompareOptions {
    /// What to compare with.
    base: String,
    /// What to judge.
    test: String,
    /// The probability, in percent, that no word of the table is one by chance.
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0, value_parser = confidence)]
    confidence: f64,
    /// Differences below this many percent are none, however sure they are.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = least)]
    least: f64,
    /// Where the flame graphs of the differences are drawn, if both runs have profiles [default: the folder of TEST].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ReportOptions {
    /// Folders of runs.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Where the pages are written [default: the folder of the first run].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct SuiteOptions {
    /// A suite, as `ashlar-lab list` names them.
    name: String,
    /// Rows that are measured, by the names of their groups [default: all; of `bench` those that take long with --full only].
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    only: Vec<String>,
    /// The least work: shows that everything runs, in a minute or two; measures nothing worth keeping.
    #[arg(long)]
    quick: bool,
    /// The sizes that the rows are about: of `bench`, two hours and more.
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// The folder of the runs. What is measured there already is not measured again [default: target/lab/TIME-NAME-LENGTH].
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// A page whose marks `<!-- NAME begin -->` and `<!-- NAME end -->`, with --full `<!-- NAME full begin -->` and so on, get the table.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// The program of Ashlar [default: the newest build under target/].
    #[arg(long, value_name = "PATH")]
    ashlar: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct BucketsOptions {
    #[command(flatten)]
    sizes: Sizes,
}

#[derive(Debug, Args)]
struct NoopOptions {
    #[arg(long)]
    ready_file: PathBuf,
    #[command(flatten)]
    answers: Answers,
}

#[derive(Debug, Args)]
struct RelayOptions {
    #[arg(long)]
    to: SocketAddr,
    #[arg(long)]
    ready_file: PathBuf,
}

/// Runs what the process was called with.
pub(crate) fn run() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            say::note(&format!("ashlar-lab: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn dispatch(command: Command) -> Result<u8> {
    match command {
        Command::List(options) => list(&options).map(|()| 0),
        Command::Run(options) => Ok(run::run(&options.into_options()?)?.status()),
        Command::Compare(options) => {
            let words = compare::Options { confidence: options.confidence / 100.0, least: options.least / 100.0 };
            let comparison = compare::run(&options.base, &options.test, words, options.out.as_deref())?;
            Ok(comparison.is_worse().map_or(2, u8::from))
        }
        Command::Report(options) => report::run(&options.runs, options.out.as_deref()).map(|()| 0),
        Command::Suite(options) => {
            let length = match (options.quick, options.full) {
                (true, _) => Length::Quick,
                (_, true) => Length::Full,
                _ => Length::Short,
            };
            let options = suite::Options {
                suite: options.name,
                only: options.only,
                length,
                out: options.out,
                page: options.page,
                ashlar: options.ashlar,
            };
            Ok(suite::run(&options)?.status())
        }
        Command::ImpalaBuckets(options) => buckets::show(&hash_build_keys(&options.sizes)?).map(|()| 0),
        Command::NoopServer(options) => targets::serve_noop(options.answers, options.ready_file).map(|()| 0),
        Command::Relay(options) => targets::serve_relay(options.to, options.ready_file).map(|()| 0),
    }
}

fn list(options: &ListOptions) -> Result<()> {
    say::result("workloads")?;
    for kind in KINDS {
        say::result(&format!("  {:<14}{:<12}{}", kind.name, kind.door.name(), kind.question))?;
        say::result(&format!("{:28}--{}", "", kind.sizes().join(" --")))?;
    }
    say::result("\ntargets")?;
    for (target, what) in NAMED {
        let presence = match target.program(options.ashlar.as_ref()) {
            Ok(program) => format!("present: {}", program.display()),
            Err(reason) => format!("absent: {reason}"),
        };
        say::result(&format!("  {:<22}{what}\n{:24}{presence}", target.to_string(), ""))?;
    }
    say::result("  ashlar=PATH           another build of this project's server")?;
    say::result("  host:port             a running server of either protocol")?;
    say::result(
        "  lettuce=TARGET        one of those that speak RESP, through a client in Java, as Hazelcast and Geode are met",
    )?;
    say::result("  redis-benchmark=TARGET, pgbench=TARGET, pgbench-unrouted=ashlar-proxy")?;
    say::result(
        "                        one that speaks their protocol, loaded by these programs; they judge no answers",
    )?;
    say::result("\nsuites")?;
    for suite in SUITES {
        say::result(&format!("  {:<14}{}", suite.name, suite.about))?;
    }
    say::result("\nfor example: ashlar-lab run kv-get --target ashlar,noop --seconds 2")
}

/// What these words after `ashlar-lab run` ask for.
pub(crate) fn run_options(words: &[String]) -> Result<run::Options> {
    let program = ["ashlar-lab", "run"].map(str::to_owned);
    match Cli::try_parse_from(program.iter().chain(words))?.command {
        Command::Run(options) => options.into_options(),
        _ => bail!("not the words of a run"),
    }
}

impl RunOptions {
    fn into_options(self) -> Result<run::Options> {
        let mut threads = self.threads.clone();
        threads.sort_unstable();
        threads.dedup();
        if threads.len() != self.threads.len() {
            bail!("--threads names a number twice");
        }
        if self.profile.iter().enumerate().any(|(at, kind)| self.profile[..at].contains(kind)) {
            bail!("--profile names a kind twice");
        }
        if self.profile.len() > self.seconds as usize {
            bail!("{} profiles need --seconds {} at least, a second each", self.profile.len(), self.profile.len());
        }
        Ok(run::Options {
            workload: self.workload,
            targets: self.target,
            threads,
            queries: self.queries,
            rate: self.rate,
            warm_up: self.warm_up,
            seconds: self.seconds,
            repeat: self.repeat,
            seed: self.seed,
            profiles: self.profile,
            server_cores: self.server_cores,
            client_cores: self.client_cores,
            ashlar: self.ashlar,
            out: self.out,
            harness: !self.no_harness,
            plant: self.plant,
            sizes: self.sizes,
        })
    }
}

fn rate(text: &str) -> Result<f64, String> {
    within(text, 0.001, 1e8)
}

fn confidence(text: &str) -> Result<f64, String> {
    within(text, 50.0, 99.9999)
}

fn least(text: &str) -> Result<f64, String> {
    within(text, 0.0, 1000.0)
}

fn within(text: &str, low: f64, high: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(format!("a number from {low} to {high} is needed")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn numbers_outside_their_bounds_are_refused() {
        for wrong in [
            &["run", "kv-get", "--target", "noop", "--threads", "0"][..],
            &["run", "kv-get", "--target", "noop", "--rate", "0"],
            &["run", "kv-get", "--target", "noop", "--rate", "NaN"],
            &["run", "kv-get"],
            &["compare", "a"],
            &["compare", "a", "b", "--confidence", "100"],
            &["report"],
        ] {
            assert!(Cli::try_parse_from([&["ashlar-lab"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }
}
