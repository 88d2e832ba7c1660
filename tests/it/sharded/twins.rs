//! The same statements on a fleet and on one PostgreSQL: what each of them answers, and whether that is the same answer.

use ashlar_tests::{Ashlar, Postgres, pg};

use super::slt::{is_of_kind, kinds_of_refusals};
use super::{Fleet, done, start};

const NUMERIC: u32 = 1700;
const FLOAT4: u32 = 700;
const FLOAT8: u32 = 701;
const TEXT: u32 = 25;
const VARCHAR: u32 = 1043;

/// Digits of a quotient, a mean or a root that are compared; how many are shown is said to differ.
const DIGITS: usize = 14;

/// How a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Simple,
    Extended,
}

/// A column as a server announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    oid: u32,
    /// Length, precision and scale, as the type has it; -1 for none.
    modifier: i32,
}

/// What a server has answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// `None` where no rows come back.
    columns: Option<Vec<Column>>,
    rows: Vec<Vec<Option<String>>>,
    /// SQLSTATE and message.
    pub(super) error: Option<(String, String)>,
    pub(super) tag: Option<String>,
    /// The connection is in a transaction block now.
    pub(super) in_block: bool,
}

impl Answer {
    /// Whether it is that this is not supported.
    pub(super) fn is_refusal(&self) -> bool {
        self.error.as_ref().is_some_and(|(state, _)| state == "0A000")
    }

    /// How this differs to the letter from what one server alone answers: types and modifiers of columns, trailing zeros and every digit, but
    /// for sums of floating-point numbers, which depend on the order of rows.
    pub(super) fn departs_from(&self, alone: &Answer, sql: &str) -> Option<String> {
        // How much is sent before an error is each server's own affair.
        if self.error.is_some() {
            return None;
        }
        if self.columns != alone.columns {
            return Some(format!("columns {:?} instead of {:?}", self.columns, alone.columns));
        }
        let written =
            |oid, text: &str| if [FLOAT4, FLOAT8].contains(&oid) { canonical(oid, text) } else { text.to_owned() };
        let (expected, found) = (cells(alone, sql, written), cells(self, sql, written));
        let (found, expected) = found.into_iter().zip(expected).find(|(found, expected)| found != expected)?;
        Some(format!("row {found:?} instead of {expected:?}"))
    }
}

