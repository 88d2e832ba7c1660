//! `SET sharded_reads = 'snapshot'`: what has been committed on several shards is seen on all of them or on none.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ashlar_tests::process::{PATIENCE, wait_for};

use super::members::{Member, direct};
use super::relay::{Act, When};
use super::*;
use crate::random::Random;

const ACCOUNTS: i64 = 30;
const WORTH: i64 = 100;

/// How long there is moving and looking; longer on a machine on which less than this comes of it.
const TIME: Duration = Duration::from_secs(8);
const MOVED_MIN: usize = 20;
const LOOKS_MIN: usize = 10;

const BANK: &str = "k bigint PRIMARY KEY, v bigint";

fn open(shards: &[Postgres], members: &[Member]) {
    let mut client = members[0].ashlar.connect();
    done(&mut client, &format!("CREATE TABLE bank ({BANK}) {}", members[0].by("k")));
    members[1..].iter().for_each(|member| member.know(shards, "bank", BANK, "k"));
    let accounts: Vec<String> = (0..ACCOUNTS).map(|account| format!("({account}, {WORTH})")).collect();
    done(&mut client, &format!("INSERT INTO bank VALUES {}", accounts.join(", ")));
}

fn number(value: &Option<String>) -> i64 {
    value.as_ref().unwrap().parse().unwrap()
}

/// So many ways there are to ask what all accounts are worth.
pub(super) const WAYS: usize = 5;

/// What all accounts are worth together, asked in different ways: by adding up on the shards, by rows that follow one another, by rows
/// in their order, by the engine, and by the engine with two looks at the table.
fn worth(client: &mut pg::Connection, way: usize) -> i64 {
    look(client, way).unwrap_or_else(|error| panic!("way {way}: {error}"))
}

/// The same, or why it is not told.
pub(super) fn look(client: &mut pg::Connection, way: usize) -> Result<i64, String> {
    let mut found = |sql: &str| client.query(sql).map_err(|error| format!("{error:#}"));
    Ok(match way {
        0 => number(&found("SELECT sum(v) FROM bank")?[0][0]),
        1 => found("SELECT v FROM bank")?.iter().map(|row| number(&row[0])).sum(),
        2 => found("SELECT k, v FROM bank ORDER BY k")?.iter().map(|row| number(&row[1])).sum(),
        3 => found("SELECT v % 3, sum(v) FROM bank GROUP BY 1")?.iter().map(|row| number(&row[1])).sum(),
        _ => {
            let sql = "SELECT sum(a.v), (SELECT sum(v) FROM bank) FROM bank a JOIN bank b ON b.k + 0 = a.k + 0";
            let found = found(sql)?;
            assert_eq!(found[0][0], found[0][1]);
            number(&found[0][0])
        }
    })
}

