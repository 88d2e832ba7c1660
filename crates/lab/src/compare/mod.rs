//! `ashlar-lab compare BASE TEST`: per measure the difference with its interval, and a word.
//!
//! Reads two records and their profiles; decides by `statistics`. Never compares what was not measured under the same conditions.

mod functions;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use crate::record::measure::{MEASURES, Measure};
use crate::record::{Case, Load, Measurement, Run, folder};
use crate::report::is_harness;
use crate::report::remarks::UNLIKE_CLIENTS;
use crate::say;
use crate::statistics::{Interval, confidence_of_each, difference, geometric_mean};

/// Repetitions that each side must have.
const REPETITIONS_MIN: usize = 2;

/// How words are decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// The probability that no difference of the whole table is one by chance.
    pub(crate) confidence: f64,
    /// Differences below this ratio are none, however sure they are.
    pub(crate) least: f64,
}

/// One side: a target of a run.
pub(crate) struct Side {
    run: Run,
    folder: PathBuf,
    target: String,
}

/// What is said of a measure, and of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Faster,
    Slower,
    /// It needs less.
    Less,
    /// It needs more.
    More,
    NoDifference,
}

impl Word {
    fn text(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Less => "less",
            Self::More => "more",
            Self::NoDifference => "no difference",
        }
    }

    fn of(measure: Measure, interval: &Interval, least: f64) -> Self {
        let (more, less) = (interval.is_above(least), interval.is_below(least));
        let better = if measure.more_is_better() { more } else { less };
        match (more || less, better, measure.is_need()) {
            (false, ..) => Self::NoDifference,
            (true, true, false) => Self::Faster,
            (true, true, true) => Self::Less,
            (true, false, false) => Self::Slower,
            (true, false, true) => Self::More,
        }
    }

    fn is_worse(self) -> bool {
        matches!(self, Self::Slower | Self::More)
    }
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) case: Case,
    pub(crate) measure: Measure,
    pub(crate) base: f64,
    pub(crate) test: f64,
    pub(crate) interval: Interval,
    pub(crate) word: Word,
}

/// The outcome.
#[derive(Debug)]
pub(crate) enum Comparison {
    /// Machines or workloads differ, in these ways.
    Unlike(Vec<String>),
    /// They are alike.
    Alike {
        rows: Vec<Row>,
        /// The word for the whole: slower if anything became worse.
        word: Word,
        /// Measures that at least one side has no figures of in some case, and what it takes to have them.
        missing: Vec<(Measure, &'static str)>,
        /// Wrong answers of both sides. Where there are any, no word is sure: what is fast may be so because it is wrong.
        wrong: u64,
    },
}

impl Comparison {
    /// Whether anything became worse; None where nothing can be said.
    pub(crate) fn is_worse(&self) -> Option<bool> {
        match self {
            Self::Unlike(_) | Self::Alike { wrong: 1.., .. } => None,
            Self::Alike { word, .. } => Some(word.is_worse()),
        }
    }
}

impl Side {
    /// Reads `FOLDER` or `FOLDER:TARGET`; `like` is the target of the other side, which is taken where several are there.
    fn load(text: &str, like: Option<&str>) -> Result<Self> {
        let (folder, named) = split(text);
        let folder = PathBuf::from(folder);
        let run = folder::load(&folder)?;
        let mut there: Vec<String> = Vec::new();
        for (target, _) in run.cells() {
            if !there.contains(&target) {
                there.push(target);
            }
        }
        // What the harness costs is measured beside every target, and is compared only if that is said.
        let servers: Vec<&String> = there.iter().filter(|target| !is_harness(target)).collect();
        let target = match (named, &there[..]) {
            (Some(named), all) if all.iter().any(|target| target == named) => named.to_owned(),
            (Some(named), all) => bail!("{} has no figures of {named}, but of {all:?}", folder.display()),
            (None, [only]) => only.clone(),
            (None, _) if servers.len() == 1 => servers[0].clone(),
            (None, all) => match like.filter(|like| all.iter().any(|target| target == like)) {
                Some(like) => like.to_owned(),
                None => bail!("{} has figures of {all:?}: say which, as {}:TARGET", folder.display(), folder.display()),
            },
        };
        Ok(Self { run, folder, target })
    }

