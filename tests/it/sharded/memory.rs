//! What is held of shards' answers has a bound, and only who reaches it fails. Rows that only go through are held in part.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::pipelines::{bind, execute, parse};
use super::*;

/// Bytes of the text in the long row, and in the other.
const LONG: usize = 60 << 20;
const SHORT: usize = 4 << 20;

/// What stands before the text in the message of a row: tag, length, the number of values, the length of the only one.
const HEAD_BYTES: usize = 11;

/// Memory that Ashlar may take for a row that goes through.
const HELD_MAX: u64 = 16 << 20;

/// Two shards with a row each, of which the first is longer than the memory that there is; and their keys.
fn long_rows(lines: &str) -> (Fleet, Vec<i64>) {
    let fleet = Fleet::with(2, &format!("{lines}\n[store]\nmemory_mib_max = 32"));
    done(&mut fleet.client(), &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    for (shard, (key, bytes)) in keys.iter().zip([LONG, SHORT]).enumerate() {
        done(&mut fleet.shard(shard), &format!("INSERT INTO t VALUES ({key}, repeat('x', {bytes}))"));
        done(&mut fleet.shard(shard), "CHECKPOINT");
    }
    (fleet, keys)
}

/// Statements whose first row is the long one, and comes as its shard has sent it: of one shard, and of one after the other.
fn passed_on(keys: &[i64]) -> [String; 2] {
    [format!("SELECT v FROM t WHERE k = {}", keys[0]), "SELECT v FROM t".to_owned()]
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == b'x')
}

/// What the only columns of all rows have, in bytes, up to ReadyForQuery.
fn lengths(client: &mut pg::Connection, messages: &[Vec<u8>]) -> Vec<usize> {
    client.send(&messages.concat()).unwrap();
    let mut lengths = Vec::new();
    loop {
        let message = client.read().unwrap();
        match message.kind {
            b'D' => {
                let text = &message.body[HEAD_BYTES - 5..];
                assert!(is_text(text));
                lengths.push(text.len());
            }
            b'E' => panic!("{}", pg::describe(&message)),
            b'Z' => return lengths,
            _ => {}
        }
    }
}

/// Reads the head of the long row and nothing behind it, until its shard waits for whoever reads: its process there.
fn begin_to_read(fleet: &Fleet, client: &mut pg::Connection, sql: &str) -> String {
    client.send(&pg::message(b'Q', &[sql.as_bytes(), b"\0"])).unwrap();
    assert_eq!(client.read().unwrap().kind, b'T', "{sql}");
    let head = client.read_up_to(HEAD_BYTES).unwrap();
    assert_eq!((head[0], &head[7..]), (b'D', &(LONG as i32).to_be_bytes()[..]), "{sql}");
    fleet.writing(0, sql)
}

/// The connection ends in the middle of the row: what comes of it is the row's, and nothing follows.
fn ends_in_the_row(client: &mut pg::Connection, sql: &str) {
    let rest = client.read_up_to(LONG).unwrap();
    assert!(rest.len() < LONG, "{sql}: the row came to its end");
    assert!(is_text(&rest), "{sql}: something else came within the row");
}

#[test]
fn long_rows_of_shards_go_through_and_are_paid_for_where_they_are_held() {
    let (fleet, keys) = long_rows("");
    let mut client = fleet.client();
    let sync = || pg::message(b'S', &[]);
    for (sql, expected) in passed_on(&keys).iter().zip([&[LONG][..], &[LONG, SHORT]]) {
        assert_eq!(lengths(&mut client, &[pg::message(b'Q', &[sql.as_bytes(), b"\0"])]), expected, "{sql}");
        // Parsed by its shards, and then known to them.
        for _ in 0..2 {
            let messages = [parse("", sql), bind("", "", &[]), execute("", 0), sync()];
            assert_eq!(lengths(&mut client, &messages), expected, "{sql}");
        }
    }
    // In a block, and one behind the other.
    done(&mut client, "BEGIN");
    let read = [bind("", "read", &[keys[0].to_string()]), execute("", 0)].concat();
    let named = parse("read", "SELECT v FROM t WHERE k = $1");
    assert_eq!(lengths(&mut client, &[named, read.clone(), sync()]), [LONG]);
    assert_eq!(lengths(&mut client, &[read.clone(), read, sync()]), [LONG, LONG]);
    done(&mut client, "COMMIT");
    let length = |client: &mut pg::Connection, key: i64| {
        client.value(&format!("SELECT length(v) FROM t WHERE k = {key}")).unwrap()
    };
    for sql in ["SELECT v FROM t ORDER BY k", "SELECT max(length(v || a.k))::text FROM t a GROUP BY length(v) % 2"] {
        let error = refused(&mut client, sql);
        assert!(error.contains("53200"), "{sql}: {error}");
        // Who asks for less is answered, by the same connections or by others.
        assert_eq!(length(&mut client, keys[0]), LONG.to_string());
        let row = rows(&mut client, &format!("SELECT v FROM t WHERE k = {}", keys[1])).remove(0);
        assert_eq!(row[0].as_ref().unwrap().len(), SHORT);
    }
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "2");
    fleet.ashlar.check_log();
}

