//! Transactions: on one shard they are that shard's, on several they commit as one; what cannot is refused before anything changed.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::extended::{Form, prepare, run};
use super::members::prepared;
use super::pipelines::{bind, execute};
use super::*;

fn table(fleet: &Fleet) -> pg::Connection {
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    client
}

#[test]
fn a_transaction_is_its_shard_s() {
    let fleet = Fleet::start(2);
    let mut client = table(&fleet);
    let mut other = fleet.client();
    let keys = fleet.keys("t");
    let (a, b) = (keys[0], keys[1]);
    let seen = format!("SELECT count(*) FROM t WHERE k = {a}");

    done(&mut client, "BEGIN");
    done(&mut client, &format!("INSERT INTO t VALUES ({a}, 'one')"));
    assert_eq!(client.value(&seen).unwrap(), "1");
    assert_eq!(other.value(&seen).unwrap(), "0");
    done(&mut client, "COMMIT");
    assert_eq!(other.value(&seen).unwrap(), "1");

    done(&mut client, "BEGIN");
    done(&mut client, "SAVEPOINT before");
    done(&mut client, &format!("UPDATE t SET v = 'two' WHERE k = {a}"));
    done(&mut client, "SAVEPOINT between");
    let error = refused(&mut client, &format!("INSERT INTO t VALUES ({a}, 'again')"));
    assert!(error.contains("23505"), "{error}");
    assert!(refused(&mut client, &seen).contains("25P02"));
    done(&mut client, "ROLLBACK TO between");
    assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {a}")).unwrap(), "two");
    done(&mut client, "ROLLBACK TO before");
    assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {a}")).unwrap(), "one");
    done(&mut client, "COMMIT");

    done(&mut client, "BEGIN");
    done(&mut client, &format!("DELETE FROM t WHERE k = {a}"));
    // A second shard can be read, and written to.
    assert_eq!(client.value(&format!("SELECT count(*) FROM t WHERE k = {b}")).unwrap(), "0");
    done(&mut client, &format!("INSERT INTO t VALUES ({b}, 'b')"));
    done(&mut client, "ROLLBACK");
    assert!(wait_for(PATIENCE, || other.value(&format!("SELECT count(*) FROM t WHERE k = {b}")).unwrap() == "0"));
    assert!(wait_for(PATIENCE, || other.value(&seen).unwrap() == "1"));

    // What it has written it sees, whichever shards are asked, and others do not.
    done(&mut client, "BEGIN");
    done(&mut client, &format!("DELETE FROM t WHERE k = {a}"));
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "0");
    assert_eq!(other.value("SELECT count(*) FROM t").unwrap(), "1");
    done(&mut client, "ROLLBACK");

    // A string of statements is a transaction too.
    let error = refused(&mut client, &format!("UPDATE t SET v = 'x' WHERE k = {a}; SELECT 1/0"));
    assert!(error.contains("22012"), "{error}");
    assert_eq!(other.value(&format!("SELECT v FROM t WHERE k = {a}")).unwrap(), "one");
    fleet.ashlar.check_log();
}

#[test]
fn texts_that_differ_in_constants_go_where_their_own_lead() {
    let fleet = Fleet::start(2);
    let mut client = table(&fleet);
    let keys = fleet.keys("t");
    let (a, b) = (keys[0], keys[1]);
    // Each text is of a shape that the one before has made known.
    for (key, value) in [(a, "one"), (b, "it''s"), (-1 - a, "minus"), (3_000_000_000 + a, "'';")] {
        done(&mut client, &format!("INSERT INTO t VALUES ({key}, '{value}')"));
    }
    let value =
        |client: &mut pg::Connection, key: &str| client.value(&format!("SELECT v FROM t WHERE k = {key}")).unwrap();
    for _ in 0..2 {
        assert_eq!(value(&mut client, &a.to_string()), "one");
        assert_eq!(value(&mut client, &b.to_string()), "it's");
        assert_eq!(value(&mut client, &format!("'{b}'")), "it's");
        assert_eq!(value(&mut client, &format!("{b}.0")), "it's");
        assert_eq!(value(&mut client, &format!("'{a}'::bigint")), "one");
        assert_eq!(value(&mut client, &(3_000_000_000 + a).to_string()), "';");
        assert_eq!(value(&mut client, &format!("-{}", a + 1)), "minus");
    }
    // What is wrong with a constant is said of its own text.
    let error = refused(&mut client, "SELECT v FROM t WHERE k = 'one'");
    assert!(error.contains("22P02"), "{error}");
    let error = refused(&mut client, "INSERT INTO t VALUES (99999999999999999999, 'x')");
    assert!(error.contains("0A000") || error.contains("22003"), "{error}");

    // A transaction that has written to one shard has the other one read by the engine: by the text that is asked.
    done(&mut client, "BEGIN");
    done(&mut client, &format!("UPDATE t SET v = 'two' WHERE k = {a}"));
    assert_eq!(value(&mut client, &a.to_string()), "two");
    assert_eq!(value(&mut client, &b.to_string()), "it's");
    done(&mut client, &format!("UPDATE t SET v = 'three' WHERE k = {b}"));
    assert_eq!(value(&mut client, &b.to_string()), "three");
    done(&mut client, "ROLLBACK");
    assert_eq!(value(&mut client, &a.to_string()), "one");
    assert_eq!(value(&mut client, &b.to_string()), "it's");

    // Another catalog, other ways.
    done(&mut client, "DROP TABLE t");
    assert!(refused(&mut client, &format!("SELECT v FROM t WHERE k = {a}")).contains("42P01"));
    fleet.ashlar.check_log();
}

