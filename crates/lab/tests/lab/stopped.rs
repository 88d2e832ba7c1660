//! What is done to a run while it measures: servers are killed, somebody interferes, it is interrupted.

use std::io::{BufRead, Read, Write};
use std::path::Path;

use serde_json::Value;

use super::skipped::skipped;
use super::{fails, folder, lab, long_run, record, signal, started, succeeds, texts};

/// Sends one statement as PostgreSQL's simple protocol has it, and waits until it is done: what a client of another kind would do.
fn execute(address: &str, sql: &str) {
    let message = |kind: &[u8], body: &[u8]| [kind, &(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
    let mut stream =
        ashlar_base::net::connect_blocking(address.parse().unwrap(), std::time::Duration::from_secs(60)).unwrap();
    let start = [&196_608_i32.to_be_bytes()[..], b"user\0postgres\0database\0postgres\0\0"].concat();
    let end = message(b"X", b"");
    stream.write_all(&[message(b"", &start), message(b"Q", format!("{sql}\0").as_bytes()), end].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.windows(9).any(|part| part == b"UPDATE 1\0"), "{}", answer.escape_ascii());
}

#[test]
fn a_bank_whose_sums_do_not_agree_is_a_wrong_answer() {
    let (_guard, path) = folder();
    let ashlar = Path::new(env!("CARGO_BIN_EXE_ashlar-lab")).with_file_name("ashlar");
    let target = if ashlar.is_file() { "ashlar" } else { "postgres" };
    let arguments = ["tpcb", "--scale", "2", "--repeat", "1", "--target", target, "--ashlar", ashlar.to_str().unwrap()];
    let (child, mut errors) = started(long_run(&path, &arguments), "measuring");
    // Somebody gives an account a unit that nobody has paid.
    let address = record(&path)["targets"][0]["address"].as_str().unwrap().to_owned();
    execute(&address, "UPDATE ashlar_lab_accounts SET abalance = abalance + 1 WHERE aid = 199999");
    let mut said = String::new();
    while errors.read_line(&mut said).unwrap() > 0 {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("repetition 1: NOT CONSISTENT: "), "{said}");
    assert!(texts(&output).0.contains("1 WRONG ANSWERS, the first: "), "{said}");
    let one = &record(&path)["measurements"][0];
    assert_eq!((&one["state"], &one["errors"]), (&Value::from("complete"), &Value::from(1)));
    assert!(one["first_error"].as_str().unwrap().contains(" transactions that moved "), "{one}");
}

#[test]
fn a_target_that_is_killed_in_mid_run_leaves_a_partial_record() {
    let (_guard, path) = folder();
    let command = long_run(&path, &["kv-get", "--target", "noop", "--keys", "500", "--repeat", "2"]);
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
fn one_target_dies_and_the_other_is_measured_on() {
    let ashlar = Path::new(env!("CARGO_BIN_EXE_ashlar-lab")).with_file_name("ashlar");
    if !ashlar.is_file() {
        return skipped(&format!("{} is not built", ashlar.display()));
    }
    let (_guard, path) = folder();
    let two = ["kv-get", "--target", "noop,ashlar", "--keys", "500", "--repeat", "2"];
    let arguments = [&two[..], &["--ashlar", ashlar.to_str().unwrap()]].concat();
    let (child, mut errors) = started(long_run(&path, &arguments), "measuring noop, 2 threads, repetition 1 of 2");
    signal("-KILL", &record(&path)["targets"][0]["process_id"].to_string());
    let mut said = String::new();
    while errors.read_line(&mut said).unwrap() > 0 {}
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1), "{said}");
    let run = record(&path);
    assert_eq!((&run["state"], &run["reason"]), (&Value::from("partial"), &Value::from("noop failed")));
    let of = |target: &str, state: &str| {
        let all = run["measurements"].as_array().unwrap().iter();
        all.filter(|one| one["target"] == target && one["state"] == state).count()
    };
    assert_eq!((of("ashlar", "complete"), of("noop", "complete")), (2, 0), "{run}");
}

#[test]
fn being_interrupted_keeps_what_there_is_and_stops_the_servers() {
    let (_guard, path) = folder();
    let command = long_run(&path, &["kv-get", "--target", "noop", "--keys", "500", "--repeat", "2"]);
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
    let command = long_run(&path, &["kv-get", "--target", "noop", "--keys", "500", "--repeat", "2"]);
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
