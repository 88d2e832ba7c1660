//! `./x test`, `./x slt`, `./x conformance`: build, run the test programs one after the other, sum up.
//!
//! Runs the programs itself instead of through `cargo test`, so that a passing crate is one line with its time, the
//! integration tests show themselves as they go, and what failed is repeated at the end.

mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::build::{self, TestBinary};
use crate::{run, setup, tidy};

/// How a line begins by which a test says that it cannot be done on this machine. It passes all the same.
const SKIPPED: &str = "SKIPPED  ";

/// And one by which it says that it did less than elsewhere, because something is not on this machine.
const WITHOUT: &str = "WITHOUT  ";

/// The variable by which a test is given its random numbers, and the name under which it prints from what they come.
const SEED: &str = "ASHLAR_SEED";

/// The integration tests: one program that meets the server as a process.
const INTEGRATION: &str = "it";

/// Lines of one failed test that are repeated at the end: the message and where it is from are the first.
const TOLD_MAX: usize = 40;

/// Failed tests of a whole run that are tried once more, each by itself. Real processes, real faults and two thousand tests on
/// a machine that others use: one that loses a race with the machine should be seen and mended, and not hold up what has
/// nothing to do with it. More than a few at once are no chance.
const AGAIN_MAX: usize = 2;

/// What one test program did.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// Names of the tests that failed.
    failures: Vec<String>,
    /// Names of the tests that failed among the others and passed by themselves.
    unsteady: Vec<String>,
    /// What tests that failed have printed, each under its name.
    told: Vec<String>,
    /// Of those with random numbers, the seed that they have printed.
    seeds: BTreeMap<String, String>,
    /// It ended badly without saying so in a result line: a crash, or a test that stopped the process.
    crashed: bool,
}

/// `./x test`.
pub(crate) fn test(filter: Option<&str>) -> Result<()> {
    let start = Instant::now();
    let mut lines = Vec::new();
    let mut total = Outcome::default();
    // Before the build: what takes a moment to find should not wait for it.
    if filter.is_none() {
        let report = tidy::run(&run::root()?)?;
        report.problems.iter().for_each(|problem| println!("tidy: {problem}"));
        let broken = report.rules_broken.len() as u64;
        lines.push(line("tidy", report.rules_kept, broken, start.elapsed()));
        println!("{}", lines[0]);
        let failures = report.rules_broken.iter().map(|rule| (*rule).to_owned()).collect();
        total.add("tidy", Outcome { passed: report.rules_kept, failed: broken, failures, ..Outcome::default() });
        let began = Instant::now();
        let is_formatted = run::run("cargo", &["fmt", "--all", "--check"]).is_ok();
        lines.push(line("format", u64::from(is_formatted), u64::from(!is_formatted), began.elapsed()));
        println!("{}", lines[lines.len() - 1]);
        let failures = if is_formatted { vec![] } else { vec!["sources are not formatted: ./x fix".to_owned()] };
        let (passed, failed) = (u64::from(is_formatted), u64::from(!is_formatted));
        total.add("format", Outcome { passed, failed, failures, ..Outcome::default() });
    }
    setup::require(&[setup::BUILD, setup::CLIENTS, setup::POSTGRES, setup::TEST, setup::JAVA])?;
    let began = Instant::now();
    let binaries = build::workspace(run::PROFILE)?;
    lines.push(format!("{:<26}{:>42}", "build", run::spoken(began.elapsed())));
    let mut again: Vec<(&TestBinary, String, Option<String>)> = Vec::new();
    for binary in &binaries {
        let began = Instant::now();
        let arguments: Vec<&str> = filter.into_iter().collect();
        let outcome = run_with(binary, &arguments, &[], binary.name == INTEGRATION)?;
        let seed_of = |name: &String| outcome.seeds.get(name).cloned();
        again.extend(outcome.failures.iter().map(|name| (binary, name.clone(), seed_of(name))));
        if outcome.passed + outcome.failed > 0 || outcome.crashed {
            lines.push(line(&binary.name, outcome.passed, outcome.failed, began.elapsed()));
            println!("{}", lines[lines.len() - 1]);
        }
        total.add(&binary.name, outcome);
    }
    // Of a whole run alone: whoever names tests wants to see how often they fail.
    if filter.is_none() && again.len() <= AGAIN_MAX {
        for (binary, name, seed) in &again {
            // With other random numbers it would be another test, and what the first one has found be lost.
            let environment: Vec<(&str, &str)> = seed.iter().map(|seed| (SEED, seed.as_str())).collect();
            let with = seed.as_ref().map_or_else(String::new, |seed| format!(", with {SEED}={seed}"));
            println!("\nonce more, by itself{with}: {}: {name}", binary.name);
            total.add_again(&binary.name, name, &run_with(binary, &["--exact", name], &environment, true)?);
        }
    }
    println!("\nsummary");
    for line in &lines {
        println!("  {line}");
    }
    println!("  {:<26}{:>42}", "all", run::spoken(start.elapsed()));
    conclude(total)
}

