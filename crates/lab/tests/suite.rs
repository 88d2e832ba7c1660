//! Suites and foreign programs, against real processes. What is not installed is absent, and said to be so.

#![allow(clippy::unwrap_used, reason = "all of this is tests, and clippy takes only functions marked #[test] for such")]

#[path = "../src/skipped.rs"]
mod skipped;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use skipped::{skipped, without};

/// The program, with what it installs where Cargo's other files are.
fn lab(arguments: &[&str]) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_ashlar-lab"));
    let mut command = Command::new(program);
    command.env("CARGO_TARGET_DIR", program.ancestors().nth(2).unwrap());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The server that was built beside it.
fn ashlar() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_ashlar-lab")).with_file_name("ashlar")
}

fn texts(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).join("\n")
}

#[track_caller]
fn ends(mut command: Command, status: i32) -> String {
    let output = command.output().unwrap();
    let text = texts(&output);
    assert_eq!(output.status.code(), Some(status), "{text}");
    text
}

fn record(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("run.json")).unwrap()).unwrap()
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    (folder, path)
}

/// A short run on any core.
fn run(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = lab(&["run"]);
    command.args(arguments).args(["--warm-up", "0", "--seconds", "1", "--repeat", "1", "--threads", "4"]);
    command.args(["--server-cores", "none", "--client-cores", "none", "--no-harness", "--ashlar"]).arg(ashlar());
    command.arg("--out").arg(folder);
    command
}

/// What the lab says of a target that keeps nothing, and of those whose programs are missing.
const ABSENT: [&str; 4] =
    ["it keeps nothing", "is not on the PATH", "under /usr/lib/postgresql", "cannot be installed"];

/// Says which targets are not in a run because their programs are missing.
fn say_absent(run: &Value) {
    let reasons = run["targets"].as_array().unwrap().iter().filter_map(|target| target["reason"].as_str());
    reasons.filter(|reason| ABSENT[1..].iter().any(|part| reason.contains(part))).for_each(without);
}

/// The measured targets of a run, each with its measurements; one that is absent is so because something is not installed.
fn measured(folder: &Path) -> Vec<(String, Vec<Value>)> {
    let run = record(folder);
    say_absent(&run);
    let mut found = Vec::new();
    for target in run["targets"].as_array().unwrap() {
        let (name, reason) = (target["name"].as_str().unwrap(), target["reason"].as_str().unwrap_or_default());
        if target["state"] != "measured" {
            assert!(ABSENT.iter().any(|part| reason.contains(part)), "{target}");
            continue;
        }
        let all = run["measurements"].as_array().unwrap();
        let all: Vec<Value> = all.iter().filter(|one| one["target"] == name).cloned().collect();
        for one in &all {
            assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(0)), "{one}");
            assert!(one["operations"].as_u64().unwrap() > 0, "{one}");
        }
        found.push((name.to_owned(), all));
    }
    found
}

#[test]
fn redis_benchmark_and_pgbench_make_the_load_and_what_they_say_is_recorded() {
    let guard = tempfile::tempdir().unwrap();
    for (place, arguments) in
        [
            &[
                "kv-get",
                "--target",
                "redis-benchmark=ashlar,redis-benchmark=redis,redis-benchmark=noop",
                "--keys",
                "500",
            ][..],
            &["kv-put", "--target", "redis-benchmark=ashlar,redis-benchmark=noop", "--keys", "500", "--pipeline", "8"],
            &[
                "kv-batch",
                "--read-percent",
                "100",
                "--batch",
                "10",
                "--target",
                "redis-benchmark=ashlar,redis-benchmark=redis,redis-benchmark=noop",
                "--keys",
                "500",
            ],
            &[
                "kv-batch",
                "--read-percent",
                "0",
                "--batch",
                "10",
                "--target",
                "redis-benchmark=ashlar,redis-benchmark=noop",
                "--keys",
                "500",
            ],
            &["sql-key", "--target", "pgbench=ashlar,pgbench=postgres", "--rows", "500", "--columns", "narrow"],
            &["sql-key", "--target", "pgbench=ashlar,ashlar,noop", "--rows", "500", "--protocol", "text"],
            &["sql-update", "--target", "pgbench=ashlar,pgbench=postgres", "--rows", "500"],
        ]
        .into_iter()
        .enumerate()
    {
        let path = guard.path().join(place.to_string());
        let text = ends(run(&path, arguments), 0);
        for (name, all) in measured(&path) {
            let one = &all[0];
            let client = name.split_once('=').map_or("lab", |(client, _)| client);
            let target =
                record(&path)["targets"].as_array().unwrap().iter().find(|found| found["name"] == name).cloned();
            let target = target.unwrap();
            assert_eq!(target["client"], client);
            if client != "lab" {
                assert!(target["configuration"].to_string().contains(&format!("client: {client} ")), "{target}");
            }
            assert!(one["operations_per_second"].as_f64().unwrap() > 10.0, "{one}");
            assert!(one["latency"]["mean_us"].as_f64().unwrap() > 0.0, "{one}");
            assert!(one["client_cpu_seconds"].as_f64().unwrap() > 0.0, "{one}");
            assert!(one["server_cpu_seconds"].as_f64().unwrap() > 0.0, "{one}");
            if client != "lab" {
                assert!(text.contains(&format!("{client} judges no answers but errors")), "{text}");
            }
        }
        ends(lab(&["report", path.to_str().unwrap()]), 0);
    }
}