/// The rows of an answer with their values so written, sorted where the statement says nothing of their order.
fn cells(answer: &Answer, sql: &str, written: impl Fn(u32, &str) -> String) -> Vec<Vec<Option<String>>> {
    let types: Vec<u32> = answer.columns.iter().flatten().map(|column| column.oid).collect();
    let row = |row: &Vec<Option<String>>| {
        let cells = row.iter().zip(&types);
        cells.map(|(cell, oid)| cell.as_ref().map(|cell| written(*oid, cell))).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = answer.rows.iter().map(row).collect();
    if !is_ordered(sql) {
        rows.sort();
    }
    rows
}

/// What two answers have in common.
#[derive(Debug)]
pub(super) enum Verdict {
    Same,
    /// The fleet does not do what one server does, and says so.
    Refused,
    /// How they differ.
    Different(String),
}

/// A fleet and one PostgreSQL with the same tables, and a client of each.
pub(super) struct Twins {
    pub(super) fleet: Fleet,
    /// Of the fleet.
    pub(super) client: pg::Connection,
    /// Of the one.
    pub(super) alone: pg::Connection,
    _oracle: Postgres,
}

impl Twins {
    /// So many shards, and tables: name, columns, and what they are sharded by; `None` is in memory.
    pub(super) fn start(shards: usize, tables: &[(&str, &str, Option<&str>)]) -> Twins {
        let mut fleet = Fleet::start(shards);
        fleet.ashlar.expect_log(&["a plan was refused"]);
        let oracle = Postgres::start().unwrap();
        let mut alone = pg::Connection::connect(oracle.address()).unwrap();
        let mut client = fleet.client();
        for (name, columns, key) in tables {
            done(&mut alone, &format!("CREATE TABLE {name} ({columns})"));
            let by = key.map_or_else(String::new, |key| fleet.by(key));
            done(&mut client, &format!("CREATE TABLE {name} ({columns}) {by}"));
        }
        Twins { fleet, client, alone, _oracle: oracle }
    }

    /// A statement that both must carry out.
    pub(super) fn done(&mut self, sql: &str) {
        done(&mut self.alone, sql);
        done(&mut self.client, sql);
    }

    /// A statement on both: how the answers differ.
    pub(super) fn ask(&mut self, sql: &str, protocol: Protocol) -> Option<String> {
        let (expected, found) = (ask(&mut self.alone, sql, protocol), ask(&mut self.client, sql, protocol));
        let how = match judge(sql, &expected, &found) {
            Verdict::Same if found.in_block != expected.in_block => "one of both is in a block".to_owned(),
            Verdict::Same => return None,
            Verdict::Refused => format!("refused: {:?}", found.error),
            Verdict::Different(how) => how,
        };
        Some(format!("{how}\n{sql}"))
    }

    /// Blocks of statements, each of which begins with the rows that the ones before have left: every answer must be the same.
    pub(super) fn agree(mut self, blocks: &[&[&str]], protocol: Protocol) {
        let mut wrong: Vec<String> = Vec::new();
        for block in blocks {
            for (at, sql) in block.iter().enumerate() {
                let before = || block[..at].join("; ");
                wrong.extend(self.ask(sql, protocol).map(|how| format!("{how}\nafter {}", before())));
            }
            for client in [&mut self.alone, &mut self.client] {
                ask(client, "ROLLBACK", Protocol::Simple);
            }
        }
        crate::slt::report(&wrong);
        self.fleet.ashlar.check_log();
    }
}

/// What a fleet has refused, held to docs/reference/sharding.md: each message is listed there, or tables of a server without shards are
/// refused the same.
pub(super) struct Refusals {
    kinds: Vec<String>,
    /// Of the server without shards, which has the same tables.
    home: pg::Connection,
    /// Message and statement.
    pub(super) told: Vec<String>,
    /// Those that are not on the page.
    unlisted: Vec<String>,
    _server: Ashlar,
}

impl Refusals {
    /// None yet. `tables`: what makes them.
    pub(super) fn of(tables: impl IntoIterator<Item = String>) -> Refusals {
        let mut server = start("");
        server.expect_log(&["a plan was refused"]);
        let mut home = server.connect();
        tables.into_iter().for_each(|sql| done(&mut home, &sql));
        Refusals { kinds: kinds_of_refusals(), home, told: Vec::new(), unlisted: Vec::new(), _server: server }
    }

    /// Notes what a fleet has refused.
    pub(super) fn note(&mut self, sql: &str, protocol: Protocol, found: &Answer) {
        let (_, message) = found.error.as_ref().expect("a refusal is an error");
        let told = format!("{message}: {sql}");
        let is_listed = self.kinds.iter().any(|kind| is_of_kind(message, kind));
        if !is_listed && !ask(&mut self.home, sql, protocol).is_refusal() {
            self.unlisted.push(told.clone());
        }
        self.told.push(told);
    }

    /// Fails where something is refused of shards alone, and the page does not say so.
    pub(super) fn check(&self) {
        let unlisted = self.unlisted.join("\n");
        assert!(unlisted.is_empty(), "refused, and docs/reference/sharding.md does not say so:\n{unlisted}");
    }
}

/// Runs a statement with parameters in text form: the rows that come back and the command tag, or SQLSTATE and message.
pub(super) fn bound(client: &mut pg::Connection, sql: &str, values: &[&str]) -> Result<(Vec<String>, String), String> {
    let count = i16::try_from(values.len()).unwrap().to_be_bytes();
    let mut given = Vec::new();
    for value in values {
        given.extend_from_slice(&i32::try_from(value.len()).unwrap().to_be_bytes());
        given.extend_from_slice(value.as_bytes());
    }
    let mut bytes = pg::message(b'P', &[b"\0", sql.as_bytes(), b"\0", &[0, 0]]);
    bytes.extend(pg::message(b'B', &[b"\0", b"\0", &[0, 0], &count, &given, &[0, 0]]));
    bytes.extend(pg::message(b'D', &[b"P\0"]));
    bytes.extend(pg::message(b'E', &[b"\0", &[0, 0, 0, 0]]));
    bytes.extend(pg::message(b'S', &[]));
    client.send(&bytes).unwrap();
    let (mut rows, mut tag, mut error) = (Vec::new(), String::new(), None);
    loop {
        let message = client.read().unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
        match message.kind {
            b'D' => rows.push(message.row().into_iter().flatten().collect::<Vec<String>>().join(" ")),
            b'C' => tag = String::from_utf8_lossy(&message.body).trim_end_matches('\0').to_owned(),
            b'E' => {
                let fields = [b'C', b'M'].into_iter().filter_map(|field| message.field(field));
                error.get_or_insert(fields.collect::<Vec<_>>().join(" "));
            }
            b'Z' => return error.map_or(Ok((rows, tag)), Err),
            _ => {}
        }
    }
}

/// Sends a statement and reads all that is answered.
pub(super) fn ask(client: &mut pg::Connection, sql: &str, protocol: Protocol) -> Answer {
    let mut bytes = Vec::new();
    match protocol {
        Protocol::Simple => bytes.extend(pg::message(b'Q', &[sql.as_bytes(), b"\0"])),
        Protocol::Extended => {
            bytes.extend(pg::message(b'P', &[b"\0", sql.as_bytes(), b"\0", &[0, 0]]));
            bytes.extend(pg::message(b'B', &[b"\0", b"\0", &[0, 0], &[0, 0], &[0, 0]]));
            bytes.extend(pg::message(b'D', &[b"P\0"]));
            bytes.extend(pg::message(b'E', &[b"\0", &[0, 0, 0, 0]]));
            bytes.extend(pg::message(b'S', &[]));
        }
    }
    client.send(&bytes).unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
    let mut answer = Answer::default();
    loop {
        let message = client.read().unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
        match message.kind {
            b'T' => {
                let mut body = pg::Cursor(&message.body);
                let count = body.i16();
                let column = |_| {
                    let name = body.string();
                    // Table and column number before the type; behind it its length, and behind the modifier the format.
                    body.bytes(6);
                    let oid = body.i32() as u32;
                    body.bytes(2);
                    let modifier = body.i32();
                    body.bytes(2);
                    Column { name, oid, modifier }
                };
                answer.columns = Some((0..count).map(column).collect());
            }
            b'D' => answer.rows.push(message.row()),
            b'C' => answer.tag = Some(String::from_utf8_lossy(&message.body).trim_end_matches('\0').to_owned()),
            b'E' if answer.error.is_none() => {
                let field = |name| message.field(name).unwrap_or_default();
                answer.error = Some((field(b'C'), field(b'M')));
            }
            b'Z' => {
                answer.in_block = message.body != b"I";
                return answer;
            }
            _ => {}
        }
    }
}

/// Compares what one server alone answers with what a fleet does: rows, names and types of columns, command tag, SQLSTATE.
pub(super) fn judge(sql: &str, alone: &Answer, fleet: &Answer) -> Verdict {
    match (&alone.error, &fleet.error) {
        (Some((expected, _)), Some((found, _))) if expected == found => return Verdict::Same,
        (_, Some((found, _))) if found == "0A000" => return Verdict::Refused,
        (None, None) => {}
        (expected, found) => return Verdict::Different(format!("error {found:?} instead of {expected:?}")),
    }
    let told = |answer: &Answer| answer.columns.iter().flatten().map(announced).collect::<Vec<_>>();
    let (expected, found) = (told(alone), told(fleet));
    if alone.columns.is_some() != fleet.columns.is_some() || expected != found {
        return Verdict::Different(format!("columns {found:?} instead of {expected:?}"));
    }
    if alone.tag != fleet.tag {
        return Verdict::Different(format!("tag {:?} instead of {:?}", fleet.tag, alone.tag));
    }
    let (expected, found) = (cells(alone, sql, canonical), cells(fleet, sql, canonical));
    if expected.len() != found.len() {
        return Verdict::Different(format!("{} rows instead of {}", found.len(), expected.len()));
    }
    match found.iter().zip(&expected).find(|(found, expected)| found != expected) {
        None => Verdict::Same,
        Some((found, expected)) => Verdict::Different(format!("row {found:?} instead of {expected:?}")),
    }
}

/// A column as it is announced, but for what docs/reference/sql-differences.md says of the two text types.
fn announced(column: &Column) -> (String, u32) {
    (column.name.clone(), if column.oid == VARCHAR { TEXT } else { column.oid })
}

/// A value with what is known to differ left out: trailing zeros of numerics and their digits beyond some, and what floats lose
/// when they are added in another order.
fn canonical(oid: u32, text: &str) -> String {
    match oid {
        NUMERIC => canonical_numeric(text),
        FLOAT4 => text.parse::<f32>().map_or_else(|_| text.to_owned(), |value| format!("{value:.5e}")),
        FLOAT8 => text.parse::<f64>().map_or_else(|_| text.to_owned(), |value| format!("{value:.12e}")),
        _ => text.to_owned(),
    }
}

fn canonical_numeric(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut all: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
    let mut point = whole.len();
    let leading = all.iter().take_while(|digit| **digit == 0).count();
    // Only what has so many broken digits was divided or rooted.
    if fraction.trim_end_matches('0').len() >= DIGITS && all.len() - leading > DIGITS {
        let keep = leading + DIGITS;
        let rounds_up = all[keep] >= 5;
        all[keep..].fill(0);
        if rounds_up {
            let mut at = keep;
            loop {
                if at == 0 {
                    all.insert(0, 1);
                    point += 1;
                    break;
                }
                at -= 1;
                if all[at] == 9 {
                    all[at] = 0;
                } else {
                    all[at] += 1;
                    break;
                }
            }
        }
    }
    let digits = |part: &[u8]| part.iter().map(|digit| char::from(b'0' + digit)).collect::<String>();
    let (whole, fraction) = (digits(&all[..point]), digits(&all[point..]));
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    match (whole, fraction) {
        ("", "") => "0".to_owned(),
        (_, "") => format!("{sign}{whole}"),
        ("", _) => format!("{sign}0.{fraction}"),
        _ => format!("{sign}{whole}.{fraction}"),
    }
}

/// Whether the statement itself says in which order its rows come: an ORDER BY that is in no parentheses.
fn is_ordered(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    lower.rfind("order by").is_some_and(|at| {
        let mut depth = 0;
        lower[at..].bytes().all(|byte| {
            match byte {
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            depth >= 0
        })
    })
}

#[test]
fn what_is_left_out_of_a_comparison_is_what_is_said_to_differ() {
    for (text, expected) in [
        ("1.50", "1.5"),
        ("-0.00", "0"),
        ("100", "100"),
        ("0.70710678118654752440", "0.70710678118655"),
        ("0.7071067811865475", "0.70710678118655"),
        ("2.66666666666666666667", "2.6666666666667"),
        ("9.99999999999999999", "10"),
        ("12345678901234567.25", "12345678901234567.25"),
        ("NaN", "NaN"),
    ] {
        assert_eq!(canonical_numeric(text), expected, "{text}");
    }
    let answer = |oid, modifier, value: &str| Answer {
        columns: Some(vec![Column { name: "n".to_owned(), oid, modifier }]),
        rows: vec![vec![Some(value.to_owned())]],
        ..Answer::default()
    };
    let alone = answer(NUMERIC, -1, "1.50");
    for (found, is_told) in [
        (answer(NUMERIC, -1, "1.50"), false),
        (answer(NUMERIC, -1, "1.5"), true),
        (answer(NUMERIC, 786_438, "1.50"), true),
        (answer(TEXT, -1, "1.50"), true),
    ] {
        assert_eq!(found.departs_from(&alone, "SELECT n FROM t").is_some(), is_told, "{found:?}");
    }
    assert_ne!(canonical_numeric("0.1234567890123"), canonical_numeric("0.1234567890124"));
    assert!(is_ordered("SELECT a FROM t ORDER BY a LIMIT (1 + 1)"));
    assert!(!is_ordered("SELECT array_agg(a ORDER BY a) FROM t"));
    assert!(!is_ordered("SELECT a FROM (SELECT a FROM t ORDER BY a) x"));
}
