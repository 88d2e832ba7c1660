//! Measures the steps of a suite, or finds them measured, and writes its table.
//!
//! ```text
//! OUT/suite.json          which suite, and at which length
//! OUT/GROUP-STEP-ROUND/   the folder of a run; `command` in it is what measures it again, `took-seconds` how long it took
//! OUT/suite.md            the table, and what it was measured on
//! OUT/report.html         what `report` makes of all runs
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use ashlar_base::clock::monotonic;
use serde_json::{Value, json};

use super::numbers::{median, size, spoken};
use super::select::{Measured, Steps};
use super::{Group, Length, Row, SUITES, Shown, Step, Suite, bench, figures, page};
use crate::cli::run_options;
use crate::record::{Measurement, Run, RunState, folder, moment};
use crate::run::NobodyHere;
use crate::workload::{Door, Kind, hash_build_keys, hash_probe_keys};
use crate::{interrupt, report, run as measure, say};

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) suite: String,
    /// Names of groups; empty for all that the length has.
    pub(crate) only: Vec<String>,
    pub(crate) length: Length,
    pub(crate) out: Option<PathBuf>,
    /// The page whose marks get the table.
    pub(crate) page: Option<PathBuf>,
    pub(crate) ashlar: Option<PathBuf>,
}

/// The file that says which suite a folder is of.
const MARK: &str = "suite.json";

/// In the folder of a run: what measures it again.
const COMMAND: &str = "command";

/// Likewise: how long it took, starting and loading servers among it.
const TOOK: &str = "took-seconds";

/// Servers that are slow until they have compiled what they run often.
const PRODUCTS_IN_JAVA: [&str; 3] = ["hazelcast", "geode", "shardingsphere"];

/// Seconds that starting a server takes, at a guess; of a JVM with its client.
const START_SECONDS: [f64; 2] = [1.5, 12.0];

/// Rows, or keys, that are put into a server in a second, at a guess; of `hash-*`, whose rows are three numbers and often in a file.
const FILLED_PER_SECOND: [f64; 2] = [300_000.0, 5_000_000.0];

/// Rows of the query beside, at most: more do not fit into the memory of machines that this is measured on.
const BESIDE_ROWS_MAX: u64 = 50_000_000;

/// A run that is to be there.
struct Planned {
    group: usize,
    step: usize,
    folder: PathBuf,
    round: u32,
    /// Seconds, at a guess.
    estimate: f64,
}

/// Runs a suite. An error means that there is nothing to show.
pub(crate) fn run(options: &Options) -> Result<measure::Outcome> {
    let suite = SUITES.iter().find(|suite| suite.name == options.suite).with_context(|| {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        format!("there is no suite {:?}; there are {}", options.suite, names.join(", "))
    })?;
    let groups = selected(suite, &options.only, options.length)?;
    if let Some(page) = &options.page {
        ensure!(
            options.length != Length::Quick && options.only.is_empty(),
            "only all rows at a length that measures something are worth a page: leave out --quick and --only"
        );
        page::has_marks(page, suite, options.length)?;
    }
    interrupt::watch()?;
    let out = match &options.out {
        Some(out) => out.clone(),
        None => {
            let now = moment::utc(ashlar_base::clock::wall_micros()).replace([':', 'Z'], "");
            PathBuf::from("target/lab").join(format!("{now}-{}-{}", suite.name, options.length.name()))
        }
    };
    claim(&out, suite, options.length)?;
    let planned = plan(&groups, options, &out)?;
    say::note(&format!(
        "suite {}, {} length: {} runs into {}",
        suite.name,
        options.length.name(),
        planned.len(),
        out.display()
    ));
    let mut drive = Drive { groups, options, out, failures: Vec::new() };
    drive.measure_all(&planned)?;
    drive.show(suite)
}

/// The groups that were named, or all of this length.
fn selected(suite: &Suite, only: &[String], length: Length) -> Result<Vec<&'static Group>> {
    if let Some(unknown) = only.iter().find(|name| !suite.groups.iter().any(|group| group.name == **name)) {
        let names: Vec<&str> = suite.groups.iter().map(|group| group.name).collect();
        bail!("{} has no rows {unknown:?}; it has {}", suite.name, names.join(", "));
    }
    let is_wanted = |group: &&Group| {
        if only.is_empty() { !group.long || length == Length::Full } else { only.iter().any(|name| name == group.name) }
    };
    Ok(suite.groups.iter().filter(is_wanted).collect())
}

