//! Hours of churn in a minute: more is written than there is room for, and the memory of the process stays what the server says that it holds.
//!
//! Keys of many sizes come, are written over, are deleted and end by themselves, while transactions hold snapshots and the compactor works.

use std::collections::HashMap;
use std::time::Duration;

use ashlar_tests::pg::Connection;
use ashlar_tests::process::wait_for;
use ashlar_tests::resp::{Client, Reply};
use ashlar_tests::{Ashlar, Options};

use crate::random::Random;

const MIB: u64 = 1 << 20;
/// What all rows may take.
const MAX: u64 = 96 * MIB;
/// What was given up within the last second, which the allocator keeps that long: rows that make room at full speed are much.
const FREED: u64 = 96 * MIB;
/// Keys that last until they are deleted, and as many that are given a time to end.
const KEYS: u64 = 48_000;
const ROUNDS: u32 = 24;
/// Pipelines of a round, and commands of a pipeline: few enough that their answers wait in the sockets while they are sent.
const PIPELINES: u32 = 50;
const COMMANDS: u32 = 200;

/// What may be resident of what is held: 15 % more.
fn with_slack(bytes: u64) -> u64 {
    bytes + bytes * 15 / 100
}

/// A command, and what is known of its answer.
enum Sent {
    /// Writes this value.
    Set(u64, Vec<u8>),
    Delete(u64),
    Get(u64),
    /// Gives the key a time to end.
    Expire,
}

/// A server, and what its keys should hold.
struct Subject {
    server: Ashlar,
    keys: Client,
    sql: Connection,
    random: Random,
    /// Keys without a time to end, and those of the others whose value is known if they are there.
    twin: HashMap<u64, Vec<u8>>,
    /// Rows make room for others: then no key need be there.
    evicts: bool,
    /// Resident memory of the server beside its rows.
    base: u64,
    written: u64,
    refused: u64,
}

fn words(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}

fn name(key: u64) -> Vec<u8> {
    format!("churn:{key}").into_bytes()
}

impl Subject {
    fn start(evicts: bool) -> Subject {
        let config = format!("[store]\nmemory_mib_max = {}\n", MAX / MIB);
        let server = Ashlar::start(Options { config, ..Options::default() }).unwrap();
        let (keys, sql) = (Client::connect(server.resp()).unwrap(), server.connect());
        let random = Random::from_environment();
        let (twin, base, written, refused) = (HashMap::new(), 0, 0, 0);
        let mut subject = Subject { server, keys, sql, random, twin, evicts, base, written, refused };
        if evicts {
            subject.sql.query("ALTER TABLE kv SET (eviction = 'lru')").unwrap();
        }
        // What the first query needs is not taken for rows.
        subject.picture();
        subject.base = subject.server.resident_bytes();
        subject
    }

