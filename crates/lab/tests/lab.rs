//! The program itself, against real processes: what it writes, how it exits, and what it does when something goes wrong.
//!
//! The target is the lab's own `noop`, which is a process like any other server and is always there.

#![allow(clippy::unwrap_used, reason = "all of this is tests, and clippy takes only functions marked #[test] for such")]

#[path = "../src/skipped.rs"]
mod skipped;
#[path = "lab/stopped.rs"]
mod stopped;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use skipped::{skipped, without};

/// Flags that make a run short and leave the cores to the system: these tests run beside others.
const SHORT: &[&str] = &[
    "--warm-up",
    "0",
    "--seconds",
    "1",
    "--threads",
    "2",
    "--server-cores",
    "none",
    "--client-cores",
    "none",
    "--no-harness",
];

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

/// Seconds of a window that is long: who does something in it comes in time, also where the machine stands still for a while.
const SECONDS: &str = "6";

/// A run of these arguments with such windows.
fn long_run(folder: &Path, arguments: &[&str]) -> Command {
    let mut flags = SHORT.to_vec();
    let seconds = flags.iter().position(|flag| *flag == "--seconds").unwrap() + 1;
    flags[seconds] = SECONDS;
    let mut command = lab(&["run"]);
    command.args(arguments).args(flags).arg("--out").arg(folder);
    command
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
    // By the shell's own `kill`: a small system has no program of this name.
    assert!(Command::new("sh").args(["-c", "kill \"$0\" \"$1\"", name, process]).status().unwrap().success());
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
    for (place, arguments) in [
        &["sql-key"][..],
        &["sql-update"],
        &["sql-sum"],
        &["sql-range"],
        &["sql-fetch"],
        &["sql-count"],
        &["sql-count", "--counted", "matching"],
        &["sql-json-sum"],
        &["sql-value"],
        &["sql-join", "--join-rows", "300"],
        &["sql-group"],
        &["query-range"],
    ]
    .into_iter()
    .enumerate()
    {
        let path = guard.path().join(place.to_string());
        succeeds(run(&path, &[arguments, &["--target", "noop", "--rows", "20000", "--repeat", "1"]].concat()));
        let run = record(&path);
        assert_eq!((&run["state"], &run["measurements"][0]["errors"]), (&Value::from("complete"), &Value::from(0)));
        assert!(run["measurements"][0]["operations"].as_u64().unwrap() > 0);
    }
}

/// How many commands or transactions a server says that it has done, of its metrics.
fn done_of(target: &str, text: &str) -> u64 {
    if target == "redis" {
        let line = text.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        return line.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
    }
    let row = text.lines().find_map(|line| {
        let row: Value = serde_json::from_str(line.strip_prefix("postgres pg_stat_database ")?).unwrap();
        (row["datname"] == "postgres").then(|| row["xact_commit"].as_u64().unwrap())
    });
    row.unwrap_or_else(|| panic!("{text}"))
}

/// What the lab says of a target whose program is missing.
const NOT_INSTALLED: [&str; 3] = ["is not on the PATH", "under /usr/lib/postgresql", "cannot be installed"];

/// Says which targets are not in a run because their programs are missing.
fn say_absent(run: &Value) {
    let reasons = run["targets"].as_array().unwrap().iter().filter_map(|target| target["reason"].as_str());
    reasons.filter(|reason| NOT_INSTALLED.iter().any(|part| reason.contains(part))).for_each(without);
}

#[test]
fn peers_are_started_measured_and_stopped_or_said_to_be_absent() {
    let guard = tempfile::tempdir().unwrap();
    for (workload, target, size) in [("kv-put", "redis", "--keys"), ("sql-update", "postgres", "--rows")] {
        let path = guard.path().join(workload);
        let targets = format!("{target},noop");
        succeeds(run(&path, &[workload, "--target", &targets, "--repeat", "1", size, "5000"]));
        let run = record(&path);
        say_absent(&run);
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
            let counted = ["metrics_before", "metrics_after"].map(|when| {
                let text = std::fs::read_to_string(path.join(one[when].as_str().unwrap())).unwrap();
                done_of(target, &text)
            });
            let operations = one["operations"].as_u64().unwrap();
            assert!(counted[1] >= counted[0] + operations / 2, "{target} counts {counted:?}, done were {operations}");
        }
    }
}