#[test]
fn sums_do_not_vary_while_others_move_money() {
    let shards: Vec<Postgres> = (0..3).map(|_| Postgres::start().unwrap()).collect();
    let members: Vec<Member> = (0..2).map(|_| Member::join(&shards)).collect();
    open(&shards, &members);
    let mut random = Random::from_environment();
    let (is_over, moved) = (AtomicBool::new(false), AtomicUsize::new(0));
    let looks: Vec<usize> = std::thread::scope(|scope| {
        // Through both of them: what one knows of its own commits is not enough.
        for member in [0, 0, 1, 1] {
            let mut random = Random::from_seed(random.next());
            let (members, is_over, moved) = (&members, &is_over, &moved);
            scope.spawn(move || {
                let mut client = members[member].ashlar.connect();
                while !is_over.load(Ordering::SeqCst) {
                    let (one, other) = (random.below(ACCOUNTS as u64) as i64, random.below(ACCOUNTS as u64) as i64);
                    let n = random.below(9) as i64;
                    let statements = [
                        "BEGIN".to_owned(),
                        format!("UPDATE bank SET v = v - {n} WHERE k = {}", one.min(other)),
                        format!("UPDATE bank SET v = v + {n} WHERE k = {}", one.max(other)),
                        "COMMIT".to_owned(),
                    ];
                    let done_all = statements.iter().try_for_each(|sql| client.query(sql).map(drop));
                    if let Err(error) = done_all {
                        // Somebody has taken it for one that was left.
                        assert!(error.to_string().contains("40001"), "{error:#}");
                        done(&mut client, "ROLLBACK");
                        continue;
                    }
                    moved.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        // The one for each statement, the other for two statements together.
        let readers: Vec<_> = [0, 1]
            .map(|member| {
                let (members, moved) = (&members, &moved);
                scope.spawn(move || {
                    let mut client = members[member].ashlar.connect();
                    let is_repeatable = member == 1;
                    if !is_repeatable {
                        done(&mut client, "SET sharded_reads = 'snapshot'");
                    }
                    let (begin, mut looks) = (Instant::now(), 0);
                    let is_enough = |looks: usize| looks >= LOOKS_MIN && moved.load(Ordering::SeqCst) > MOVED_MIN;
                    while begin.elapsed() < TIME || (!is_enough(looks) && begin.elapsed() < PATIENCE) {
                        if is_repeatable && looks % 2 == 0 {
                            done(&mut client, "BEGIN ISOLATION LEVEL REPEATABLE READ");
                        }
                        match look(&mut client, looks % WAYS) {
                            Ok(found) => assert_eq!(found, ACCOUNTS * WORTH, "way {}", looks % WAYS),
                            // Those who move were too slow for it, which it does not wait for without end. It begins again.
                            Err(error) => {
                                assert!(error.contains("55P03"), "way {}: {error}", looks % WAYS);
                                if is_repeatable {
                                    done(&mut client, "ROLLBACK");
                                    looks -= looks % 2;
                                }
                                continue;
                            }
                        }
                        looks += 1;
                        if is_repeatable && looks % 2 == 0 {
                            done(&mut client, "COMMIT");
                        }
                    }
                    looks
                })
            })
            .into_iter()
            .collect();
        let looks: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        is_over.store(true, Ordering::SeqCst);
        looks.into_iter().map(|looks| looks.unwrap()).collect()
    });
    let moved = moved.load(Ordering::SeqCst);
    eprintln!("{moved} moved, looked at {looks:?} times");
    let is_enough = moved > MOVED_MIN && looks.iter().all(|looks| *looks >= LOOKS_MIN);
    assert!(is_enough, "{moved} moved, looked at {looks:?} times");
    // Nothing stays locked behind them.
    let locked = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    for shard in &shards {
        let mut shard = direct(shard);
        assert!(wait_for(PATIENCE, || shard.value(locked).unwrap() == "0"));
    }
    members.iter().for_each(|member| member.ashlar.check_log());
}

#[test]
fn half_of_a_transaction_is_not_shown() {
    let shards: Vec<Postgres> = (0..2).map(|_| Postgres::start().unwrap()).collect();
    let members = [Member::join(&shards)];
    open(&shards, &members);
    let [member] = &members;
    // On the first shard it is committed, on the second it is going to be.
    let of = |shard: &Postgres| direct(shard).value("SELECT min(k) FROM bank").unwrap();
    let keys = [of(&shards[0]), of(&shards[1])];
    member.wire.set("COMMIT PREPARED", 0, When::Before, Act::Hold);
    let mut writer = member.ashlar.connect();
    let transfer = std::thread::spawn(move || {
        done(&mut writer, "BEGIN");
        done(&mut writer, &format!("UPDATE bank SET v = v - 7 WHERE k = {}", keys[0]));
        done(&mut writer, &format!("UPDATE bank SET v = v + 7 WHERE k = {}", keys[1]));
        done(&mut writer, "COMMIT");
    });
    member.wire.wait();
    let mut client = member.ashlar.connect();
    assert_eq!(worth(&mut client, 0), ACCOUNTS * WORTH - 7);
    done(&mut client, "SET sharded_reads = 'snapshot'");
    let error = refused(&mut client, "SELECT sum(v) FROM bank");
    assert!(error.contains("55P03"), "{error}");
    // One shard is always as of one moment.
    assert_eq!(client.value("SELECT count(*) FROM bank WHERE k = 0").unwrap(), "1");
    member.wire.release();
    transfer.join().unwrap();
    for way in 0..WAYS {
        assert_eq!(worth(&mut client, way), ACCOUNTS * WORTH);
    }
    assert!(refused(&mut client, "SET sharded_reads = 'sometimes'").contains("22023"));
    done(&mut client, "RESET sharded_reads");
    assert_eq!(client.value("SHOW sharded_reads").unwrap(), "each");
    member.ashlar.check_log();
}