/// `./x slt PATH`: the runner of the integration tests, told by a variable which files to take.
pub(crate) fn slt(path: &Path) -> Result<()> {
    if !path.exists() {
        bail!("{} does not exist; sqllogictest files are under tests/slt", path.display());
    }
    let path = path.to_string_lossy();
    // The TPC-H files need loaded tables and have a runner of their own.
    let runner = if path.contains("tpch") { "tpch::" } else { "slt::" };
    integration(&[runner], &[("SLT", path.trim_start_matches("./"))])
}

/// `./x conformance`: real clients and wire conversations.
pub(crate) fn conformance() -> Result<()> {
    integration(&["clients::", "wire::"], &[])
}

fn integration(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    setup::require(&[setup::BUILD, setup::CLIENTS, setup::POSTGRES, setup::TEST, setup::JAVA])?;
    let binaries = build::workspace(run::PROFILE)?;
    let binary = binaries.iter().find(|binary| binary.name == INTEGRATION).context("there is no integration test")?;
    let outcome = run_with(binary, arguments, environment, true)?;
    if outcome.passed + outcome.failed == 0 && !outcome.crashed {
        bail!("no test matched");
    }
    let mut total = Outcome::default();
    total.add(INTEGRATION, outcome);
    conclude(total)
}

fn line(name: &str, passed: u64, failed: u64, time: Duration) -> String {
    let verdict = if failed == 0 { "" } else { "  <-- FAILED" };
    format!("{name:<26}{passed:>7} passed{failed:>5} failed{:>16}{verdict}", run::spoken(time))
}

/// The closing lines, in a form that people and machines read.
fn conclude(total: Outcome) -> Result<()> {
    println!();
    // Again: a log that is cut somewhere still says why.
    for line in &total.told {
        println!("{line}");
    }
    for name in &total.failures {
        println!("FAILED  {name}");
    }
    for name in &total.unsteady {
        println!("UNSTEADY  {name}: failed among the others, see above, and passed by itself; find out why");
    }
    if total.passed + total.failed + total.ignored == 0 {
        bail!("no test ran: no name matched");
    }
    let skipped = if total.ignored == 0 { String::new() } else { format!(", {} skipped", total.ignored) };
    println!("{} passed, {} failed{skipped}", total.passed, total.failed);
    if total.failed > 0 {
        bail!("{} failed", if total.failed == 1 { "one test".to_owned() } else { format!("{} tests", total.failed) });
    }
    Ok(())
}