/// Each workload that writes or asks in ways of its own, over little data, against real servers. Those that are not installed are
/// absent; Ashlar is, where it is not built.
#[test]
fn servers_answer_every_workload_rightly() {
    let guard = tempfile::tempdir().unwrap();
    let ashlar = Path::new(env!("CARGO_BIN_EXE_ashlar-lab")).with_file_name("ashlar");
    for (place, arguments) in [
        &["sql-count", "--rows", "5000"][..],
        &["sql-count", "--rows", "5000", "--counted", "matching"],
        &["sql-json-sum", "--rows", "2000", "--document", "json"],
        &["sql-json-sum", "--rows", "2000", "--field", "parameter"],
        &["sql-value", "--rows", "5000", "--index", "hash"],
        &["sql-join", "--rows", "5000", "--join-rows", "300"],
        &["sql-group", "--rows", "500", "--columns", "pair"],
        &["query-range", "--rows", "5000"],
        &["tpcb", "--scale", "1"],
        &["kv-mixed", "--keys", "500", "--value-shape", "structured", "--pipeline", "3"],
    ]
    .into_iter()
    .enumerate()
    {
        let path = guard.path().join(place.to_string());
        let targets = match arguments[0] {
            "kv-mixed" => "ashlar,redis,valkey,noop",
            "tpcb" => "ashlar,postgres,noop",
            _ => "ashlar,postgres",
        };
        let common = ["--target", targets, "--repeat", "1", "--ashlar", ashlar.to_str().unwrap()];
        let mut command = run(&path, &[arguments, &common].concat());
        // Where Valkey is installed, if it is not here.
        command.env("CARGO_TARGET_DIR", target_folder());
        succeeds(command);
        let run = record(&path);
        say_absent(&run);
        for target in run["targets"].as_array().unwrap() {
            if target["name"] == "ashlar" && ashlar.is_file() {
                assert_eq!(target["state"], "measured", "{target}");
            }
            if target["name"] == "noop" && arguments[0] == "tpcb" {
                assert_eq!(target["state"], "absent", "{target}");
                assert!(target["reason"].as_str().unwrap().starts_with("it keeps nothing"), "{target}");
            }
        }
        for one in run["measurements"].as_array().unwrap() {
            assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(0)), "{one}");
            // Two threads at a bank with one branch are in each other's way all the time: whoever is the second waits.
            assert!(one["retries"].as_u64() == Some(0), "{one}");
        }
    }
}

#[test]
fn a_postgres_is_measured_through_what_stands_before_it() {
    let (_guard, path) = folder();
    let sizes = ["--warehouses", "2", "--items", "500", "--customers", "30", "--repeat", "1"];
    let out = succeeds(run(&path, &[&["tpcc", "--target", "postgres,relay,pgbouncer,noop"], &sizes[..]].concat()));
    assert!(out.contains("noop is absent: it keeps nothing"), "{out}");
    let run = record(&path);
    say_absent(&run);
    for (target, place) in [("postgres", 0), ("relay", 1), ("pgbouncer", 2)] {
        if run["targets"][place]["state"] == "absent" {
            assert!(run["targets"][place]["reason"].as_str().unwrap().contains(" the PATH"), "{run}");
            continue;
        }
        let one = run["measurements"].as_array().unwrap().iter().find(|one| one["target"] == target).unwrap();
        assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(0)), "{one}");
        let kinds = one["kinds"].as_array().unwrap();
        assert_eq!(kinds.len(), 5);
        let sum: u64 = kinds.iter().map(|kind| kind["operations"].as_u64().unwrap()).sum();
        assert_eq!(Value::from(sum), one["operations"]);
        // Both processes are accounted for where there are two.
        let parts = one["server_parts"].as_array().unwrap();
        let names: Vec<&str> = parts.iter().filter_map(|part| part["name"].as_str()).collect();
        let seconds: Vec<f64> = parts.iter().filter_map(|part| part["cpu_seconds"].as_f64()).collect();
        if target == "postgres" {
            assert!(names.is_empty(), "{one}");
        } else {
            assert_eq!(names, [target, "postgres"]);
            assert!(seconds.iter().all(|seconds| *seconds > 0.0), "{one}");
            assert!((seconds.iter().sum::<f64>() - one["server_cpu_seconds"].as_f64().unwrap()).abs() < 1e-6);
        }
    }
    assert!(out.contains("new-order/min"), "{out}");
}

