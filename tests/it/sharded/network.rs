//! Connections that are cut, at both ends or at one, and messages that are late, at any step of a commit on several shards: it happens on all
//! of them or on none, and its client is told which.

use ashlar_tests::process::{PATIENCE, wait_for};

use super::bank::Bank;
use super::members::{direct, wait_until_finished, wait_until_over};
use super::relay::{Act, When};
use super::two_phase::{STEPS, steps_until_answered};
use super::*;

#[test]
fn a_connection_that_is_cut_at_any_step_leaves_all_or_nothing() {
    let bank = Bank::open(3);
    let wire = &bank.member.wire;
    for (text, skip, when, is_decided) in STEPS.iter().copied() {
        for act in [Act::Cut, Act::CutAshlar] {
            let case = format!("{act:?} {when:?} {text} {skip}");
            let before = bank.worth();
            wire.set(text, skip, when, act);
            let answer = bank.transfer_beside().join().unwrap();
            wire.wait();
            // A shard that still waits for somebody who has gone keeps nobody from that.
            wait_until_finished(&bank.shards);
            wire.release();
            wait_until_over(&bank.shards);
            assert_eq!(bank.has_moved(&before), is_decided, "{case}: {answer:?}");
            assert_eq!(answer.is_ok(), is_decided, "{case}: {answer:?}");
        }
    }
    bank.check();
    bank.member.ashlar.check_log();
}

#[test]
fn a_commit_that_is_slow_at_any_step_is_done() {
    let bank = Bank::open(3);
    let wire = &bank.member.wire;
    for (text, skip, when, is_decided) in steps_until_answered() {
        let case = format!("{when:?} {text} {skip}");
        let before = bank.worth();
        wire.set(text, skip, when, Act::Hold);
        let transfer = bank.transfer_beside();
        wire.wait();
        // What is decided can be seen where it was decided, and nothing before that.
        assert_eq!(bank.worth()[0] != before[0], is_decided, "{case}");
        wire.release();
        transfer.join().unwrap().unwrap_or_else(|error| panic!("{case}: {error}"));
        wait_until_over(&bank.shards);
        assert!(bank.has_moved(&before), "{case}");
    }
    bank.check();
    bank.member.ashlar.check_log();
}

#[test]
fn a_commit_that_hears_nothing_can_be_stopped_until_it_is_decided() {
    let bank = Bank::open(3);
    let wire = &bank.member.wire;
    for (text, skip, when, is_decided) in steps_until_answered() {
        // Whoever has promised to commit is waited for, for ten seconds: once is enough.
        let acts: &[Act] = match (text, skip, when) {
            ("COMMIT PREPARED", 0, When::Before) => &[Act::CutShard],
            ("COMMIT PREPARED", ..) => &[],
            _ => &[Act::Hold, Act::CutShard],
        };
        for act in acts.iter().copied() {
            let case = format!("{act:?} {when:?} {text} {skip}");
            let before = bank.worth();
            wire.set(text, skip, when, act);
            let client = bank.member.ashlar.connect();
            let key = client.key.clone();
            let transfer = bank.transfer_by(client);
            wire.wait();
            pg::cancel(bank.member.ashlar.pg(), &key).unwrap();
            let answer = transfer.join().unwrap();
            // What was held comes to its shard now, when nobody wants it any more.
            wire.release();
            wait_until_over(&bank.shards);
            assert_eq!(bank.has_moved(&before), is_decided, "{case}: {answer:?}");
            match answer {
                Ok(()) => assert!(is_decided, "{case}"),
                Err(error) => assert!(!is_decided && error.contains("57014"), "{case}: {error}"),
            }
        }
    }
    bank.check();
    bank.member.ashlar.check_log();
}

#[test]
fn a_decision_that_is_being_made_is_waited_for_by_whoever_is_cut_off() {
    let bank = Bank::open(2);
    let wire = &bank.member.wire;
    let mut gate = bank.gate(0);
    let mut watcher = direct(&bank.shards[0]);
    // Somebody asks the decider what it has decided.
    let asking = "SELECT count(*) FROM pg_stat_activity \
                  WHERE query LIKE 'INSERT INTO ashlar.decisions%' AND wait_event_type = 'Lock'";
    let deciding = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    for is_given_up in [false, true] {
        let before = bank.worth();
        wire.set("INSERT INTO ashlar.decisions", 0, When::Meanwhile, Act::CutAshlar);
        let transfer = bank.transfer_beside();
        wire.wait();
        assert!(wait_for(PATIENCE, || watcher.value(deciding).unwrap() == "1"));
        wire.release();
        assert!(wait_for(PATIENCE, || watcher.value(asking).unwrap() != "0"));
        let answer = if is_given_up {
            let answer = transfer.join().unwrap();
            let mut client = bank.member.ashlar.connect();
            let seen = "SELECT server || ' ' || deciding_server || ' ' || state FROM ashlar.in_doubt";
            let expected = "s1 s0 about to be decided";
            assert!(wait_for(PATIENCE, || client.value(seen).is_ok_and(|value| value == expected)));
            assert!(!bank.has_moved(&before));
            done(&mut gate, "SELECT pg_advisory_unlock(1)");
            answer
        } else {
            done(&mut gate, "SELECT pg_advisory_unlock(1)");
            transfer.join().unwrap()
        };
        wire.release();
        wait_until_over(&bank.shards);
        assert!(bank.has_moved(&before));
        match answer {
            Ok(()) => assert!(!is_given_up),
            Err(error) => assert!(is_given_up && error.contains("08007"), "{error}"),
        }
        done(&mut gate, "SELECT pg_advisory_lock(1)");
    }
    drop(gate);
    bank.check();
    bank.member.ashlar.check_log();
}
