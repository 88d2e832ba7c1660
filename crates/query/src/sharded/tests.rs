//! Texts that are sent to a shard without being parsed, beside the same texts parsed: random statements with random constants of every
//! kind, each looked up after others of its shape were seen.

use std::borrow::Cow;
use std::ops::Range;

use ashlar_base::value::text::TextStyle;
use ashlar_shard::route::{Decision, Request, Sent, Shared, Source, route};

use crate::grammar::{self, ParsedStatement};
use crate::lift::{self, Lifting, Shape};

#[path = "../../../shard/src/route/tests/world.rs"]
mod world;

use world::World;

const STATEMENTS: u64 = 3000;
/// Texts of a statement, each with constants of its own.
const TEXTS: usize = 8;

/// What is kept of a text for others.
struct Kept {
    key: String,
    lifting: Lifting,
    shared: Shared,
}

fn source(parsed: &ParsedStatement) -> Source<'_> {
    Source { text: &parsed.text, offset: parsed.offset, node: &parsed.node }
}

/// The only statement of a text; `None` where the parser refuses it.
fn parsed(sql: &str) -> Option<ParsedStatement> {
    let mut parsed = grammar::parse(sql).ok()?;
    if parsed.len() == 1 { parsed.pop() } else { None }
}

/// Analyses a text for others of its shape, as a session does.
fn keep(world: &World, parsed: &ParsedStatement, shape: &Shape<'_>) -> Option<Kept> {
    let made = route(&source(parsed), world).ok()??;
    let places: Vec<Range<usize>> = (0..shape.constants.len()).filter_map(|number| shape.place(number)).collect();
    let (shared, uses) = made.share(&source(parsed), shape.sql, &places, world)?;
    Some(Kept { key: shape.key.clone(), lifting: Lifting::of_shards(shape, &uses)?, shared })
}

/// What is sent for a text without parsing it.
fn sent(kept: &Kept, shape: &Shape<'_>) -> Option<Sent> {
    if kept.key != shape.key {
        return None;
    }
    kept.lifting.values(&shape.constants, &[], &TextStyle::default())?;
    let place = |number: usize| shape.place(number);
    kept.shared.sent(shape.sql, &place, kept.shared.shard(shape.sql, &place)?)
}

/// Parsing and analysing a text says what was found without.
fn assert_same(world: &World, parsed: &ParsedStatement, sent: &Sent) {
    let sql = &parsed.text;
    let made = route(&source(parsed), world).unwrap_or_else(|error| panic!("{sql}: {error:?}")).unwrap();
    let decision = made.decide(&Request::default()).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let Decision::Forward(anew) = &decision else { panic!("{sql}: {sent:?}, but {decision:?}") };
    let forward = sent.forward();
    assert_eq!(forward.statements, anew.statements, "{sql}");
    assert_eq!((&forward.merge, forward.outcome), (&anew.merge, anew.outcome), "{sql}");
    assert_eq!(sent.is_as_sent(), matches!(anew.statements[0].text, Cow::Borrowed(_)), "{sql}");
    assert_eq!((&*sent.text, sent.written()), (&**sql, &*anew.statements[0].text));
}

/// A small generator of numbers: the same ones for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    fn one_of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.roll(all.len())]
    }
}

/// Constants that are alike, and what only looks so.
const FAMILIES: &[&[&str]] = &[
    &["0", "1", "2", "5", "007", "11", "25", "2147483647"],
    &["'5'", "' 6 '", "'11'", "'-7'", "'3000000000'", "'abc'", "''", "'1.0'", "'99999999999999999999'"],
    &["'de'", "'at'", "'us'", "'it''s'", "'a(b'", "'x, y) --'", "'\\'", "'now'", "'de '", "'ß'", "'$1'", "'/*'"],
    &["-1", "-5", "-2147483648", "-3000000000", "-9223372036854775808"],
    &["'c0ffee00-1234-5678-9abc-def012345678'", "'C0FFEE00-1234-5678-9ABC-DEF012345678'", "'{c0ffee0012345678}'"],
    &["3000000000", "9223372036854775807", "2147483648"],
    &["99999999999999999999", "9223372036854775808"],
    &["- 5", "-\n7"],
    &["- -4", "-(3)", "+3", "(4)", "-(-4)"],
    &["5.0", "1.5", "1e2", ".5", "5."],
    &["E'5'", "E'a\\'b'", "U&'\\0035'", "N'5'", "B'101'", "X'1F'"],
    &["'5'::bigint", "'7'::bigint", "'x'::bigint"],
    &["5::int8", "7::int8", "-7::int8"],
    &["5::text", "'de'::text", "'us'::varchar(1)"],
    &["CAST('7' AS integer)", "CAST('8' AS integer)"],
    &["bigint '5'", "bigint '6'"],
    &["'2026-03-01'", "'2025-01-01'", "DATE '2026-03-01'"],
    &["NULL", "TRUE", "FALSE"],
    &["$$5$$", "5 /* c */", "6 -- c\n", "'a'\n'b'"],
    &["1 + 2", "5 - 3", "2 -1", "2-1"],
];

