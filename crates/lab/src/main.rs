//! The program `ashlar-lab`: measures Ashlar and its peers through their doors, as a user would, and compares what it measured.
//!
//! ```text
//! cli ─▶ run ─▶ targets (a server) ◀── workload (door::resp, door::pg) ◀── load (threads, clock)
//!         │             ▲───────────── java (a client in Java, where no thread of the lab speaks to it), foreign (redis-benchmark, pgbench)
//!         └───▶ record (run.json) ─▶ compare (statistics), report (HTML, Markdown)
//! cli ─▶ suite ─▶ run, again and again, and a table of what it recorded
//! ```

#![forbid(unsafe_code)]

mod buckets;
mod cli;
mod clock;
mod compare;
mod cores;
mod door;
mod foreign;
mod interrupt;
mod java;
mod load;
mod numbers;
mod record;
mod report;
mod run;
mod say;
#[cfg(test)]
mod skipped;
mod statistics;
mod suite;
mod targets;
mod workload;

use std::process::ExitCode;

/// As the server has it: what allocates is found in the target noop as well.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cli::run()
}