#[test]
fn two_homes_do_not_mix() {
    let fleet = Fleet::start(1);
    let mut client = table(&fleet);
    done(&mut client, "CREATE TABLE g (k bigint PRIMARY KEY)");
    for (first, second) in [
        ("INSERT INTO g VALUES (1)", "INSERT INTO t VALUES (1)"),
        ("INSERT INTO t VALUES (1)", "INSERT INTO g VALUES (1)"),
    ] {
        done(&mut client, "BEGIN");
        done(&mut client, first);
        let error = refused(&mut client, second);
        assert!(error.contains("0A000"), "{error}");
        assert_eq!(client.query("COMMIT").unwrap().len(), 0);
        assert_eq!(client.value("SELECT (SELECT count(*) FROM g) + (SELECT count(*) FROM t)").unwrap(), "0");
    }
    done(&mut client, "BEGIN READ ONLY");
    let error = refused(&mut client, "INSERT INTO t VALUES (1)");
    assert!(error.contains("25006"), "{error}");
    done(&mut client, "ROLLBACK");
    fleet.ashlar.check_log();
}

#[test]
fn connections_are_bounded_and_given_back() {
    // One thread of doors and the queries: a connection each.
    let fleet = Fleet::with(1, "connections_per_server_max = 2\nconnection_wait_max_ms = 300\n[server]\ncores = 1");
    let mut client = table(&fleet);
    let mut other = fleet.client();
    done(&mut client, "BEGIN");
    done(&mut client, "INSERT INTO t VALUES (1, 'a')");
    let error = refused(&mut other, "SELECT * FROM t WHERE k = 2");
    assert!(error.contains("53300") && error.contains("s0"), "{error}");
    done(&mut client, "COMMIT");
    assert_eq!(rows(&mut other, "SELECT k FROM t WHERE k = 1").len(), 1);
    // A client that goes in the middle of a transaction leaves nothing behind.
    done(&mut client, "BEGIN");
    done(&mut client, "INSERT INTO t VALUES (2, 'b')");
    drop(client);
    assert!(wait_for(PATIENCE, || other.query("SELECT k FROM t WHERE k = 2").is_ok_and(|rows| rows.is_empty())));
    let made: i64 = other.value("SELECT sum(made) FROM ashlar.pools").unwrap().parse().unwrap();
    assert!(made <= 6, "{made} connections were made");
}

#[test]
fn settings_of_a_session_are_those_of_its_shard() {
    let fleet = Fleet::with(1, "connections_per_server_max = 2\n[server]\ncores = 1");
    let mut client = table(&fleet);
    done(&mut client, "INSERT INTO t VALUES (1, 'a')");
    let sql = "SELECT v || current_setting('TimeZone') FROM t WHERE k = 1";
    let times = "SELECT '2024-07-01 12:00+00'::timestamptz::text FROM t WHERE k = 1";
    let mut other = fleet.client();
    done(&mut other, "SET TimeZone TO 'Europe/Berlin'");
    for _ in 0..3 {
        assert_eq!(client.value(sql).unwrap(), "aUTC");
        assert_eq!(other.value(sql).unwrap(), "aEurope/Berlin");
        assert_eq!(client.value(times).unwrap(), "2024-07-01 12:00:00+00");
        assert_eq!(other.value(times).unwrap(), "2024-07-01 14:00:00+02");
    }
    // What a shard calls the client whose statement it runs, whoever had the connection before.
    let mut shard = fleet.shard(0);
    for (client, name) in [(&mut client, "shop"), (&mut other, "it's a till")] {
        done(client, &format!("SET application_name = '{}'", name.replace('\'', "''")));
        done(client, "BEGIN");
        assert_eq!(client.value("SELECT v FROM t WHERE k = 1").unwrap(), "a");
        let called =
            "SELECT string_agg(application_name, ',') FROM pg_stat_activity WHERE state = 'idle in transaction'";
        assert_eq!(shard.value(called).unwrap(), name);
        done(client, "COMMIT");
    }
    assert_eq!(other.value("SELECT sum(made) <= 2 FROM ashlar.pools").unwrap(), "t");
}