/// Of these most constants are.
const COMMON: usize = 5;

/// Tables, with the columns of their keys and all others.
const TABLES: &[(&str, &[&str], &[&str])] = &[
    ("a", &["k"], &["x", "t"]),
    ("a", &["k"], &["x", "t"]),
    ("h", &["k"], &["x", "t"]),
    ("h", &["k"], &["x", "t"]),
    ("public.h", &["k"], &["x", "t"]),
    ("r", &["k"], &["x", "t"]),
    ("l", &["t"], &["x", "k"]),
    ("p", &["m", "n"], &["x"]),
    ("d", &["day"], &["x"]),
    ("u", &["g"], &["x"]),
    ("\"all\"", &["id"], &["name"]),
    ("one", &["id"], &["name"]),
    ("made", &["id"], &["x"]),
];

/// A condition with a question mark for each constant.
fn condition(dice: &mut Dice, key: &[&str], others: &[&str], depth: usize) -> String {
    let column = if dice.roll(3) == 0 { dice.one_of(others) } else { dice.one_of(key) };
    let nested = |dice: &mut Dice| condition(dice, key, others, depth.saturating_sub(1));
    match dice.roll(if depth > 0 { 17 } else { 13 }) {
        0..=4 => key.iter().map(|column| format!("{column} = ?")).collect::<Vec<String>>().join(" AND "),
        5 => format!("? = {column}"),
        6 => format!("{column} {} ?", dice.one_of(&["<", "<=", ">", ">=", "<>"])),
        7 => format!("{column} IN (?, ?)"),
        8 => format!("{column} BETWEEN ? AND ?"),
        9 => format!("({}) = ({})", key.join(", "), key.iter().map(|_| "?").collect::<Vec<&str>>().join(", ")),
        10 => format!("{column} LIKE ?"),
        11 => format!("{column} + ? = ?"),
        12 => dice
            .one_of(&[
                "k IS NOT DISTINCT FROM ?",
                "k = ANY (ARRAY[?, ?])",
                "k = ANY (?)",
                "lower(t) = ?",
                "?",
                "k IN (SELECT k FROM a WHERE k = ?)",
            ])
            .to_owned(),
        13 | 14 => format!("{} AND {}", nested(dice), nested(dice)),
        15 => format!("({} OR {})", nested(dice), nested(dice)),
        _ => format!("NOT ({})", nested(dice)),
    }
}

/// A statement with a question mark for each constant.
fn statement(dice: &mut Dice) -> String {
    let (table, key, others) = TABLES[dice.roll(TABLES.len())];
    let (other, all) = (dice.one_of(others), [key, others].concat());
    let condition = condition(dice, key, others, 2);
    let body = match dice.roll(6) {
        0..=2 => {
            let outputs = dice.one_of(&["*", "x", "x", "1", "?", "count(*)", "'x', x", "x + 1"]);
            let tail =
                dice.one_of(&["", "", "", " ORDER BY 1", " LIMIT ?", " ORDER BY x LIMIT ? OFFSET ?", " FOR UPDATE"]);
            let from = dice.one_of(&["", "", " AS z", ", one"]);
            format!("SELECT {outputs} FROM {table}{from} WHERE {condition}{tail}")
        }
        3 => format!(
            "UPDATE {table} SET {other} = {} WHERE {condition}",
            dice.one_of(&["?", "x + ?", "x - ?", "upper(?)"])
        ),
        4 => format!("DELETE FROM {table} WHERE {condition}"),
        _ => {
            let row = format!("({})", all.iter().map(|_| "?").collect::<Vec<&str>>().join(", "));
            let rows = if dice.roll(5) == 0 { format!("{row}, {row}") } else { row };
            let columns = if dice.roll(2) == 0 { String::new() } else { format!(" ({})", all.join(", ")) };
            let on = ["", "", " ON CONFLICT DO NOTHING", " ON CONFLICT (k) DO UPDATE SET x = ?", " RETURNING x"];
            format!("INSERT INTO {table}{columns} VALUES {rows}{}", dice.one_of(&on))
        }
    };
    let (before, behind) = (dice.one_of(&["", "", " \n"]), dice.one_of(&["", ";", " ; \n"]));
    format!("{before}{body}{behind}")
}

