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

/// CPU seconds of a first build, measured; divided by the cores it gives the promise of the first line.
const FIRST_BUILD_CPU_SECONDS: u64 = 1_300;

/// CPU seconds of the slowest crates in the profile `demo` (cargo's own timings, two cores); all others count as one.
/// They only steer the bar and the time left: a wrong figure here makes the forecast worse and nothing else.
const SLOW: &[(&str, f64)] = &[
    ("datafusion-physical-plan", 104.0),
    ("sqlparser", 103.0),
    ("datafusion-expr", 95.0),
    ("parquet", 67.0),
    ("arrow-cast", 61.0),
    ("datafusion-physical-expr", 60.0),
    ("datafusion-functions", 57.0),
    ("arrow-ord", 55.0),
    ("arrow-select", 43.0),
    ("datafusion-common", 42.0),
    ("arrow-arith", 34.0),
    ("datafusion-functions-aggregate-common", 22.0),
    ("regex-automata", 18.0),
    ("arrow-array", 17.0),
    ("datafusion-datasource", 16.0),
    ("arrow-string", 14.0),
    ("zstd-sys", 13.0),
    ("tokio", 12.0),
    ("object_store", 12.0),
];

/// A test program that the build made.
pub(crate) struct TestBinary {
    /// `store`, `server (ashlar)`, `it`: what a person calls it.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) executable: PathBuf,
    /// The folder of its package: cargo runs tests there, so do we.
    pub(crate) folder: PathBuf,
}

/// Builds the server and every test of the workspace in `profile`; returns the test programs.
pub(crate) fn workspace(profile: &str) -> Result<Vec<TestBinary>> {
    let plan = Plan::read()?;
    let first = !run::target_dir().join(profile).join(".ashlar-built").exists();
    if first {
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let minutes = (FIRST_BUILD_CPU_SECONDS / cores).div_ceil(60);
        eprintln!(
            "x: first build: {} crates, about {minutes} min on the {cores} cores of this machine when they are idle; \
             later builds take seconds",
            plan.weights.len()
        );
        fetch()?;
    }
    let start = Instant::now();
    let tests = cargo_build(profile, &plan)?;
    if first {
        std::fs::write(run::target_dir().join(profile).join(".ashlar-built"), "")?;
        eprintln!("x: built in {}", run::spoken(start.elapsed()));
    }
    Ok(tests)
}

/// Builds the program `ashlar` in a profile of its own (benchmarks); no tests are compiled, which is why the profile of
/// the tests is not touched: without their dependencies features may resolve otherwise.
pub(crate) fn server(profile: &str) -> Result<()> {
    if profile == run::PROFILE {
        return workspace(profile).map(drop);
    }
    let plan = Plan::read()?;
    fetch()?;
    cargo_build_with(&["--workspace", "--bins"], profile, &plan).map(drop)
}

fn cargo_build(profile: &str, plan: &Plan) -> Result<Vec<TestBinary>> {
    cargo_build_with(&["--workspace", "--bins", "--tests"], profile, plan)
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
    fn read() -> Result<Plan> {
        let host = run::host()?;
        let metadata =
            run::read(Command::new("cargo").args(["metadata", "--format-version", "1", "--filter-platform", &host]))?;
        Ok(Plan::parse(&serde_json::from_str(&metadata)?))
    }

    fn parse(metadata: &Value) -> Plan {
        let slow: HashMap<&str, f64> = SLOW.iter().copied().collect();
        let mut names = HashMap::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            if let (Some(id), Some(name)) = (package["id"].as_str(), package["name"].as_str()) {
                names.insert(id, name);
            }
        }
        let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
        let ids = nodes.filter_map(|node| node["id"].as_str());
        let weigh = |id: &str| names.get(id).and_then(|name| slow.get(name)).copied().unwrap_or(1.0);
        Plan { weights: ids.map(|id| (id.to_owned(), weigh(id))).collect() }
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
