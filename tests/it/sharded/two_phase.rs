//! Transactions on several shards, with a death at every step: on all of them or on none, whoever finishes them.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::bank::{Bank, WORTH};
use super::members::{Member, RECOVER_AFTER_MS, direct, prepared, total, wait_until_finished, wait_until_over};
use super::relay::{Act, When};
use super::*;

/// The steps of a commit on three shards: what is sent, how often it has been before, whether its shard has done it; and whether the
/// transaction is committed then.
pub(super) const STEPS: &[(&str, usize, When, bool)] = &[
    ("PREPARE TRANSACTION", 0, When::Before, false),
    ("PREPARE TRANSACTION", 0, When::After, false),
    ("PREPARE TRANSACTION", 1, When::Before, false),
    ("PREPARE TRANSACTION", 1, When::After, false),
    ("INSERT INTO ashlar.decisions", 0, When::Before, false),
    ("INSERT INTO ashlar.decisions", 0, When::After, true),
    ("COMMIT PREPARED", 0, When::Before, true),
    ("COMMIT PREPARED", 0, When::After, true),
    ("COMMIT PREPARED", 1, When::Before, true),
    ("COMMIT PREPARED", 1, When::After, true),
    ("DELETE FROM ashlar.decisions", 0, When::Before, true),
    ("DELETE FROM ashlar.decisions", 0, When::After, true),
];

/// Those that the client's answer waits for: what is no longer needed is cleared away later.
pub(super) fn steps_until_answered() -> impl Iterator<Item = (&'static str, usize, When, bool)> {
    STEPS.iter().copied().filter(|(text, ..)| !text.starts_with("DELETE"))
}

#[test]
fn a_death_at_any_step_leaves_all_or_nothing() {
    let mut bank = Bank::open(3);
    for (text, skip, when, is_decided) in STEPS.iter().copied() {
        for by_another in [false, true] {
            let case = format!("{when:?} {text} {skip}, another: {by_another}");
            let before = bank.worth();
            bank.member.wire.set(text, skip, when, Act::Kill);
            let is_acknowledged = bank.transfer_beside().join().unwrap().is_ok();
            bank.member.wire.wait();
            bank.member.ashlar.wait().unwrap();
            if by_another {
                // It knows nothing but where the shards are.
                let other = Member::join(&bank.shards);
                wait_until_finished(&bank.shards);
                assert_eq!(bank.has_moved(&before), is_decided, "{case}");
                drop(other);
            }
            bank.member.restart();
            // What was on its way to a shard when its sender died may be prepared there only now.
            wait_until_over(&bank.shards);
            assert_eq!(bank.has_moved(&before), is_decided, "{case}");
            assert!(is_decided || !is_acknowledged, "{case}");
            let sum = bank.member.ashlar.connect().value("SELECT sum(v) FROM bank").unwrap();
            assert_eq!(sum, (3 * WORTH).to_string(), "{case}");
        }
    }
    // What is decided is forgotten when it is old and no shard has it prepared.
    let has_table = |shard: &Postgres| direct(shard).value("SELECT to_regclass('ashlar.decisions')").unwrap() != "NULL";
    let deciders: Vec<&Postgres> = bank.shards.iter().filter(|shard| has_table(shard)).collect();
    assert!(!deciders.is_empty());
    for shard in &deciders {
        done(&mut direct(shard), "UPDATE ashlar.decisions SET decided_at = decided_at - interval '1 day'");
    }
    bank.member.ashlar.signal("KILL").unwrap();
    bank.member.restart();
    let count = |shard: &Postgres| direct(shard).value("SELECT count(*) FROM ashlar.decisions").unwrap();
    for shard in deciders {
        assert!(wait_for(PATIENCE, || count(shard) == "0"), "{:?}", rows(&mut direct(shard), "TABLE ashlar.decisions"));
    }
}

