//! The first figures: one row for each promise on the store and its keys, whatever the answer is.
//!
//! Each group of rows starts its own servers. A server that refuses a statement costs its figure, not the run.

use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::servers::Server;
use super::table::{self, Row};
use super::{Options, keys, machine, tables};
use crate::{build, run, setup};

const PAGE: &str = "docs/benchmarks.md";
const BEGIN: &str = "<!-- first-figures begin -->";
const END: &str = "<!-- first-figures end -->";

/// How much work a full run does.
pub(super) struct Scale {
    pub(super) keys: u64,
    pub(super) requests: u64,
    pub(super) rows: u64,
    pub(super) accounts: u64,
    pub(super) documents: u64,
    pub(super) seconds: u64,
}

const FULL: Scale = Scale {
    keys: 1_000_000,
    requests: 300_000,
    rows: 10_000_000,
    accounts: 1_000_000,
    documents: 1_000_000,
    seconds: 5,
};
const SHORT: Scale =
    Scale { keys: 100_000, requests: 100_000, rows: 1_000_000, accounts: 100_000, documents: 100_000, seconds: 2 };
const QUICK: Scale =
    Scale { keys: 10_000, requests: 10_000, rows: 100_000, accounts: 10_000, documents: 10_000, seconds: 1 };

pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) scale: Scale,
    pub(super) rows: Vec<Row>,
}

/// Measures some rows; an error costs the rest of the group's rows and is shown in their place.
type Group = fn(&mut Bench<'_>) -> Result<()>;

/// Runs every group that was asked for.
pub(super) fn run(options: &Options) -> Result<()> {
    if options.write && (options.quick || !options.only.is_empty()) {
        bail!("only a full run is worth writing down: leave out --quick and --only");
    }
    setup::require(&[setup::BUILD, setup::CLIENTS, setup::TEST])?;
    build::server(&options.profile)?;
    let scale = match (options.quick, options.short) {
        (true, _) => QUICK,
        (false, true) => SHORT,
        (false, false) => FULL,
    };
    let mut bench = Bench { options, scale, rows: Vec::new() };
    let groups: [(&str, Group); 10] = [
        ("resp", keys::resp),
        ("puts", keys::puts),
        ("cores", keys::cores),
        ("memory", keys::memory),
        ("latency", keys::latency_under_load),
        ("sql", tables::sql),
        ("scan", tables::scan),
        ("value", tables::value),
        ("copy", tables::copy),
        ("json", tables::json),
    ];
    for (name, group) in groups {
        if options.only.is_empty() || options.only.iter().any(|wanted| wanted == name) {
            let began = Instant::now();
            eprintln!("x: {name} ...");
            if let Err(error) = group(&mut bench) {
                bench.note(name, "", format!("not measured: {error:#}"));
            }
            eprintln!("x: {name}: {}", run::spoken(began.elapsed()));
        }
    }
    let work = if options.short {
        "- a tenth of the work that the rows name (`--short`): 100,000 keys, 1 M rows, 2 s a run\n"
    } else {
        ""
    };
    let report = format!("{}{work}\n{}", machine::description(&options.profile)?, table::markdown(&bench.rows));
    println!("{report}");
    if options.write {
        write(&report)?;
    }
    Ok(())
}

/// Replaces what stands between the two marks of the page.
fn write(report: &str) -> Result<()> {
    let page = std::fs::read_to_string(PAGE)?;
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("{PAGE} has no mark {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no mark {END}"))?;
    std::fs::write(PAGE, format!("{before}{BEGIN}\n{report}{END}{after}"))?;
    Ok(())
}

/// Samples of each server in turn, so that a slow minute of the machine hits all of them. The first failure of a server
/// ends its own samples.
pub(super) type Measured = Vec<(String, Result<Vec<f64>, String>)>;

pub(super) fn interleaved(runs: usize, servers: &[Server], measure: impl Fn(&Server) -> Result<f64>) -> Measured {
    let mut measured: Measured = servers.iter().map(|server| (server.name.to_owned(), Ok(Vec::new()))).collect();
    for _ in 0..runs {
        for (server, (_, samples)) in servers.iter().zip(&mut measured) {
            if let Ok(list) = samples {
                match measure(server) {
                    Ok(sample) => list.push(sample),
                    Err(error) => *samples = Err(format!("{error:#}")),
                }
            }
        }
    }
    measured
}

impl Bench<'_> {
    /// A row of rates, ours first: the higher the better.
    pub(super) fn rates(&mut self, what: String, wanted: &'static str, measured: &Measured) {
        let figure = |samples: &Result<Vec<f64>, String>| match samples {
            Ok(samples) => format!("{} (spread {:.0} %)", table::rate(table::median(samples)), table::spread(samples)),
            Err(_) => "refused".to_owned(),
        };
        let standing = match &measured[0].1 {
            Err(reason) => reason.clone(),
            Ok(ours) => measured[1..]
                .iter()
                .map(|(name, theirs)| match theirs {
                    Ok(theirs) => format!("{:.2} x {name}", table::median(ours) / table::median(theirs)),
                    Err(reason) => format!("{name}: {reason}"),
                })
                .collect::<Vec<_>>()
                .join(", "),
        };
        let figures = measured.iter().map(|(name, samples)| (name.clone(), figure(samples))).collect();
        eprintln!("x:   {what}: {standing}");
        self.rows.push(Row { what, wanted, figures, standing });
    }

    fn note(&mut self, what: &str, wanted: &'static str, reason: String) {
        self.rows.push(Row { what: what.to_owned(), wanted, figures: Vec::new(), standing: reason });
    }
}
