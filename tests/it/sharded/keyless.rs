//! `sharded_keyless_writes`: changes of all shards that give no sharding key are refused where that is wanted, and nothing is changed.

use super::*;
use crate::comparison::{Protocol, ask, bound};

const REFUSE: &str = "SET sharded_keyless_writes = 'refuse'";

/// `t` with a row of each shard and some more, and the keys of those.
fn filled(fleet: &Fleet) -> Vec<i64> {
    let mut client = fleet.client();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", fleet.by("k")));
    let keys = fleet.keys("t");
    done(&mut client, "INSERT INTO t SELECT i, 'before' FROM generate_series(1000, 1099) AS s(i)");
    for key in &keys {
        done(&mut client, &format!("INSERT INTO t VALUES ({key}, 'before')"));
    }
    keys
}

#[test]
fn changes_without_a_key_are_refused_where_that_is_wanted() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let keys = filled(&fleet);
    let servers = fleet.servers();
    done(
        &mut client,
        &format!(
            "CREATE TABLE r (k int PRIMARY KEY, v text) PARTITION BY RANGE (k) \
             USING sharded WITH (servers = '{servers}', boundaries = '100')"
        ),
    );
    done(
        &mut client,
        &format!("CREATE TABLE b (k int PRIMARY KEY, v text) USING sharded WITH (servers = '{servers}', broadcast)"),
    );
    done(&mut client, "CREATE TABLE m (k int PRIMARY KEY, v text)");
    done(&mut client, "INSERT INTO r VALUES (1, 'before'), (200, 'before')");
    done(&mut client, "INSERT INTO b VALUES (1, 'before'), (2, 'before')");
    done(&mut client, "INSERT INTO m VALUES (1, 'before'), (2, 'before')");

    assert_eq!(client.value("SHOW sharded_keyless_writes").unwrap(), "allow");
    done(&mut client, "UPDATE t SET v = 'all'");
    done(&mut client, REFUSE);
    for sql in [
        "UPDATE t SET v = 'after'",
        "UPDATE t SET v = 'after' WHERE v = 'all'",
        "UPDATE t SET v = 'after' RETURNING k",
        "DELETE FROM t",
        "DELETE FROM t WHERE k > 1050",
        "DELETE FROM t WHERE k = 1050 OR v = 'all'",
        "DELETE FROM r WHERE v = 'before'",
        "DELETE FROM r WHERE k > 0 AND k < 1000",
        // What the engine finds the rows of.
        "UPDATE t SET k = k + 10000",
        "UPDATE t SET v = m.v FROM m",
        "DELETE FROM t USING m",
    ] {
        let error = refused(&mut client, sql);
        assert!(error.starts_with("21000") && error.contains("on all shards"), "{sql}\n{error}");
    }
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'all'").unwrap(), "102");
    assert_eq!(client.value("SELECT count(*) FROM r").unwrap(), "2");

    for (sql, changed) in [
        (format!("UPDATE t SET v = 'one' WHERE k = {}", keys[0]), 1),
        // Both shards have rows of these.
        (format!("UPDATE t SET v = 'two' WHERE k IN ({}, {})", keys[0], keys[1]), 2),
        ("UPDATE r SET v = 'low' WHERE k < 100".to_owned(), 1),
        ("UPDATE b SET v = 'copies'".to_owned(), 2),
        ("UPDATE m SET v = 'memory'".to_owned(), 2),
        (format!("DELETE FROM t WHERE k = ANY (ARRAY[{}, {}])", keys[0], keys[1]), 2),
    ] {
        let answer = ask(&mut client, &sql, Protocol::Simple);
        assert!(answer.error.is_none(), "{sql}\n{answer:?}");
        let tag = answer.tag.as_deref().unwrap_or_default();
        assert!(tag.ends_with(&format!(" {changed}")), "{sql}\n{answer:?}");
    }
    // A table of memory, and what is no change, are not concerned.
    done(&mut client, "DELETE FROM m");
    done(&mut client, "INSERT INTO t SELECT k + 5000, v FROM t");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "200");
    done(&mut client, "TRUNCATE t");
    fleet.ashlar.check_log();
}

#[test]
fn a_prepared_change_is_judged_by_its_values() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let keys = filled(&fleet);
    done(&mut client, REFUSE);
    done(&mut client, "PREPARE one (bigint) AS UPDATE t SET v = 'one' WHERE k = $1");
    done(&mut client, "PREPARE all_of (text) AS UPDATE t SET v = 'all' WHERE v = $1");
    done(&mut client, &format!("EXECUTE one ({})", keys[0]));
    let several = format!("{{{},{},1000}}", keys[0], keys[1]);
    let (_, tag) = bound(&mut client, "UPDATE t SET v = 'several' WHERE k = ANY ($1)", &[several.as_str()]).unwrap();
    assert_eq!(tag, "UPDATE 3");
    let error = refused(&mut client, "EXECUTE all_of ('before')");
    assert!(error.starts_with("21000"), "{error}");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'several'").unwrap(), "3");
    // In a transaction it fails with it, as every statement does.
    done(&mut client, "BEGIN");
    done(&mut client, &format!("UPDATE t SET v = 'undone' WHERE k = {}", keys[0]));
    assert!(refused(&mut client, "DELETE FROM t").starts_with("21000"));
    assert!(refused(&mut client, "SELECT 1").starts_with("25P02"));
    done(&mut client, "ROLLBACK");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'several'").unwrap(), "3");
    // For one transaction.
    done(&mut client, "BEGIN");
    done(&mut client, "SET LOCAL sharded_keyless_writes = 'allow'");
    done(&mut client, "UPDATE t SET v = 'allowed'");
    done(&mut client, "COMMIT");
    assert_eq!(client.value("SELECT count(*) FROM t WHERE v = 'allowed'").unwrap(), "102");
    assert!(refused(&mut client, "UPDATE t SET v = 'again'").starts_with("21000"));
    fleet.ashlar.check_log();
}

#[test]
fn the_configuration_says_what_sessions_begin_with() {
    let fleet = Fleet::with(2, "keyless_writes = \"refuse\"");
    let mut client = fleet.client();
    filled(&fleet);
    assert_eq!(client.value("SHOW sharded_keyless_writes").unwrap(), "refuse");
    assert!(refused(&mut client, "DELETE FROM t").starts_with("21000"));
    assert!(refused(&mut client, "SET sharded_keyless_writes = 'sometimes'").starts_with("22023"));
    done(&mut client, "SET sharded_keyless_writes = 'allow'");
    done(&mut client, "DELETE FROM t");
    done(&mut client, "RESET sharded_keyless_writes");
    assert!(refused(&mut client, "DELETE FROM t").starts_with("21000"));
    // Of a table on one server, one shard is all of them.
    done(
        &mut client,
        "CREATE TABLE o (k bigint PRIMARY KEY, v text) PARTITION BY HASH (k) USING sharded WITH (servers = 's1')",
    );
    done(&mut client, "INSERT INTO o VALUES (1, 'a'), (2, 'b')");
    done(&mut client, "UPDATE o SET v = 'c'");
    fleet.ashlar.check_log();
}
