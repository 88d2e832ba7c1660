//! The task runner behind `./x`: one verb, one module. Called by developers and by `.ci/run`, which uses the same verbs.
//!
//! Depends on nothing of ours and on little else, so that it builds in seconds. Never part of the server.
#![expect(clippy::print_stdout, reason = "talking to a person at a terminal is what this program does")]
#![expect(clippy::disallowed_methods, reason = "outside the server there is no clock seam")]

mod bench;
mod build;
mod check;
mod demo;
mod docs;
mod fuzz;
mod proofs;
mod run;
mod setup;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Everything one does with this repository. Each command installs what the machine lacks for it (Debian and Ubuntu
/// packages; it says which) and builds what it needs.
#[derive(Parser)]
#[command(name = "./x", bin_name = "./x", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Build, start a server with real data in it, show a short tour, stay up for psql and redis-cli
    Demo {
        /// Stop after the tour instead of staying up
        #[arg(long)]
        once: bool,
    },
    /// Build, then run everything that must hold: tidy, unit tests, integration tests against the real server
    Test {
        /// Run only the tests whose name contains this
        filter: Option<String>,
    },
    /// Formatting, clippy without warnings, tidy, licences of the dependencies
    Check {
        /// Only what takes seconds: formatting and tidy
        #[arg(long)]
        fast: bool,
    },
    /// Run sqllogictest files (a file, or a folder of them) against a fresh server
    Slt {
        /// A path such as tests/slt/types
        path: PathBuf,
    },
    /// Run the client programs of clients/ and the wire conversations against a fresh server
    Conformance,
    /// Measure, beside Redis, Valkey, PostgreSQL, Hazelcast and Geode in the same run, in half an hour; writes docs/benchmarks.md
    Bench(bench::Options),
    /// Throw bytes at a decoder, guided by coverage; `list` names the targets, `all` runs each
    Fuzz {
        /// A target of fuzz/
        #[arg(default_value = "list")]
        target: String,
        /// How long
        #[arg(default_value_t = 60)]
        seconds: u64,
    },
    /// Interpret the tests of unsafe code with Miri, of the store and of hash tables: undefined behaviour, data races; some minutes
    Miri,
    /// Run the tests of the store and of the operators under AddressSanitizer; the first time builds for some minutes
    Asan,
    /// Run the store's threads under thousands of schedules, with shuttle's locks and atomics in the place of the machine's
    Shuttle,
    /// Write the generated reference pages and the API documentation
    Docs,
    /// Format the sources and apply what clippy can repair by itself
    Fix,
    /// What decides whether a change may land: .ci/run
    Ci,
    /// Install what the other commands would install, and say what was found
    Setup {
        /// `lab` installs the servers that only the lab measures as well
        #[arg(value_enum)]
        part: Option<Part>,
    },
}

/// What more `./x setup` installs.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Lab,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = run::root().and_then(|root| {
        std::env::set_current_dir(&root)?;
        match cli.verb {
            Verb::Demo { once } => demo::demo(once),
            Verb::Test { filter } => test::test(filter.as_deref()),
            Verb::Check { fast } => check::check(fast),
            Verb::Slt { path } => test::slt(&path),
            Verb::Conformance => test::conformance(),
            Verb::Bench(options) => bench::bench(&options),
            Verb::Fuzz { target, seconds } => fuzz::fuzz(&target, seconds),
            Verb::Miri => proofs::miri(),
            Verb::Asan => proofs::asan(),
            Verb::Shuttle => proofs::shuttle(),
            Verb::Docs => docs::docs(),
            Verb::Fix => check::fix(),
            Verb::Ci => run::run("sh", &[".ci/run"]),
            Verb::Setup { part } => setup::setup(part == Some(Part::Lab)),
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("x: {error:#}");
            ExitCode::FAILURE
        }
    }
}