/// A running server that stores nothing, and the address of its RESP door.
fn noop_server(folder: &Path) -> (Child, String) {
    let ready = folder.join("ready");
    let server = lab(&["noop-server", "--value-bytes", "100", "--ready-file"]).arg(&ready).spawn().unwrap();
    loop {
        match std::fs::read_to_string(&ready) {
            Ok(text) => break (server, text.lines().next().unwrap().to_owned()),
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_server_that_drops_what_a_program_wrote_is_found_out() {
    if !is_here("redis-benchmark") {
        return skipped("redis-benchmark is not here");
    }
    let (guard, path) = folder();
    let (mut server, address) = noop_server(guard.path());
    let target = format!("redis-benchmark={address}");
    let text = ends(run(&path, &["kv-put", "--target", &target, "--keys", "200"]), 1);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(text.contains("WRONG ANSWERS, the first: of ") && text.contains("writes none is in any of"), "{text}");
}

fn is_here(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|folder| folder.join(program).is_file())
}

#[test]
fn what_a_program_cannot_do_is_refused_with_its_reason() {
    let (_guard, path) = folder();
    for (arguments, said) in [
        (
            &["kv-mixed", "--target", "redis-benchmark=noop"][..],
            "redis-benchmark has no kv-mixed; it has kv-get, kv-put",
        ),
        (&["kv-get", "--target", "pgbench=noop"], "pgbench has no kv-get"),
        (&["kv-get", "--target", "redis-benchmark=noop", "--distribution", "zipfian"], "in ways of its own"),
        (&["kv-batch", "--target", "redis-benchmark=noop"], "--read-percent takes 0 or 100"),
        (&["kv-get", "--target", "redis-benchmark=noop", "--rate", "5"], "they have no --rate"),
        (&["kv-get", "--target", "redis-benchmark=lettuce=noop"], "lettuce=noop has a client of its own"),
        (&["sql-key", "--target", "plain-loop"], "it adds up integers"),
        (&["kv-memory", "--target", "noop"], "it has no --threads"),
        (&["kv-get", "--target", "noop", "--beside-rows", "9"], "it has no rows beside its keys"),
        (&["sql-key", "--target", "noop", "--columns", "pair"], "a pair has no label"),
    ] {
        let text = ends(run(&path, arguments), 2);
        assert!(text.contains(said), "{said:?} is not in\n{text}");
    }
    assert!(!path.exists());
}

#[test]
fn rows_of_any_width_are_answered_rightly() {
    let guard = tempfile::tempdir().unwrap();
    for (place, arguments) in [
        &["sql-fetch", "--columns", "pair", "--target", "ashlar,postgres,noop"][..],
        &["sql-fetch", "--columns", "narrow", "--target", "ashlar,noop"],
        &["sql-sum", "--columns", "narrow", "--target", "ashlar,postgres,plain-loop,noop"],
        &["sql-value", "--columns", "narrow", "--target", "ashlar,postgres"],
        &["sql-key", "--protocol", "text", "--target", "postgres,noop"],
    ]
    .into_iter()
    .enumerate()
    {
        let path = guard.path().join(place.to_string());
        ends(run(&path, &[arguments, &["--rows", "3000"]].concat()), 0);
        assert!(!measured(&path).is_empty());
    }
}

#[test]
fn rows_are_copied_again_and_again_and_all_are_there() {
    let guard = tempfile::tempdir().unwrap();
    for connections in ["1", "3"] {
        let path = guard.path().join(connections);
        let mut command = lab(&["run", "copy-in", "--rows", "20000", "--target", "ashlar,postgres,noop"]);
        command.args(["--connections", connections]);
        command.args(["--warm-up", "0", "--seconds", "1", "--repeat", "1", "--server-cores", "none"]);
        command.args(["--client-cores", "none", "--ashlar"]).arg(ashlar()).arg("--out").arg(&path);
        let text = ends(command, 0);
        assert!(text.contains("noop is absent: it keeps nothing"), "{text}");
        let run = record(&path);
        say_absent(&run);
        let ashlar = run["measurements"].as_array().unwrap().iter().find(|one| one["target"] == "ashlar").unwrap();
        assert_eq!((&ashlar["errors"], &ashlar["query"]), (&Value::from(0), &Value::from("copy")), "{ashlar}");
        assert!(ashlar["operations"].as_u64().unwrap() >= 1);
    }
}

#[test]
fn an_entry_takes_bytes_fresh_and_after_overwrites() {
    let (_guard, path) = folder();
    let mut command = lab(&["run", "kv-memory", "--keys", "50000", "--churn", "2", "--target", "ashlar,redis,noop"]);
    command.args(["--repeat", "1", "--server-cores", "none", "--client-cores", "none", "--ashlar"]);
    command.arg(ashlar()).arg("--out").arg(&path);
    let text = ends(command, 0);
    assert!(text.contains("memory per entry") && text.contains("noop is absent: it keeps nothing"), "{text}");
    for (name, all) in measured(&path) {
        assert_eq!(all.len(), 2);
        for (one, (step, operations)) in all.iter().zip([("fresh", 50_000), ("churned", 100_000)]) {
            assert_eq!((&one["query"], &one["operations"]), (&Value::from(step), &Value::from(operations)), "{name}");
            let footprint = &one["footprint"];
            let bytes = footprint["bytes"].as_f64().unwrap() - footprint["empty_bytes"].as_f64().unwrap();
            // Key and value alone have 116 bytes, and nobody takes ten times as much.
            assert!((5.0e6..5.8e7).contains(&bytes), "{name}: {one}");
        }
    }
    ends(lab(&["report", path.to_str().unwrap()]), 0);
}

#[test]
fn a_query_runs_beside_keys_and_is_checked() {
    let (_guard, path) = folder();
    let mut command = lab(&["run", "kv-get", "--keys", "500", "--rate", "200", "--beside-rows", "20000"]);
    // Its threads are nice: on a busy machine a query may take some seconds.
    command.args(["--target", "ashlar", "--warm-up", "0", "--seconds", "5", "--repeat", "1", "--threads", "4"]);
    command.args(["--server-cores", "none", "--client-cores", "none", "--no-harness", "--ashlar"]).arg(ashlar());
    command.arg("--out").arg(&path);
    ends(command, 0);
    let run = record(&path);
    let one = &run["measurements"][0];
    assert_eq!((&one["operations"], &one["errors"]), (&Value::from(1000), &Value::from(0)), "{one}");
    assert_eq!(one["beside"]["name"], "analytic query");
    assert!(one["beside"]["operations"].as_u64().unwrap() > 0, "{one}");
    assert!(one["beside"]["latency"]["mean_us"].as_f64().unwrap() > 0.0, "{one}");
}

/// A suite of little work, of rows that need nothing but what the other tests need.
fn quick(out: &Path, only: &str) -> Command {
    let mut command = lab(&["suite", "bench", "--quick", "--only", only, "--ashlar"]);
    command.arg(ashlar()).arg("--out").arg(out);
    command
}

#[test]
fn a_suite_is_measured_shown_and_gone_on_with() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return skipped("its steps name two cores");
    }
    let (_guard, path) = folder();
    let only = "get-16,connections,cores,latency,sql-key,sum,fetch-pairs,copy";
    let text = ends(quick(&path, only), 0);
    assert!(text.contains("suite: run 1 of ") && text.contains(" left"), "{text}");
    let table = std::fs::read_to_string(path.join("suite.md")).unwrap();
    for part in [
        "| what | wanted | figures | where we stand |",
        "| GET 100 B, 50 connections, pipeline 16 (redis-benchmark) | 2 x Redis, 1.5 x Valkey | Ashlar ",
        "% of the no-op server |",
        "| GET, 512 connections against 32 (redis-benchmark) | no loss over 5 % | Ashlar ",
        "<br>two cores ",
        "| the same of the no-op server, with a thread for each core | what this machine allows | one core ",
        // On a machine that others use it may fall behind its rate, and then has no figure, but a reason.
        "busy: p50 ",
        "| SELECT of two columns of one of 2 K rows by primary key, prepared, 16 connections (pgbench -M prepared, ",
        "% of the plain loop |",
        "| COPY in, 5 K rows of 4 columns with a primary key, unlogged, rows |",
        "quick length",
    ] {
        assert!(table.contains(part), "{part:?} is not in\n{table}");
    }
    assert!(std::fs::read_to_string(path.join("report.html")).unwrap().contains("<svg"));
    let command = std::fs::read_to_string(path.join("latency-busy-1/command")).unwrap();
    assert!(command.starts_with("ashlar-lab run kv-get ") && command.contains(" --beside-rows 5000 "), "{command}");

    // One run is gone; the others are not made again.
    std::fs::remove_dir_all(path.join("copy-copy")).unwrap();
    let started = record(&path.join("sum-sum"))["started_at"].clone();
    let text = ends(quick(&path, only), 0);
    assert_eq!(record(&path.join("sum-sum"))["started_at"], started);
    assert!(text.contains("suite: sum-sum is there already") && path.join("copy-copy/run.json").is_file(), "{text}");

    let mut other = lab(&["suite", "bench", "--only", "copy", "--out"]);
    other.arg(&path);
    assert!(ends(other, 2).contains("is of another suite or length"));
}

