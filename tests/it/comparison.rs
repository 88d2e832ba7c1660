//! A statement on two servers: what each of them answers, and whether that is the same answer.

use ashlar_tests::pg;

const NUMERIC: u32 = 1700;
const FLOAT4: u32 = 700;
const FLOAT8: u32 = 701;
const TEXT: u32 = 25;
const VARCHAR: u32 = 1043;

/// Digits of a quotient, a mean or a root that are compared; how many are shown is said to differ.
const DIGITS: usize = 14;

/// How a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
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
pub(crate) struct Answer {
    /// `None` where no rows come back.
    columns: Option<Vec<Column>>,
    rows: Vec<Vec<Option<String>>>,
    /// SQLSTATE and message.
    pub(crate) error: Option<(String, String)>,
    pub(crate) tag: Option<String>,
    /// The connection is in a transaction block now.
    pub(crate) in_block: bool,
}

impl Answer {
    /// Whether it is that this is not supported.
    pub(crate) fn is_refusal(&self) -> bool {
        self.error.as_ref().is_some_and(|(state, _)| state == "0A000")
    }

    /// How many rows have come.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// How this differs to the letter from what one server alone answers: types and modifiers of columns, trailing zeros and every digit, but
    /// for sums of floating-point numbers, which depend on the order of rows.
    pub(crate) fn departs_from(&self, alone: &Answer, sql: &str) -> Option<String> {
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
pub(crate) enum Verdict {
    Same,
    /// The other does not do what PostgreSQL does, and says so.
    Refused,
    /// How they differ.
    Different(String),
}

/// Sends a statement and reads all that is answered.
pub(crate) fn ask(client: &mut pg::Connection, sql: &str, protocol: Protocol) -> Answer {
    match protocol {
        Protocol::Simple => sent(client, sql, &pg::message(b'Q', &[sql.as_bytes(), b"\0"])),
        Protocol::Extended => ask_bound(client, sql, &[]),
    }
}

/// The same of a statement whose parameters have these values as text; `None` is NULL.
pub(crate) fn ask_bound(client: &mut pg::Connection, sql: &str, values: &[Option<&str>]) -> Answer {
    let count = i16::try_from(values.len()).unwrap().to_be_bytes();
    let mut given = Vec::new();
    for value in values {
        let length = value.map_or(-1, |value| i32::try_from(value.len()).unwrap());
        given.extend_from_slice(&length.to_be_bytes());
        given.extend_from_slice(value.unwrap_or_default().as_bytes());
    }
    let mut bytes = pg::message(b'P', &[b"\0", sql.as_bytes(), b"\0", &[0, 0]]);
    bytes.extend(pg::message(b'B', &[b"\0", b"\0", &[0, 0], &count, &given, &[0, 0]]));
    bytes.extend(pg::message(b'D', &[b"P\0"]));
    bytes.extend(pg::message(b'E', &[b"\0", &[0, 0, 0, 0]]));
    bytes.extend(pg::message(b'S', &[]));
    sent(client, sql, &bytes)
}

/// The same with values that are there: the rows that come back, each in one text, and the command tag, or SQLSTATE and message.
pub(crate) fn bound(client: &mut pg::Connection, sql: &str, values: &[&str]) -> Result<(Vec<String>, String), String> {
    let values: Vec<Option<&str>> = values.iter().copied().map(Some).collect();
    let answer = ask_bound(client, sql, &values);
    match answer.error {
        Some((state, message)) => Err(format!("{state} {message}")),
        None => {
            let row = |row: Vec<Option<String>>| row.into_iter().flatten().collect::<Vec<String>>().join(" ");
            Ok((answer.rows.into_iter().map(row).collect(), answer.tag.unwrap_or_default()))
        }
    }
}

/// Sends messages, the last of which asks for an answer, and reads all of it.
fn sent(client: &mut pg::Connection, sql: &str, bytes: &[u8]) -> Answer {
    client.send(bytes).unwrap_or_else(|error| panic!("{sql}\n{error:#}"));
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

/// Compares what one server alone answers with what the other does: rows, names and types of columns, command tag, SQLSTATE.
pub(crate) fn judge(sql: &str, alone: &Answer, other: &Answer) -> Verdict {
    match (&alone.error, &other.error) {
        (Some((expected, _)), Some((found, _))) if expected == found => return Verdict::Same,
        (_, Some((found, _))) if found == "0A000" => return Verdict::Refused,
        (None, None) => {}
        (expected, found) => return Verdict::Different(format!("error {found:?} instead of {expected:?}")),
    }
    let told = |answer: &Answer| answer.columns.iter().flatten().map(announced).collect::<Vec<_>>();
    let (expected, found) = (told(alone), told(other));
    if alone.columns.is_some() != other.columns.is_some() || expected != found {
        return Verdict::Different(format!("columns {found:?} instead of {expected:?}"));
    }
    if alone.tag != other.tag {
        return Verdict::Different(format!("tag {:?} instead of {:?}", other.tag, alone.tag));
    }
    let (expected, found) = (cells(alone, sql, canonical), cells(other, sql, canonical));
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
