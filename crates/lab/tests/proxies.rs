//! A proxy that shards, before two PostgreSQLs: ShardingSphere-Proxy, which needs a JDK and Maven, as the targets of `grids` do, and the network once: Maven
//! fetches its jars.

#![allow(clippy::unwrap_used, reason = "all of this is tests, and clippy takes only functions marked #[test] for such")]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn transactions_are_done_by_a_proxy_that_shards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let program = Path::new(env!("CARGO_BIN_EXE_ashlar-lab"));
    let mut command = Command::new(program);
    // Its jars are where Cargo's other files are.
    command.env("CARGO_TARGET_DIR", program.ancestors().nth(2).unwrap());
    command.args(["run", "tpcc", "--target", "shardingsphere", "--threads", "2", "--repeat", "1"]);
    // A Java machine that is cold is slow, so the window is not of one second.
    command.args(["--warehouses", "2", "--items", "200", "--customers", "20", "--warm-up", "0", "--seconds", "3"]);
    command.args(["--server-cores", "none", "--client-cores", "none", "--out"]).arg(&path).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).join("\n");
    assert_eq!(output.status.code(), Some(0), "{text}");
    let run: Value = serde_json::from_str(&std::fs::read_to_string(path.join("run.json")).unwrap()).unwrap();
    let one = &run["measurements"][0];
    // Among the answers that are checked are the conditions of consistency over both shards, after the window.
    assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(0)), "{one}");
    assert!(one["operations"].as_u64().unwrap() > 0, "{one}");
    let parts = one["server_parts"].as_array().unwrap();
    let names: Vec<&str> = parts.iter().filter_map(|part| part["name"].as_str()).collect();
    assert_eq!(names, ["shardingsphere", "postgres-0", "postgres-1"]);
    assert!(parts.iter().all(|part| part["cpu_seconds"].as_f64().unwrap() > 0.0), "both shards are asked: {one}");
}
