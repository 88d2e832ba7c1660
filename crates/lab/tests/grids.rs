//! Targets that a client in Java loads: Hazelcast, and servers of RESP through Lettuce.
//!
//! They need a JDK and Maven, which `./x test` installs, and the network once: Maven fetches what the programs are compiled against.
//! Geode is met by the same client and measured in the same way; its libraries take a minute to fetch, and are left out here.

#![allow(clippy::unwrap_used, reason = "all of this is tests, and clippy takes only functions marked #[test] for such")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The program, with libraries and classes where Cargo's other files are. Runs of seconds are over before a JVM's second compiler has made
/// anything faster, and it takes the cores from them.
fn lab(arguments: &[&str]) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_ashlar-lab"));
    let mut command = Command::new(program);
    command.env("CARGO_TARGET_DIR", program.ancestors().nth(2).unwrap());
    command.env("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1");
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A short run. Without a warm-up the first answers count, so there are some however slow a JVM begins.
fn run(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = lab(&["run"]);
    command.args(arguments).args(["--warm-up", "0", "--threads", "2", "--repeat", "1"]);
    command.args(["--server-cores", "none", "--client-cores", "none", "--no-harness", "--out"]).arg(folder);
    command
}

#[track_caller]
fn ends(mut command: Command, status: i32) -> String {
    let output = command.output().unwrap();
    let text = texts(&output);
    assert_eq!(output.status.code(), Some(status), "{text}");
    text
}

fn texts(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).join("\n")
}

fn record(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("run.json")).unwrap()).unwrap()
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    (folder, path)
}

fn is_running(process: &Value) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

fn signal(name: &str, process: &str) {
    // By the shell's own `kill`: a small system has no program of this name.
    assert!(Command::new("sh").args(["-c", "kill \"$0\" \"$1\"", name, process]).status().unwrap().success());
}

#[test]
fn a_map_of_hazelcast_is_loaded_measured_and_stopped() {
    let (_guard, path) = folder();
    let sizes = ["--keys", "500", "--batch", "20", "--value-bytes", "30", "--seconds", "2"];
    let text = ends(run(&path, &[&["kv-batch", "--target", "hazelcast,noop"][..], &sizes].concat()), 0);
    assert!(text.contains("threads of the lab: noop; a client in Java: hazelcast. What a client costs"), "{text}");
    let run = record(&path);
    let target = &run["targets"][0];
    assert_eq!((&target["state"], &target["client"]), (&Value::from("measured"), &Value::from("java")));
    assert!(target["version"].as_str().unwrap().starts_with("5."), "{target}");
    let settings = target["configuration"].to_string();
    assert!(settings.contains("-Xmx4g") && settings.contains("client: hazelcast 5."), "{settings}");
    assert!(!is_running(&target["process_id"]));
    let one = run["measurements"].as_array().unwrap().iter().find(|one| one["target"] == "hazelcast").unwrap();
    assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(0)));
    assert!(one["operations"].as_u64().unwrap() > 10, "{one}");
    assert_eq!(one["completed_per_second"].as_array().unwrap().len(), 2);
    for used in ["server_cpu_seconds", "client_cpu_seconds", "server_live_bytes", "server_memory_peak_bytes"] {
        assert!(one[used].as_f64().unwrap() > 0.0, "{used}: {one}");
    }
    let uptime = ["metrics_before", "metrics_after"].map(|when| {
        let text = std::fs::read_to_string(path.join(one[when].as_str().unwrap())).unwrap();
        assert!(text.contains("\njvm_heap_used_bytes="), "{text}");
        let uptime = text.lines().find_map(|line| line.strip_prefix("jvm_uptime_ms=")).unwrap();
        uptime.parse::<u64>().unwrap()
    });
    assert!(uptime[1] >= uptime[0] + 2000, "{uptime:?}");
    let name = path.to_str().unwrap();
    let text = ends(lab(&["report", name]), 0);
    assert!(text.contains("report.html"), "{text}");
    let page = std::fs::read_to_string(path.join("report.html")).unwrap();
    assert!(page.contains("loaded by a client in Java"));
}

