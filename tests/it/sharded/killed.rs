//! Clients that are killed in the middle of a transaction on several shards: nothing of it stays, unless its COMMIT has come to Ashlar, which then
//! brings it to its end without them.

use std::io::Write;
use std::process::{Child, Stdio};

use ashlar_tests::process::{PATIENCE, wait_for};

use super::bank::Bank;
use super::members::{direct, total, wait_until_over};
use super::relay::Act;
use super::two_phase::steps_until_answered;
use super::*;

/// A client in a process of its own.
struct Client(Child);

impl Client {
    /// psql, which is sent these lines and waits for more.
    fn start(bank: &Bank, lines: &str) -> Client {
        let mut command = psql(&bank.member.ashlar);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
        Client(child)
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Lines that psql takes as these statements.
fn lines(statements: &[String]) -> String {
    statements.iter().map(|sql| format!("{sql};\n")).collect()
}

/// Waits until so many processes of shards are in this state.
fn wait_for_state(bank: &Bank, state: &str, count: usize) {
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE {state}");
    assert!(wait_for(PATIENCE, || total(&bank.shards, &sql) == count), "not {count}: {state}");
}

/// Nothing has moved, nobody's rows are locked, and no connection is kept from others.
fn is_left_as_it_was(bank: &Bank, before: &[i64]) {
    wait_until_over(&bank.shards);
    assert!(!bank.has_moved(before));
    let mut client = bank.member.ashlar.connect();
    let in_use = "SELECT sum(in_use) FROM ashlar.pools WHERE pool <> 'queries'";
    assert!(wait_for(PATIENCE, || client.value(in_use).unwrap() == "0"));
    bank.check();
}

#[test]
fn a_client_that_is_killed_before_it_commits_leaves_nothing() {
    let bank = Bank::open(3);
    let moves = Bank::moves(&bank.keys);
    // After each of its statements that has come to a shard.
    for sent in 2..=moves.len() {
        let before = bank.worth();
        let client = Client::start(&bank, &lines(&moves[..sent]));
        wait_for_state(&bank, "state = 'idle in transaction'", sent - 1);
        client.kill();
        is_left_as_it_was(&bank, &before);
    }
    // While a statement waits.
    let before = bank.worth();
    let mut holder = direct(&bank.shards[1]);
    done(&mut holder, "BEGIN");
    done(&mut holder, "SELECT v FROM bank FOR UPDATE");
    let client = Client::start(&bank, &lines(&moves));
    wait_for_state(&bank, "state = 'active' AND wait_event_type = 'Lock'", 1);
    client.kill();
    done(&mut holder, "ROLLBACK");
    is_left_as_it_was(&bank, &before);
    // In the middle of a COPY that all shards have rows of.
    let before = bank.worth();
    let rows: String = (1_000_000..1_030_000).map(|key| format!("{key}\t1\n")).collect();
    let client = Client::start(&bank, &format!("COPY bank FROM STDIN;\n{rows}"));
    wait_for_state(&bank, "state = 'active' AND query LIKE 'COPY%'", 3);
    client.kill();
    is_left_as_it_was(&bank, &before);
    bank.member.ashlar.check_log();
}

#[test]
fn a_commit_whose_client_is_killed_comes_to_its_end() {
    let bank = Bank::open(3);
    let mut statements = Bank::moves(&bank.keys);
    statements.push("COMMIT".to_owned());
    for (text, skip, when, _) in steps_until_answered() {
        let before = bank.worth();
        bank.member.wire.set(text, skip, when, Act::Hold);
        let client = Client::start(&bank, &lines(&statements));
        bank.member.wire.wait();
        client.kill();
        bank.member.wire.release();
        wait_until_over(&bank.shards);
        assert!(bank.has_moved(&before), "{when:?} {text} {skip}");
    }
    bank.check();
    bank.member.ashlar.check_log();
}