#[test]
fn an_open_loop_offers_its_rate() {
    let (_guard, path) = folder();
    let load = ["kv-batch", "--target", "noop", "--rate", "200", "--batch", "10", "--keys", "500", "--repeat", "2"];
    succeeds(long_run(&path, &load));
    for one in record(&path)["measurements"].as_array().unwrap() {
        // Every request that was due in the window, whether it could be sent in time or not.
        assert_eq!(one["operations"], 1200, "{one}");
    }
}

#[test]
fn the_harness_is_measured_beside_what_was_named_and_compared_only_if_it_is() {
    let ashlar = Path::new(env!("CARGO_BIN_EXE_ashlar-lab")).with_file_name("ashlar");
    if !ashlar.is_file() {
        return skipped(&format!("{} is not built", ashlar.display()));
    }
    let (guard, path) = folder();
    let short: Vec<&str> = SHORT.iter().copied().filter(|flag| *flag != "--no-harness").collect();
    let mut command = lab(&["run", "kv-get", "--keys", "500", "--repeat", "2", "--target", "ashlar", "--ashlar"]);
    command.arg(&ashlar).args(&short).arg("--out").arg(&path);
    let out = succeeds(command);
    assert!(out.contains("the harness alone (noop, 2 threads): throughput"), "{out}");
    let targets = record(&path)["targets"].clone();
    assert_eq!((&targets[1]["name"], &targets[1]["state"]), (&Value::from("noop"), &Value::from("measured")));
    let name = path.to_str().unwrap();
    let out = succeeds(lab(&["compare", name, name]));
    assert!(out.starts_with("base  ashlar ") && out.contains("\nnot compared: "), "{out}");
    assert!(out.contains("allocated per operation (run --profile allocations takes it"), "{out}");

    // Where nobody else can be measured, nor is it.
    let nobody = guard.path().join("nobody");
    let mut command = lab(&["run", "kv-get", "--keys", "500", "--target", "127.0.0.1:1"]);
    command.args(&short).arg("--out").arg(&nobody);
    fails(command, 2, "no target could be measured");
    assert_eq!(record(&nobody)["measurements"], Value::Array(Vec::new()));
}

/// The cores that a process may run on, as the kernel says.
fn allowed(process: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim().to_owned()
}

#[test]
fn processes_are_on_the_cores_that_the_record_states() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skipped("there is one core");
    }
    let (_guard, path) = folder();
    let mut command = lab(&["run", "kv-get", "--target", "noop", "--keys", "100", "--repeat", "1", "--seconds", "1"]);
    command.args(["--server-cores", "1", "--client-cores", "0", "--out"]).arg(&path);
    let (child, mut errors) = started(command, "measuring noop");
    let run = record(&path);
    assert_eq!(allowed(&run["targets"][0]["process_id"].to_string()), run["load"]["server_cores"].as_str().unwrap());
    assert_eq!(allowed(&child.id().to_string()), run["load"]["client_cores"].as_str().unwrap());
    while errors.read_line(&mut String::new()).unwrap() > 0 {}
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn a_terminal_sees_how_far_it_is() {
    if Command::new("script").arg("--version").output().is_err() {
        return skipped("script, which makes a terminal, is not here");
    }
    let (_guard, path) = folder();
    let program = env!("CARGO_BIN_EXE_ashlar-lab");
    let words = ["run", "kv-get", "--target", "noop", "--keys", "400000", "--repeat", "1", "--out"];
    // Long enough for bars to be drawn, also where the machine stands still for a while.
    let flags = SHORT.join(" ").replace("--seconds 1", "--seconds 4");
    let line = format!("'{program}' {} '{}' {flags}", words.join(" "), path.display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::null());
    command.env("TERM", "xterm").env("COLUMNS", "120");
    let output = command.output().unwrap();
    let (seen, _) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{seen}");
    // A bar that fills while data goes in, and one with what was answered so far.
    assert!(seen.contains("loading noop ") && seen.contains('█') && seen.contains(" %"), "{seen}");
    assert!(seen.contains("noop, 2 threads, repetition 1 of 1 ") && seen.contains(" answers"), "{seen}");
}

