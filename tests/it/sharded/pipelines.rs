//! Pipelines of the extended protocol, message by message: what a client is answered over a fleet is what one PostgreSQL answers, whatever
//! goes ahead of its answer meanwhile, with errors in the midst of it and bytes that come in pieces.

use std::time::Instant;

use ashlar_tests::pg::{Connection, Cursor, Message, message};

use super::bank::Bank;
use super::done;
use super::twins::Twins;

const TABLES: &[(&str, &str, Option<&str>)] = &[("t", "k bigint PRIMARY KEY, g int, v text", Some("k"))];

/// Names, texts and how many parameters they have: `k`, a number, a text.
const STATEMENTS: &[(&str, &str, usize)] = &[
    ("read", "SELECT k, g, v FROM t WHERE k = $1", 1),
    ("add", "UPDATE t SET g = g + $2 WHERE k = $1", 2),
    ("put", "INSERT INTO t VALUES ($1, $2, $3) RETURNING g, v", 3),
    ("drop", "DELETE FROM t WHERE k = $1", 1),
    // The divisor takes a row: PostgreSQL divides constants when it plans, and so for no row too, in those connections whose plans are
    // made for the values.
    ("divide", "UPDATE t SET g = 100 / ($2 + g - g) WHERE k = $1", 2),
    ("many", "SELECT count(*) FROM t WHERE g > $1", 1),
    ("begin", "BEGIN", 0),
    ("commit", "COMMIT", 0),
    ("rollback", "ROLLBACK", 0),
    ("save", "SAVEPOINT s", 0),
    ("back", "ROLLBACK TO s", 0),
];

/// Keys of rows.
const KEYS: u64 = 60;

/// A generator of numbers (Knuth's constants), so that what fails once fails again.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

pub(super) fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', &[name.as_bytes(), b"\0", sql.as_bytes(), b"\0", &[0, 0]])
}

/// Values as text, and results as text.
pub(super) fn bind(portal: &str, name: &str, values: &[String]) -> Vec<u8> {
    let mut tail = vec![0, 0];
    tail.extend_from_slice(&(values.len() as i16).to_be_bytes());
    for value in values {
        tail.extend_from_slice(&(value.len() as i32).to_be_bytes());
        tail.extend_from_slice(value.as_bytes());
    }
    tail.extend_from_slice(&[0, 0]);
    message(b'B', &[portal.as_bytes(), b"\0", name.as_bytes(), b"\0", &tail])
}

fn about_portal(kind: u8, portal: &str) -> Vec<u8> {
    message(kind, &[b"P", portal.as_bytes(), b"\0"])
}

pub(super) fn execute(portal: &str, rows_max: i32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), b"\0", &rows_max.to_be_bytes()])
}

/// One round: what a client sends up to its Sync, with what it is about.
fn round(numbers: &mut Numbers, key: &mut u64, status: u8) -> (Vec<u8>, Vec<String>) {
    let (mut bytes, mut told) = (Vec::new(), Vec::new());
    // Runs of statements about the same rows, as applications have them.
    if numbers.below(3) == 0 {
        *key = 1 + numbers.below(KEYS);
    }
    let first = match status {
        b'E' if numbers.below(8) > 0 => Some("rollback"),
        b'I' if numbers.below(2) == 0 => Some("begin"),
        b'T' if numbers.below(3) == 0 => Some("commit"),
        _ => None,
    };
    if let Some(first) = first {
        told.push(first.to_owned());
        bytes.extend(bind("", first, &[]));
        bytes.extend(execute("", 0));
    }
    for _ in 0..1 + numbers.below(12) {
        let (name, _, parameters) = match numbers.below(8) {
            0 => numbers.pick(STATEMENTS),
            _ => numbers.pick(&STATEMENTS[..5]),
        };
        let key = if name == &"put" || numbers.below(12) == 0 { 1 + numbers.below(KEYS) } else { *key };
        // A few of them divide by zero.
        let values = [key.to_string(), numbers.below(40).to_string(), format!("text {}", numbers.below(100))];
        let values = &values[..*parameters];
        let portal = if numbers.below(10) == 0 { "named" } else { "" };
        told.push(format!("{name} {values:?} {portal}"));
        bytes.extend(bind(portal, name, values));
        if numbers.below(4) == 0 {
            // Now and then more than is kept to be told later.
            let times = if numbers.below(100) == 0 { 1000 } else { 1 };
            told.push(format!("describe {times} times"));
            bytes.extend(about_portal(b'D', portal).repeat(times));
        }
        bytes.extend(execute(portal, 0));
        match numbers.below(20) {
            0 => {
                told.push("again".to_owned());
                bytes.extend(execute(portal, 0));
            }
            1 => {
                told.push("describe afterwards".to_owned());
                bytes.extend(about_portal(b'D', portal));
            }
            2 => {
                told.push("flush".to_owned());
                bytes.extend(message(b'H', &[]));
            }
            _ => {}
        }
        if portal == "named" {
            bytes.extend(about_portal(b'C', portal));
        }
    }
    bytes.extend(message(b'S', &[]));
    (bytes, told)
}

