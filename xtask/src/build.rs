//! Builds the workspace with cargo and shows how far it is: a bar at a terminal, a line every 15 seconds elsewhere.
//!
//! Called by every verb that needs the server or the tests. Always the whole workspace with the same flags: building
//! one package alone would resolve other features and compile DataFusion a second time.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use crate::run;

/// Where no bar can be drawn, a line this often.
const LINE_EVERY: Duration = Duration::from_secs(15);

/// CPU seconds of a first build, on a good day and on a bad one of virtual machines of the same kind; divided by the cores they give
/// the promise of the first line. The last one that was measured took 18 minutes on two cores, and days differ by half.
const FIRST_BUILD_CPU_SECONDS: [u64; 2] = [1_415, 2_400];

/// CPU seconds of the slowest crates in the profile `demo` (cargo's own timings, two cores); all others count as one.
/// They only steer the bar and the time left: a wrong figure here makes the forecast worse and nothing else.
const SLOW: &[(&str, f64)] = &[
    ("datafusion", 98.0),
    ("tikv-jemalloc-sys", 74.0),
    ("datafusion-catalog", 71.0),
    ("pg_query", 42.0),
    ("datafusion-catalog-listing", 26.0),
    ("datafusion-physical-plan", 23.0),
    ("ashlar-server", 21.0),
    ("sqlparser", 21.0),
    ("datafusion-functions-aggregate", 20.0),
    ("zstd-sys", 19.0),
    ("ashlar-functions", 18.0),
    ("arrow-array", 18.0),
    ("parquet", 14.0),
    ("datafusion-optimizer", 13.0),
    ("object", 13.0),
    ("tokio", 13.0),
    ("datafusion-functions-nested", 12.0),
    ("datafusion-functions-aggregate-common", 12.0),
    ("datafusion-functions", 12.0),
    ("datafusion-physical-expr", 12.0),
    ("datafusion-sql", 12.0),
    ("datafusion-expr", 11.0),
    ("datafusion-session", 11.0),
    ("ashlar-query", 10.0),
    ("datafusion-common", 9.0),
    ("arrow-cast", 9.0),
    ("ashlar-store", 8.0),
    ("rustix", 8.0),
    ("num-bigint", 8.0),
    ("regex-automata", 8.0),
    ("ashlar-base", 8.0),
    ("arrow-ord", 7.0),
    ("arrow-select", 7.0),
    ("bindgen", 7.0),
];

/// A test program that the build made.
pub(crate) struct TestBinary {
    /// `store`, `lab (ashlar-lab)`, `it`: what a person calls it.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) executable: PathBuf,
    /// The folder of its package: cargo runs tests there, so do we.
    pub(crate) folder: PathBuf,
}

/// Builds the server and every test of the workspace in `profile`; returns the test programs.
pub(crate) fn workspace(profile: &str) -> Result<Vec<TestBinary>> {
    let plan = Plan::read(&[])?;
    first_or_again(profile, &plan, || cargo_build_with(&["--workspace", "--bins", "--tests"], profile, &plan))
}

/// Builds the program `ashlar` in `profile` and no test.
pub(crate) fn server(profile: &str) -> Result<()> {
    programs(profile, &[("ashlar-server", "ashlar")])
}

/// Builds programs, each named after its package, in `profile` and no test. Of the whole workspace, so that features resolve as they do
/// for the tests: what is built here is not compiled again for them.
pub(crate) fn programs(profile: &str, programs: &[(&str, &str)]) -> Result<()> {
    let packages: Vec<&str> = programs.iter().map(|(package, _)| *package).collect();
    let plan = Plan::read(&packages)?;
    let mut targets = vec!["--workspace"];
    programs.iter().for_each(|(_, program)| targets.extend(["--bin", *program]));
    first_or_again(profile, &plan, || cargo_build_with(&targets, profile, &plan)).map(drop)
}