#[test]
fn a_running_server_with_a_password_is_measured_by_whoever_knows_it() {
    let guard = tempfile::tempdir().unwrap();
    let mut tries = 0..4;
    let (mut server, _log, port) = loop {
        let free = ashlar_base::net::listen("127.0.0.1:0".parse().unwrap()).unwrap().local_addr().unwrap();
        let port = free.port().to_string();
        let arguments = ["--port", &port, "--requirepass", "sesame", "--save", "", "--dir"];
        let server = Command::new("redis-server").args(arguments).arg(guard.path()).stdout(Stdio::piped()).spawn();
        let Ok(mut server) = server else { return skipped("redis-server is not here") };
        let mut log = BufReader::new(server.stdout.take().unwrap());
        let mut said = String::new();
        let is_ready = |said: &str| said.contains("Ready to accept connections");
        while !is_ready(&said) && log.read_line(&mut said).unwrap() > 0 {}
        if is_ready(&said) {
            break (server, log, port);
        }
        // Another process has taken the port before the server did.
        server.wait().unwrap();
        assert!(tries.next().is_some(), "{said}");
    };
    let target = format!("127.0.0.1:{port}");
    let measure = |name: &str, password: Option<&str>| {
        let path = guard.path().join(name);
        let mut command = short_run(&path, &["kv-mixed", "--target", &target]);
        command.env_remove("REDISCLI_AUTH").envs(password.map(|password| ("REDISCLI_AUTH", password)));
        let output = command.output().unwrap();
        (output.status.code(), texts(&output).1, path)
    };
    let (without, wrong, right) =
        (measure("without", None), measure("wrong", Some("shut")), measure("right", Some("sesame")));
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(
        without.0 == Some(2) && without.1.contains("NOAUTH") && without.1.contains("REDISCLI_AUTH"),
        "{}",
        without.1
    );
    assert!(wrong.0 == Some(2) && wrong.1.contains("does not take the password"), "{}", wrong.1);
    assert_eq!(right.0, Some(0), "{}", right.1);
    let text = std::fs::read_to_string(right.2.join("run.json")).unwrap();
    assert!(text.contains("a password of REDISCLI_AUTH") && !text.contains("sesame"), "{text}");
}

#[test]
fn what_there_is_is_listed_with_its_questions_and_flags() {
    let out = succeeds(lab(&["list"]));
    for part in ["How fast is a value read by its key?", "--keys --value-shape --value-bytes", "targets", "suites"] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
}

/// Whoever builds during a run puts another file into the place of the program, which has to start its own servers all the same.
#[test]
fn a_program_that_is_replaced_goes_on_with_its_own_servers() {
    let (guard, path) = folder();
    let program = guard.path().join("ashlar-lab");
    std::fs::copy(env!("CARGO_BIN_EXE_ashlar-lab"), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["run", "kv-get", "--target", "noop", "--keys", "500", "--repeat", "2"]).args(SHORT);
    command.arg("--out").arg(&path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (child, mut errors) = started(command, "measuring noop, 2 threads, repetition 1 of 2");
    std::fs::remove_file(&program).unwrap();
    std::fs::write(&program, "no program\n").unwrap();
    let mut said = String::new();
    while errors.read_line(&mut said).unwrap() > 0 {}
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0), "{said}");
    let run = record(&path);
    assert_eq!((&run["state"], &run["targets"][0]["state"]), (&Value::from("complete"), &Value::from("measured")));
    assert_eq!(run["targets"][0]["program"], program.to_str().unwrap());
    assert_eq!(run["measurements"].as_array().unwrap().len(), 2);
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
    let structured = ["kv-get", "--target", "noop", "--value-shape", "structured", "--value-bytes", "8"];
    fails(short_run(&path, &structured), 2, "leave --value-bytes out");
    fails(run(&path, &["query-range", "--target", "noop", "--index", "hash"]), 2, "finds no ranges");
    fails(run(&path, &["tpcb", "--target", "noop"]), 2, "noop is absent: it keeps nothing, and the answers of tpcb");
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
    let said = "schema version 99, and this ashlar-lab reads version ";
    fails(lab(&["compare", other.to_str().unwrap(), other.to_str().unwrap()]), 2, said);
    fails(lab(&["report", other.to_str().unwrap()]), 2, said);
    for (text, said) in [("{\"schema_version\": 6, ", "run.json is damaged"), ("{}", "is no record of a run")] {
        std::fs::write(other.join("run.json"), text).unwrap();
        for command in [&["report"][..], &["compare", other.to_str().unwrap()]] {
            fails(lab(&[command, &[other.to_str().unwrap()]].concat()), 2, said);
        }
    }
    assert!(!other.join("report.html").exists());
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