/// The statement with constants, mostly of the kinds that its places have been given.
fn fill(dice: &mut Dice, statement: &str, families: &[usize]) -> String {
    let mut pieces = statement.split('?');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for (piece, family) in pieces.zip(families) {
        let family = if dice.roll(8) == 0 { dice.roll(FAMILIES.len()) } else { *family };
        text.push_str(dice.one_of(FAMILIES[family]));
        text.push_str(piece);
    }
    text
}

#[test]
fn a_text_that_is_not_parsed_goes_where_it_goes_when_it_is() {
    let world = World::new();
    let (mut texts, mut hits, mut others) = (0, 0, 0);
    for seed in 1..=STATEMENTS {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let statement = statement(&mut dice);
        let families: Vec<usize> = statement
            .matches('?')
            .map(|_| if dice.roll(4) > 0 { dice.roll(COMMON) } else { dice.roll(FAMILIES.len()) })
            .collect();
        let mut all: Vec<(Kept, String)> = Vec::new();
        for _ in 0..TEXTS {
            let sql = fill(&mut dice, &statement, &families);
            let Some(shape) = lift::shape(&sql) else { continue };
            let parsed = parsed(&sql);
            texts += 1;
            for (kept, first) in &all {
                if let Some(sent) = sent(kept, &shape) {
                    let Some(parsed) = &parsed else { panic!("{sql}: the parser refuses it, but {sent:?}") };
                    assert_same(&world, parsed, &sent);
                    hits += 1;
                    others += usize::from(*first != sql);
                }
            }
            if let Some(kept) = parsed.and_then(|parsed| keep(&world, &parsed, &shape)) {
                all.push((kept, sql.clone()));
            }
        }
    }
    assert!(others > 1000, "{texts} texts, {hits} of them known, {others} by another text");
}

/// What is sent for the second text when the first one was analysed.
fn after(first: &str, second: &str) -> Option<String> {
    let world = World::new();
    let shape = lift::shape(first).unwrap();
    let kept = keep(&world, &parsed(first).unwrap(), &shape)?;
    let sent = sent(&kept, &lift::shape(second)?)?;
    assert_same(&world, &parsed(second).unwrap(), &sent);
    Some(sent.written().to_owned())
}