/// Makes the folder of a suite, or finds it to be of the same.
fn claim(out: &Path, suite: &Suite, length: Length) -> Result<()> {
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let path = out.join(MARK);
    let mark = json!({"suite": suite.name, "length": length.name()});
    match fs::read_to_string(&path) {
        Ok(text) => {
            let found: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
            ensure!(found == mark, "{} is of another suite or length: {found}", out.display());
        }
        Err(_) => fs::write(&path, format!("{mark}\n")).with_context(|| path.display().to_string())?,
    }
    Ok(())
}

/// All runs, in the order in which they are measured: steps of a group in turn, forwards and backwards.
fn plan(groups: &[&'static Group], options: &Options, out: &Path) -> Result<Vec<Planned>> {
    let mut planned = Vec::new();
    for (group, of) in groups.iter().enumerate() {
        if of.rows.iter().all(|row| row.shown == Shown::Buckets) {
            continue;
        }
        let once = of.steps.len() == 1;
        let rounds = if once { 1 } else { options.length.repeat() };
        for round in 1..=rounds {
            let mut order: Vec<usize> = (0..of.steps.len()).collect();
            // What the first round finds, later steps may need.
            if round.is_multiple_of(2) {
                order.reverse();
            }
            for step in order {
                let folder = match once {
                    true => format!("{}-{}", of.name, of.steps[step].name),
                    false => format!("{}-{}-{round}", of.name, of.steps[step].name),
                };
                // One that says how often it is done has all its repetitions in the first round.
                if round > 1 && of.steps[step].words.contains("--repeat") {
                    continue;
                }
                let words = words(&of.steps[step], options.length, once, &|needed| needed.guessed())?;
                let estimate = estimate(&words)?;
                planned.push(Planned { group, step, folder: out.join(folder), round, estimate });
            }
        }
    }
    Ok(planned)
}

/// What the words of a step need to know of another.
#[derive(Clone, Copy, Debug)]
enum Needed<'a> {
    /// Operations a second.
    Rate(&'a str),
    /// Rows that the query beside gets through in a second.
    BesideRows(&'a str),
}

impl Needed<'_> {
    /// As good as any number, before anything is measured.
    fn guessed(self) -> Result<f64> {
        Ok(match self {
            Self::Rate(_) => 1_000.0,
            Self::BesideRows(_) => 850_000.0,
        })
    }

    /// What a measurement says of it. The query says how long it takes where callers fall behind, too.
    fn of(self, run: &Run, one: &Measurement) -> Option<f64> {
        match self {
            Self::Rate(_) => one.is_sound().then_some(one.operations_per_second),
            Self::BesideRows(_) => {
                let beside = one.beside.as_ref().filter(|beside| beside.operations > 0 && one.errors == 0)?;
                Some(run.workload.parameters.get("beside_rows")?.as_f64()? / (beside.latency.mean_us / 1e6))
            }
        }
    }
}

/// The words of a step at a length. `needed` gives what those stand for that name another step.
fn words(step: &Step, length: Length, once: bool, needed: &dyn Fn(Needed<'_>) -> Result<f64>) -> Result<Vec<String>> {
    let mut text = String::new();
    let mut rest = step.words;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').context("a brace that is not closed")?;
        text.push_str(before);
        match (name.split_once(':'), length.size(name), bench::targets(name)) {
            (Some(("half", step)), ..) => {
                text.push_str(&format!("{:.0}", (needed(Needed::Rate(step))? / 2.0).max(1.0)));
            }
            (Some(("beside", step)), ..) => text.push_str(&beside_rows(length, step, needed)?.to_string()),
            (Some(_), ..) => bail!("nothing of another step is called {name:?}"),
            (None, Some(size), _) => text.push_str(&size.to_string()),
            (None, None, Some(targets)) => text.push_str(targets),
            (None, None, None) if name == "threads" => text.push_str(length.threads()),
            (None, None, None) => bail!("there is no size {name:?}"),
        }
        rest = after;
    }
    text.push_str(rest);
    let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let is_java = PRODUCTS_IN_JAVA.iter().chain(&["lettuce="]).any(|name| text.contains(name));
    let repeat = if once { length.repeat() } else { 1 };
    let added = [("--warm-up", length.warm_up(is_java)), ("--seconds", length.seconds()), ("--repeat", repeat)];
    for (flag, number) in added {
        if !words.iter().any(|word| word == flag) {
            words.extend([flag.to_owned(), number.to_string()]);
        }
    }
    Ok(words)
}

/// So many rows that the query beside takes as long as it is to.
fn beside_rows(length: Length, step: &str, needed: &dyn Fn(Needed<'_>) -> Result<f64>) -> Result<u64> {
    let few = length.size("beside").context("there is no size of the query beside")?;
    Ok(match length.beside_seconds() {
        Some(seconds) => ((needed(Needed::BesideRows(step))? * seconds) as u64).clamp(few / 100, BESIDE_ROWS_MAX),
        None => few,
    })
}

/// How long a run takes, at a guess, in seconds.
fn estimate(words: &[String]) -> Result<f64> {
    let options = run_options(words)?;
    let (targets, cases) = (options.targets.len() as f64, options.threads.len().max(1) as f64);
    let entries = options.sizes.rows.or(options.sizes.keys).unwrap_or(100_000) as f64;
    let churn = options.sizes.churn.unwrap_or(0) as f64;
    let is_text = Kind::find(&options.workload)?.door == Door::Text;
    let items = if is_text { options.sizes.items.unwrap_or(0) as f64 } else { 0.0 };
    let filled = entries * (1.0 + churn) + options.sizes.beside_rows.unwrap_or(0) as f64 + items;
    let java = options.targets.iter().any(|target| PRODUCTS_IN_JAVA.iter().any(|name| target.contains(name)));
    let start = START_SECONDS[usize::from(java)] + filled / FILLED_PER_SECOND[usize::from(is_text)];
    let window = f64::from(options.warm_up + options.seconds);
    Ok(targets * f64::from(options.repeat) * (start + cases * window))
}

struct Drive<'a> {
    groups: Vec<&'static Group>,
    options: &'a Options,
    out: PathBuf,
    /// Runs that could not be made.
    failures: Vec<Failure>,
}

/// A run that could not be made.
struct Failure {
    folder: PathBuf,
    reason: String,
    /// Because none of its targets is here, which is no fault.
    nobody: bool,
}

impl Drive<'_> {
    fn measure_all(&mut self, planned: &[Planned]) -> Result<()> {
        let begun = monotonic();
        let (mut guessed, mut left): (f64, f64) = (0.0, planned.iter().map(|one| one.estimate).sum());
        for (place, one) in planned.iter().enumerate() {
            if interrupt::is_set() {
                break;
            }
            left -= one.estimate;
            let Some(words) = self.words_of(one)? else {
                continue;
            };
            let name = one.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if is_measured(&one.folder, &words) {
                say::note(&format!("suite: {name} is there already"));
                continue;
            }
            let elapsed = begun.elapsed().as_secs_f64();
            // Guesses are as wrong for what is left as they were for what is done.
            let pace = if guessed > 0.0 { (elapsed / guessed).clamp(0.2, 5.0) } else { 1.0 };
            say::note(&format!(
                "\nsuite: run {} of {}, {name}; {} so far, about {} left",
                place + 1,
                planned.len(),
                spoken(elapsed),
                spoken(pace * (left + one.estimate))
            ));
            self.measure(one, &words)?;
            guessed += one.estimate;
        }
        Ok(())
    }

    /// The words of a run; None if they depend on another that has failed.
    fn words_of(&mut self, one: &Planned) -> Result<Option<Vec<String>>> {
        let group = self.groups[one.group];
        let (step, once) = (&group.steps[one.step], group.steps.len() == 1);
        let needed = |needed: Needed<'_>| -> Result<f64> {
            let (Needed::Rate(name) | Needed::BesideRows(name)) = needed;
            let first = self.out.join(format!("{}-{name}-1", group.name));
            let run = folder::load(&first)?;
            let target = run.targets.first().context("no target")?;
            let its = run.measurements.iter().filter(|found| found.target == target.name);
            let figures: Vec<f64> = its.filter_map(|found| needed.of(&run, found)).collect();
            median(&figures).with_context(|| format!("{} has no figure", first.display()))
        };
        match words(step, self.options.length, once, &needed) {
            Ok(words) => Ok(Some(words)),
            Err(error) => {
                self.failures.push(Failure { folder: one.folder.clone(), reason: format!("{error:#}"), nobody: false });
                Ok(None)
            }
        }
    }

    /// Measures a run into its folder. That it fails is no reason to leave out the others.
    fn measure(&mut self, one: &Planned, words: &[String]) -> Result<()> {
        set_aside(&one.folder)?;
        fs::create_dir_all(&one.folder).with_context(|| one.folder.display().to_string())?;
        fs::write(one.folder.join(COMMAND), command(words))?;
        let mut options = run_options(words)?;
        options.out = Some(one.folder.clone());
        // Rows name it where they show it.
        options.harness = false;
        options.ashlar.clone_from(&self.options.ashlar);
        // Other numbers in each round, as in the repetitions of one run.
        options.seed = u64::from(one.round);
        let begun = monotonic();
        let outcome = measure::run(&options);
        fs::write(one.folder.join(TOOK), format!("{:.1}\n", begun.elapsed().as_secs_f64()))?;
        if let Err(error) = outcome {
            say::note(&format!("suite: {error:#}"));
            let (folder, reason, nobody) = (one.folder.clone(), format!("{error:#}"), error.is::<NobodyHere>());
            self.failures.push(Failure { folder, reason, nobody });
        }
        Ok(())
    }

    /// What the steps of a group have.
    fn steps(&self, group: &Group) -> Result<Steps> {
        let mut steps = Steps::new();
        let once = group.steps.len() == 1;
        for step in group.steps {
            let words = words(step, self.options.length, once, &|needed| needed.guessed())?;
            let mut measured = Measured { targets: run_options(&words)?.targets, ..Measured::default() };
            for round in 1..=if once { 1 } else { self.options.length.repeat() } {
                let name = match once {
                    true => format!("{}-{}", group.name, step.name),
                    false => format!("{}-{}-{round}", group.name, step.name),
                };
                let path = self.out.join(name);
                let failure = self.failures.iter().find(|failure| failure.folder == path);
                measured.failure = measured.failure.or_else(|| failure.map(|failure| one_line(&failure.reason)));
                if path.join("run.json").is_file() {
                    measured.runs.push(folder::load(&path)?);
                }
            }
            steps.insert(step.name, measured);
        }
        Ok(steps)
    }

    /// Writes the table, and the report of all runs.
    fn show(&self, suite: &Suite) -> Result<measure::Outcome> {
        let (mut rows, mut runs) = (Vec::new(), Vec::new());
        let mut is_whole = !interrupt::is_set() && self.failures.iter().all(|failure| failure.nobody);
        for group in &self.groups {
            let steps = self.steps(group)?;
            for row in group.rows {
                let keys = self.keys_of(group, row)?;
                let shape = figures::of(row, &steps, keys.as_deref())?;
                let what = filled_in(row.what, self.options.length);
                say::note(&format!("{what}: {}", shape.standing));
                rows.push(page::Line { what, wanted: row.wanted, shape });
            }
            for measured in steps.into_values() {
                is_whole &= measured.runs.iter().all(is_sound);
                runs.extend(measured.runs);
            }
        }
        if runs.is_empty() && rows.iter().all(|row| row.shape.figures.is_empty()) {
            bail!("nothing was measured");
        }
        let text = page::text(suite, self.options.length, &runs, self.took()?, &rows);
        let path = self.out.join("suite.md");
        fs::write(&path, &text).with_context(|| path.display().to_string())?;
        say::result(&text)?;
        let folders = self.folders()?;
        if !folders.is_empty() {
            report::run(&folders, Some(&self.out))?;
        }
        say::result(&format!("table: {}", path.display()))?;
        if interrupt::is_set() {
            let again = format!("{} --out {}", self.again(suite), self.out.display());
            say::note(&format!("suite: interrupted; what is there is not measured again by: {again}"));
            return Ok(measure::Outcome::Lacking);
        }
        if let Some(page) = &self.options.page {
            page::write(page, suite, self.options.length, &text)?;
        }
        Ok(if is_whole { measure::Outcome::Whole } else { measure::Outcome::Lacking })
    }

    /// How long all runs took, in seconds, each in whichever call of the suite it was made; None if that is not known of one.
    fn took(&self) -> Result<Option<f64>> {
        let mut seconds = Some(0.0);
        for path in self.folders()? {
            let took = fs::read_to_string(path.join(TOOK)).ok().and_then(|text| text.trim().parse::<f64>().ok());
            seconds = seconds.zip(took).map(|(all, one)| all + one);
        }
        Ok(seconds.filter(|seconds| *seconds > 0.0))
    }

    /// The folders of all runs that are there, by name.
    fn folders(&self) -> Result<Vec<PathBuf>> {
        let mut folders: Vec<PathBuf> = fs::read_dir(&self.out)?.flatten().map(|entry| entry.path()).collect();
        folders.retain(|path| path.join("run.json").is_file() && !is_set_aside(path));
        folders.sort();
        Ok(folders)
    }

    /// The command that goes on.
    fn again(&self, suite: &Suite) -> String {
        let length = match self.options.length {
            Length::Quick => " --quick",
            Length::Short => "",
            Length::Full => " --full",
        };
        let only = if self.options.only.is_empty() {
            String::new()
        } else {
            format!(" --only {}", self.options.only.join(","))
        };
        format!("ashlar-lab suite {}{length}{only}", suite.name)
    }

    /// The keys that Impala's layouts are filled with, of a row that shows them.
    fn keys_of(&self, group: &Group, row: &Row) -> Result<Option<Vec<u32>>> {
        let step = group.steps.iter().find(|step| row.of.contains(&step.name));
        match (row.shown, step) {
            (Shown::Buckets | Shown::StructureOfBuckets { .. }, Some(step)) => {
                let words = words(step, self.options.length, true, &|_| bail!("nothing is run"))?;
                let options = run_options(&words)?;
                let keys = if options.workload == "hash-probe" { hash_probe_keys } else { hash_build_keys };
                keys(&options.sizes).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// The command of a run, as a person would type it.
fn command(words: &[String]) -> String {
    format!("ashlar-lab run {}\n", words.join(" "))
}

/// Whether a folder has this run, whole.
fn is_measured(path: &Path, words: &[String]) -> bool {
    let same = fs::read_to_string(path.join(COMMAND)).is_ok_and(|found| found == command(words));
    same && folder::load(path).is_ok_and(|run| run.state == RunState::Complete)
}

/// Makes room for a run; what is there is kept beside.
fn set_aside(path: &Path) -> Result<()> {
    if !path.join("run.json").exists() {
        return Ok(());
    }
    let mut number = 1;
    let beside = |number: u32| PathBuf::from(format!("{}.old-{number}", path.display()));
    while beside(number).exists() {
        number += 1;
    }
    Ok(fs::rename(path, beside(number))?)
}

fn is_set_aside(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(".old-"))
}

/// Whether nothing of what could be measured is missing or wrong.
fn is_sound(run: &Run) -> bool {
    run.state == RunState::Complete && run.measurements.iter().all(|one| one.errors == 0 && one.refused.is_none())
}

/// A text with the sizes of a length, as people read them.
pub(super) fn filled_in(text: &str, length: Length) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        out.push_str(before);
        out.push_str(&length.size(name).map_or_else(|| name.to_owned(), size));
        rest = after;
    }
    out + rest
}