/// Where engines are installed: beside what Cargo builds.
fn target_folder() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_ashlar-lab")).ancestors().nth(2).unwrap().to_owned()
}

/// A run of queries, each a second or once.
fn query_run(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = lab(&["run"]);
    command.args(arguments).args(["--warm-up", "0", "--seconds", "1", "--repeat", "1", "--out"]).arg(folder);
    let ashlar = Path::new(env!("CARGO_BIN_EXE_ashlar-lab")).with_file_name("ashlar");
    command.args(["--server-cores", "none", "--client-cores", "none", "--ashlar"]).arg(ashlar);
    command.env("CARGO_TARGET_DIR", target_folder());
    command
}

/// Such a run, with what the targets of this machine are.
fn queries(folder: &Path, arguments: &[&str]) -> Value {
    succeeds(query_run(folder, arguments));
    let run = record(folder);
    say_absent(&run);
    assert_eq!(run["state"], "complete");
    for target in run["targets"].as_array().unwrap() {
        let reason = target["reason"].as_str().unwrap_or_default();
        assert!(target["state"] == "measured" || NOT_INSTALLED.iter().any(|part| reason.contains(part)), "{target}");
    }
    run
}

/// Each target that is here was asked each query, and was right, and what it used is known.
fn is_answered(run: &Value, queries: usize) {
    let targets = run["targets"].as_array().unwrap().iter().filter(|target| target["state"] == "measured");
    assert_eq!(run["load"]["queries"].as_array().unwrap().len(), queries);
    let measurements = run["measurements"].as_array().unwrap();
    assert_eq!(measurements.len(), targets.count() * queries);
    for one in measurements {
        assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(0)), "{one}");
        let (peak, loaded) = (&one["server_memory_peak_bytes"], &one["server_memory_loaded_bytes"]);
        // What was loaded is read before the peak begins, and a server may give pages back in between: a little less is no error.
        let (peak, loaded) = (peak.as_u64().unwrap(), loaded.as_u64().unwrap());
        assert!(loaded > 1_000_000 && peak >= loaded / 10 * 9, "{one}");
        assert!(one["query"].is_string() && one["operations"].as_u64().unwrap() > 0, "{one}");
        assert!(one["measured_seconds"].as_f64().unwrap() >= 1.0, "whole queries until a second is over: {one}");
    }
}

#[test]
fn groups_and_joins_are_answered_rightly_by_servers_and_engines() {
    let guard = tempfile::tempdir().unwrap();
    let path = |name: &str| guard.path().join(name);
    let targets = "ashlar,postgres,duckdb";
    is_answered(&queries(&path("build"), &["hash-build", "--target", targets, "--rows", "5000"]), 2);
    let some = ["--rows", "5000", "--items", "900", "--unique-percent", "30", "--ids", "hashed"];
    is_answered(&queries(&path("probe"), &[&["hash-probe", "--target", targets][..], &some].concat()), 2);
    let evenly = ["--rows", "4000", "--items", "4000", "--distinct-percent", "25", "--duplicates", "4"];
    let both = [&["hash-probe", "--target", targets, "--queries", "join"][..], &evenly].concat();
    is_answered(&queries(&path("both"), &both), 1);
    let wide = ["--rows", "300", "--payload-columns", "200", "--value-bytes", "70000"];
    is_answered(&queries(&path("wide"), &[&["hash-wide", "--target", targets][..], &wide].concat()), 4);
    let one = [&["hash-build", "--target", targets, "--queries", "sums"][..], &some].concat();
    let run = queries(&path("one"), &one);
    is_answered(&run, 1);
    assert_eq!(run["workload"]["parameters"]["ids"], "hashed");

    succeeds(lab(&["report", path("build").to_str().unwrap()]));
    let page = std::fs::read_to_string(path("build").join("report.md")).unwrap();
    assert!(page.contains("### mean latency by query") && page.contains("| having | "), "{page}");
}