/// A fleet of two with a table by moments: those from three o'clock on are on the second shard.
fn table_of_moments() -> (Fleet, pg::Connection) {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    done(
        &mut client,
        "CREATE TABLE ev (moment timestamptz PRIMARY KEY, v text) PARTITION BY RANGE (moment) \
         USING sharded WITH (servers = 's0,s1', boundaries = '2026-01-01 03:00:00+00')",
    );
    (fleet, client)
}

/// The moments that each shard has, in UTC.
fn moments(fleet: &Fleet) -> [Vec<String>; 2] {
    [0, 1].map(|shard| {
        let sql = "SELECT to_char(moment AT TIME ZONE 'UTC', 'HH24:MI') FROM ev ORDER BY moment";
        rows(&mut fleet.shard(shard), sql).into_iter().flatten().flatten().collect()
    })
}

#[test]
fn settings_that_change_in_a_block_reach_the_connections_that_it_has() {
    let (fleet, mut client) = table_of_moments();
    done(&mut client, "INSERT INTO ev VALUES ('2026-01-01 12:00+00')");
    let noon = "SELECT moment FROM ev WHERE moment = '2026-01-01 12:00+00'";
    done(&mut client, "BEGIN");
    assert_eq!(client.value(noon).unwrap(), "2026-01-01 12:00:00+00");
    done(&mut client, "SET LOCAL TimeZone = 'America/New_York'");
    done(&mut client, "INSERT INTO ev VALUES ('2026-01-01 00:00')");
    let midnight = client.value("SELECT moment FROM ev WHERE moment = '2026-01-01 00:00'").unwrap();
    assert_eq!(midnight, "2026-01-01 00:00:00-05");
    done(&mut client, "COMMIT");
    assert_eq!(moments(&fleet), [vec![], vec!["05:00", "12:00"]]);
    assert_eq!(client.value(noon).unwrap(), "2026-01-01 12:00:00+00");

    // What is told behind a savepoint is told again where that is gone back to, whether or not it was set behind it.
    let sees = |client: &mut pg::Connection, sql: &str, shown: &str| {
        done(client, sql);
        assert_eq!(client.value(noon).unwrap(), shown, "after {sql}");
    };
    sees(&mut client, "BEGIN", "2026-01-01 12:00:00+00");
    done(&mut client, "SET TimeZone = 'Asia/Tokyo'");
    sees(&mut client, "SAVEPOINT a", "2026-01-01 21:00:00+09");
    sees(&mut client, "ROLLBACK TO a", "2026-01-01 21:00:00+09");
    done(&mut client, "SAVEPOINT b");
    sees(&mut client, "SET LOCAL TimeZone = 'America/New_York'", "2026-01-01 07:00:00-05");
    sees(&mut client, "ROLLBACK TO b", "2026-01-01 21:00:00+09");
    sees(&mut client, "RELEASE b", "2026-01-01 21:00:00+09");
    sees(&mut client, "ROLLBACK", "2026-01-01 12:00:00+00");

    // So are others.
    let mut holder = fleet.shard(1);
    done(&mut holder, "BEGIN");
    done(&mut holder, "SELECT 1 FROM ev FOR UPDATE");
    sees(&mut client, "BEGIN", "2026-01-01 12:00:00+00");
    done(&mut client, "SET LOCAL lock_timeout = '200ms'");
    let error = refused(&mut client, "UPDATE ev SET v = 'late' WHERE moment = '2026-01-01 12:00+00'");
    assert!(error.contains("55P03") && error.contains("s1"), "{error}");
    done(&mut client, "ROLLBACK");
    fleet.ashlar.check_log();
}

