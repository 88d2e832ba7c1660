//! Shards that have no room: no disk for tables, none for what they write first, no connections. What needs some fails with what the shard says
//! and its name, nothing is done by half, and when there is room again all goes on.

use ashlar_tests::disk::SmallDisk;
use ashlar_tests::process::{PATIENCE, wait_for};
use ashlar_tests::tools::skipped;

use super::bank::Bank;
use super::members::{direct, prepared, wait_until_finished};
use super::relay::{Act, When};
use super::*;

/// A shard whose tables are on a disk of their own. What it writes first, and what it has prepared, is not: a server that cannot write that ends.
fn on_disk(disk: &SmallDisk) -> Postgres {
    let shard = Postgres::start().unwrap();
    let mut client = direct(&shard);
    done(&mut client, &format!("CREATE TABLESPACE small LOCATION '{}'", disk.path().display()));
    done(&mut client, "ALTER DATABASE postgres SET default_tablespace = 'small'");
    shard
}

/// Whoever changes the bank writes a page into a journal, when he commits or promises to.
const JOURNAL: &str = "
    CREATE TABLE journal (v text);
    ALTER TABLE journal ALTER v SET STORAGE PLAIN;
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO journal VALUES (repeat('x', 6000));
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER note AFTER UPDATE ON bank DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()";

#[test]
fn a_shard_with_a_full_disk_is_named_and_nothing_is_done_by_half() {
    let disk = match SmallDisk::mount(1) {
        Ok(disk) => disk,
        Err(error) => return skipped(&format!("{error:#}")),
    };
    let bank = Bank::over(vec![Postgres::start().unwrap(), on_disk(&disk)]);
    done(&mut direct(&bank.shards[1]), JOURNAL);
    let mut client = bank.member.ashlar.connect();
    done(&mut client, &format!("CREATE TABLE t (k bigint PRIMARY KEY, v text) {}", bank.member.by("k")));
    let before = bank.worth();
    // From the first shard to the second, which promises; and back, where it decides.
    let ways = [[bank.keys[0], bank.keys[1]], [bank.keys[1], bank.keys[0]]];

    // A statement that fills the disk itself.
    let filling = "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 4000) AS s(i)";
    let error = refused(&mut client, filling);
    assert!(error.contains("53100") && error.contains("shard s1"), "{error}");
    assert_eq!(client.value("SELECT count(*) FROM t").unwrap(), "0");
    for round in 0..2 {
        disk.fill().unwrap();
        for keys in &ways {
            Bank::moves(keys).iter().for_each(|sql| done(&mut client, sql));
            let error = refused(&mut client, "COMMIT");
            assert!(error.contains("53100") && error.contains("shard s1"), "round {round}: {error}");
            assert_eq!(prepared(&bank.shards), 0);
            assert_eq!(bank.worth(), before);
        }
        // Reading takes no room, nor does the other shard.
        assert_eq!(client.value("SELECT count(*) FROM bank").unwrap(), "2");
        done(&mut client, &format!("UPDATE bank SET v = v WHERE k = {}", bank.keys[0]));
        if round == 0 {
            // What has filled it goes, although it is full; from here on there is a table of decisions on it.
            done(&mut client, "DROP TABLE t");
        }
        disk.free().unwrap();
        for keys in &ways {
            Bank::transfer(&mut client, keys).unwrap();
        }
        assert_eq!(bank.worth(), before);
        let written = direct(&bank.shards[1]).value("SELECT count(*) FROM journal").unwrap();
        assert_eq!(written, (2 * (round + 1)).to_string());
    }
    bank.check();
    bank.member.ashlar.check_log();
}

/// Room for a cluster with one segment of what it writes first, and for a second one.
const DISK_MEBIBYTES: u32 = 128;

/// The steps of a commit at which a shard has no room for what it writes first: what it is sent, which of two shards that is, and whether the
/// transaction is committed then.
const STEPS_WITHOUT_ROOM: &[(&str, usize, bool)] =
    &[("PREPARE TRANSACTION", 1, false), ("INSERT INTO ashlar.decisions", 0, false), ("COMMIT PREPARED", 1, true)];

#[test]
fn a_shard_that_ends_as_its_disk_is_full_has_all_or_nothing_when_there_is_room_again() {
    for (text, victim, is_decided) in STEPS_WITHOUT_ROOM.iter().copied() {
        let disk = match SmallDisk::mount(DISK_MEBIBYTES) {
            Ok(disk) => disk,
            Err(error) => return skipped(&format!("{error:#}")),
        };
        let shard = |at: usize| if at == victim { Postgres::start_in(disk.path()) } else { Postgres::start() };
        let mut bank = Bank::with((0..2).map(|at| shard(at).unwrap()).collect(), "health_check_ms = 50");
        // The table of decisions is there, so that what is held needs no room but for itself.
        Bank::transfer(&mut bank.member.ashlar.connect(), &bank.keys).unwrap();
        // And what was decided has been cleared away: nobody else writes there from here on.
        let decided = "SELECT count(*) FROM ashlar.decisions WHERE is_committed";
        assert!(wait_for(PATIENCE, || direct(&bank.shards[0]).value(decided).unwrap() == "0"));
        wait_until_finished(&bank.shards);
        let before = bank.worth();
        let mut inside = direct(&bank.shards[victim]);
        bank.member.wire.set(text, 0, When::Before, Act::Hold);
        let transfer = bank.transfer_beside();
        bank.member.wire.wait();
        disk.fill().unwrap();
        // The file that it writes first is full too: whatever is to last needs another one.
        done(&mut inside, "SELECT pg_switch_wal()");
        bank.member.wire.release();
        let has_ended = || bank.shards[victim].log().contains("No space left on device");
        assert!(wait_for(PATIENCE, has_ended), "{text}: there was room");
        // Nor can it start again by itself; in the middle of which it may be.
        bank.shards[victim].kill().unwrap();
        disk.free().unwrap();
        bank.shards[victim].start_again().unwrap();
        let answer = transfer.join().unwrap();
        wait_until_finished(&bank.shards);
        let has_moved = bank.has_moved(&before);
        assert_eq!(has_moved, is_decided, "{text}: {answer:?}");
        match answer {
            Ok(()) => assert!(has_moved, "{text}"),
            Err(error) => assert!(!has_moved || error.contains("08007"), "{text}: {error}"),
        }
        let mut client = bank.member.ashlar.connect();
        assert!(
            wait_for(PATIENCE, || client.query("SELECT sum(v) FROM bank").is_ok()),
            "{text}: it is not found again"
        );
        bank.check();
        bank.member.ashlar.check_log();
    }
}