#[test]
fn what_a_server_refuses_has_no_figure_and_is_no_wrong_answer() {
    let (_guard, path) = folder();
    // A join with a build side that is larger than what all queries of the server may have together, by the operator that has no files.
    let sizes = ["--rows", "1300000", "--items", "1300000", "--operators", "stock", "--queries", "join"];
    let mut command = query_run(&path, &[&["hash-probe", "--target", "ashlar"][..], &sizes].concat());
    command.env("ASHLAR_QUERY__MEMORY_MIB_MAX", "16");
    fails(command, 1, ", REFUSED: 53200: ");
    let run = record(&path);
    let one = &run["measurements"][0];
    assert_eq!((run["state"].as_str(), one["state"].as_str()), (Some("complete"), Some("complete")), "{run}");
    assert_eq!((one["errors"].as_u64(), one["operations"].as_u64()), (Some(0), Some(0)), "{run}");
    assert!(one["refused"].as_str().unwrap().starts_with("53200: "), "{run}");
    succeeds(lab(&["report", path.to_str().unwrap()]));
    let page = std::fs::read_to_string(path.join("report.md")).unwrap();
    assert!(page.contains("ashlar, query join: REFUSED, so there is no figure of it: 53200: "), "{page}");
}

#[test]
fn the_queries_of_tpch_are_answered_alike_by_servers_and_engines() {
    let (_guard, path) = folder();
    // Each takes a second at each target, so some of the 22: among them those with an answer that depends on the scale (q11), with an
    // outer join (q13) and with many rows (q16). At any scale but 0.1 the targets must agree, row by row.
    let some = "q01,q03,q06,q11,q13,q16,q18,q22";
    let all = ["tpch", "--target", "ashlar,postgres,duckdb", "--scale", "0.01", "--queries", some];
    is_answered(&queries(&path, &all), 8);
}

#[test]
fn the_layouts_of_impala_are_filled_with_the_keys_of_a_workload() {
    let out = succeeds(lab(&["impala-buckets", "--rows", "20000", "--unique-percent", "20"]));
    assert!(out.contains("rows of a join's build side, filled buckets") && out.contains("-30.6 %"), "{out}");
    assert!(out.contains("28.80 B each") && out.contains("20.00 B each"), "{out}");
    fails(lab(&["impala-buckets", "--keys", "5"]), 2, "hash-build has no --keys");
}

#[test]
fn what_queries_cannot_do_is_refused() {
    let (_guard, path) = folder();
    let refused = |arguments: &[&str], said: &str| {
        let mut command = lab(&["run"]);
        command.args(arguments).arg("--out").arg(&path);
        fails(command, 2, said);
    };
    refused(&["tpch", "--target", "postgres", "--threads", "2"], "it has no --threads");
    refused(&["tpch", "--target", "postgres", "--rate", "2"], "it has no --rate");
    refused(&["tpch", "--target", "postgres", "--queries", "q23"], "tpch has no query \"q23\"; it has q01, q02,");
    refused(&["kv-get", "--target", "noop", "--queries", "q01"], "kv-get has no --queries");
    refused(&["tpch", "--target", "noop"], "noop is absent: it keeps nothing, and the answers of tpch");
    refused(&["tpch", "--target", "127.0.0.1:1"], "the servers of this workload are started by the lab");
    refused(&["sql-key", "--target", "duckdb"], "duckdb is absent: it does not speak PostgreSQL");
}