/// Ashlar's values are rows with typed columns, Hazelcast's compact records, of noop what it makes up.
#[test]
fn values_with_fields_are_written_and_read_by_clients_in_java() {
    let guard = tempfile::tempdir().unwrap();
    let ashlar = Path::new(env!("CARGO_BIN_EXE_ashlar-lab")).with_file_name("ashlar");
    for (workload, targets) in [("kv-mixed", "hazelcast,lettuce=ashlar"), ("kv-get", "lettuce=noop")] {
        let path = guard.path().join(workload);
        let shape = ["--value-shape", "structured", "--keys", "300", "--seconds", "2"];
        let mut command = run(&path, &[&[workload, "--target", targets][..], &shape].concat());
        command.arg("--ashlar").arg(&ashlar);
        ends(command, 0);
        for one in record(&path)["measurements"].as_array().unwrap() {
            assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(0)), "{one}");
            assert!(one["operations"].as_u64().unwrap() > 10, "{one}");
        }
    }
}

#[test]
fn rows_in_hazelcast_are_answered_rightly_by_sql_and_by_predicates() {
    let guard = tempfile::tempdir().unwrap();
    let both = "hazelcast-sql,hazelcast-predicates";
    let mapping = "CREATE OR REPLACE MAPPING ashlar_lab_rows ";
    for (workload, sizes, targets, declared) in [
        ("sql-update", &[][..], both, mapping),
        ("sql-fetch", &[], "hazelcast-sql", mapping),
        ("sql-range", &["--range-rows", "100"], "hazelcast-predicates", "SORTED index on __key"),
        ("sql-count", &["--counted", "keys"], both, mapping),
        ("sql-count", &["--counted", "matching"], both, mapping),
        ("sql-json-sum", &[], both, "CREATE OR REPLACE MAPPING ashlar_lab_documents "),
        ("sql-json-sum", &["--field", "parameter"], "hazelcast-sql", "CREATE OR REPLACE MAPPING ashlar_lab_documents "),
        ("sql-value", &["--index", "hash"], both, "HASH index on label"),
        ("query-range", &["--range-rows", "50"], both, "SORTED index on value"),
        ("sql-join", &["--join-rows", "100"], "hazelcast-sql", "CREATE OR REPLACE MAPPING ashlar_lab_picks "),
    ] {
        let path = guard.path().join([&[workload], sizes].concat().join("-"));
        let asked = [workload, "--target", targets, "--rows", "2000", "--seconds", "1"];
        ends(run(&path, &[&asked[..], sizes].concat()), 0);
        let run = record(&path);
        let settings = run["targets"][0]["configuration"].to_string();
        assert!(settings.contains(declared), "{settings}");
        let measurements = run["measurements"].as_array().unwrap();
        assert_eq!(measurements.len(), targets.split(',').count());
        for one in measurements {
            assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(0)), "{one}");
        }
    }
}

#[test]
fn an_entry_of_a_map_takes_bytes_of_the_live_heap() {
    let (_guard, path) = folder();
    let mut command = lab(&["run", "kv-memory", "--target", "hazelcast", "--keys", "20000", "--churn", "2"]);
    command.args(["--repeat", "1", "--server-cores", "none", "--client-cores", "none", "--out"]).arg(&path);
    let text = ends(command, 0);
    assert!(text.contains("alive after") && text.contains("heap"), "{text}");
    let run = record(&path);
    let measurements = run["measurements"].as_array().unwrap();
    for (one, (step, operations)) in measurements.iter().zip([("fresh", 20_000), ("churned", 40_000)]) {
        assert_eq!((&one["query"], &one["operations"]), (&Value::from(step), &Value::from(operations)), "{one}");
        assert_eq!(one["errors"], 0, "every value is the last that was written: {one}");
        let bytes = |name: &str| one["footprint"][name].as_f64().unwrap();
        let each = (bytes("live_bytes") - bytes("empty_live_bytes")) / 20_000.0;
        assert!((116.0..2000.0).contains(&each), "{each} bytes an entry: {one}");
    }
    assert_eq!(measurements.len(), 2);
}