#[test]
fn a_suite_that_is_interrupted_says_how_to_go_on_and_goes_on() {
    let (_guard, path) = folder();
    // So many that some are left when the second has begun, also where the machine stands still for a while.
    let only = "sum,fetch-pairs,copy";
    let mut child = quick(&path, only).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("suite: run 2 of ") {
        assert!(errors.read_line(&mut said).unwrap() > 0, "it ended before its second run:\n{said}");
    }
    let interrupt = ["-c", "kill -INT \"$0\"", &child.id().to_string()];
    assert!(Command::new("sh").args(interrupt).status().unwrap().success());
    while errors.read_line(&mut said).unwrap() > 0 {}
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    let again = format!("ashlar-lab suite bench --quick --only {only} --out {}", path.display());
    assert!(said.contains("suite: interrupted") && said.contains(&again), "{said}");
    assert!(std::fs::read_to_string(path.join("suite.md")).unwrap().contains("% of the plain loop |"), "{said}");
    let first = record(&path.join("sum-sum"))["started_at"].clone();

    let text = ends(quick(&path, only), 0);
    assert!(text.contains("suite: sum-sum is there already"), "{text}");
    assert_eq!(record(&path.join("sum-sum"))["started_at"], first);
    assert_eq!(record(&path.join("copy-copy"))["state"], "complete");
    assert!(text.contains(" in all, servers started and filled\n"), "{text}");
}