    fn named(&self) -> Option<&str> {
        Some(&self.target)
    }

    fn sound<'a>(&'a self, case: &'a Case) -> impl Iterator<Item = &'a Measurement> {
        self.run.of(&self.target, case).filter(|one| one.is_sound())
    }

    fn figures(&self, measure: Measure, case: &Case) -> Vec<f64> {
        self.sound(case).filter_map(|one| measure.of(one)).collect()
    }

    /// The ratio by which a figure may differ from what it stands for.
    fn resolution(&self, measure: Measure, case: &Case) -> f64 {
        self.sound(case).filter_map(|one| measure.resolution(one)).fold(0.0, f64::max)
    }

    fn wrong_answers(&self) -> u64 {
        self.run.measurements.iter().filter(|one| one.target == self.target).map(|one| one.errors).sum()
    }
}

/// The folder of `FOLDER` or `FOLDER:TARGET`, and the target. A folder may have a colon in its name, and so has a target that is an
/// address, so the shortest part that is a folder is taken for it.
fn split(text: &str) -> (&str, Option<&str>) {
    if Path::new(text).is_dir() {
        return (text, None);
    }
    let mut parts = text.match_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
    match parts.find(|(folder, _)| Path::new(folder).is_dir()) {
        Some((folder, target)) => (folder, Some(target)),
        None => (text, None),
    }
}

/// Compares the two and shows the outcome on standard output; flame graphs of differences go to `out`, or beside the test.
pub(crate) fn run(base: &str, test: &str, options: Options, out: Option<&Path>) -> Result<Comparison> {
    // Whichever side says its target says it for the other, if that has several.
    let (base, test) = match Side::load(base, None) {
        Ok(base) => {
            let test = Side::load(test, base.named())?;
            (base, test)
        }
        Err(reason) => {
            let test = Side::load(test, None).map_err(|_| reason)?;
            (Side::load(base, test.named())?, test)
        }
    };
    table::heading(&base, &test)?;
    let comparison = compare(&base, &test, options)?;
    table::show(options, &comparison)?;
    if let Comparison::Alike { .. } = comparison {
        // The word stands, whatever becomes of what explains it.
        match functions::compare(&base, &test, out.unwrap_or(&test.folder)) {
            Ok(differences) => differences.iter().try_for_each(functions::Difference::show)?,
            Err(error) => say::note(&format!("the profiles cannot be compared: {error:#}")),
        }
    }
    Ok(comparison)
}

/// What two sides do not have in common although their figures can be compared: it may be what is compared, or what misleads.
fn notes(base: &Side, test: &Side) -> Vec<String> {
    let mut notes = Vec::new();
    if base.run.started_at != test.run.started_at {
        notes.push(format!(
            "made at {} and {}: what drifted in between is not in the interval; targets of one run are measured in turn",
            base.run.started_at, test.run.started_at
        ));
    }
    if base.run.lab_build != test.run.lab_build {
        notes.push(format!("the lab was built as {} and {}", base.run.lab_build, test.run.lab_build));
    }
    let (before, after) = (base.run.target(&base.target), test.run.target(&test.target));
    if let (Some(before), Some(after)) = (before, after)
        && before.client != after.client
    {
        notes.push(format!(
            "the base was loaded by {}, the test by {}. {UNLIKE_CLIENTS}",
            before.client.text(),
            after.client.text()
        ));
    }
    if let (Some(before), Some(after)) = (before, after)
        && before.name == after.name
        && before.configuration != after.configuration
    {
        let only = |these: &[String], those: &[String]| {
            let lines: Vec<&str> = these.iter().filter(|line| !those.contains(line)).map(String::as_str).collect();
            if lines.is_empty() { "nothing".to_owned() } else { lines.join("; ") }
        };
        notes.push(format!(
            "{} was configured differently: only the base has {}, only the test has {}",
            before.name,
            only(&before.configuration, &after.configuration),
            only(&after.configuration, &before.configuration)
        ));
    }
    notes
}

/// The outcome for two sides.
pub(crate) fn compare(base: &Side, test: &Side, options: Options) -> Result<Comparison> {
    let unlike = differences(&base.run, &test.run);
    if !unlike.is_empty() {
        return Ok(Comparison::Unlike(unlike));
    }
    let mut figures = Vec::new();
    let mut missing = Vec::new();
    for case in &base.run.load.cases() {
        for (side, run) in [("base", base), ("test", test)] {
            let all = run.run.of(&run.target, case).count();
            let sound = run.sound(case).count();
            ensure!(
                sound >= REPETITIONS_MIN,
                "the {side}, {} of {}, has {sound} sound repetitions of {all} with {case}; {REPETITIONS_MIN} are needed, five or more are better",
                run.target,
                run.folder.display()
            );
        }
        for measure in MEASURES {
            let (before, after) = (base.figures(*measure, case), test.figures(*measure, case));
            if before.len() >= REPETITIONS_MIN && after.len() >= REPETITIONS_MIN {
                let resolution = base.resolution(*measure, case) + test.resolution(*measure, case);
                figures.push((case.clone(), *measure, before, after, resolution));
            } else if let Some(needs) = measure.needs()
                && !missing.contains(&(*measure, needs))
            {
                missing.push((*measure, needs));
            }
        }
    }
    let confidence = confidence_of_each(options.confidence, figures.len());
    let mut rows = Vec::new();
    for (case, measure, before, after, resolution) in figures {
        if let Some(interval) = difference(&before, &after, confidence, resolution) {
            let word = Word::of(measure, &interval, options.least);
            let (base, test) = (geometric_mean(&before), geometric_mean(&after));
            rows.push(Row { case, measure, base, test, interval, word });
        }
    }
    let word = if rows.iter().any(|row| row.word.is_worse()) {
        Word::Slower
    } else if rows.iter().any(|row| row.word != Word::NoDifference) {
        Word::Faster
    } else {
        Word::NoDifference
    };
    Ok(Comparison::Alike { rows, word, missing, wrong: base.wrong_answers() + test.wrong_answers() })
}

/// What two runs do not have in common although figures depend on it.
fn differences(base: &Run, test: &Run) -> Vec<String> {
    let mut found = base.machine.differences(&test.machine);
    let mut differ = |what: &str, base: String, test: String| {
        if base != test {
            found.push(format!("{what}: {base}, {test}"));
        }
    };
    let lab = |run: &Run| {
        let assertions = if run.lab_debug_assertions { " with debug assertions" } else { "" };
        format!("{}{assertions}", run.lab_version)
    };
    differ("lab", lab(base), lab(test));
    differ("workload", base.workload.name.clone(), test.workload.name.clone());
    let parameters = |run: &Run| {
        let named: Vec<String> =
            run.workload.parameters.iter().map(|(name, value)| format!("{name} {value}")).collect();
        named.join(", ")
    };
    differ("sizes", parameters(base), parameters(test));
    // The number of repetitions is how sure one is, and nothing that a figure depends on.
    let load = |load: &Load| {
        let rate = load.rate_per_second.map_or("as fast as it goes".to_owned(), |rate| format!("{rate}/s"));
        let cores = |cores: &Option<String>| cores.clone().unwrap_or_else(|| "any".to_owned());
        format!(
            "{rate} with {:?} threads{} for {} s after {} s, server on cores {}, client on {}, profiled {:?}",
            load.threads,
            if load.queries.is_empty() { String::new() } else { format!(", queries {:?}", load.queries) },
            load.measured_seconds,
            load.warm_up_seconds,
            cores(&load.server_cores),
            cores(&load.client_cores),
            load.profiles
        )
    };
    differ("load", load(&base.load), load(&test.load));
    found
}

#[cfg(test)]
mod tests;