#[test]
fn texts_share_what_does_not_depend_on_their_constants() {
    for (first, second, written) in [
        (
            "SELECT x, t FROM a WHERE k = 4",
            "SELECT x, t FROM a WHERE k = 123456",
            "SELECT x, t FROM a WHERE k = 123456",
        ),
        ("SELECT x FROM a WHERE k = 4;", "SELECT x FROM a WHERE k = 5;", "SELECT x FROM a WHERE k = 5"),
        ("SELECT x FROM a WHERE k = -4", "SELECT x FROM a WHERE k = -15", "SELECT x FROM a WHERE k = -15"),
        ("SELECT x FROM a WHERE k = '4'", "SELECT x FROM a WHERE k = '77'", "SELECT x FROM a WHERE k = '77'"),
        (
            "SELECT x FROM a WHERE k = '4'::int8",
            "SELECT x FROM a WHERE k = '5'::int8",
            "SELECT x FROM a WHERE k = '5'::int8",
        ),
        ("SELECT 1 FROM a WHERE k = 4", "SELECT 1 FROM a WHERE k = 5", "SELECT 1 FROM a WHERE k = 5"),
        (
            "SELECT x FROM a WHERE k = 4 LIMIT 1",
            "SELECT x FROM a WHERE k = 5 LIMIT 20",
            "SELECT x FROM a WHERE k = 5 LIMIT 20",
        ),
        ("SELECT x FROM a WHERE k IN (1, 4)", "SELECT x FROM a WHERE k IN (8, 5)", "SELECT x FROM a WHERE k IN (8, 5)"),
        ("SELECT x FROM h WHERE k = 4", "SELECT x FROM h WHERE k = 13", "SELECT x FROM \"h_1\" AS \"h\" WHERE k = 13"),
        (
            "UPDATE h SET t = 'a' WHERE k = 4",
            "UPDATE h SET t = 'it''s' WHERE k = 5",
            "UPDATE \"h_1\" AS \"h\" SET t = 'it''s' WHERE k = 5",
        ),
        (
            "INSERT INTO h VALUES (4, 1, 'a')",
            "INSERT INTO h VALUES (5, 22, 'now')",
            "INSERT INTO \"h_1\" AS \"h\" (\"k\", \"x\", \"t\") VALUES (5, 22, 'now')",
        ),
        (
            "DELETE FROM l WHERE t = 'de' AND x > 5",
            "DELETE FROM l WHERE t = 'us' AND x > 7",
            "DELETE FROM l WHERE t = 'us' AND x > 7",
        ),
    ] {
        assert_eq!(after(first, second).as_deref(), Some(written), "{first}");
    }
}

#[test]
fn what_is_not_certain_is_parsed() {
    for (first, second) in [
        // Constants of another kind.
        ("SELECT x FROM a WHERE k = 4", "SELECT x FROM a WHERE k = '4'"),
        ("SELECT x FROM a WHERE k = 4", "SELECT x FROM a WHERE k = 3000000000"),
        ("SELECT x FROM a WHERE k = 4", "SELECT x FROM a WHERE k = 4.0"),
        ("SELECT x FROM a WHERE k = 4", "SELECT x FROM a WHERE k = -4"),
        ("SELECT x FROM a WHERE k = 4 AND x = 1", "SELECT x FROM a WHERE k = 4 AND x = '1'"),
        // A constant that cannot be read here, or stands where it means something else.
        ("SELECT x FROM l WHERE t = 'de'", "SELECT x FROM l WHERE t = 'it''s'"),
        ("SELECT x FROM a WHERE k = '4'", "SELECT x FROM a WHERE k = 'four'"),
        ("INSERT INTO a VALUES ('4', 1, 'x')", "INSERT INTO a VALUES ('four', 1, 'x')"),
        ("SELECT 1 FROM a WHERE k = 4", "SELECT 2 FROM a WHERE k = 4"),
        ("SELECT x FROM a WHERE k = 4 ORDER BY 1", "SELECT x FROM a WHERE k = 4 ORDER BY 2"),
        // More than one shard.
        ("SELECT x FROM a WHERE k IN (1, 4)", "SELECT x FROM a WHERE k IN (1, 5)"),
        ("SELECT x FROM a WHERE k = 1 OR k = 4", "SELECT x FROM a WHERE k = 1 OR k = 5"),
        ("SELECT x FROM r WHERE k BETWEEN 1 AND 5", "SELECT x FROM r WHERE k BETWEEN 1 AND 15"),
        ("INSERT INTO a VALUES (1, 1, 'x'), (4, 1, 'x')", "INSERT INTO a VALUES (1, 1, 'x'), (7, 1, 'x')"),
        // Where it goes is not said by its own constants alone, or not by a shard.
        ("SELECT x FROM d WHERE day = '2026-03-01'", "SELECT x FROM d WHERE day = '2026-03-02'"),
        ("SELECT x FROM a WHERE k = 4 AND x > 1.5", "SELECT x FROM a WHERE k = 5 AND x > 1.5"),
        ("SELECT x FROM a WHERE k = 4 AND t = lower('A')", "SELECT x FROM a WHERE k = 4 AND t = lower('B')"),
        ("UPDATE \"all\" SET name = 'a' WHERE id = 1", "UPDATE \"all\" SET name = 'a' WHERE id = 2"),
    ] {
        assert_eq!(after(first, second), None, "{first}");
    }
}