/// Kills one shard after the other just before or after each step, with all of its processes.
fn shards_die(when: When) {
    let mut bank = Bank::open(3);
    for (text, skip, _, is_decided) in steps_until_answered().filter(|step| step.2 == when) {
        for victim in 0..3 {
            let case = format!("shard {victim}, {when:?} {text} {skip}");
            let before = bank.worth();
            bank.member.wire.set(text, skip, when, Act::Hold);
            let transfer = bank.transfer_beside();
            bank.member.wire.wait();
            bank.shards[victim].kill().unwrap();
            bank.member.wire.release();
            bank.shards[victim].start_again().unwrap();
            let answer = transfer.join().unwrap();
            wait_until_finished(&bank.shards);
            let has_moved = bank.has_moved(&before);
            assert!(has_moved || !is_decided, "{case}: {answer:?}");
            match answer {
                Ok(()) => assert!(has_moved, "{case}"),
                Err(error) => assert!(!has_moved || error.contains("08007"), "{case}: {error}"),
            }
            // Until a look has found it again it may be refused, and the next transaction would not come to its step.
            let is_there = || bank.member.ashlar.connect().query("SELECT sum(v) FROM bank").is_ok();
            assert!(wait_for(PATIENCE, is_there), "{case}: it is not found again");
        }
    }
    bank.check();
}

#[test]
fn a_shard_that_dies_before_any_step_and_comes_back_has_all_or_nothing() {
    shards_die(When::Before);
}

#[test]
fn a_shard_that_dies_after_any_step_and_comes_back_has_all_or_nothing() {
    shards_die(When::After);
}

#[test]
fn a_lost_decision_is_asked_for_again() {
    let bank = Bank::open(2);
    let before = bank.worth();
    bank.member.wire.set("INSERT INTO ashlar.decisions", 0, When::Before, Act::Cut);
    let error = bank.transfer_beside().join().unwrap().unwrap_err();
    assert!(error.contains("40001"), "{error}");
    assert!(!bank.has_moved(&before));
    assert_eq!(prepared(&bank.shards), 0);
    bank.member.wire.set("INSERT INTO ashlar.decisions", 0, When::After, Act::Cut);
    bank.transfer_beside().join().unwrap().unwrap();
    assert!(bank.has_moved(&before));
    // A promise of which nobody has heard.
    let before = bank.worth();
    bank.member.wire.set("PREPARE TRANSACTION", 0, When::After, Act::Cut);
    bank.transfer_beside().join().unwrap().unwrap_err();
    wait_until_finished(&bank.shards);
    assert!(!bank.has_moved(&before));
    bank.transfer_beside().join().unwrap().unwrap();
    assert!(bank.has_moved(&before));
    // Nobody needs what has been decided.
    let count = "SELECT count(*) FROM ashlar.decisions WHERE is_committed";
    assert!(wait_for(PATIENCE, || direct(&bank.shards[0]).value(count).unwrap() == "0"));
}

/// A shard that says more while it commits, or promises to, than there is memory for has all the same done it, or not.
#[test]
fn an_answer_that_there_is_no_room_for_is_no_refusal() {
    let shards = (0..2).map(|_| Postgres::start().unwrap()).collect();
    let bank = Bank::with(shards, "[store]\nmemory_mib_max = 32");
    for (talker, is_committed) in [(0, true), (1, false)] {
        let before = bank.worth();
        bank.talk(talker);
        let answer = bank.transfer_beside().join().unwrap();
        wait_until_finished(&bank.shards);
        assert_eq!(bank.has_moved(&before), answer.is_ok(), "{talker}: {answer:?}");
        match answer {
            Ok(()) => assert!(is_committed, "{talker}"),
            // Its shard may have heard that nobody listens before it had committed.
            Err(error) => assert!(error.contains(if is_committed { "40001" } else { "53200" }), "{talker}: {error}"),
        }
        // So is one statement of one shard: nothing takes it back.
        let mut client = bank.member.ashlar.connect();
        let error = refused(&mut client, &format!("UPDATE bank SET v = v WHERE k = {}", bank.keys[talker]));
        assert!(error.contains("08007"), "{error}");
        done(&mut direct(&bank.shards[talker]), "DROP FUNCTION tell() CASCADE");
    }
    bank.check();
}

#[test]
fn who_is_too_slow_to_decide_cannot_any_more() {
    let bank = Bank::open(2);
    let before = bank.worth();
    bank.member.wire.set("INSERT INTO ashlar.decisions", 0, When::Before, Act::Hold);
    let slow = bank.transfer_beside();
    bank.member.wire.wait();
    assert_eq!(prepared(&bank.shards), 1);
    let other = Member::join(&bank.shards);
    wait_until_finished(&bank.shards);
    bank.member.wire.release();
    let error = slow.join().unwrap().unwrap_err();
    assert!(error.contains("40001"), "{error}");
    assert!(!bank.has_moved(&before));
    bank.transfer_beside().join().unwrap().unwrap();
    assert!(bank.has_moved(&before));
    drop(other);
}

