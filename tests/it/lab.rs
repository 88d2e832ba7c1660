//! The lab as a program: it says which function is to blame.

use std::path::{Path, PathBuf};
use std::process::Command;

use ashlar_tests::ashlar::program;

/// What is printed to standard output, by a call that may end with status 1: something became slower.
fn lab(arguments: &[&str]) -> String {
    let program = program("ashlar-lab");
    let output = Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A run of the server that stores nothing, with a regression in it or without. So few requests that it is mostly idle: other
/// tests run beside it.
fn run(folder: &Path, name: &str, plant: Option<&str>, profiles: &str) -> PathBuf {
    let out = folder.join(name);
    let count = profiles.split(',').count();
    let seconds = (2 * count).to_string();
    let mut arguments = vec!["run", "kv-get", "--target", "noop", "--keys", "100", "--threads", "2", "--rate", "800"];
    arguments.extend(["--warm-up", "0", "--seconds", &seconds, "--repeat", "2", "--profile", profiles]);
    arguments.extend(["--server-cores", "none", "--client-cores", "none", "--out", out.to_str().unwrap()]);
    arguments.extend(plant.iter().flat_map(|plant| ["--plant", plant]));
    lab(&arguments);
    out
}

/// The functions that differ most, from the table under this title.
fn named(table: &str, title: &str) -> Vec<String> {
    let rows = table.lines().skip_while(|line| !line.starts_with(title)).skip(1);
    let rows = rows.take_while(|line| line.starts_with(&" ".repeat(30)));
    rows.map(|line| line.rsplit("  ").next().unwrap().to_owned()).collect()
}

#[test]
fn a_planted_regression_is_called_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for (profile, title, plants) in [
        ("cpu", "CPU per operation", &[("spin", "spin")][..]),
        ("wall", "threads at a time", &[("sleep", "sleep"), ("lock", "wait_for_the_lock")]),
        ("allocations", "memory allocated per operation", &[("allocate", "allocate")]),
    ] {
        let base = run(folder.path(), &format!("{profile}-base"), None, profile);
        for (plant, function) in plants {
            let test = run(folder.path(), &format!("{profile}-{plant}"), Some(plant), profile);
            let table = lab(&["compare", base.to_str().unwrap(), test.to_str().unwrap()]);
            let named = named(&table, title);
            let is_planted = |name: &String| name.contains("noop::plant::") && name.ends_with(function);
            // The thread that has the lock is as new as the one that waits for it, and has it for longer.
            let first = if *plant == "lock" { 5 } else { 3 };
            assert!(named.iter().take(first).any(is_planted), "{plant} is not among the first {first}:\n{table}");
            let page = std::fs::read_to_string(test.join(format!("difference-noop-2-{profile}-test.svg"))).unwrap();
            assert!(page.contains("noop::plant::"), "{plant}");
        }
    }
}

#[test]
fn a_run_with_profiles_is_unlike_one_without() {
    let folder = tempfile::tempdir().unwrap();
    let with = run(folder.path(), "with", None, "cpu");
    let mut arguments = vec!["run", "kv-get", "--target", "noop", "--keys", "100", "--threads", "2", "--rate", "800"];
    let out = folder.path().join("without");
    arguments.extend(["--warm-up", "0", "--seconds", "2", "--repeat", "2", "--out", out.to_str().unwrap()]);
    arguments.extend(["--server-cores", "none", "--client-cores", "none"]);
    lab(&arguments);
    let program = program("ashlar-lab");
    let output = Command::new(program).arg("compare").args([&with, &out]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("unlike") && text.contains("profiled [\"cpu\"]"), "{text}");
}