#[test]
fn a_member_that_is_killed_ends_the_run_and_its_client() {
    let (_guard, path) = folder();
    let mut child =
        run(&path, &["kv-get", "--target", "hazelcast", "--keys", "100", "--seconds", "60"]).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("measuring hazelcast") {
        assert!(errors.read_line(&mut said).unwrap() > 0, "it ended before it measured:\n{said}");
    }
    let member = record(&path)["targets"][0]["process_id"].clone();
    signal("-KILL", &member.to_string());
    while errors.read_line(&mut said).unwrap() > 0 {}
    assert_ne!(child.wait().unwrap().code(), Some(0));
    let run = record(&path);
    assert_eq!(
        (&run["state"], &run["targets"][0]["state"]),
        (&Value::from("partial"), &Value::from("failed")),
        "{run}"
    );
    assert!(said.contains("hazelcast failed: hazelcast ended with signal: 9"), "{said}");
}

/// A running server that stores nothing, and the address of its RESP door.
fn noop_server(folder: &Path, value_bytes: &str) -> (Child, String) {
    let ready = folder.join("ready");
    let server = lab(&["noop-server", "--value-bytes", value_bytes, "--ready-file"]).arg(&ready).spawn().unwrap();
    loop {
        match std::fs::read_to_string(&ready) {
            Ok(text) => break (server, text.lines().next().unwrap().to_owned()),
            Err(_) => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_client_in_java_offers_its_rate_and_finds_wrong_answers() {
    let (guard, path) = folder();
    let rate = ["kv-mixed", "--target", "lettuce=noop", "--keys", "500", "--seconds", "5", "--rate", "100"];
    let text = ends(run(&path, &rate), 0);
    assert!(text.contains("the harness alone (lettuce=noop, 2 threads): throughput"), "{text}");
    assert_eq!(record(&path)["measurements"][0]["operations"], 500);

    let (mut server, address) = noop_server(guard.path(), "50");
    let target = format!("lettuce={address}");
    let (read, written) = (guard.path().join("read"), guard.path().join("written"));
    let few = ["--keys", "50", "--seconds", "1"];
    let short = run(&read, &[&["kv-get", "--target", &target][..], &few].concat()).output().unwrap();
    let sizes = [&few[..], &["--value-bytes", "50"]].concat();
    let dropped = run(&written, &[&["kv-put", "--target", &target][..], &sizes].concat()).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    for (output, said) in [(short, "has 50 bytes instead of 100"), (dropped, "has its first value")] {
        assert_eq!(output.status.code(), Some(1), "{}", texts(&output));
        let text = texts(&output);
        assert!(text.contains("WRONG ANSWERS, the first: key ") && text.contains(said), "{text}");
    }
    // One of each thread.
    assert_eq!(record(&written)["measurements"][0]["errors"], 2);
}

#[test]
fn an_interrupted_client_keeps_what_there_is() {
    let (_guard, path) = folder();
    let command = ["kv-get", "--target", "lettuce=noop", "--keys", "100", "--seconds", "60"];
    let mut child = run(&path, &command).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("measuring lettuce=noop") {
        assert!(errors.read_line(&mut said).unwrap() > 0, "it ended before it measured:\n{said}");
    }
    signal("-INT", &child.id().to_string());
    while errors.read_line(&mut said).unwrap() > 0 {}
    assert_ne!(child.wait().unwrap().code(), Some(0));
    let run = record(&path);
    assert_eq!((&run["state"], &run["reason"]), (&Value::from("partial"), &Value::from("interrupted")), "{said}");
    assert!(!is_running(&run["targets"][0]["process_id"]));
}

#[test]
fn what_a_client_in_java_cannot_do_is_absent_with_its_reason() {
    let (_guard, path) = folder();
    for (arguments, said) in [
        (&["kv-get", "--target", "hazelcast", "--pipeline", "2"][..], "send one request at a time"),
        (&["sql-join", "--target", "hazelcast-predicates"], "a predicate is about one map"),
        (&["sql-key", "--target", "geode"], "geode is absent: it has keys and values"),
        (&["sql-key", "--target", "lettuce=noop"], "its client does not speak PostgreSQL"),
        (&["kv-get", "--target", "lettuce=geode"], "geode has a client of its own in Java"),
    ] {
        let text = ends(run(&path, &[arguments, &["--seconds", "1"]].concat()), 2);
        assert!(text.contains(said), "{said:?} is not in\n{text}");
    }
    let mut nowhere = run(&path, &["kv-get", "--target", "geode", "--seconds", "1"]);
    nowhere.env("PATH", "");
    assert!(ends(nowhere, 2).contains("is not on the PATH"));
    assert!(!path.exists());
}
