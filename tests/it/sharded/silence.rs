//! A shard whose machine is gone: nobody says so, and nothing is acknowledged any more. What waits for it fails once it has been silent for
//! as long as `silence_max_ms` says, and what concerns other shards goes on.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ashlar_tests::island::Island;
use ashlar_tests::process::{PATIENCE, wait_for};
use ashlar_tests::tools::skipped;

use super::*;

/// The least that can be said.
const SILENCE: Duration = Duration::from_secs(2);

/// The kernel asks once a second, and the machine of the test does something else too: so many times as long it may take, which is less than
/// it would be if nothing were said.
const LOADED: u32 = 25;

/// The error of a statement that must fail, as soon as it has.
fn failing(mut client: pg::Connection, sql: String) -> JoinHandle<String> {
    std::thread::spawn(move || refused(&mut client, &sql))
}

#[test]
fn a_shard_whose_machine_is_gone_is_lost_after_as_long_as_is_said() {
    let island = match Island::make() {
        Ok(island) => island,
        Err(error) => return skipped(&format!("{error:#}")),
    };
    let shards = vec![Postgres::start().unwrap(), Postgres::start_on(&island).unwrap()];
    let silence = SILENCE.as_millis();
    let lines = format!("silence_max_ms = {silence}\nconnect_timeout_ms = 5000\nhealth_check_ms = 50");
    let fleet = Fleet::over(shards, &lines);
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t SELECT i, 'old' FROM generate_series(1, 40) AS s(i)");
    let keys = |shard: usize| -> Vec<String> {
        rows(&mut fleet.shard(shard), "SELECT k FROM t ORDER BY k LIMIT 3").into_iter().flatten().flatten().collect()
    };
    let (near, far) = (keys(0), keys(1));

    // One waits there for a lock, one is between two statements of a transaction, and one about to commit.
    let mut holder = fleet.shard(1);
    done(&mut holder, "BEGIN");
    done(&mut holder, &format!("UPDATE t SET v = 'held' WHERE k = {}", far[0]));
    let waiting = failing(fleet.client(), format!("UPDATE t SET v = 'new' WHERE k = {}", far[0]));
    let mut watcher = fleet.shard(1);
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    assert!(wait_for(PATIENCE, || watcher.value(waits).unwrap() != "0"));
    let within = |key: &str| {
        let mut client = fleet.client();
        done(&mut client, "BEGIN");
        done(&mut client, &format!("UPDATE t SET v = 'new' WHERE k = {key}"));
        client
    };
    let (between, committing) = (within(&far[1]), within(&far[2]));

    island.fall_silent().unwrap();
    let begin = Instant::now();
    let between = failing(between, format!("SELECT v FROM t WHERE k = {}", far[1]));
    let committing = failing(committing, "COMMIT".to_owned());
    assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {}", near[0])).unwrap(), "old");
    for (statement, code) in [(waiting, "08006"), (between, "08006"), (committing, "08007")] {
        let error = statement.join().unwrap();
        assert!(error.starts_with(code) && error.contains("s1"), "instead of {code}: {error}");
    }
    let time = begin.elapsed();
    assert!(time >= SILENCE / 2 && time <= LOADED * SILENCE, "lost after {time:?}");
    // Nobody waits for longer than that, nor to connect.
    let error = refused(&mut client, "SELECT count(*) FROM t");
    assert!(["08001", "08006", "57P03"].iter().any(|code| error.starts_with(code)), "{error}");

    island.speak().unwrap();
    drop((holder, watcher));
    let count = "SELECT count(*) FROM t";
    assert!(wait_for(PATIENCE, || client.value(count).is_ok_and(|found| found == "40")), "{:?}", client.value(count));
    done(&mut client, "INSERT INTO t SELECT i, 'new' FROM generate_series(41, 60) AS s(i)");
    assert_eq!(client.value(count).unwrap(), "60");
    fleet.ashlar.check_log();
}
