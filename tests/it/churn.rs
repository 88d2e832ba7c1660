//! Hours of churn in a minute: more is written than there is room for, and the memory of the process stays what the server says that it holds.
//!
//! Keys of many sizes come, are written over, are deleted and end by themselves, while transactions hold snapshots and the compactor works;
//! beside them SQL writes a table with an index. `ASHLAR_CHURN_ROUNDS` sets how many rounds that goes on: some seconds each.

use std::collections::{BTreeMap, HashMap};
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
/// Where nothing else is said; fewer may not come near the bound.
const ROUNDS: u32 = 24;
/// On a slow machine more rows end by themselves meanwhile: then more rounds follow, up to so many times as many.
const LONGER: u32 = 4;
/// Writes that must have been refused, where rows make no room.
const REFUSED: u64 = 1_000;
/// How long something that is bound to happen may take.
const SOON: Duration = Duration::from_secs(120);
/// Pipelines of a round, and commands of a pipeline: few enough that their answers wait in the sockets while they are sent.
const PIPELINES: u32 = 50;
const COMMANDS: u32 = 200;

/// Ids of the table beside, and values of its column that has an index.
const SIDE_IDS: u64 = 20_000;
const SIDE_VALUES: u64 = 50;
/// Rows that a statement writes there.
const SIDE_ROWS: u64 = 500;
/// Pipelines for each such statement.
const PIPELINES_PER_STATEMENT: u32 = 5;

/// What the allocator has for itself, whatever is held.
const ALLOCATOR: u64 = 8 * MIB;

