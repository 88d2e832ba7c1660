//! The first figures: one row for each promise on the store and its keys, whatever the answer is.
//!
//! Each group of rows starts its own servers. A server that refuses a statement costs its figure, not the run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::servers::{self, Server};
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
    /// Load on a JVM before it is measured, in seconds.
    pub(super) warm_up: u64,
}

const FULL: Scale = Scale {
    keys: 1_000_000,
    requests: 300_000,
    rows: 10_000_000,
    accounts: 1_000_000,
    documents: 100_000,
    seconds: 5,
    warm_up: 60,
};
const SHORT: Scale = Scale {
    keys: 100_000,
    requests: 100_000,
    rows: 1_000_000,
    accounts: 100_000,
    documents: 100_000,
    seconds: 2,
    warm_up: 20,
};
const QUICK: Scale = Scale {
    keys: 10_000,
    requests: 10_000,
    rows: 100_000,
    accounts: 10_000,
    documents: 10_000,
    seconds: 1,
    warm_up: 2,
};

pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) scale: Scale,
    pub(super) rows: Vec<Row>,
}

/// Measures some rows; an error costs the rest of the group's rows and is shown in their place.
type Group = fn(&mut Bench<'_>) -> Result<()>;

const GROUPS: [(&str, Group); 10] = [
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

/// Runs every group that was asked for.
pub(super) fn run(options: &Options) -> Result<()> {
    if options.write && (options.quick || !options.only.is_empty()) {
        bail!("only a full run is worth writing down: leave out --quick and --only");
    }
    if let Some(unknown) = options.only.iter().find(|name| !GROUPS.iter().any(|(group, _)| group == name)) {
        bail!("there is no group of rows {unknown}; ./x bench first-figures --help names them");
    }
    servers::remove_left_over()?;
    setup::require(&[setup::BUILD, setup::CLIENTS, setup::TEST])?;
    setup::prefer(setup::JAVA);
    build::server(&options.profile)?;
    let scale = match (options.quick, options.short) {
        (true, _) => QUICK,
        (false, true) => SHORT,
        (false, false) => FULL,
    };
    let mut bench = Bench { options, scale, rows: Vec::new() };
    for (name, group) in GROUPS {
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
    let report =
        format!("{}{work}\n{}", machine::description(&options.profile, options.runs)?, table::markdown(&bench.rows));
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
pub(super) struct Measured {
    samples: Vec<Samples>,
    /// How much of its core the client took for each, where the client is a program that ends with the sample.
    busy: Vec<f64>,
}

impl std::ops::Deref for Measured {
    type Target = [Samples];

    fn deref(&self) -> &[Samples] {
        &self.samples
    }
}

/// One server's samples, or why there are none.
pub(super) type Samples = (String, Result<Vec<f64>, String>);

pub(super) fn interleaved(runs: u32, servers: &[Server], measure: impl Fn(&Server) -> Result<f64>) -> Measured {
    let measure = &measure;
    in_turn(runs, servers.iter().map(|server| Contender::new(server.name, move || measure(server))).collect())
}

/// Who takes part: a name, and how to take one sample.
pub(super) struct Contender<'a> {
    name: String,
    sample: Box<dyn FnMut() -> Result<f64> + 'a>,
}

impl<'a> Contender<'a> {
    pub(super) fn new(name: &str, sample: impl FnMut() -> Result<f64> + 'a) -> Contender<'a> {
        Contender { name: name.to_owned(), sample: Box::new(sample) }
    }
}

/// As [`interleaved`], of whoever takes part.
pub(super) fn in_turn(runs: u32, mut contenders: Vec<Contender<'_>>) -> Measured {
    let mut measured: Vec<Samples> = contenders.iter().map(|one| (one.name.clone(), Ok(Vec::new()))).collect();
    let mut spent = vec![(Duration::ZERO, Duration::ZERO); contenders.len()];
    for _ in 0..runs {
        for ((contender, (_, samples)), spent) in contenders.iter_mut().zip(&mut measured).zip(&mut spent) {
            if let Ok(list) = samples {
                let (began, before) = (Instant::now(), machine::cpu_of_clients());
                match (contender.sample)() {
                    Ok(sample) => list.push(sample),
                    Err(error) => *samples = Err(format!("{error:#}")),
                }
                spent.0 += machine::cpu_of_clients().saturating_sub(before);
                spent.1 += began.elapsed();
            }
        }
    }
    let busy = spent.iter().map(|(cpu, wall)| cpu.as_secs_f64() / wall.as_secs_f64().max(1e-9)).collect();
    Measured { samples: measured, busy }
}

/// Stands where a figure would; the last column says why.
pub(super) const NO_FIGURE: &str = "no figure";

/// `1.80 x Redis, Geode: why it has no figure`.
pub(super) fn against(ours: &Samples, theirs: &[Samples]) -> String {
    let ours = match &ours.1 {
        Ok(ours) => table::median(ours),
        Err(reason) => return reason.clone(),
    };
    let words = theirs.iter().map(|(name, theirs)| match theirs {
        Ok(theirs) => format!("{:.2} x {name}", ours / table::median(theirs)),
        Err(reason) => format!("{name}: {reason}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

impl Bench<'_> {
    /// A row of rates, ours first: the higher the better.
    pub(super) fn rates(&mut self, what: String, wanted: &'static str, measured: &Measured) {
        self.standing(what, wanted, measured, against(&measured[0], &measured[1..]));
    }

    /// A row of rates of which the caller says where we stand.
    pub(super) fn standing(&mut self, what: String, wanted: &'static str, measured: &Measured, standing: String) {
        let figure = |samples: &Result<Vec<f64>, String>, busy: f64| match samples {
            Ok(samples) => {
                let client = if busy < 0.01 { String::new() } else { format!(", client {:.0} %", 100.0 * busy) };
                let (median, spread) = (table::rate(table::median(samples)), table::spread(samples));
                format!("{median} (spread {spread:.0} %{client})")
            }
            Err(_) => NO_FIGURE.to_owned(),
        };
        let figures = measured.iter().zip(&measured.busy);
        let figures = figures.map(|((name, samples), busy)| (name.clone(), figure(samples, *busy))).collect();
        eprintln!("x:   {what}: {standing}");
        self.rows.push(Row { what, wanted, figures, standing });
    }

    fn note(&mut self, what: &str, wanted: &'static str, reason: String) {
        self.rows.push(Row { what: what.to_owned(), wanted, figures: Vec::new(), standing: reason });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_in_turn_and_a_failure_ends_only_its_own() {
        let order = std::cell::RefCell::new(Vec::new());
        let measured = in_turn(
            2,
            vec![
                Contender::new("ours", || {
                    order.borrow_mut().push("ours");
                    Ok(10.0)
                }),
                Contender::new("absent", || {
                    order.borrow_mut().push("absent");
                    bail!("no network")
                }),
                Contender::new("theirs", || {
                    order.borrow_mut().push("theirs");
                    Ok(4.0)
                }),
            ],
        );
        assert_eq!(*order.borrow(), ["ours", "absent", "theirs", "ours", "theirs"]);
        assert_eq!(measured[0], ("ours".to_owned(), Ok(vec![10.0, 10.0])));
        assert_eq!(against(&measured[0], &measured[1..]), "absent: no network, 2.50 x theirs");
        assert_eq!(against(&measured[1], &measured[2..]), "no network");
    }
}
