//! Tables that are on all of their servers: another server gets a copy with all rows, and one that goes loses its own; whoever does not
//! know of it writes to none.

use std::thread::JoinHandle;

use ashlar_tests::process::{PATIENCE, wait_for};

use super::*;

const COLUMNS: &str = "k bigint PRIMARY KEY, v text, n numeric(10,2), d date, f double precision, b boolean, a int[], \
                       UNIQUE (k, v), CHECK (n < 1000)";

/// A table on the first two servers, with rows of all kinds.
fn fill(client: &mut pg::Connection) {
    let rule = "USING sharded WITH (servers = 's0,s1', broadcast)";
    done(client, &format!("CREATE TABLE c ({COLUMNS}) {rule}"));
    done(client, "CREATE INDEX c_by_v ON c (v)");
    done(
        client,
        "INSERT INTO c VALUES (1, 'it''s \\ odd', 1.50, '2026-02-28', 1.5, true, '{1,NULL,3}'), \
         (2, NULL, NULL, NULL, NULL, NULL, NULL), (3, '', -999.99, '0001-01-01', 'NaN', false, '{}')",
    );
    done(client, "INSERT INTO c (k, v) SELECT i, 'some value of row ' || i FROM generate_series(10, 3000) AS s(i)");
}

/// All that a server has of the table.
fn copy(fleet: &Fleet, number: usize, table: &str) -> String {
    let sql = format!("SELECT count(*) || string_agg(t::text, ' ' ORDER BY k) FROM {table} t");
    fleet.shard(number).value(&sql).unwrap()
}

/// What servers have of the name: tables, indexes and keys.
fn relations(fleet: &Fleet, number: usize) -> String {
    let sql = "SELECT coalesce(string_agg(relname, ' ' ORDER BY relname), '') FROM pg_class \
               WHERE relnamespace = 'public'::regnamespace AND relname LIKE 'c%'";
    fleet.shard(number).value(sql).unwrap()
}

const MORE: &str = "ALTER TABLE c SET (servers = 's0,s1,s2', table_suffix = '_2')";

#[test]
fn a_server_gets_a_copy_and_another_one_loses_its_own() {
    let mut fleet = Fleet::start(3);
    let mut client = fleet.client();
    fill(&mut client);
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO t SELECT i FROM generate_series(1, 100) AS s(i)");
    let join = "SELECT count(*) FROM t JOIN c USING (k)";
    let expected = client.value(join).unwrap();
    let before = copy(&fleet, 0, "c");
    let error = refused(&mut client, "ALTER TABLE c SET (servers = 's0,s1,s2')");
    assert!(error.starts_with("0A000"), "{error}");
    assert_eq!(copy(&fleet, 1, "c"), before);
    done(&mut client, MORE);
    for number in 0..3 {
        assert_eq!(copy(&fleet, number, "c_2"), before, "{number}");
        let names = relations(&fleet, number);
        assert!(names.contains("c_2") && names.contains("c_by_v_2") && !names.contains("c_by_v "), "{number}: {names}");
    }
    assert_eq!(client.value(join).unwrap(), expected);
    done(&mut client, "INSERT INTO c (k, v) VALUES (5000, 'late')");
    assert!(refused(&mut client, "INSERT INTO c (k, n) VALUES (5001, 1000)").starts_with("23514"));
    done(&mut client, "UPDATE c SET v = 'changed' WHERE k < 100");
    let before = copy(&fleet, 0, "c_2");
    assert!((1..3).all(|number| copy(&fleet, number, "c_2") == before));
    fleet = fleet.restart();
    let mut client = fleet.client();
    assert_eq!(client.value(join).unwrap(), expected);
    // One goes, the first one too; the names stay.
    done(&mut client, "ALTER TABLE c SET (servers = 's2,s1')");
    assert_eq!(relations(&fleet, 0), "");
    // By their first name somebody may still know the first two.
    let error = refused(&mut client, "ALTER TABLE c SET (servers = 's2,s1,s0', table_suffix = '')");
    assert!(error.starts_with("0A000") && error.contains("suffix"), "{error}");
    assert_eq!(client.value("SELECT v FROM c WHERE k = 5000").unwrap(), "late");
    done(&mut client, "INSERT INTO c (k) VALUES (6000)");
    assert_eq!(copy(&fleet, 1, "c_2"), copy(&fleet, 2, "c_2"));
    assert_ne!(copy(&fleet, 1, "c_2"), before);
    assert!(refused(&mut client, "ALTER TABLE c SET (servers = 's0', table_suffix = '')").starts_with("0A000"));
    done(&mut client, "DROP TABLE t");
    done(&mut client, "DROP SERVER s0 CASCADE");
    done(&mut client, "DROP INDEX c_by_v");
    done(&mut client, "DROP TABLE c");
    assert_eq!([1, 2].map(|number| relations(&fleet, number)), ["", ""]);
    fleet.ashlar.check_log();
}

