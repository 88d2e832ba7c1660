//! Keys that several Ashlars make for one table: none is made twice, whoever is stopped, started again, or cut off from the shard that
//! leases worker numbers.

use std::collections::BTreeSet;
use std::thread;

use ashlar_tests::process::{PATIENCE, wait_for};

use super::copy::copy_in;
use super::members::{direct, total};
use super::*;

/// The table: its keys do not decide where its rows are.
const COLUMNS: &str = "k bigint, id bigint, v text, PRIMARY KEY (k, id)";

/// An Ashlar with a directory of its own.
struct Maker {
    ashlar: Ashlar,
    _data: TempDir,
}

impl Maker {
    /// Over these shards, with more lines in the section `[shard]`. The first one makes the table, others attach it.
    fn join(shards: &[Postgres], lines: &str, is_first: bool) -> Maker {
        let data = tempfile::Builder::new().prefix("ashlar-data-").tempdir().unwrap();
        let dir = data.path().join("d");
        let ashlar = start(&format!("[server]\ncores = 1\n[shard]\ndata_dir = \"{}\"\n{lines}\n", dir.display()));
        let mut client = ashlar.connect();
        declare(&mut client, shards.iter().map(Postgres::address));
        done(&mut client, &create(shards.len(), if is_first { "" } else { ", attach = true" }));
        Maker { ashlar, _data: data }
    }

    /// The worker number of a key that is made now.
    fn number(&self) -> i64 {
        number(&mut self.ashlar.connect())
    }
}

fn create(shards: usize, options: &str) -> String {
    let servers = server_names(shards);
    format!(
        "CREATE TABLE f ({COLUMNS}) PARTITION BY HASH (k) \
         USING sharded WITH (servers = '{servers}', key_generator = 'snowflake', generated_column = 'id'{options})"
    )
}

/// The worker number of a key that this client has made now.
fn number(client: &mut pg::Connection) -> i64 {
    let id: i64 = client.value("INSERT INTO f (k) VALUES (1) RETURNING id").unwrap().parse().unwrap();
    id >> 12 & 1023
}

fn postgres(count: usize) -> Vec<Postgres> {
    (0..count).map(|_| Postgres::start().unwrap()).collect()
}

/// All keys that there are, and the numbers of workers in them. No key is there twice.
fn numbers(shards: &[Postgres]) -> (usize, BTreeSet<i64>) {
    let mut keys: BTreeSet<i64> = BTreeSet::new();
    for shard in shards {
        for row in rows(&mut direct(shard), "SELECT id FROM f") {
            let key: i64 = row[0].as_ref().unwrap().parse().unwrap();
            assert!(keys.insert(key), "{key} was made twice");
        }
    }
    (keys.len(), keys.iter().map(|key| key >> 12 & 1023).collect())
}

#[test]
fn keys_that_two_members_make_at_once_are_all_different() {
    let shards = postgres(2);
    let members = [Maker::join(&shards, "", true), Maker::join(&shards, "", false)];
    let data: String = (0..1000).map(|k| format!("{k}\tcopied\n")).collect();
    thread::scope(|scope| {
        for member in members.iter().chain(&members) {
            let data = data.as_bytes();
            scope.spawn(move || {
                let mut client = member.ashlar.connect();
                for k in 0..50 {
                    done(&mut client, &format!("INSERT INTO f (k) VALUES ({k}), ({k} + 1), (7)"));
                    done(&mut client, &format!("INSERT INTO f VALUES ({k}, DEFAULT, 'of default')"));
                }
                done(&mut client, "INSERT INTO f (k) SELECT i FROM generate_series(1, 1000) AS s(i)");
                copy_in(&mut client, "COPY f (k, v) FROM STDIN", &[data]).unwrap();
            });
        }
    });
    assert_eq!(numbers(&shards), (4 * (50 * 4 + 2000), BTreeSet::from([0, 1])));
    // The shard of the first place alone keeps them, one for each.
    assert_eq!(direct(&shards[0]).value("SELECT count(DISTINCT owner) FROM ashlar.workers").unwrap(), "2");
    assert_eq!(direct(&shards[0]).value("SELECT count(*) FROM ashlar.workers").unwrap(), "2");
    assert_eq!(direct(&shards[1]).value("SELECT to_regclass('ashlar.workers')").unwrap(), "NULL");
    members.iter().for_each(|member| member.ashlar.check_log());
}

#[test]
fn who_was_stopped_for_longer_than_his_lease_takes_another_number() {
    // Renewed three times in this, on a machine that may stand still for seconds.
    const LEASE: &str = "worker_lease_ms = 6000";
    let shards = postgres(1);
    let (first, second) = (Maker::join(&shards, LEASE, true), Maker::join(&shards, LEASE, false));
    assert_eq!((first.number(), second.number()), (0, 1));
    let mut client = first.ashlar.connect();
    first.ashlar.signal("STOP").unwrap();
    let mut shard = direct(&shards[0]);
    let has_ended = "SELECT until < clock_timestamp() FROM ashlar.workers WHERE worker = 0";
    assert!(wait_for(PATIENCE, || shard.value(has_ended).unwrap() == "t"));
    // It is free, and somebody else's from here on.
    let third = Maker::join(&shards, LEASE, false);
    assert_eq!(third.number(), 0);
    first.ashlar.signal("CONT").unwrap();
    let number = number(&mut client);
    assert!(number > 0, "the number of another one: {number}");
    // Those who were not stopped have kept theirs, the second one for longer than a lease by now.
    assert_eq!((third.number(), second.number()), (0, 1));
    let (keys, found) = numbers(&shards);
    assert_eq!((keys, found), (6, BTreeSet::from([0, 1, number])));
    let renewed = "SELECT until > clock_timestamp() FROM ashlar.workers WHERE worker = 1";
    assert_eq!(shard.value(renewed).unwrap(), "t");
}