/// What one answers up to ReadyForQuery, without what each server has of its own.
fn answers(connection: &mut Connection) -> Vec<(char, Vec<u8>)> {
    let mut answers = Vec::new();
    loop {
        let message = connection.read().unwrap();
        let kind = message.kind;
        match kind {
            b'S' => {}
            b'N' => answers.push(('N', message.field(b'C').unwrap_or_default().into_bytes())),
            b'E' => {
                // Whether it came at Bind or at Execute is each server's own affair.
                while answers.last().is_some_and(|(kind, _)| matches!(kind, '2' | 'T' | 'n')) {
                    answers.pop();
                }
                answers.push(('E', message.field(b'C').unwrap_or_default().into_bytes()));
            }
            b'T' => answers.push(('T', names(&message).join(" ").into_bytes())),
            _ => answers.push((kind as char, message.body)),
        }
        if kind == b'Z' {
            return answers;
        }
    }
}

fn names(description: &Message) -> Vec<String> {
    let mut body = Cursor(&description.body);
    let count = body.i16();
    let column = |_| {
        let name = body.string();
        body.bytes(18);
        name
    };
    (0..count).map(column).collect()
}

fn ask(connection: &mut Connection, bytes: &[u8]) -> Vec<(char, Vec<u8>)> {
    connection.send(bytes).unwrap();
    answers(connection)
}

fn has_failed(answers: &[(char, Vec<u8>)]) -> bool {
    answers.iter().any(|(kind, _)| *kind == 'E')
}

/// Twins that know the statements, and do this for each row that is changed.
fn twins(at_update: &str) -> Twins {
    let mut twins = Twins::start(2, TABLES);
    let trigger = format!(
        "CREATE FUNCTION at_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {at_update}; RETURN NEW; END $$; \
         CREATE TRIGGER at_update BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION at_update()"
    );
    (0..2).for_each(|shard| done(&mut twins.fleet.shard(shard), &trigger));
    done(&mut twins.alone, &trigger);
    let mut setup: Vec<u8> = STATEMENTS.iter().flat_map(|(name, sql, _)| parse(name, sql)).collect();
    setup.extend(message(b'S', &[]));
    for connection in [&mut twins.client, &mut twins.alone] {
        assert!(!has_failed(&ask(connection, &setup)));
    }
    twins
}

/// So many changes of one row, up to Sync.
fn changes(count: usize) -> Vec<u8> {
    let values = [1, 1].map(|value: i32| value.to_string());
    let mut bytes = [bind("", "add", &values), execute("", 0)].concat().repeat(count);
    bytes.extend(message(b'S', &[]));
    bytes
}

/// Begins a block that has changed the row, so that its connection to the shard knows how.
fn begin(connection: &mut Connection) {
    done(connection, "INSERT INTO t VALUES (1, 0, 'v')");
    done(connection, "BEGIN");
    assert!(!has_failed(&ask(connection, &changes(1))));
}