#[test]
fn copies_that_differ_or_that_one_server_refuses_stay_as_they_are() {
    let fleet = Fleet::start(3);
    let mut client = fleet.client();
    fill(&mut client);
    let names = relations(&fleet, 0);
    let before = copy(&fleet, 0, "c");
    for (change, back, told) in [
        ("UPDATE c SET v = 'x' WHERE k = 20", "UPDATE c SET v = 'some value of row 20' WHERE k = 20", "55000"),
        ("DELETE FROM c WHERE k = 2", "INSERT INTO c (k) VALUES (2)", "55000"),
        ("ALTER INDEX c_by_v RENAME TO c_other", "ALTER INDEX c_other RENAME TO c_by_v", "42P01"),
    ] {
        done(&mut fleet.shard(1), change);
        let error = refused(&mut client, MORE);
        assert!(error.starts_with(told) && error.contains("s1"), "{change}: {error}");
        done(&mut fleet.shard(1), back);
        assert_eq!(relations(&fleet, 2), "", "{change}");
    }
    done(&mut fleet.shard(2), "CREATE TABLE c_2 (other int)");
    let error = refused(&mut client, MORE);
    assert!(error.starts_with("42P07") && error.contains("shard s2"), "{error}");
    assert_eq!([0, 1].map(|number| relations(&fleet, number)), [names.as_str(), names.as_str()]);
    assert_eq!(copy(&fleet, 1, "c"), before);
    done(&mut client, "INSERT INTO c (k) VALUES (7000)");
    done(&mut fleet.shard(2), "DROP TABLE c_2");
    done(&mut client, MORE);
    assert_eq!(copy(&fleet, 2, "c_2"), copy(&fleet, 0, "c_2"));
    fleet.ashlar.check_log();
}

/// A statement beside this thread.
fn beside(fleet: &Fleet, sql: &str) -> JoinHandle<Result<(), String>> {
    let (mut other, text) = (fleet.client(), sql.to_owned());
    std::thread::spawn(move || other.query(&text).map(drop).map_err(|error| format!("{error:#}")))
}

#[test]
fn who_writes_meanwhile_writes_to_all_copies_or_to_none() {
    let fleet = Fleet::start(3);
    let mut client = fleet.client();
    fill(&mut client);
    done(&mut client, "BEGIN");
    done(&mut client, "INSERT INTO c (k, v) VALUES (5000, 'early')");
    let mut watcher = fleet.shard(0);
    let mut wait_for_waiting = |count: usize| {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        wait_for(PATIENCE, || watcher.value(waiting).unwrap() == count.to_string())
    };
    let changing = beside(&fleet, MORE);
    assert!(wait_for_waiting(1));
    let writing = beside(&fleet, "INSERT INTO c (k, v) VALUES (5001, 'late')");
    assert!(wait_for_waiting(2));
    done(&mut client, "COMMIT");
    changing.join().unwrap().unwrap();
    let is_written = match writing.join().unwrap() {
        Ok(()) => true,
        Err(error) => {
            assert!(error.starts_with("42P01"), "{error}");
            false
        }
    };
    let all = copy(&fleet, 0, "c_2");
    assert!(all.contains("early"));
    assert_eq!(all.contains("late"), is_written);
    assert!((1..3).all(|number| copy(&fleet, number, "c_2") == all));
    fleet.ashlar.check_log();
}

#[test]
fn another_ashlar_writes_to_all_copies_or_to_none() {
    let fleet = Fleet::start(3);
    let mut client = fleet.client();
    fill(&mut client);
    let data = tempfile::Builder::new().prefix("ashlar-data-").tempdir().unwrap();
    let second = start(&format!("[shard]\ndata_dir = \"{}\"\n", data.path().join("d").display()));
    let mut other = second.connect();
    declare(&mut other, fleet.shards.iter().map(Postgres::address));
    let rule = "USING sharded WITH (servers = 's0,s1', broadcast, attach = true)";
    done(&mut other, &format!("CREATE TABLE c ({COLUMNS}) {rule}"));
    done(&mut other, "INSERT INTO c (k) VALUES (5000)");
    let insert = "INSERT INTO c (k) VALUES (5001)";
    let attach =
        |servers: &str| format!("ALTER TABLE c SET (servers = '{servers}', table_suffix = '_2', attach = true)");
    assert!(refused(&mut other, &attach("s0,s1,s2")).starts_with("42P01"));
    done(&mut client, MORE);
    assert!(refused(&mut other, insert).starts_with("42P01"));
    done(&mut other, &attach("s0,s1,s2"));
    done(&mut other, insert);
    let all = copy(&fleet, 0, "c_2");
    assert!((1..3).all(|number| copy(&fleet, number, "c_2") == all));
    // One that goes has to be gone where others write to it.
    assert!(refused(&mut other, "ALTER TABLE c SET (servers = 's0,s2')").starts_with("0A000"));
    let error = refused(&mut other, &attach("s0,s2"));
    assert!(error.starts_with("55000") && error.contains("s1"), "{error}");
    done(&mut client, "ALTER TABLE c SET (servers = 's0,s2')");
    let insert = "INSERT INTO c (k) VALUES (5002)";
    assert!(refused(&mut other, insert).starts_with("42P01"));
    assert_eq!(copy(&fleet, 0, "c_2"), all);
    done(&mut other, &attach("s0,s2"));
    done(&mut other, insert);
    assert_eq!(copy(&fleet, 0, "c_2"), copy(&fleet, 2, "c_2"));
    assert_eq!(client.value("SELECT count(*) FROM c WHERE k >= 5000").unwrap(), "3");
    second.check_log();
    fleet.ashlar.check_log();
}