#[test]
fn a_restart_takes_a_number_of_its_own() {
    let mut fleet = Fleet::start(2);
    done(&mut fleet.client(), &create(2, ""));
    let mut taken = BTreeSet::new();
    for _ in 0..3 {
        done(&mut fleet.client(), "INSERT INTO f (k) SELECT i FROM generate_series(1, 500) AS s(i)");
        taken.insert(number(&mut fleet.client()));
        fleet = fleet.restart();
    }
    assert_eq!(taken.len(), 3, "{taken:?}");
    assert_eq!(numbers(&fleet.shards), (3 * 501, taken));
    fleet.ashlar.check_log();
}

#[test]
fn without_a_lease_no_key_is_made() {
    let mut fleet = Fleet::with(2, "worker_lease_ms = 1000");
    let mut client = fleet.client();
    done(&mut client, &create(2, ""));
    let [_, there] = fleet.keys("f")[..] else { panic!("two shards have two keys") };
    let insert = format!("INSERT INTO f (k) VALUES ({there})");
    done(&mut client, &insert);
    fleet.shards[0].signal("QUIT").unwrap();
    fleet.shards[0].wait().unwrap();
    // The row's own shard is there; the one that leases is not, and at some time the lease has ended.
    let mut error = String::new();
    let is_refused = wait_for(PATIENCE, || match client.query(&insert) {
        Ok(_) => false,
        Err(why) => {
            error = format!("{why:#}");
            true
        }
    });
    assert!(is_refused && error.starts_with("55000") && error.contains("shard \"s0\""), "{error}");
    let before = fleet.shard(1).value("SELECT count(*) FROM f").unwrap();
    // However rows are made, nothing is left of them.
    for sql in [
        format!("INSERT INTO f VALUES ({there}, 1, 'with'), ({there}, DEFAULT, 'without')"),
        format!("INSERT INTO f (k) SELECT {there} + 0 * i FROM generate_series(1, 10) AS s(i)"),
    ] {
        let error = refused(&mut client, &sql);
        assert!(error.starts_with("55000") && error.contains("no worker number can be leased"), "{sql}\n{error}");
    }
    let error = copy_in(&mut client, "COPY f (k) FROM STDIN", &[format!("{there}\n").as_bytes()]).unwrap_err();
    assert!(error.starts_with("55000"), "{error}");
    assert_eq!(fleet.shard(1).value("SELECT count(*) FROM f").unwrap(), before);
    // A key that is given needs none.
    done(&mut client, &format!("INSERT INTO f VALUES ({there}, 1, 'given')"));
    fleet.shards[0].start_again().unwrap();
    assert!(wait_for(PATIENCE, || client.query(&insert).is_ok()), "{}", refused(&mut client, &insert));
    numbers(&fleet.shards);
    fleet.ashlar.check_log();
}

#[test]
fn a_number_that_is_configured_is_not_leased() {
    let mut fleet = Fleet::with(2, "worker = 7");
    let mut client = fleet.client();
    done(&mut client, &create(2, ""));
    let keys = fleet.keys("f");
    for key in &keys {
        done(&mut client, &format!("INSERT INTO f (k) VALUES ({key})"));
    }
    assert_eq!(number(&mut client), 7);
    assert_eq!(numbers(&fleet.shards), (3, BTreeSet::from([7])));
    assert_eq!(total(&fleet.shards, "SELECT count(*) FROM pg_class WHERE relname = 'workers'"), 0);
    // So nobody has to be asked.
    fleet.shards[0].signal("QUIT").unwrap();
    fleet.shards[0].wait().unwrap();
    done(&mut client, &format!("INSERT INTO f (k) VALUES ({})", keys[1]));
}

#[test]
fn uuids_need_no_number() {
    let mut fleet = Fleet::start(2);
    let mut client = fleet.client();
    let servers = fleet.servers();
    done(
        &mut client,
        &format!(
            "CREATE TABLE u (k bigint, id uuid, PRIMARY KEY (k, id)) PARTITION BY HASH (k) \
             USING sharded WITH (servers = '{servers}', key_generator = 'uuidv7', generated_column = 'id')"
        ),
    );
    let [_, there] = fleet.keys("u")[..] else { panic!("two shards have two keys") };
    fleet.shards[0].signal("QUIT").unwrap();
    fleet.shards[0].wait().unwrap();
    done(&mut client, &format!("INSERT INTO u (k) VALUES ({there}), ({there})"));
    assert_eq!(fleet.shard(1).value("SELECT count(DISTINCT id) FROM u").unwrap(), "2");
}