/// Runs one test program. `live` shows its output as it comes; otherwise only when something failed.
fn run_with(binary: &TestBinary, arguments: &[&str], environment: &[(&str, &str)], live: bool) -> Result<Outcome> {
    let mut command = Command::new(&binary.executable);
    if let Some(folder) = memory::folder_for(&binary.name) {
        command.env("TMPDIR", folder);
    }
    let mut child = command
        .args(arguments)
        .envs(environment.iter().copied())
        // What cargo sets for tests.
        .env("CARGO_MANIFEST_DIR", &binary.folder)
        .current_dir(&binary.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("running {}", binary.executable.display()))?;
    // The error output has a reader of its own, so that neither pipe can fill up and stop the program.
    let stderr = child.stderr.take().context("the test program's error output")?;
    let errors = std::thread::spawn(move || {
        let mut lines = Vec::new();
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if live {
                eprintln!("{line}");
            }
            lines.push(line);
        }
        lines
    });
    let mut outcome = Outcome::default();
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().context("the test program's output")?).lines() {
        let line = line?;
        if live {
            println!("{line}");
            std::io::stdout().flush()?;
        }
        outcome.read(&line);
        lines.push(line);
    }
    let status = child.wait()?;
    let errors = errors.join().unwrap_or_default();
    outcome.skip(&errors);
    outcome.told = told(&lines);
    outcome.seeds = seeds(&lines);
    outcome.crashed = !status.success() && outcome.failed == 0;
    if !live && !status.success() {
        lines.iter().chain(&errors).for_each(|line| println!("{line}"));
    } else if !live {
        // A test may say the same again and again.
        let said = errors.iter().filter(|line| line.starts_with(SKIPPED) || line.starts_with(WITHOUT));
        said.collect::<BTreeSet<_>>().iter().for_each(|line| println!("{line}"));
    }
    if outcome.crashed {
        println!("{} ended with {status}", binary.name);
    }
    Ok(outcome)
}

/// The test whose output follows this line of libtest's.
fn name_in(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// The seeds that tests that failed have printed, by their names.
fn seeds(lines: &[String]) -> BTreeMap<String, String> {
    let (mut seeds, mut of) = (BTreeMap::new(), None);
    for line in lines {
        if let Some(name) = name_in(line) {
            of = Some(name);
        } else if let (Some(name), Some(seed)) = (of, line.strip_prefix(SEED).and_then(|rest| rest.strip_prefix('='))) {
            seeds.entry(name.to_owned()).or_insert_with(|| seed.to_owned());
        }
    }
    seeds
}

/// What libtest shows of the tests that failed: for each its name and the beginning of what it has printed.
fn told(lines: &[String]) -> Vec<String> {
    let is_name = |line: &str| name_in(line).is_some();
    let shown = lines.iter().skip_while(|line| !is_name(line)).take_while(|line| *line != "failures:");
    let mut told: Vec<String> = Vec::new();
    let mut of_this = 0;
    for line in shown {
        of_this = if is_name(line) { 0 } else { of_this + 1 };
        if of_this < TOLD_MAX {
            told.push(line.clone());
        }
    }
    told
}

impl Outcome {
    /// Takes in one line of libtest's output.
    fn read(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            let count = |what: &str| {
                let words: Vec<&str> = result.split_whitespace().collect();
                let place = words.iter().position(|word| word.trim_end_matches(';') == what)?;
                words.get(place.checked_sub(1)?)?.parse().ok()
            };
            self.passed += count("passed").unwrap_or(0);
            self.failed += count("failed").unwrap_or(0);
            self.ignored += count("ignored").unwrap_or(0);
        } else if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failures.push(name.to_owned());
        }
    }

    /// Takes in what tests have said themselves.
    fn skip(&mut self, errors: &[String]) {
        let skipped = errors.iter().filter(|line| line.starts_with(SKIPPED)).count() as u64;
        self.passed = self.passed.saturating_sub(skipped);
        self.ignored += skipped;
    }

    fn add(&mut self, binary: &str, other: Outcome) {
        self.told.extend(other.told);
        self.passed += other.passed;
        self.ignored += other.ignored;
        self.failed += other.failed + u64::from(other.crashed);
        if other.crashed {
            self.failures.push(format!("{binary}: the test program itself ended badly"));
        }
        self.failures.extend(other.failures.into_iter().map(|name| format!("{binary}: {name}")));
        self.unsteady.extend(other.unsteady);
    }

    /// Takes in the second try of a test that was added as failed: if it passed, it is unsteady instead. What it said at the
    /// first try stays.
    fn add_again(&mut self, binary: &str, name: &str, second: &Outcome) {
        let full = format!("{binary}: {name}");
        let has_passed = second.passed == 1 && second.failed == 0 && !second.crashed;
        if let (true, Some(at)) = (has_passed, self.failures.iter().position(|failed| *failed == full)) {
            self.unsteady.push(self.failures.remove(at));
            self.failed -= 1;
            self.passed += 1;
        }
    }
}

#[cfg(test)]
mod tests;