#[test]
fn pipelines_are_answered_as_by_one_server() {
    let mut twins = twins("RAISE NOTICE '%', NEW.k");
    let (mut numbers, mut key) = (Numbers(7), 1);
    let (mut failed, mut in_blocks, mut status) = (0, 0, b'I');
    for number in 0..1500 {
        let (bytes, told) = round(&mut numbers, &mut key, status);
        // In two pieces now and then: what a server has of a pipeline is what has come.
        let cut = if numbers.below(4) == 0 { numbers.below(bytes.len() as u64) as usize } else { bytes.len() };
        let [ours, theirs] = [&mut twins.client, &mut twins.alone].map(|connection| {
            connection.send(&bytes[..cut]).unwrap();
            connection.send(&bytes[cut..]).unwrap();
            answers(connection)
        });
        assert_eq!(ours, theirs, "round {number}: {told:#?}");
        failed += usize::from(has_failed(&ours));
        status = ours.last().map_or(b'I', |(_, body)| body[0]);
        in_blocks += usize::from(status == b'T');
    }
    assert!((100..1200).contains(&failed) && in_blocks > 200, "{failed} rounds with errors, {in_blocks} in blocks");
    let all = "SELECT k, g, v FROM t ORDER BY k";
    for connection in [&mut twins.client, &mut twins.alone] {
        let _ = connection.query("ROLLBACK");
    }
    assert_eq!(twins.client.query(all).unwrap(), twins.alone.query(all).unwrap());
}

#[test]
fn what_is_said_beside_answers_comes_with_them_however_much_it_is() {
    let mut twins = twins("RAISE NOTICE '%', NEW.k");
    begin(&mut twins.client);
    begin(&mut twins.alone);
    for (least, expected) in [("notice", 250), ("warning", 0)] {
        let [ours, theirs] = [&mut twins.client, &mut twins.alone].map(|connection| {
            done(connection, &format!("SET client_min_messages = '{least}'"));
            ask(connection, &changes(250))
        });
        assert_eq!(ours, theirs, "{least}");
        assert_eq!(ours.iter().filter(|(kind, _)| *kind == 'N').count(), expected, "{least}");
    }
}

#[test]
fn each_statement_of_a_pipeline_has_its_own_time() {
    let mut twins = twins("PERFORM pg_sleep(0.05)");
    let [ours, theirs] = [&mut twins.client, &mut twins.alone].map(|connection| {
        begin(connection);
        done(connection, "SET statement_timeout = '2s'");
        ask(connection, &changes(50))
    });
    assert!(!has_failed(&theirs), "{theirs:?}");
    assert_eq!(ours, theirs);
}

#[test]
fn statements_that_are_sent_together_cost_no_more_than_they_took() {
    let mut twins = twins("NULL");
    begin(&mut twins.client);
    let mut other = twins.fleet.client();
    let mut cost = || {
        let cost = other.value("SELECT sum(time_us) FROM ashlar.routes WHERE tables = 't' AND route = 'one shard'");
        cost.unwrap().parse::<u128>().unwrap()
    };
    let (before, started) = (cost(), Instant::now());
    assert!(!has_failed(&ask(&mut twins.client, &changes(200))));
    let took = started.elapsed().as_micros();
    let counted = cost() - before;
    assert!((1..=took).contains(&counted), "{counted} us of {took}");
}

#[test]
fn a_shard_that_leaves_out_an_answer_is_lost() {
    let bank = Bank::open(2);
    let mut client = bank.member.ashlar.connect();
    let values = [bank.keys[0], 1].map(|value: i64| value.to_string());
    let changes = |count: usize| {
        let mut bytes = [bind("", "change", &values), execute("", 0)].concat().repeat(count);
        bytes.extend(message(b'S', &[]));
        bytes
    };
    let mut setup = parse("change", "UPDATE bank SET v = v + $2 WHERE k = $1");
    setup.extend(message(b'S', &[]));
    assert!(!has_failed(&ask(&mut client, &setup)));
    let before = bank.worth();
    done(&mut client, "BEGIN");
    assert!(!has_failed(&ask(&mut client, &changes(1))));
    // The first of three: what comes is taken for the answers to it and to the second.
    bank.member.wire.lose("UPDATE 1");
    let answers = ask(&mut client, &changes(3));
    assert_eq!(answers.iter().filter(|(kind, _)| *kind == 'C').count(), 2, "{answers:?}");
    let end = [('E', b"08P01".to_vec()), ('Z', b"E".to_vec())];
    assert_eq!(answers[answers.len() - 2..], end, "{answers:?}");
    // Nothing of that block is left, and the next one has a connection that answers.
    done(&mut client, "COMMIT");
    assert_eq!(bank.worth(), before);
    done(&mut client, "BEGIN");
    let answers = [ask(&mut client, &changes(1)), ask(&mut client, &changes(3))].concat();
    assert_eq!(answers.iter().filter(|(kind, _)| *kind == 'C').count(), 4, "{answers:?}");
    done(&mut client, "ROLLBACK");
    bank.check();
    bank.member.ashlar.check_log();
}
