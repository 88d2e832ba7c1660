//! Proxies that shard, before one PostgreSQL and several: Ashlar, and ShardingSphere-Proxy, which needs a JDK and Maven, as the targets of `grids` do, and the
//! network once: Maven fetches its jars.

#![allow(clippy::unwrap_used, reason = "all of this is tests, and clippy takes only functions marked #[test] for such")]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Measures one target once, in windows of so many seconds; its measurement, in which nothing went wrong.
fn measured(workload: &[&str], target: &str, seconds: &str) -> Value {
    measured_and_told(workload, target, seconds).0
}

/// The same, and what its servers said of themselves afterwards.
fn measured_and_told(workload: &[&str], target: &str, seconds: &str) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let program = Path::new(env!("CARGO_BIN_EXE_ashlar-lab"));
    let mut command = Command::new(program);
    // ShardingSphere's jars are where Cargo's other files are, and so is Ashlar.
    command.env("CARGO_TARGET_DIR", program.ancestors().nth(2).unwrap());
    command.arg("run").args(workload).args(["--target", target, "--threads", "2", "--repeat", "1"]);
    command.args(["--warm-up", "0", "--seconds", seconds, "--server-cores", "none", "--client-cores", "none", "--out"]);
    command.arg(&path).stdin(Stdio::null());
    let ashlar = program.with_file_name("ashlar");
    if ashlar.is_file() {
        command.arg("--ashlar").arg(ashlar);
    }
    let output = command.output().unwrap();
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).join("\n");
    assert_eq!(output.status.code(), Some(0), "{text}");
    let run: Value = serde_json::from_str(&std::fs::read_to_string(path.join("run.json")).unwrap()).unwrap();
    let one = run["measurements"][0].clone();
    // Among the answers that are checked are the conditions of consistency over all shards, after the window.
    assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(0)), "{one}");
    assert!(one["operations"].as_u64().unwrap() > 0, "{one}");
    let told = std::fs::read_to_string(path.join(one["metrics_after"].as_str().unwrap())).unwrap();
    (one, told)
}

/// Whether these are its processes, and all of them did something.
fn did_something(one: &Value, names: &[&str]) {
    let parts = one["server_parts"].as_array().unwrap();
    let found: Vec<&str> = parts.iter().filter_map(|part| part["name"].as_str()).collect();
    assert_eq!(found, names);
    assert!(parts.iter().all(|part| part["cpu_seconds"].as_f64().unwrap() > 0.0), "all shards are asked: {one}");
}

/// How many commits on several servers a server says that it has decided, among what all of them have told.
fn decided(told: &str, server: &str) -> u64 {
    let start = format!("{server} pg_stat_user_tables ");
    let rows = told.lines().filter_map(|line| line.strip_prefix(&start));
    let decisions = rows
        .map(|row| serde_json::from_str::<Value>(row).unwrap())
        .filter(|row| row["schemaname"] == "ashlar" && row["relname"] == "decisions");
    decisions.map(|row| row["n_tup_ins"].as_u64().unwrap()).sum()
}

/// Some transactions have committed on several of these servers.
fn assert_some_are_shared(one: &Value, told: &str, servers: &[&str]) {
    // The first one decides where tables are made, too; the others only where a transaction began with them.
    let decisions: u64 = servers[1..].iter().map(|server| decided(told, server)).sum();
    assert!(decisions > 0, "no transaction was of two servers: {one}");
}

/// Seconds in which all shards have something to do, also where the machine stands still for a while.
const WINDOW: &str = "3";

const TPCC: &[&str] = &["tpcc", "--warehouses", "2", "--items", "200", "--customers", "20"];

#[test]
fn transactions_are_done_by_a_proxy_that_shards() {
    // A Java machine that is cold is slow, so the window is not of one second.
    did_something(&measured(TPCC, "shardingsphere", "3"), &["shardingsphere", "postgres-0", "postgres-1"]);
}

#[test]
fn groups_and_a_join_over_four_servers_are_answered_by_a_proxy_that_shards() {
    let names = ["shardingsphere", "postgres-0", "postgres-1", "postgres-2", "postgres-3"];
    for words in [&["sql-group", "--columns", "narrow"][..], &["sql-join", "--join-rows", "300"]] {
        let words = [words, &["--rows", "40000"]].concat();
        did_something(&measured(&words, "shardingsphere-4", "3"), &names);
    }
}

#[test]
fn transactions_are_done_by_ashlar_before_two_servers_and_before_one() {
    // A warehouse for each server: what is ordered from the other warehouse, or paid there, is of two servers.
    let (one, told) = measured_and_told(TPCC, "ashlar-proxy-2", "4");
    did_something(&one, &["ashlar-proxy", "postgres-0", "postgres-1"]);
    assert_some_are_shared(&one, &told, &["postgres-0", "postgres-1"]);
    did_something(&measured(TPCC, "ashlar-proxy", WINDOW), &["ashlar-proxy", "postgres"]);
    // Of accounts, tellers and branches each may be on another server; the sums are those of all.
    did_something(
        &measured(&["tpcb", "--scale", "1"], "ashlar-proxy-2", WINDOW),
        &["ashlar-proxy", "postgres-0", "postgres-1"],
    );
}

#[test]
fn transactions_are_done_by_ashlar_before_four_servers_that_share_some_of_them() {
    // A warehouse for each server: what is ordered from another warehouse, or paid at one, is of two servers.
    let workload = ["tpcc", "--warehouses", "4", "--items", "200", "--customers", "20"];
    let (one, told) = measured_and_told(&workload, "ashlar-proxy-4", "4");
    let servers = ["postgres-0", "postgres-1", "postgres-2", "postgres-3"];
    did_something(&one, &[&["ashlar-proxy"][..], &servers].concat());
    assert_some_are_shared(&one, &told, &servers);
}

#[test]
fn what_is_measured_without_routing_is_not_routed() {
    let words = ["sql-key", "--rows", "2000", "--protocol", "text"];
    let route = "route=\"named server\",tables=\"s0\"";
    let (one, told) = measured_and_told(&words, "pgbench-unrouted=ashlar-proxy", WINDOW);
    did_something(&one, &["ashlar-proxy", "postgres"]);
    let statements = told.lines().find(|line| line.contains("shard_statements_total{") && line.contains(route));
    let statements: u64 = statements.and_then(|line| line.split(' ').next_back()).unwrap().parse().unwrap();
    assert!(statements >= one["operations"].as_u64().unwrap(), "{statements} of {one}");
    let (_, told) = measured_and_told(&words, "pgbench=ashlar-proxy", WINDOW);
    assert!(told.contains("route=\"one shard\"") && !told.contains(route));
}

#[test]
fn rows_are_asked_for_through_ashlar_as_a_proxy() {
    let names = ["ashlar-proxy", "postgres-0", "postgres-1"];
    for workload in [
        "sql-key",
        "sql-update",
        "sql-sum",
        "sql-count",
        "sql-range",
        "sql-fetch",
        "sql-join",
        "sql-group",
        "query-range",
    ] {
        let range: &[&str] = if workload.ends_with("range") { &["--range-rows", "20"] } else { &[] };
        let mut words = vec![workload, "--rows", "2000"];
        words.extend(range);
        did_something(&measured(&words, "ashlar-proxy-2", WINDOW), &names);
    }
}