/// What may be resident of what is held: 15 % more.
fn with_slack(bytes: u64) -> u64 {
    bytes + bytes * 15 / 100 + ALLOCATOR
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

/// A table with an index that SQL writes, and what it should hold: `v` and the length of `note` by `id`.
struct Side {
    sql: Connection,
    twin: BTreeMap<u64, (u64, u64)>,
    statements: u64,
    refused: u64,
}

impl Side {
    fn start(server: &Ashlar) -> Side {
        let mut sql = server.connect();
        sql.query("CREATE TABLE side (id bigint PRIMARY KEY, v bigint NOT NULL, note text NOT NULL)").unwrap();
        sql.query("CREATE INDEX side_v ON side (v)").unwrap();
        Side { sql, twin: BTreeMap::new(), statements: 0, refused: 0 }
    }

    /// Whether the statement was carried out: it changes nothing where there is no room.
    fn runs(&mut self, statement: &str) -> bool {
        self.statements += 1;
        let Err(error) = self.sql.query(statement) else { return true };
        assert!(error.to_string().starts_with("53200"), "{statement}: {error}");
        self.refused += 1;
        false
    }

    fn put(&mut self, first: u64, v: u64, length: u64) {
        let ids = format!("generate_series({first}, {}) AS g(i)", first + SIDE_ROWS - 1);
        let rows = format!("SELECT i, (i + {v}) % {SIDE_VALUES}, repeat('x', {length}) FROM {ids}");
        let over = "ON CONFLICT (id) DO UPDATE SET v = excluded.v, note = excluded.note";
        if self.runs(&format!("INSERT INTO side {rows} {over}")) {
            self.twin.extend((first..first + SIDE_ROWS).map(|id| (id, ((id + v) % SIDE_VALUES, length))));
        }
    }

    fn raise(&mut self, v: u64) {
        if self.runs(&format!("UPDATE side SET v = v + 1 WHERE v = {v}")) {
            self.twin.values_mut().filter(|row| row.0 == v).for_each(|row| row.0 += 1);
        }
    }

    fn delete(&mut self, first: u64) {
        if self.runs(&format!("DELETE FROM side WHERE id >= {first} AND id < {}", first + SIDE_ROWS)) {
            self.twin.retain(|id, _| !(first..first + SIDE_ROWS).contains(id));
        }
    }

    fn write(&mut self, random: &mut Random) {
        let (first, v) = (random.below(SIDE_IDS), random.below(SIDE_VALUES));
        match random.below(4) {
            0 | 1 => self.put(first, v, random.below(600)),
            2 => self.raise(v),
            _ => self.delete(first),
        }
    }

    /// All rows, and those of one value, which the index finds.
    fn check(&mut self, v: u64) {
        let text = |numbers: [u64; 3]| numbers.map(|number| Some(number.to_string())).to_vec();
        let among = |condition: &str| {
            let figures = "count(*), coalesce(sum(v), 0), coalesce(sum(octet_length(note)), 0)";
            format!("SELECT {figures} FROM side WHERE {condition}")
        };
        for (condition, is_among) in [("id >= 0".to_owned(), None), (format!("v = {v}"), Some(v))] {
            let rows = self.twin.values().filter(|row| is_among.is_none_or(|v| row.0 == v));
            let sums = rows.fold([0; 3], |[count, vs, lengths], (v, length)| [count + 1, vs + v, lengths + length]);
            assert_eq!(self.sql.query(&among(&condition)).unwrap(), [text(sums)], "{condition}");
        }
    }
}

/// A server, and what its keys should hold.
struct Subject {
    server: Ashlar,
    keys: Client,
    sql: Connection,
    side: Side,
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
        let (keys, sql, side) = (Client::connect(server.resp()).unwrap(), server.connect(), Side::start(&server));
        let random = Random::from_environment();
        let (twin, base, written, refused) = (HashMap::new(), 0, 0, 0);
        let mut subject = Subject { server, keys, sql, side, random, twin, evicts, base, written, refused };
        if evicts {
            subject.sql.query("ALTER TABLE kv SET (eviction = 'lru')").unwrap();
        }
        // What the first statements need is not taken for rows.
        subject.picture();
        subject.side.put(0, 0, 10);
        subject.side.raise(0);
        subject.side.check(1);
        subject.side.delete(0);
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

    /// Ends the transaction that has seen this, and sees it still.
    fn end_picture(&mut self, seen: &mut Option<Vec<Vec<Option<String>>>>) {
        if let Some(seen) = seen.take() {
            assert_eq!(self.picture(), seen);
            self.sql.query("COMMIT").unwrap();
        }
    }

    /// Waits until what is resident is what is held: the allocator keeps for a while what was given up.
    fn settle(&mut self, round: u32) {
        let settled = wait_for(SOON, || {
            let held = self.held();
            self.resident() <= with_slack(held)
        });
        let (held, resident) = (self.held(), self.resident());
        eprintln!("settled: {} KiB held, {} KiB resident", held / 1024, resident / 1024);
        assert!(settled, "{} MiB are resident for {} MiB in round {round}", resident / MIB, held / MIB);
    }

    /// Deletes every key and row, and waits until the memory has come back.
    fn delete_all(&mut self) {
        for first in (0..2 * KEYS).step_by(1000) {
            let commands: Vec<_> = (first..first + 1000).map(|key| words(&[b"DEL", &name(key)])).collect();
            for reply in self.keys.pipeline(&commands).unwrap() {
                assert!(matches!(reply, Reply::Integer(_)), "{reply:?}");
            }
        }
        self.twin.clear();
        // Many rows at once: what the keys had has to come back before.
        let deleted = wait_for(SOON, || self.side.runs("DELETE FROM side"));
        assert!(deleted, "a delete is refused in a server without keys");
        assert_eq!(self.picture()[0][0].as_deref(), Some("0"));
        let gone = wait_for(SOON, || self.held() < MIB);
        assert!(gone, "{} bytes are held for no rows", self.held());
    }
}

fn churn(evicts: bool) {
    let rounds = std::env::var("ASHLAR_CHURN_ROUNDS");
    let rounds = rounds.map_or(ROUNDS, |rounds| rounds.parse().expect("ASHLAR_CHURN_ROUNDS is a number"));
    let mut subject = Subject::start(evicts);
    let (mut seen, mut most, mut settled) = (None, 0, 0);
    for round in 0..LONGER * rounds {
        let has_reached_all = most > MAX * 3 / 4 && settled >= rounds / 2 && (evicts || subject.refused > REFUSED);
        if round >= rounds && has_reached_all {
            break;
        }
        // A transaction sees what it has seen, whatever becomes of the rows meanwhile.
        match round % 6 {
            1 => {
                subject.sql.query("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
                seen = Some(subject.picture());
            }
            3 => subject.end_picture(&mut seen),
            _ => {}
        }
        for pipeline in 0..PIPELINES {
            subject.pipeline();
            if pipeline % PIPELINES_PER_STATEMENT == 0 {
                subject.side.write(&mut subject.random);
            }
        }
        subject.side.check(u64::from(round) % SIDE_VALUES);
        let (held, resident) = (subject.held(), subject.resident());
        eprintln!("round {round}: {} MiB held, {} MiB resident", held / MIB, resident / MIB);
        assert!(held <= MAX + MAX / 50, "{held} bytes are held");
        assert!(resident <= with_slack(MAX) + FREED, "{} MiB are resident in round {round}", resident / MIB);
        most = most.max(held);
        // A share of little is less than what differs from one start of a process to the next.
        if held > MAX / 3 {
            subject.settle(round);
            settled += 1;
        }
    }
    subject.end_picture(&mut seen);
    assert!(settled >= rounds / 2, "memory was compared in {settled} of {rounds} rounds only");
    assert!(most > MAX * 3 / 4, "the bound was not come near: {most}");
    eprintln!("{} values were written, {} of them refused", subject.written, subject.refused);
    eprintln!("{} statements were run, {} of them refused", subject.side.statements, subject.side.refused);
    if !evicts {
        assert!(subject.refused > REFUSED, "{} writes were refused", subject.refused);
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
    let returned = wait_for(SOON, || subject.resident() <= before / 10);
    assert!(returned, "{} MiB of {} are still resident", subject.resident() / MIB, before / MIB);
    let Subject { server, keys, sql, side, .. } = subject;
    drop((keys, sql, side));
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
