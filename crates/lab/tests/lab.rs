//! The program itself, against real processes: what it writes, how it exits, and what it does when something goes wrong.
//!
//! The target is the lab's own `noop`, which is a process like any other server and is always there.

#![allow(clippy::unwrap_used, reason = "all of this is tests, and clippy takes only functions marked #[test] for such")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Flags that make a run short and leave the cores to the system: these tests run beside others.
const SHORT: &[&str] =
    &["--warm-up", "0", "--seconds", "1", "--threads", "2", "--server-cores", "none", "--client-cores", "none"];

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar-lab"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A run of these arguments.
fn run(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = lab(&["run"]);
    command.args(arguments).args(SHORT).arg("--out").arg(folder);
    command
}

/// Two repetitions over few keys.
fn short_run(folder: &Path, arguments: &[&str]) -> Command {
    run(folder, &[arguments, &["--keys", "500", "--repeat", "2"]].concat())
}

/// What it printed on standard output, and on standard error.
fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn succeeds(mut command: Command) -> String {
    let output = command.output().unwrap();
    let (out, error) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{out}\n{error}");
    out
}

/// Ends with this status and says this on standard error.
#[track_caller]
fn fails(mut command: Command, status: i32, said: &str) -> String {
    let output = command.output().unwrap();
    let (out, error) = texts(&output);
    assert_eq!(output.status.code(), Some(status), "{out}\n{error}");
    assert!(error.contains(said), "{said:?} is not in\n{error}");
    out
}

fn record(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("run.json")).unwrap()).unwrap()
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    (folder, path)
}

/// Starts a run and waits until it says this on standard error.
fn started(mut command: Command, line: &str) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = command.spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains(line) {
        let before = said.len();
        errors.read_line(&mut said).unwrap();
        assert!(said.len() > before, "it ended before it said {line:?}:\n{said}");
    }
    (child, errors)
}

fn signal(name: &str, process: &str) {
    assert!(Command::new("kill").args([name, process]).status().unwrap().success());
}

#[test]
fn a_run_is_recorded_compared_with_itself_and_reported() {
    let (_guard, path) = folder();
    let out = succeeds(short_run(&path, &["kv-mixed", "--target", "noop,postgres", "--pipeline", "4"]));
    assert!(out.contains("postgres is absent: it does not speak RESP"), "{out}");
    assert!(out.contains("the harness alone (noop, 2 threads): throughput"), "{out}");
    let run = record(&path);
    assert_eq!(run["state"], "complete");
    assert_eq!(run["workload"]["parameters"]["pipeline"], 4);
    assert_eq!(run["targets"][1]["state"], "absent");
    let measurements = run["measurements"].as_array().unwrap();
    assert_eq!(measurements.len(), 2);
    for one in measurements {
        assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(0)));
        assert!(one["operations"].as_u64().unwrap() > 100, "{one}");
        assert!(one["server_cpu_seconds"].as_f64().unwrap() > 0.0, "{one}");
        assert!(one["server_memory_peak_bytes"].as_u64().unwrap() > 100_000, "{one}");
        assert!(path.join(one["seconds_file"].as_str().unwrap()).is_file());
    }

    let name = path.to_str().unwrap();
    let out = succeeds(lab(&["compare", name, name]));
    assert!(out.ends_with("\nno difference\n"), "{out}");
    let out = succeeds(lab(&["report", name]));
    assert_eq!(out.lines().count(), 2, "{out}");
    let page = std::fs::read_to_string(path.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("kv-mixed"));
    let page = std::fs::read_to_string(path.join("report.md")).unwrap();
    assert!(page.contains("| noop | 2 | 2 |"), "{page}");
}

#[test]
fn every_sql_workload_is_answered_rightly() {
    let guard = tempfile::tempdir().unwrap();
    for workload in ["sql-key", "sql-update", "sql-sum", "sql-range", "sql-fetch"] {
        let path = guard.path().join(workload);
        succeeds(run(&path, &[workload, "--target", "noop", "--rows", "20000", "--repeat", "1"]));
        let run = record(&path);
        assert_eq!((&run["state"], &run["measurements"][0]["errors"]), (&Value::from("complete"), &Value::from(0)));
        assert!(run["measurements"][0]["operations"].as_u64().unwrap() > 0);
    }
}

#[test]
fn peers_are_started_measured_and_stopped_or_said_to_be_absent() {
    let guard = tempfile::tempdir().unwrap();
    for (workload, target, size) in [("kv-put", "redis", "--keys"), ("sql-update", "postgres", "--rows")] {
        let path = guard.path().join(workload);
        let targets = format!("{target},noop");
        succeeds(run(&path, &[workload, "--target", &targets, "--repeat", "1", size, "5000"]));
        let run = record(&path);
        let peer = &run["targets"][0];
        if peer["state"] == "absent" {
            assert!(peer["reason"].as_str().unwrap().contains(" the PATH"), "{peer}");
            continue;
        }
        assert_eq!(peer["state"], "measured", "{peer}");
        assert!(!Path::new(&format!("/proc/{}", peer["process_id"])).exists());
        let measured = run["measurements"].as_array().unwrap().iter().filter(|one| one["target"] == target);
        assert_eq!(measured.clone().count(), 1);
        for one in measured {
            assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(0)));
            assert!(one["server_cpu_seconds"].as_f64().unwrap() > 0.0, "{one}");
        }
    }
}