#[test]
fn layouts_are_shown_without_a_run() {
    let (_guard, path) = folder();
    let mut command = lab(&["suite", "impala", "--quick", "--only", "buckets", "--out"]);
    command.arg(&path);
    ends(command, 0);
    let table = std::fs::read_to_string(path.join("suite.md")).unwrap();
    assert!(table.contains("what its makers showed") && table.contains("filled buckets -30.6 %"), "{table}");
}

#[test]
fn what_a_suite_does_not_have_is_refused() {
    let (guard, path) = folder();
    let page = guard.path().join("page.md");
    std::fs::write(&page, "no marks\n").unwrap();
    let page = page.to_str().unwrap();
    for (arguments, said) in [
        (
            &["suite", "nothing"][..],
            "there is no suite \"nothing\"; there are bench, geode, hazelcast, impala, hash, tpcc, proxy",
        ),
        (&["suite", "bench", "--only", "get,gte"], "bench has no rows \"gte\"; it has get, set,"),
        (&["suite", "bench", "--page", page], "has no marks <!-- bench begin -->"),
        (&["suite", "bench", "--quick", "--page", page], "leave out --quick and --only"),
    ] {
        let mut command = lab(arguments);
        command.arg("--out").arg(&path);
        let text = ends(command, 2);
        assert!(text.contains(said), "{said:?} is not in\n{text}");
    }
    assert!(!path.exists());
}
