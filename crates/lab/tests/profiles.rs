//! The program says which function is to blame: regressions are planted into its own server, and found by their names.
//!
//! So few requests that the servers are mostly idle: these tests run beside others, though not beside each other.

#![allow(clippy::unwrap_used, reason = "all of this is tests, and clippy takes only functions marked #[test] for such")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

/// A short run under a small load, with the cores left to the system.
const SMALL: &[&str] = &[
    "run",
    "kv-get",
    "--target",
    "noop",
    "--keys",
    "100",
    "--threads",
    "2",
    "--rate",
    "800",
    "--warm-up",
    "0",
    "--seconds",
    "2",
    "--repeat",
    "2",
    "--server-cores",
    "none",
    "--client-cores",
    "none",
];

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ashlar-lab")).args(arguments).output().unwrap()
}

/// Standard output of a call that may end with status 1: something became slower.
#[track_caller]
fn text(arguments: &[&str]) -> String {
    let output = lab(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The folder of a run with these arguments besides.
fn run(folder: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let out = folder.join(name);
    text(&[SMALL, arguments, &["--out", out.to_str().unwrap()]].concat());
    out
}

/// The functions that grew most, from the table under this title: what they took, others may have lost.
fn grown(table: &str, title: &str) -> Vec<String> {
    let rows = table.lines().skip_while(|line| !line.starts_with(title)).skip(1);
    let rows = rows.take_while(|line| line.starts_with(&" ".repeat(30)));
    let cells = rows.map(|line| line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect::<Vec<&str>>());
    cells.filter(|cells| cells[2].starts_with('+')).map(|cells| cells[3].to_owned()).collect()
}

/// One run at a time: beside each other they would find what disturbs them.
static ALONE: Mutex<()> = Mutex::new(());

/// Tries to find a plant. Where others have used the machine a run may have fallen behind, and what it was slow in may be they.
const TRIES: usize = 4;

/// Among so many functions that a difference names must be the one that was planted.
const FIRST: usize = 3;

/// A profile of this kind names the function of each plant among the first.
fn is_found(kind: &str, title: &str, plants: &[(&str, &str)]) {
    for plant in plants {
        for tries_left in (0..TRIES).rev() {
            let Err(found) = look_for(kind, title, plant) else { break };
            assert!(tries_left > 0 && found.contains("DISTURBED"), "{found}");
        }
    }
}

/// What was found instead, if the function is not among the first.
fn look_for(kind: &str, title: &str, (plant, function): &(&str, &str)) -> Result<(), String> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let base = run(folder.path(), "base", &["--profile", kind]);
    let test = run(folder.path(), plant, &["--profile", kind, "--plant", plant]);
    let output = lab(&["compare", base.to_str().unwrap(), test.to_str().unwrap()]);
    let table = String::from_utf8(output.stdout).unwrap();
    let said = format!("{table}\n{}", String::from_utf8_lossy(&output.stderr));
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(said);
    }
    let grown = grown(&table, title);
    let is_planted = |name: &String| name.ends_with(&format!("noop::plant::{function}"));
    if !grown.iter().take(FIRST).any(is_planted) {
        return Err(format!("{plant} is not among the first {FIRST}:\n{said}"));
    }
    let page = std::fs::read_to_string(test.join(format!("difference-noop-2-{kind}-test.svg"))).unwrap();
    assert!(page.contains(&format!("noop::plant::{function}")), "{plant}");
    Ok(())
}

#[test]
fn a_function_that_computes_is_found_by_processor_time() {
    is_found("cpu", "CPU per operation", &[("spin", "spin")]);
}

#[test]
fn a_function_that_waits_is_found_by_the_time_of_threads() {
    // The thread that has the lock is as new as the one that waits for it, and has it for longer.
    is_found("wall", "threads and tasks at a time", &[("sleep", "sleep"), ("lock", "wait_for_the_lock")]);
}

#[test]
fn a_scope_in_which_a_task_waits_is_found_by_the_time_of_tasks() {
    is_found("wall", "threads and tasks at a time", &[("wait", "wait")]);
}

#[test]
fn a_function_that_allocates_is_found_by_what_was_allocated() {
    is_found("allocations", "memory allocated per operation", &[("allocate", "allocate")]);
}

#[test]
fn a_run_with_profiles_is_unlike_one_without() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let (with, without) = (run(folder.path(), "with", &["--profile", "cpu"]), run(folder.path(), "without", &[]));
    let output = lab(&["compare", with.to_str().unwrap(), without.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("unlike") && text.contains("profiled [\"cpu\"]"), "{text}");
}