/// Says what a first build will cost, and what it did cost.
fn first_or_again<T>(profile: &str, plan: &Plan, build: impl FnOnce() -> Result<T>) -> Result<T> {
    let mark = run::target_dir().join(profile).join(".ashlar-built");
    let first = !mark.exists();
    if first {
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let forecast = match profile {
            run::PROFILE => {
                let [least, most] = first_build_minutes(cores);
                format!("{least} to {most} min on the {cores} cores of this machine when they are idle")
            }
            _ => "optimised, which takes about twice as long as the demo's".to_owned(),
        };
        eprintln!("x: first build: {} crates, {forecast}; later builds take seconds", plan.weights.len());
        fetch()?;
    }
    let start = Instant::now();
    let built = build()?;
    if first {
        std::fs::write(mark, "")?;
        eprintln!("x: built in {}", run::spoken(start.elapsed()));
    }
    Ok(built)
}

/// From how many to how many minutes a first build takes on so many cores, of which there is one at least.
fn first_build_minutes(cores: u64) -> [u64; 2] {
    FIRST_BUILD_CPU_SECONDS.map(|seconds| (seconds / cores).div_ceil(60))
}

fn cargo_build_with(targets: &[&str], profile: &str, plan: &Plan) -> Result<Vec<TestBinary>> {
    let terminal = std::io::stderr().is_terminal();
    let mut command = Command::new("cargo");
    command
        .arg("build")
        .args(targets)
        .args(["--profile", profile, "--quiet", "--message-format=json-render-diagnostics"])
        .env("CARGO_TERM_COLOR", if terminal { "always" } else { "never" })
        .env("CARGO_TERM_PROGRESS_WHEN", "never")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if std::env::var_os("CI").is_some() {
        command.arg("--locked");
    }
    let mut cargo = command.spawn().context("running cargo")?;
    let progress = Arc::new(Progress::new(plan, terminal));

    // Compiler messages pass above the bar. The thread ends with cargo's error output.
    let stderr = cargo.stderr.take().context("cargo's error output")?;
    let messages = {
        let progress = Arc::clone(&progress);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                progress.say(&line);
            }
        })
    };
    let (stop_ticking, ticks) = std::sync::mpsc::channel::<()>();
    let ticker = {
        let progress = Arc::clone(&progress);
        std::thread::spawn(move || {
            let every = if terminal { Duration::from_secs(1) } else { LINE_EVERY };
            while ticks.recv_timeout(every) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                progress.tick();
            }
        })
    };

    let stdout = cargo.stdout.take().context("cargo's output")?;
    let mut tests = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        if message["reason"] == "compiler-artifact" {
            progress.artifact(&message);
            tests.extend(test_binary(&message));
        }
    }
    let status = cargo.wait()?;
    drop(stop_ticking);
    let _ = ticker.join();
    let _ = messages.join();
    progress.finish();
    if !status.success() {
        bail!("the build failed (messages above)");
    }
    tests.sort_by(|a, b| (a.name == "it", &a.name).cmp(&(b.name == "it", &b.name)));
    Ok(tests)
}