#[test]
fn a_row_that_is_held_has_a_bound_of_its_own_and_one_that_goes_through_has_none() {
    let (fleet, keys) = long_rows("row_mib_max = 2");
    let mut client = fleet.client();
    for (key, bytes) in keys.iter().zip([LONG, SHORT]) {
        let sql = format!("SELECT v FROM t WHERE k = {key}");
        assert_eq!(lengths(&mut client, &[pg::message(b'Q', &[sql.as_bytes(), b"\0"])]), [bytes], "{sql}");
    }
    let error = refused(&mut client, "SELECT v FROM t ORDER BY k");
    assert!(error.contains("54000") && error.contains("shard.row_mib_max"), "{error}");
    fleet.ashlar.check_log();
}

#[test]
fn little_is_held_of_a_long_row_whose_client_reads_slowly() {
    let (fleet, keys) = long_rows("");
    for sql in passed_on(&keys) {
        let mut client = fleet.client();
        // What is made for the first such statement is there.
        done(&mut client, &format!("SELECT v FROM t WHERE k = {}", keys[1]));
        done(&mut client, "SELECT k FROM t");
        let before = fleet.ashlar.resident_bytes();
        begin_to_read(&fleet, &mut client, &sql);
        let held = fleet.ashlar.resident_bytes().saturating_sub(before);
        assert!(held < HELD_MAX, "{sql}: {held} bytes");
        let rest = client.read_up_to(LONG).unwrap();
        assert!(rest.len() == LONG && is_text(&rest), "{sql}: {} bytes", rest.len());
        while client.read().unwrap().kind != b'Z' {}
        assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "2");
    }
    fleet.ashlar.check_log();
}

#[test]
fn what_was_held_of_a_row_is_given_back_with_its_connection() {
    const ROW: usize = 48 << 20;
    let fleet = Fleet::with(2, "[store]\nmemory_mib_max = 1024");
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    let longest = "SELECT max(length(v || a.k)) FROM t a GROUP BY length(v) % 2";
    done(&mut client, &format!("INSERT INTO t VALUES ({}, 'short')", keys[1]));
    done(&mut client, longest);
    let before = fleet.ashlar.resident_bytes();
    done(&mut fleet.shard(0), &format!("INSERT INTO t VALUES ({}, repeat('x', {ROW}))", keys[0]));
    let expected = (ROW + keys[0].to_string().len()).to_string();
    assert!(rows(&mut client, longest).contains(&vec![Some(expected)]));
    // It is idle now, and nobody pays for what it has.
    let is_given_back = || fleet.ashlar.resident_bytes() < before + ROW as u64 / 2;
    assert!(wait_for(PATIENCE, is_given_back), "{before} bytes before, {} now", fleet.ashlar.resident_bytes());
    fleet.ashlar.check_log();
}

#[test]
fn a_long_row_that_is_cancelled_comes_to_its_end_or_its_connection_does() {
    // Longer than reading the row may take.
    let (fleet, keys) = long_rows("connect_timeout_ms = 120000");
    for sql in passed_on(&keys) {
        let mut client = fleet.client();
        begin_to_read(&fleet, &mut client, &sql);
        pg::cancel(fleet.ashlar.pg(), &client.key).unwrap();
        let rest = client.read_up_to(LONG).unwrap();
        assert!(rest.len() == LONG && is_text(&rest), "{sql}: {} bytes", rest.len());
        let error = client.read().unwrap();
        assert_eq!((error.kind, error.field(b'C').as_deref()), (b'E', Some("57014")), "{sql}");
        assert_eq!(client.read().unwrap().kind, b'Z', "{sql}");
        assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "2");
    }
    fleet.ashlar.check_log();
    drop(fleet);
    let (fleet, keys) = long_rows("connect_timeout_ms = 5000");
    for sql in passed_on(&keys) {
        let mut client = fleet.client();
        let pid = begin_to_read(&fleet, &mut client, &sql);
        pg::cancel(fleet.ashlar.pg(), &client.key).unwrap();
        let is_there = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
        let mut shard = fleet.shard(0);
        assert!(wait_for(PATIENCE, || shard.value(&is_there).unwrap() == "0"), "{sql}: its shard is kept");
        ends_in_the_row(&mut client, &sql);
        assert_eq!(fleet.client().value("SELECT count(*) FROM t").unwrap(), "2");
    }
    fleet.ashlar.check_log();
}

#[test]
fn a_long_row_whose_shard_dies_ends_the_connection() {
    let (fleet, keys) = long_rows("");
    for sql in passed_on(&keys) {
        let mut client = fleet.client();
        let kill = format!("kill -9 {}", begin_to_read(&fleet, &mut client, &sql));
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success(), "{kill}");
        ends_in_the_row(&mut client, &sql);
        let is_back = || fleet.client().value("SELECT count(*) FROM t").is_ok_and(|count| count == "2");
        assert!(wait_for(PATIENCE, is_back), "{sql}: the shard stays away");
    }
}