#[test]
fn an_open_loop_offers_its_rate() {
    let (_guard, path) = folder();
    succeeds(short_run(&path, &["kv-batch", "--target", "noop", "--rate", "200", "--batch", "10"]));
    for one in record(&path)["measurements"].as_array().unwrap() {
        // Every request that was due in the window, whether it could be sent in time or not.
        assert_eq!(one["operations"], 200, "{one}");
    }
}

#[test]
fn a_target_that_is_killed_in_mid_run_leaves_a_partial_record() {
    let (_guard, path) = folder();
    let command = short_run(&path, &["kv-get", "--target", "noop"]);
    let (child, mut errors) = started(command, "measuring noop, 2 threads, repetition 2 of 2");
    signal("-KILL", &record(&path)["targets"][0]["process_id"].to_string());
    let mut said = String::new();
    while errors.read_line(&mut said).unwrap() > 0 {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("noop failed: noop ended with signal: 9"), "{said}");
    assert!(texts(&output).0.contains("PARTIAL: noop failed"));
    let run = record(&path);
    assert_eq!((&run["state"], &run["targets"][0]["state"]), (&Value::from("partial"), &Value::from("failed")));
    assert_eq!(run["measurements"][0]["state"], "complete");
    if let Some(second) = run["measurements"].get(1) {
        assert_eq!(second["state"], "partial");
    }
    let name = path.to_str().unwrap();
    fails(lab(&["compare", name, name]), 2, "has 1 sound repetitions");
    succeeds(lab(&["report", name]));
}

#[test]
fn being_interrupted_keeps_what_there_is_and_stops_the_servers() {
    let (_guard, path) = folder();
    let command = short_run(&path, &["kv-get", "--target", "noop"]);
    let (child, mut errors) = started(command, "measuring noop, 2 threads, repetition 2 of 2");
    signal("-INT", &child.id().to_string());
    let mut said = String::new();
    while errors.read_line(&mut said).unwrap() > 0 {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("told to stop"), "{said}");
    let run = record(&path);
    assert_eq!((&run["state"], &run["reason"]), (&Value::from("partial"), &Value::from("interrupted")));
    assert_eq!(run["measurements"][0]["state"], "complete");
    assert!(run["measurements"].as_array().unwrap().len() <= 2);
    assert!(!Path::new(&format!("/proc/{}", run["targets"][0]["process_id"])).exists());
}