#[test]
fn who_is_about_to_decide_is_waited_for() {
    let bank = Bank::open(2);
    let before = bank.worth();
    let mut gate = bank.gate(0);
    let deciding = bank.transfer_beside();
    let other = Member::join(&bank.shards);
    let mut client = other.ashlar.connect();
    let seen = "SELECT server || ' ' || deciding_server || ' ' || state FROM ashlar.in_doubt";
    assert!(wait_for(PATIENCE, || client.value(seen).is_ok_and(|value| value == "s1 s0 about to be decided")));
    assert_eq!(prepared(&bank.shards), 1);
    done(&mut gate, "SELECT pg_advisory_unlock(1)");
    deciding.join().unwrap().unwrap();
    assert!(bank.has_moved(&before));
    assert!(wait_for(PATIENCE, || client.query(seen).unwrap().is_empty()));
    drop((client, other));
}

/// The look that is under way when it is old enough, the next one, and one more for a machine that stands still in the middle of a look.
const LOOKS_MAX: usize = 3;

/// What a dead Ashlar has left is finished by the first look that finds it old enough, which is the one that is under way then or the next:
/// counted in looks, since a machine may stand still for as long as it likes.
#[test]
fn what_a_dead_ashlar_has_left_is_finished_by_the_first_look_that_finds_it_old_enough() {
    let mut bank = Bank::open(2);
    let other = Member::join(&bank.shards);
    // It asks each shard once a look.
    let shards = bank.shards.len();
    let looks = |questions: usize| questions.div_ceil(shards);
    other.wire.count("FROM pg_catalog.pg_prepared_xacts");
    assert!(wait_for(PATIENCE, || looks(other.wire.counted()) > 1), "nobody looks");
    let old_enough = format!(
        "SELECT count(*) FROM pg_prepared_xacts WHERE clock_timestamp() - prepared >= interval '{RECOVER_AFTER_MS} ms'"
    );
    for (text, is_decided) in [("INSERT INTO ashlar.decisions", false), ("COMMIT PREPARED", true)] {
        let before = bank.worth();
        bank.member.wire.set(text, 0, When::Before, Act::Kill);
        drop(bank.transfer_beside().join().unwrap());
        bank.member.wire.wait();
        bank.member.ashlar.wait().unwrap();
        // It is old, or was finished before anybody has seen it so.
        assert!(wait_for(PATIENCE, || total(&bank.shards, &old_enough) > 0 || prepared(&bank.shards) == 0), "{text}");
        let begin = other.wire.counted();
        let mut last = begin;
        let is_finished = wait_for(PATIENCE, || {
            // Before the shards are asked: by then it was still there.
            let count = other.wire.counted();
            let is_finished = prepared(&bank.shards) == 0;
            if !is_finished {
                last = count;
            }
            is_finished
        });
        assert!(is_finished, "{text}: {} looks", looks(other.wire.counted() - begin));
        assert!(looks(last - begin) <= LOOKS_MAX, "{text}: still there after {} questions", last - begin);
        assert_eq!(bank.has_moved(&before), is_decided, "{text}");
        bank.member.restart();
    }
    bank.check();
    drop(other);
}

#[test]
fn what_is_decided_is_committed_on_a_shard_that_was_away() {
    let mut bank = Bank::open(2);
    let before = bank.worth();
    bank.member.wire.set("COMMIT PREPARED", 0, When::Before, Act::Hold);
    let transfer = bank.transfer_beside();
    bank.member.wire.wait();
    bank.shards[1].signal("QUIT").unwrap();
    bank.shards[1].wait().unwrap();
    bank.member.wire.release();
    transfer.join().unwrap().unwrap();
    bank.shards[1].start_again().unwrap();
    wait_until_finished(&bank.shards);
    assert!(bank.has_moved(&before));
}

#[test]
fn without_the_decider_it_is_not_known_until_it_is_back() {
    let mut bank = Bank::open(2);
    let before = bank.worth();
    bank.member.wire.set("INSERT INTO ashlar.decisions", 0, When::Before, Act::Hold);
    let transfer = bank.transfer_beside();
    bank.member.wire.wait();
    bank.shards[0].signal("QUIT").unwrap();
    bank.shards[0].wait().unwrap();
    bank.member.wire.release();
    let error = transfer.join().unwrap().unwrap_err();
    assert!(error.contains("08007"), "{error}");
    let mut client = bank.member.ashlar.connect();
    let seen = "SELECT server || ' ' || state FROM ashlar.in_doubt";
    let expected = "s1 the deciding server cannot be reached or is not known";
    assert!(wait_for(PATIENCE, || client.value(seen).is_ok_and(|value| value == expected)));
    bank.shards[0].start_again().unwrap();
    wait_until_finished(&bank.shards);
    assert!(!bank.has_moved(&before));
    assert!(wait_for(PATIENCE, || client.query(seen).unwrap().is_empty()));
}

