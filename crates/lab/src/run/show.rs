//! What a run shows: a bar on a terminal, a line for each step elsewhere, and a table at the end.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use crate::clock::{Nanos, SECOND};
use crate::record::measure::Measure;
use crate::record::{Case, Measurement, Run};
use crate::report::{remarks, table};
use crate::{report, say};

/// Shows a run on standard error.
pub(super) struct Show {
    terminal: bool,
    repetitions: u32,
    seconds: u64,
}

/// A bar, or nothing.
pub(super) struct Loading(Option<ProgressBar>);

/// A bar, or nothing.
pub(super) struct Measuring(Option<ProgressBar>);

impl Show {
    pub(super) fn new(run: &Run) -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            repetitions: run.load.repetitions,
            seconds: u64::from(run.load.warm_up_seconds) + u64::from(run.load.measured_seconds),
        }
    }

    /// What will be done.
    pub(super) fn heading(&self, run: &Run) {
        self.note(&format!("{}: {}", run.workload.name, run.workload.question));
        let pinned = |cores: &Option<String>| cores.clone().unwrap_or_else(|| "any".to_owned());
        self.note(&format!(
            "{} ({} cores); server on core {}, client on core {}",
            run.machine.cpu,
            run.machine.cores,
            pinned(&run.load.server_cores),
            pinned(&run.load.client_cores)
        ));
    }

    /// How long it takes at least, with so many targets.
    pub(super) fn length(&self, run: &Run, targets: usize) {
        let windows = targets as u64 * run.load.cases().len() as u64 * u64::from(run.load.repetitions);
        let seconds = windows * self.seconds;
        let length = if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) };
        self.note(&format!(
            "{windows} measurements of {} s are {length}, besides starting and loading; Ctrl-C keeps what there is",
            self.seconds
        ));
    }

    /// A remark.
    pub(super) fn note(&self, text: &str) {
        say::note(text);
    }

    /// A target is being loaded.
    pub(super) fn loading(&self, target: &str) -> Loading {
        if !self.terminal {
            self.note(&format!("loading {target}"));
        }
        Loading(self.terminal.then(|| bar(&format!("loading {target}"), "{prefix} {wide_bar} {percent:>3} %")))
    }

    /// A measurement begins.
    pub(super) fn measuring(&self, target: &str, case: &Case, repetition: u32) -> Measuring {
        let what = format!("{target}, {case}, repetition {repetition} of {}", self.repetitions);
        if !self.terminal {
            self.note(&format!("measuring {what}"));
        }
        Measuring(self.terminal.then(|| {
            let bar = bar(&what, "{prefix} {wide_bar} {msg}");
            bar.set_length(self.seconds * 10);
            bar
        }))
    }

    /// A measurement has ended.
    pub(super) fn measured(&self, one: &Measurement) {
        let figure = |measure: Measure| measure.of(one).map_or("-".to_owned(), |figure| measure.shown(figure));
        let last = match (&one.footprint, &one.query) {
            (Some(_), _) => Measure::EntryMemory,
            (None, Some(_)) => Measure::MemoryAboveData,
            (None, None) => Measure::P99,
        };
        self.note(&format!(
            "{}, {}, repetition {} of {}: {}, p50 {}, {} {}{}{}",
            one.target,
            one.case(),
            one.repetition,
            self.repetitions,
            figure(Measure::Throughput),
            figure(Measure::P50),
            last.name(),
            figure(last),
            if one.retries > 0 { format!(", {} retries", one.retries) } else { String::new() },
            if one.errors > 0 { format!(", {} WRONG ANSWERS", one.errors) } else { String::new() }
        ));
    }
}

impl Loading {
    pub(super) fn at(&self, done: u64, all: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(all);
            bar.set_position(done);
        }
    }

    pub(super) fn end(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Measuring {
    pub(super) fn at(&self, now: Nanos, completed: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(now / (SECOND / 10));
            bar.set_message(format!("{completed} answers"));
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

fn bar(prefix: &str, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(1).with_prefix(prefix.to_owned());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The table and what is to be said about it.
pub(super) fn summary(run: &Run, folder: &Path) -> Result<()> {
    say::result("")?;
    for line in table::text(&table::of(run)) {
        say::result(&line)?;
    }
    for (title, table) in report::below(run) {
        say::result(&format!("\n{title}"))?;
        for line in table::text(&table) {
            say::result(&line)?;
        }
        say::result("")?;
    }
    for remark in remarks::of(run).into_iter().chain(remarks::harness(run)) {
        say::result(&remark)?;
    }
    say::result(&format!("\nrecord: {}", folder.display()))
}