/// Client processes of a shard but the one that asks.
const OTHERS: &str = "SELECT count(*) FROM pg_stat_activity \
                      WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";

/// Takes all connections that a shard has left.
fn take_connections(shard: &Postgres) -> Vec<pg::Connection> {
    let mut taken = Vec::new();
    loop {
        match pg::Connection::connect(shard.address()) {
            Ok(connection) => taken.push(connection),
            Err(error) => {
                assert!(format!("{error:#}").contains("53300"), "{error:#}");
                return taken;
            }
        }
    }
}

/// Gives them back, and waits until most of their processes have gone.
fn give_back(taken: Vec<pg::Connection>, watcher: &mut pg::Connection) {
    drop(taken);
    assert!(wait_for(PATIENCE, || watcher.value(OTHERS).unwrap().parse::<usize>().unwrap() < 30));
}

#[test]
fn a_shard_without_connections_is_named_and_nothing_is_done_by_half() {
    let bank = Bank::open(2);
    let before = bank.worth();
    let back = [bank.keys[1], bank.keys[0]];
    // To decide, the second shard needs a table, which takes a connection more.
    let mut client = bank.member.ashlar.connect();
    Bank::moves(&back).iter().for_each(|sql| done(&mut client, sql));
    let mut watcher = direct(&bank.shards[1]);
    // Nobody is about to go whose place would be free then: all that are there are Ashlar's.
    let mut asking = bank.member.ashlar.connect();
    let own = "SELECT count(*) FROM ashlar.backends WHERE server = 's1'";
    assert!(wait_for(PATIENCE, || watcher.value(OTHERS).unwrap() == asking.value(own).unwrap()));
    let taken = take_connections(&bank.shards[1]);
    // What the shard says, and not what is said here where all connections are in use.
    let is_of_shard = |error: &str| error.contains("53300") && error.contains("too many clients");
    let error = refused(&mut client, "COMMIT");
    assert!(is_of_shard(&error) && error.contains("shard s1"), "{error}");
    let in_use = "SELECT sum(in_use) FROM ashlar.pools WHERE pool <> 'queries'";
    assert!(wait_for(PATIENCE, || client.value(in_use).unwrap() == "0"));

    // Some hold the connections that Ashlar has: the next one needs another.
    let mut holders = Vec::new();
    let mut late = loop {
        let mut holder = bank.member.ashlar.connect();
        done(&mut holder, "BEGIN");
        match holder.value(&format!("SELECT v FROM bank WHERE k = {}", bank.keys[1])) {
            Ok(_) => holders.push(holder),
            Err(error) => {
                assert!(is_of_shard(&format!("{error:#}")), "{error:#}");
                break holder;
            }
        }
    };
    assert!(!holders.is_empty());
    done(&mut late, "ROLLBACK");
    let moves = Bank::moves(&bank.keys);
    let (last, first) = moves.split_last().unwrap();
    first.iter().for_each(|sql| done(&mut late, sql));
    let error = refused(&mut late, last);
    assert!(is_of_shard(&error) && error.contains("shard s1"), "{error}");
    done(&mut late, "ROLLBACK");
    // It is there, and is not taken for one that is not.
    let state = late.value("SELECT state FROM ashlar.shards WHERE name = 's1'").unwrap();
    assert_ne!(state, "down");
    drop(holders);
    give_back(taken, &mut watcher);
    assert_eq!(prepared(&bank.shards), 0);
    assert_eq!(bank.worth(), before);
    Bank::transfer(&mut late, &bank.keys).unwrap();
    Bank::transfer(&mut client, &back).unwrap();
    assert_eq!(bank.worth(), before);
    bank.check();
    bank.member.ashlar.check_log();
}

#[test]
fn what_a_shard_without_connections_has_prepared_is_finished_when_it_has_some() {
    let mut bank = Bank::open(2);
    let before = bank.worth();
    bank.member.wire.set("COMMIT PREPARED", 0, When::Before, Act::Kill);
    bank.transfer_beside().join().unwrap().unwrap_err();
    bank.member.wire.wait();
    bank.member.ashlar.wait().unwrap();
    let mut watcher = direct(&bank.shards[1]);
    assert!(wait_for(PATIENCE, || watcher.value(OTHERS).unwrap() == "0"));
    let taken = take_connections(&bank.shards[1]);
    let refusals = || bank.shards[1].log().matches("too many clients").count();
    let refused_before = refusals();
    bank.member.restart();
    // It has looked, in vain.
    assert!(wait_for(PATIENCE, || refusals() > refused_before));
    assert_eq!(watcher.value("SELECT count(*) FROM pg_prepared_xacts").unwrap(), "1");
    give_back(taken, &mut watcher);
    wait_until_finished(&bank.shards);
    assert!(bank.has_moved(&before));
    bank.check();
    bank.member.ashlar.check_log();
}
