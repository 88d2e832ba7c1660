//! Tables that are there already: attached as they are, and refused where they differ.

use super::*;

const COLUMNS: &str = "k bigint PRIMARY KEY, v varchar(10) NOT NULL, n numeric(8,2) DEFAULT 1";

/// Tables of a fleet, made and filled by somebody else.
fn physical(fleet: &Fleet, name: &str, columns: &str) {
    for shard in 0..fleet.shards.len() {
        done(&mut fleet.shard(shard), &format!("CREATE TABLE {name} ({columns})"));
    }
}

fn attaching(fleet: &Fleet, name: &str, more: &str) -> String {
    let by = fleet.by("k");
    let by = by.strip_suffix(')').unwrap();
    format!("CREATE TABLE {name} ({COLUMNS}) {by}, attach = true{more})")
}

#[test]
fn what_is_there_becomes_a_table_and_stays_when_it_is_dropped() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    // Rows come to lie where the rule says through a table that is made, and forgotten with its name only.
    done(&mut client, &format!("CREATE TABLE t ({COLUMNS}) {}", fleet.by("k")));
    for k in 0..40 {
        done(&mut client, &format!("INSERT INTO t VALUES ({k}, 'v{k}')"));
    }
    for shard in 0..2 {
        done(&mut fleet.shard(shard), &format!("CREATE TABLE old ({COLUMNS})"));
        done(&mut fleet.shard(shard), "INSERT INTO old SELECT * FROM t");
    }
    done(&mut client, "DROP TABLE t");
    let before: Vec<String> =
        (0..2).map(|shard| fleet.shard(shard).value("SELECT 'old'::regclass::oid").unwrap()).collect();
    done(&mut client, &attaching(&fleet, "old", ""));
    assert_eq!(client.value("SELECT count(*) FROM old").unwrap(), "40");
    assert_eq!(client.value("SELECT v FROM old WHERE k = 17").unwrap(), "v17");
    done(&mut client, "INSERT INTO old VALUES (100, 'new')");
    // It is known after a restart, and a DROP leaves what was there.
    let fleet = fleet.restart();
    let mut client = fleet.client();
    assert_eq!(client.value("SELECT sum(n) FROM old").unwrap(), "41.00");
    done(&mut client, "DROP TABLE old");
    assert!(refused(&mut client, "SELECT * FROM old").contains("42P01"));
    let rows: i64 =
        (0..2).map(|shard| fleet.shard(shard).value("SELECT count(*) FROM old").unwrap().parse::<i64>().unwrap()).sum();
    assert_eq!(rows, 41);
    for (shard, before) in before.iter().enumerate() {
        assert_eq!(fleet.shard(shard).value("SELECT 'old'::regclass::oid").unwrap(), *before);
    }
    fleet.ashlar.check_log();
}

#[test]
fn tables_that_differ_are_refused_by_name() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    let error = refused(&mut client, &attaching(&fleet, "t", ""));
    assert!(error.contains("42P01") && error.contains("shard s0"), "{error}");
    physical(&fleet, "t", COLUMNS);
    for (change, told) in [
        ("ALTER TABLE t ADD COLUMN w int", "column \"w\" is not in the statement"),
        ("ALTER TABLE t DROP COLUMN n", "column \"n\" is missing"),
        ("ALTER TABLE t ALTER v TYPE text", "column \"v\" is of type text instead of character varying(10)"),
        ("ALTER TABLE t ALTER v DROP NOT NULL", "column \"v\" can be null"),
        ("ALTER TABLE t ALTER n SET NOT NULL", "column \"n\" is not null"),
        ("ALTER TABLE t ALTER n SET DEFAULT 2", "column \"n\" has another default"),
        ("ALTER TABLE t ALTER v TYPE varchar(10) COLLATE \"POSIX\"", "column \"v\" has a collation of its own"),
        ("ALTER TABLE t DROP CONSTRAINT t_pkey", "it has no PRIMARY KEY (k)"),
        (
            "ALTER TABLE t DROP COLUMN v; ALTER TABLE t ADD COLUMN v varchar(10) NOT NULL",
            "column \"v\" is column 3 instead of 2",
        ),
    ] {
        let mut shard = fleet.shard(1);
        done(&mut shard, change);
        let error = refused(&mut client, &attaching(&fleet, "t", ""));
        assert!(error.contains("42P16") && error.contains(told) && error.contains("shard s1"), "{change}: {error}");
        done(&mut shard, "DROP TABLE t");
        done(&mut shard, &format!("CREATE TABLE t ({COLUMNS})"));
    }
    // A row on the wrong shard would not be found again.
    let keys = {
        done(&mut client, &format!("CREATE TABLE u (k bigint PRIMARY KEY) {}", fleet.by("k")));
        fleet.keys("u")
    };
    done(&mut fleet.shard(0), &format!("INSERT INTO t VALUES ({}, 'here')", keys[0]));
    done(&mut fleet.shard(1), &format!("INSERT INTO t VALUES ({}, 'astray')", keys[0]));
    let error = refused(&mut client, &attaching(&fleet, "t", ""));
    let key = format!("Its key is ({}).", keys[0]);
    assert!(error.contains("55000") && error.contains(&key) && error.contains("shard s1"), "{error}");
    // Nothing was noted, and nothing is left on the shards.
    assert!(refused(&mut client, "SELECT * FROM t").contains("42P01"));
    done(&mut client, &attaching(&fleet, "t", ", attach_check = false"));
    assert_eq!(client.value("SELECT v FROM t WHERE k = 0 OR true ORDER BY v LIMIT 1").unwrap(), "astray");
    for (options, state) in [("attach_check = true", "22023"), ("attach = maybe", "22023")] {
        let by = fleet.by("k");
        let by = by.strip_suffix(')').unwrap();
        let error = refused(&mut client, &format!("CREATE TABLE w (k bigint PRIMARY KEY) {by}, {options})"));
        assert!(error.contains(state), "{options}: {error}");
    }
    for shard in 0..2 {
        assert_eq!(fleet.shard(shard).value("SELECT to_regclass('ashlar_wanted')").unwrap(), "NULL");
    }
    fleet.ashlar.check_log();
}