fn one_line(text: &str) -> String {
    // The first says only that nothing was.
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// The words of a step whose query beside got through so many rows in a second, in a run of them that is made up.
#[cfg(test)]
pub(super) fn beside_of(step: &Step, length: Length, run: &Run) -> Result<Vec<String>> {
    let one = run.measurements.first().context("nothing is measured")?;
    words(step, length, false, &|needed| needed.of(run, one).context("no figure"))
}

/// Whether the words of a step can be read, and its workload takes its sizes.
#[cfg(test)]
pub(super) fn check(step: &Step, length: Length, once: bool) -> Result<()> {
    let words = words(step, length, once, &|needed| needed.guessed())?;
    let options = run_options(&words)?;
    let kind = Kind::find(&options.workload)?;
    // The others make millions of answers beforehand.
    if length == Length::Quick {
        kind.with(&options.sizes)?;
    }
    for target in &options.targets {
        crate::targets::Target::parse(target)?;
    }
    Ok(())
}

/// How long a suite takes at a length, at a guess, in seconds.
#[cfg(test)]
pub(super) fn seconds(suite: &Suite, length: Length) -> Result<f64> {
    let options =
        Options { suite: suite.name.to_owned(), only: Vec::new(), length, out: None, page: None, ashlar: None };
    let planned = plan(&selected(suite, &[], length)?, &options, Path::new("nowhere"))?;
    Ok(planned.iter().map(|one| one.estimate).sum())
}