    /// Bytes that the server says it holds for rows.
    fn held(&mut self) -> u64 {
        let reply = self.keys.command(&["INFO", "memory"]).unwrap();
        let text = reply.text().or(match reply {
            Reply::Verbatim(_, bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        });
        let text = text.expect("INFO answers with a text");
        let figure = text.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
        figure.unwrap_or_else(|| panic!("{text}")).trim().parse().unwrap()
    }

    /// Resident memory above that of a server without rows.
    fn resident(&self) -> u64 {
        self.server.resident_bytes().saturating_sub(self.base)
    }

    fn value(&mut self, key: u64) -> Vec<u8> {
        self.written += 1;
        let length = match self.random.below(100) {
            0..50 => self.random.below(400),
            50..85 => self.random.below(4_000),
            85..99 => self.random.below(12_000),
            _ => self.random.below(40_000),
        };
        let mut value = format!("{key}:{}:", self.written).into_bytes();
        let fill = b'a' + (self.written % 26) as u8;
        value.resize(value.len() + length as usize, fill);
        value
    }

    fn choose(&mut self) -> (Sent, Vec<Vec<u8>>) {
        let (key, ends) = (self.random.below(KEYS), self.random.one_in(2));
        let key = if ends { key + KEYS } else { key };
        match self.random.below(10) {
            0 => (Sent::Delete(key), words(&[b"DEL", &name(key)])),
            1 | 2 => (Sent::Get(key), words(&[b"GET", &name(key)])),
            3 if ends => {
                let millis = self.random.below(4_000) + 1;
                (Sent::Expire, words(&[b"PEXPIRE", &name(key), millis.to_string().as_bytes()]))
            }
            other => {
                let value = self.value(key);
                let mut command = words(&[b"SET", &name(key), &value]);
                if ends && other < 8 {
                    let millis = self.random.below(8_000) + 1;
                    command.extend(words(&[b"PX", millis.to_string().as_bytes()]));
                }
                (Sent::Set(key, value), command)
            }
        }
    }

    /// Sends commands, and looks at every answer.
    fn pipeline(&mut self) {
        let (sent, commands): (Vec<Sent>, Vec<_>) = (0..COMMANDS).map(|_| self.choose()).unzip();
        let replies = self.keys.pipeline(&commands).unwrap();
        for (sent, reply) in sent.into_iter().zip(replies) {
            match sent {
                Sent::Set(key, value) => match reply {
                    Reply::Simple(text) if text == "OK" => drop(self.twin.insert(key, value)),
                    // Nothing has changed: a later GET says so.
                    Reply::Error(text) if text.starts_with("OOM ") => self.refused += 1,
                    other => panic!("SET of {} bytes: {other:?}", value.len()),
                },
                Sent::Delete(key) => {
                    let was_there = Reply::Integer(i64::from(self.twin.remove(&key).is_some()));
                    assert!(reply == was_there || self.may_end(key) && reply == Reply::Integer(0), "{reply:?}");
                }
                Sent::Get(key) => {
                    let expected = self.twin.get(&key).map_or(Reply::Null, |value| Reply::Bulk(value.clone()));
                    assert!(reply == expected || self.may_end(key) && reply == Reply::Null, "GET of {key}");
                }
                // A time takes memory too, where no row beside it has one.
                Sent::Expire => match reply {
                    Reply::Integer(_) => {}
                    Reply::Error(text) if text.starts_with("OOM ") => {}
                    other => panic!("PEXPIRE: {other:?}"),
                },
            }
        }
    }

    fn may_end(&self, key: u64) -> bool {
        self.evicts || key >= KEYS
    }

    /// What a query sees of all rows.
    fn picture(&mut self) -> Vec<Vec<Option<String>>> {
        self.sql.query("SELECT count(*), sum(octet_length(value)) FROM kv").unwrap()
    }

    /// Deletes every key, and waits until the memory has come back.
    fn delete_all(&mut self) {
        for first in (0..2 * KEYS).step_by(1000) {
            let commands: Vec<_> = (first..first + 1000).map(|key| words(&[b"DEL", &name(key)])).collect();
            for reply in self.keys.pipeline(&commands).unwrap() {
                assert!(matches!(reply, Reply::Integer(_)), "{reply:?}");
            }
        }
        self.twin.clear();
        assert_eq!(self.picture()[0][0].as_deref(), Some("0"));
        let gone = wait_for(Duration::from_secs(60), || self.held() < MIB);
        assert!(gone, "{} bytes are held for no rows", self.held());
    }
}

fn churn(evicts: bool) {
    let mut subject = Subject::start(evicts);
    let (mut seen, mut most) = (None, 0);
    for round in 0..ROUNDS {
        // A transaction sees what it has seen, whatever becomes of the rows meanwhile.
        match round % 6 {
            1 => {
                subject.sql.query("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
                seen = Some(subject.picture());
            }
            3 => {
                assert_eq!(Some(subject.picture()), seen);
                subject.sql.query("COMMIT").unwrap();
            }
            _ => {}
        }
        (0..PIPELINES).for_each(|_| subject.pipeline());
        let (held, resident) = (subject.held(), subject.resident());
        eprintln!("round {round}: {} MiB held, {} MiB resident", held / MIB, resident / MIB);
        assert!(held <= MAX + MAX / 50, "{held} bytes are held");
        assert!(resident <= with_slack(MAX) + FREED, "{} MiB are resident in round {round}", resident / MIB);
        most = most.max(held);
        if round % 6 == 5 {
            let settled = wait_for(Duration::from_secs(20), || {
                let held = subject.held();
                subject.resident() <= with_slack(held)
            });
            let (held, resident) = (subject.held(), subject.resident());
            eprintln!("settled: {} KiB held, {} KiB resident", held / 1024, resident / 1024);
            assert!(settled, "{} MiB are resident for {} MiB in round {round}", resident / MIB, held / MIB);
        }
    }
    assert!(most > MAX * 3 / 4, "the bound was not come near: {most}");
    eprintln!("{} values were written, {} of them refused", subject.written, subject.refused);
    if !evicts {
        assert!(subject.refused > 1_000, "{} writes were refused", subject.refused);
        // What was not refused is there, and what was refused is not.
        for first in (0..KEYS).step_by(1000) {
            let command: Vec<Vec<u8>> =
                std::iter::once(b"MGET".to_vec()).chain((first..first + 1000).map(name)).collect();
            let Reply::Array(values) = subject.keys.command(&command).unwrap() else { panic!("MGET gives an array") };
            for (key, value) in (first..).zip(values) {
                let expected = subject.twin.get(&key).map_or(Reply::Null, |value| Reply::Bulk(value.clone()));
                assert!(value == expected, "the value of {key}");
            }
        }
    }
    // Deletes give the memory back, to the system too.
    let before = subject.resident();
    subject.delete_all();
    let returned = wait_for(Duration::from_secs(60), || subject.resident() <= before / 10);
    assert!(returned, "{} MiB of {} are still resident", subject.resident() / MIB, before / MIB);
    let Subject { server, keys, sql, .. } = subject;
    drop((keys, sql));
    server.stop();
}

#[test]
fn writes_beyond_the_bound_are_refused_and_change_nothing() {
    churn(false);
}

#[test]
fn rows_that_make_room_for_others_leave_no_memory_behind() {
    churn(true);
}