#[test]
fn a_pipeline_does_not_go_ahead_of_settings() {
    let (fleet, mut client) = table_of_moments();
    let put = |time: &str| [bind("", "put", &[format!("2026-01-01 {time}")]), execute("", 0)].concat();
    prepare(&mut client, "put", "INSERT INTO ev VALUES ($1)").unwrap();
    prepare(&mut client, "zone", "SET LOCAL TimeZone = 'America/New_York'").unwrap();
    done(&mut client, "BEGIN");
    // The connection knows the statement from here on, in the zone of before.
    run(&mut client, "put", &[b"2026-01-01 12:00"], Form::Text).unwrap();
    let zone = [bind("", "zone", &[]), execute("", 0)].concat();
    let all = [put("13:00"), put("13:30"), zone, put("00:10"), put("00:20"), pg::message(b'S', &[])].concat();
    client.send(&all).unwrap();
    loop {
        let message = client.read().unwrap();
        assert!(message.kind != b'E', "{:?}", message.field(b'M'));
        if message.kind == b'Z' {
            break;
        }
    }
    done(&mut client, "COMMIT");
    assert_eq!(moments(&fleet), [vec![], vec!["05:10", "05:20", "12:00", "13:00", "13:30"]]);
    fleet.ashlar.check_log();
}

/// Says in which time zone it has been heard that a row was written, when its transaction commits.
const HEARD: &str = "
    CREATE TABLE heard (zone text);
    CREATE FUNCTION hear() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO heard VALUES (current_setting('TimeZone')); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER hear AFTER INSERT ON ev DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hear()";

#[test]
fn what_is_deferred_sees_the_settings_of_the_end_of_its_block() {
    let (fleet, mut client) = table_of_moments();
    for shard in 0..2 {
        done(&mut fleet.shard(shard), HEARD);
    }
    for (zone, times) in [("Asia/Tokyo", &["12:00"][..]), ("America/New_York", &["01:00", "13:00"][..])] {
        done(&mut client, "BEGIN");
        times.iter().for_each(|time| done(&mut client, &format!("INSERT INTO ev VALUES ('2026-01-01 {time}+00')")));
        done(&mut client, &format!("SET LOCAL TimeZone = '{zone}'"));
        done(&mut client, "COMMIT");
    }
    let heard = |shard| fleet.shard(shard).value("SELECT string_agg(zone, ' ' ORDER BY zone) FROM heard").unwrap();
    assert_eq!([heard(0), heard(1)], ["America/New_York", "America/New_York Asia/Tokyo"]);
    fleet.ashlar.check_log();
}

#[test]
fn shards_commit_as_one() {
    let fleet = Fleet::start(2);
    let mut client = table(&fleet);
    let mut other = fleet.client();
    let keys = fleet.keys("t");
    let (a, b) = (keys[0], keys[1]);
    let count = "SELECT count(*) FROM t";

    done(&mut client, "BEGIN");
    done(&mut client, &format!("INSERT INTO t VALUES ({a}, 'a')"));
    done(&mut client, &format!("INSERT INTO t VALUES ({b}, 'b')"));
    assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {a}")).unwrap(), "a");
    assert_eq!(client.value(&format!("SELECT v FROM t WHERE k = {b}")).unwrap(), "b");
    assert_eq!(other.value(count).unwrap(), "0");
    done(&mut client, "SAVEPOINT s");
    done(&mut client, "UPDATE t SET v = 'c'");
    done(&mut client, "ROLLBACK TO s");
    done(&mut client, "COMMIT");
    assert_eq!(rows(&mut other, "SELECT v FROM t ORDER BY v").concat(), [Some("a".to_owned()), Some("b".to_owned())]);

    // What one shard refuses at once happens on none.
    let error = refused(
        &mut client,
        &format!("INSERT INTO t VALUES ({}, 'x'), ({}, 'x'), ({a}, 'x'), ({b}, 'x')", a + 1000, b + 1000),
    );
    assert!(error.contains("23505"), "{error}");
    assert!(wait_for(PATIENCE, || other.value(count).unwrap() == "2"));

    // Nor what one shard refuses only when it is to promise.
    done(&mut fleet.shard(1), "ALTER TABLE t ADD CONSTRAINT late UNIQUE (v) DEFERRABLE INITIALLY DEFERRED");
    done(&mut fleet.shard(1), &format!("INSERT INTO t SELECT {b} + 5000, 'taken'"));
    let error = refused(&mut client, "UPDATE t SET v = 'taken'");
    assert!(error.contains("23505") && error.contains("shard s1"), "{error}");
    assert_eq!(fleet.shard(0).value("SELECT v FROM t").unwrap(), "a");
    assert_eq!(prepared(&fleet.shards), 0);
    fleet.ashlar.check_log();
}
