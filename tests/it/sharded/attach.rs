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
        ("ALTER TABLE t ADD CONSTRAINT ashlar_rule CHECK (k > 5)", "constraint ashlar_rule holds it to another rule"),
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

#[test]
fn what_was_there_stays_when_several_are_dropped_together() {
    let fleet = Fleet::start(2);
    let mut client = fleet.client();
    physical(&fleet, "old", COLUMNS);
    done(&mut client, &attaching(&fleet, "old", ""));
    done(&mut client, &format!("CREATE TABLE made ({COLUMNS}) {}", fleet.by("k")));
    done(&mut client, "INSERT INTO old VALUES (1, 'a'), (2, 'b'), (3, 'c')");
    done(&mut client, "DROP TABLE old, made");
    assert!(refused(&mut client, "SELECT * FROM old").starts_with("42P01"));
    let mut left = 0;
    for shard in 0..2 {
        let mut shard = fleet.shard(shard);
        assert_eq!(shard.value("SELECT to_regclass('made')").unwrap(), "NULL");
        left += shard.value("SELECT count(*) FROM old").unwrap().parse::<i32>().unwrap();
    }
    assert_eq!(left, 3);
    fleet.ashlar.check_log();
}

#[test]
fn a_rule_that_was_changed_is_told_or_taken_away_with_its_table() {
    let fleet = Fleet::start(3);
    let mut client = fleet.client();
    let columns = "k int PRIMARY KEY, v text";
    (0..2).for_each(|shard| done(&mut fleet.shard(shard), &format!("CREATE TABLE r ({columns})")));
    let attach = |servers: &str, at: &str| {
        format!(
            "CREATE TABLE r ({columns}) PARTITION BY RANGE (k) \
             USING sharded WITH (servers = '{servers}', boundaries = '{at}', attach = true)"
        )
    };
    let (before, after) = (attach("s0,s1", "10"), attach("s0,s1,s2", "10,20"));
    done(&mut client, &before);
    done(&mut client, "ALTER TABLE r SET (servers = 's0,s1,s2', boundaries = '10,20')");
    done(&mut client, "INSERT INTO r VALUES (5, 'a'), (15, 'b'), (25, 'c')");
    let held = "SELECT count(*) FROM pg_constraint WHERE conname = 'ashlar_rule'";
    // Another Ashlar takes the tables by the rule that they are held to, and leaves them so.
    let data = tempfile::Builder::new().prefix("ashlar-data-").tempdir().unwrap();
    let second = start(&format!("[shard]\ndata_dir = \"{}\"\n", data.path().join("d").display()));
    let mut other = second.connect();
    declare(&mut other, fleet.shards.iter().map(Postgres::address));
    let error = refused(&mut other, &before);
    assert!(error.starts_with("42P16") && error.contains("ashlar_rule") && error.contains("shard s1"), "{error}");
    done(&mut other, &after);
    assert_eq!(other.value("SELECT count(*) FROM r").unwrap(), "3");
    done(&mut other, "DROP TABLE r");
    assert_eq!(fleet.shard(1).value(held).unwrap(), "1");
    // Whose change it was takes the constraint along, and no row.
    let fleet = fleet.restart();
    let mut client = fleet.client();
    done(&mut client, "DROP TABLE r");
    for shard in 0..3 {
        assert_eq!(fleet.shard(shard).value(held).unwrap(), "0");
        assert_eq!(fleet.shard(shard).value("SELECT count(*) FROM r").unwrap(), "1");
    }
    done(&mut client, &before);
    done(&mut client, "INSERT INTO r VALUES (25, 'd')");
    assert_eq!(client.value("SELECT v FROM r WHERE k = 25").unwrap(), "d");
    assert_eq!(fleet.shard(1).value("SELECT count(*) FROM r").unwrap(), "2");
    second.check_log();
    fleet.ashlar.check_log();
}