#[test]
fn a_server_that_does_not_answer_does_not_hold_up_an_interrupt() {
    let (_guard, path) = folder();
    let command = short_run(&path, &["kv-get", "--target", "noop"]);
    let (child, mut errors) = started(command, "measuring noop, 2 threads, repetition 2 of 2");
    let server = record(&path)["targets"][0]["process_id"].to_string();
    signal("-STOP", &server);
    signal("-INT", &child.id().to_string());
    let mut said = String::new();
    while errors.read_line(&mut said).unwrap() > 0 {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(record(&path)["reason"], "interrupted");
    assert!(!Path::new(&format!("/proc/{server}")).exists());
}

/// A running server that stores nothing, and its doors: RESP, PostgreSQL.
fn noop_server(folder: &Path, value_bytes: u32) -> (Child, Vec<String>) {
    let ready = folder.join("ready");
    let bytes = value_bytes.to_string();
    let server = lab(&["noop-server", "--value-bytes", &bytes, "--ready-file"]).arg(&ready).spawn().unwrap();
    loop {
        match std::fs::read_to_string(&ready) {
            Ok(text) => break (server, text.lines().map(str::to_owned).collect()),
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_server_that_confirms_writes_and_drops_them_is_found_out() {
    let (guard, path) = folder();
    let (mut server, doors) = noop_server(guard.path(), 100);
    let kv = run(&path, &["kv-put", "--target", &doors[0], "--keys", "500", "--repeat", "1"]).output().unwrap();
    let sql = guard.path().join("sql");
    let rows = run(&sql, &["sql-update", "--target", &doors[1], "--rows", "500", "--repeat", "1"]).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    for (output, path, said) in [(kv, path, "has its first value"), (rows, sql, "is as it was loaded")] {
        let (out, error) = texts(&output);
        assert_eq!(output.status.code(), Some(1), "{out}\n{error}");
        assert!(out.contains("2 WRONG ANSWERS, the first: ") && out.contains(said), "{out}");
        assert_eq!(record(&path)["measurements"][0]["errors"], 2, "one of each thread");
    }
}

#[test]
fn a_window_that_is_too_short_fails_instead_of_vanishing() {
    let (_guard, path) = folder();
    // One request is due in the warm-up, and the next after a quarter of an hour.
    let slow = ["run", "kv-get", "--target", "noop", "--keys", "50", "--rate", "0.001", "--threads", "1"];
    let mut command = lab(&slow);
    command.args(["--warm-up", "1", "--seconds", "1", "--server-cores", "none", "--client-cores", "none", "--out"]);
    command.arg(&path);
    fails(command, 2, "no target could be measured");
    let run = record(&path);
    assert_eq!(run["state"], "partial");
    assert!(run["targets"][0]["reason"].as_str().unwrap().contains("the window is shorter than one answer"), "{run}");
}

#[test]
fn wrong_answers_are_counted_and_make_the_run_fail() {
    // A server whose values have another length than the lab wrote.
    let (guard, path) = folder();
    let (mut server, doors) = noop_server(guard.path(), 50);
    let output = short_run(&path, &["kv-get", "--target", &doors[0]]).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let (out, error) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{out}\n{error}");
    assert!(out.contains("WRONG ANSWERS, the first: key ") && out.contains("has 50 bytes instead of 100"), "{out}");
    let run = record(&path);
    assert_eq!((&run["state"], &run["targets"][0]["program"]), (&Value::from("complete"), &Value::Null));
    let one = &run["measurements"][0];
    assert_eq!(one["errors"], one["operations"]);
    assert_eq!(one["server_cpu_seconds"], Value::Null);
}

#[test]
fn what_cannot_be_done_is_refused_with_its_reason() {
    let (guard, path) = folder();
    fails(short_run(&path, &["kv-gte", "--target", "noop"]), 2, "there is no workload \"kv-gte\"; there are kv-get,");
    fails(short_run(&path, &["kv-get", "--target", "mysql"]), 2, "there is no target \"mysql\"; there are ashlar,");
    fails(short_run(&path, &["kv-get", "--target", "noop,noop"]), 2, "the target noop is named twice");
    fails(short_run(&path, &["kv-get", "--target", "noop", "--rows", "5"]), 2, "kv-get has no --rows");
    fails(short_run(&path, &["kv-get", "--target", "postgres"]), 2, "postgres is absent: it does not speak RESP");
    fails(lab(&["compare", path.to_str().unwrap(), "b"]), 2, "is no folder of a run");
    fails(lab(&["report", path.to_str().unwrap()]), 2, "is no folder of a run");
    assert!(!path.exists(), "nothing was measured, so nothing is left behind");

    fails(short_run(&path, &["kv-get", "--target", "127.0.0.1:1"]), 2, "nobody answers at 127.0.0.1:1");
    assert_eq!(record(&path)["targets"][0]["state"], "failed");
    fails(short_run(&path, &["kv-get", "--target", "noop"]), 2, "has a run in it already");

    let other = guard.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("run.json"), "{\"schema_version\": 99}").unwrap();
    let other = other.to_str().unwrap();
    fails(lab(&["compare", other, other]), 2, "schema version 99, and this ashlar-lab reads version ");
}

#[test]
fn runs_that_are_unlike_are_not_compared() {
    let guard = tempfile::tempdir().unwrap();
    let path = |name: &str| guard.path().join(name);
    succeeds(short_run(&path("a"), &["kv-get", "--target", "noop"]));
    let mut run = record(&path("a"));
    run["machine"]["cpu"] = "another".into();
    std::fs::create_dir(path("b")).unwrap();
    std::fs::write(path("b").join("run.json"), run.to_string()).unwrap();
    let (a, b) = (path("a"), path("b"));
    let out = fails(lab(&["compare", a.to_str().unwrap(), b.to_str().unwrap()]), 2, "");
    assert!(out.contains("unlike: these runs cannot be compared\n  processor: "), "{out}");
}

#[test]
fn a_run_that_is_slower_ends_with_its_own_status() {
    let guard = tempfile::tempdir().unwrap();
    let path = |name: &str| guard.path().join(name);
    succeeds(short_run(&path("a"), &["kv-get", "--target", "noop"]));
    // The same figures twice, without noise, and half of them.
    let mut run = record(&path("a"));
    let first = run["measurements"][0].clone();
    run["measurements"][1] = first;
    for (name, factor) in [("same", 1.0), ("half", 0.5)] {
        let mut run = run.clone();
        for one in run["measurements"].as_array_mut().unwrap() {
            one["operations_per_second"] = (one["operations_per_second"].as_f64().unwrap() * factor).into();
        }
        std::fs::create_dir(path(name)).unwrap();
        std::fs::write(path(name).join("run.json"), run.to_string()).unwrap();
    }
    let (same, half) = (path("same"), path("half"));
    let (same, half) = (same.to_str().unwrap(), half.to_str().unwrap());
    let out = fails(lab(&["compare", same, half]), 1, "");
    assert!(out.contains("-50.0 %") && out.contains("\nslower: throughput with 2 threads"), "{out}");
    let out = succeeds(lab(&["compare", half, &format!("{same}:noop")]));
    assert!(out.contains("\nfaster: throughput with 2 threads"), "{out}");
    fails(lab(&["compare", same, &format!("{half}:redis")]), 2, "has no figures of redis");
}