fn test_binary(artifact: &Value) -> Option<TestBinary> {
    if artifact["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(artifact["executable"].as_str()?);
    let folder = PathBuf::from(artifact["manifest_path"].as_str()?).parent()?.to_owned();
    let target = artifact["target"]["name"].as_str()?;
    let package = folder.file_name()?.to_str()?;
    let name = match artifact["target"]["kind"][0].as_str()? {
        "lib" => package.to_owned(),
        "test" if package == "tests" => target.to_owned(),
        _ if target == package => package.to_owned(),
        _ => format!("{package} ({target})"),
    };
    Some(TestBinary { name, executable, folder })
}

/// Downloads the crates with cargo's own display, so that the build itself needs no network.
fn fetch() -> Result<()> {
    run::run("cargo", &["fetch", "--target", &run::host()?])
}

/// The crates of the build and what each is expected to cost.
struct Plan {
    weights: HashMap<String, f64>,
}

impl Plan {
    /// The crates of the workspace, or those that some of its packages need.
    fn read(packages: &[&str]) -> Result<Plan> {
        let host = run::host()?;
        let metadata =
            run::read(Command::new("cargo").args(["metadata", "--format-version", "1", "--filter-platform", &host]))?;
        Ok(Plan::parse(&serde_json::from_str(&metadata)?, packages))
    }

    fn parse(metadata: &Value, wanted: &[&str]) -> Plan {
        let slow: HashMap<&str, f64> = SLOW.iter().copied().collect();
        let mut names = HashMap::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            if let (Some(id), Some(name)) = (package["id"].as_str(), package["name"].as_str()) {
                names.insert(id, name);
            }
        }
        let mut needs: HashMap<&str, Vec<&str>> = HashMap::new();
        for node in metadata["resolve"]["nodes"].as_array().into_iter().flatten() {
            let is_for_tests = |dep: &Value| {
                dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().all(|kind| kind["kind"] == "dev"))
            };
            let deps = node["deps"].as_array().into_iter().flatten().filter(|dep| !is_for_tests(dep));
            if let Some(id) = node["id"].as_str() {
                needs.insert(id, deps.filter_map(|dep| dep["pkg"].as_str()).collect());
            }
        }
        let weigh = |id: &str| names.get(id).and_then(|name| slow.get(name)).copied().unwrap_or(1.0);
        let mut weights = HashMap::new();
        let is_wanted = |id: &&str| wanted.is_empty() || names.get(id).is_some_and(|name| wanted.contains(name));
        let mut open: Vec<&str> = needs.keys().copied().filter(is_wanted).collect();
        while let Some(id) = open.pop() {
            if weights.insert(id.to_owned(), weigh(id)).is_none() {
                open.extend(needs.get(id).into_iter().flatten());
            }
        }
        Plan { weights }
    }
}

/// What is done, and the bar that shows it.
struct Progress {
    start: Instant,
    weights: HashMap<String, f64>,
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    done: HashSet<String>,
    /// Weight of what was up to date already: it says nothing about the speed of this machine.
    fresh: f64,
    compiled: f64,
}

impl Progress {
    fn new(plan: &Plan, terminal: bool) -> Progress {
        let bar = terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("  building [{bar:32}] {msg}") {
                bar.set_style(style.progress_chars("=> "));
            }
            bar
        });
        Progress { start: Instant::now(), weights: plan.weights.clone(), bar, state: Mutex::default() }
    }

    fn artifact(&self, message: &Value) {
        // A build script is not its crate yet.
        if message["target"]["kind"][0] == "custom-build" {
            return;
        }
        let Some(id) = message["package_id"].as_str() else {
            return;
        };
        let weight = self.weights.get(id).copied().unwrap_or(0.0);
        if let Ok(mut state) = self.state.lock()
            && state.done.insert(id.to_owned())
        {
            if message["fresh"] == true {
                state.fresh += weight;
            } else {
                state.compiled += weight;
            }
        }
    }

    fn tick(&self) {
        let Ok(state) = self.state.lock() else {
            return;
        };
        let all: f64 = self.weights.values().sum();
        let left = (all - state.fresh - state.compiled).max(0.0);
        let elapsed = self.start.elapsed();
        let mut text = format!("{} of {} crates, {}", state.done.len(), self.weights.len(), run::spoken(elapsed));
        if let Some(left) = time_left(elapsed, state.compiled, left) {
            text.push_str(&format!(", about {} left", run::spoken(left)));
        }
        match &self.bar {
            Some(bar) => {
                bar.set_position((1000.0 * (1.0 - left / all.max(1.0))) as u64);
                bar.set_message(text);
            }
            None => eprintln!("  building: {text}"),
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None => eprintln!("{line}"),
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The forecast, once enough has been compiled to know the speed of this machine. Rounded: it is a forecast.
fn time_left(elapsed: Duration, compiled: f64, left: f64) -> Option<Duration> {
    if elapsed < Duration::from_secs(10) || compiled < 10.0 {
        return None;
    }
    let seconds = elapsed.as_secs_f64() / compiled * left;
    Some(Duration::from_secs((seconds / 10.0).ceil() as u64 * 10))
}

#[cfg(test)]
mod tests;