#[test]
fn who_may_not_keep_decisions_is_told_before_anything_is_promised() {
    let bank = Bank::open(2);
    let before = bank.worth();
    for shard in &bank.shards {
        done(&mut direct(shard), "CREATE USER limited; GRANT ALL ON bank TO limited");
    }
    let mut client = bank.member.ashlar.connect();
    for server in ["s0", "s1"] {
        done(&mut client, &format!("ALTER USER MAPPING FOR PUBLIC SERVER {server} OPTIONS (SET user 'limited')"));
    }
    // No other message than this one would be an attempt.
    bank.member.wire.set("PREPARE TRANSACTION", 0, When::Before, Act::Cut);
    let error = Bank::transfer(&mut client, &bank.keys).unwrap_err();
    assert!(error.contains("42501"), "{error}");
    assert!(bank.member.wire.disarm());
    assert!(!bank.has_moved(&before));
    done(&mut client, "ROLLBACK");
    for shard in &bank.shards {
        done(&mut direct(shard), "GRANT CREATE ON DATABASE postgres TO limited");
    }
    // Somebody else's table is no use.
    let has_table = direct(&bank.shards[0]).value("SELECT to_regclass('ashlar.decisions')").unwrap() != "NULL";
    if has_table {
        done(&mut direct(&bank.shards[0]), "DROP SCHEMA ashlar CASCADE");
    }
    Bank::transfer(&mut client, &bank.keys).unwrap();
    assert!(bank.has_moved(&before));
}

#[test]
fn tables_change_on_all_shards_or_on_none() {
    let mut bank = Bank::open(3);
    let columns = |shard: &Postgres, table: &str| {
        let sql = format!("SELECT count(*) FROM information_schema.columns WHERE table_name = '{table}'");
        direct(shard).value(&sql).unwrap().parse::<usize>().unwrap()
    };
    let create = format!("CREATE TABLE made (k bigint PRIMARY KEY) {}", bank.member.by("k"));
    for (sql, table, after) in [
        (create.as_str(), "made", 1),
        ("ALTER TABLE made ADD COLUMN n int", "made", 2),
        ("ALTER TABLE made RENAME COLUMN n TO m", "made", 2),
        ("ALTER TABLE made ADD CONSTRAINT twice UNIQUE (m, k)", "made", 2),
        ("ALTER TABLE made DROP CONSTRAINT twice", "made", 2),
        ("ALTER TABLE made DROP CONSTRAINT made_pkey", "made", 2),
        ("ALTER TABLE made ADD PRIMARY KEY (k)", "made", 2),
        ("ALTER TABLE made DROP COLUMN m", "made", 1),
        ("ALTER TABLE made ADD CONSTRAINT positive CHECK (k > 0)", "made", 1),
        ("ALTER TABLE made DROP CONSTRAINT positive", "made", 1),
        ("ALTER TABLE made RENAME TO other", "other", 1),
        ("ALTER TABLE other RENAME TO made", "made", 1),
        ("DROP TABLE made", "made", 0),
    ] {
        let before = columns(&bank.shards[0], table);
        for (text, is_done) in [("INSERT INTO ashlar.decisions", false), ("COMMIT PREPARED", true)] {
            // Before it can be killed: what finds out whether anything is left says such words too.
            let mut client = bank.member.ashlar.connect();
            bank.member.wire.set(text, 0, When::Before, Act::Kill);
            client.query(sql).unwrap_err();
            bank.member.wire.wait();
            bank.member.restart();
            wait_until_finished(&bank.shards);
            let expected = if is_done { after } else { before };
            for shard in &bank.shards {
                assert!(wait_for(PATIENCE, || columns(shard, table) == expected), "{sql}, {text}");
            }
            // What a crash has left can be dropped, and made known.
            let mut client = bank.member.ashlar.connect();
            if sql.starts_with("CREATE") && !is_done {
                done(&mut client, "DROP TABLE made");
            } else if sql.starts_with("ALTER") && is_done {
                done(&mut client, &sql.replace("ADD COLUMN", "ADD COLUMN IF NOT EXISTS"));
                // By the names that are known from now on.
                done(&mut client, &format!("INSERT INTO {table} VALUES (1), (2), (3), (4), (5), (6)"));
                done(&mut client, &format!("DELETE FROM {table}"));
            } else if sql.starts_with("DROP") && is_done {
                done(&mut client, "DROP TABLE made");
            }
        }
    }
    for (text, left) in [("INSERT INTO ashlar.decisions", "1"), ("COMMIT PREPARED", "0")] {
        let mut client = bank.member.ashlar.connect();
        bank.member.wire.set(text, 0, When::Before, Act::Kill);
        client.query("TRUNCATE bank").unwrap_err();
        bank.member.wire.wait();
        bank.member.restart();
        wait_until_finished(&bank.shards);
        for shard in &bank.shards {
            let count = || direct(shard).value("SELECT count(*) FROM bank").unwrap();
            assert!(wait_for(PATIENCE, || count() == left), "TRUNCATE, {text}");
        }
    }
}

/// The steps of a change of tables on two shards at which it is stopped, and whether it is decided then; the first is the change itself.
const STOPS: &[(&str, When, bool)] = &[
    ("", When::Before, false),
    ("PREPARE TRANSACTION", When::After, false),
    ("INSERT INTO ashlar.decisions", When::Before, false),
    ("COMMIT PREPARED", When::Before, true),
];

#[test]
fn a_change_of_tables_that_is_stopped_at_any_step_is_known_as_it_has_ended() {
    let bank = Bank::open(2);
    let wire = &bank.member.wire;
    // A statement beside this thread, which is stopped where it is held.
    let stopped = |sql: &str, text: &str, when: When| {
        wire.set(text, 0, when, Act::Hold);
        let (mut client, sql) = (bank.member.ashlar.connect(), sql.to_owned());
        let key = client.key.clone();
        let running = std::thread::spawn(move || client.query(&sql).map(drop).map_err(|error| format!("{error:#}")));
        wire.wait();
        pg::cancel(bank.member.ashlar.pg(), &key).unwrap();
        running
    };
    let create = format!("CREATE TABLE made (k bigint PRIMARY KEY, v text) {}", bank.member.by("k"));
    // A name that each has in what shards are sent, and what succeeds once it has been done, here and on every shard.
    for (sql, own, proof) in [
        (create.as_str(), "made", "INSERT INTO made VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')"),
        ("ALTER TABLE made ADD COLUMN n int", "made", "UPDATE made SET n = 1"),
        ("CREATE INDEX by_n ON made (n)", "by_n", "CREATE INDEX IF NOT EXISTS by_n ON made (n)"),
        ("DROP INDEX by_n", "by_n", "CREATE INDEX by_n ON made (n)"),
        ("ALTER TABLE made DROP COLUMN n", "made", "ALTER TABLE made ADD COLUMN n int"),
        ("TRUNCATE made", "made", "INSERT INTO made VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')"),
        ("ALTER TABLE made RENAME TO other", "RENAME TO other", "ALTER TABLE other RENAME TO made"),
        ("DROP TABLE made", "made", create.as_str()),
    ] {
        for (text, when, is_decided) in STOPS.iter().copied() {
            let text = if text.is_empty() { own } else { text };
            let running = stopped(sql, text, when);
            if is_decided {
                wire.release();
                running.join().unwrap().unwrap_or_else(|error| panic!("{sql}, {text}: {error}"));
                continue;
            }
            let error = running.join().unwrap().unwrap_err();
            assert!(error.contains("57014"), "{sql}, {text}: {error}");
            wait_until_finished(&bank.shards);
            wire.release();
        }
        done(&mut bank.member.ashlar.connect(), proof);
    }
    // One shard commits by itself: it has, or it has not.
    let alone = "CREATE TABLE alone (k bigint PRIMARY KEY) PARTITION BY HASH (k) \
                 USING sharded WITH (servers = 's0', algorithm = 'hash_mod')";
    let running = stopped(alone, "COMMIT", When::Before);
    wire.release();
    let mut client = bank.member.ashlar.connect();
    if let Err(error) = running.join().unwrap() {
        assert!(error.contains("57014"), "{error}");
        done(&mut client, alone);
    }
    assert_eq!(client.value("SELECT count(*) FROM alone").unwrap(), "0");
    done(&mut client, "DROP TABLE alone");
    done(&mut client, "DROP TABLE made");
    for shard in &bank.shards {
        assert_eq!(direct(shard).value("SELECT coalesce(to_regclass('made'), to_regclass('alone'))").unwrap(), "NULL");
    }
}
