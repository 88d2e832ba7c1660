//! The sqllogictest files of `tests/slt` on fleets: every record runs on one PostgreSQL and on shards, and both must answer
//! alike: rows, names and types of columns, command tags, SQLSTATEs; and to the letter, down to modifiers of types and
//! trailing zeros, where one shard has answered.
//!
//! Tables become sharded ones by their primary key, or as a line `# sharded: name by key, name broadcast` of the file says.
//! What a fleet refuses with 0A000 is not run on the one PostgreSQL either, so that both have the same rows; how much that
//! may be is bounded below, and what it says is listed in docs/reference/sharding.md. `skipif shards` leaves a record out, with
//! the reason in a comment.
//!
//! `SLT=joins cargo test --test it sharded::slt` runs only the files whose path contains `joins`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use sqllogictest::{Condition, Connection, DefaultColumnType, QueryExpect, Record, StatementExpect, parse_file};

use super::*;
use crate::comparison::{Protocol, Verdict, ask, judge};
use crate::slt::slt_dir;

/// What has to be compared on a fleet that has all files, or the search for files is broken.
const RECORDS_MIN: usize = 1500;

/// And as many tables have to be sharded.
const TABLES_MIN: usize = 100;

/// Of a hundred statements that one server runs, so many may be refused.
const REFUSED_PERCENT_MAX: usize = 8;

/// Files about tables' rows. The others are about the grid itself, its indexes, or two sessions that wait for each other.
const FOLDERS: &[&str] = &["select", "dml", "types", "errors", "nulls.slt", "transactions", "sharded"];

/// What of those is about the catalog, or about memory of this server.
const ELSEWHERE: &[&str] = &[
    "select/catalog.slt",
    "select/constraint_views.slt",
    "select/analyze.slt",
    "conflict",
    "select/partial_indexes",
    "dml/with_locks",
];

/// Types that rows can be told apart by.
const KEY_TYPES: &[&str] = &[
    "smallint",
    "int2",
    "integer",
    "int",
    "int4",
    "bigint",
    "int8",
    "text",
    "varchar",
    "uuid",
    "date",
    "timestamp",
    "timestamptz",
];

#[derive(Default)]
struct Tally {
    same: usize,
    refused: Vec<String>,
    /// Of those, what docs/reference/sharding.md does not list.
    unlisted: Vec<String>,
    /// In a block that has been given up with a statement that was refused.
    given_up: usize,
    sharded: usize,
    wrong: Vec<String>,
}

impl Tally {
    /// Notes what was refused, and whether that is listed.
    fn refuse(&mut self, place: String, message: &str, sql: &str, kinds: &[String]) {
        let told = format!("{place}: {message}: {}", sql.lines().next().unwrap_or_default());
        if !kinds.iter().any(|kind| is_of_kind(message, kind)) {
            self.unlisted.push(told.clone());
        }
        self.refused.push(told);
    }
}

/// The messages that docs/reference/sharding.md lists, with `...` for what differs.
pub(super) fn kinds_of_refusals() -> Vec<String> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/sharding.md")).unwrap();
    let list = page.split("## What refusals say").nth(1).expect("the page lists what refusals say");
    let list = list.split("\n## ").next().unwrap_or_default();
    let lines = list.lines().filter(|line| line.starts_with("| `"));
    let kinds: Vec<String> = lines.filter_map(|line| line.split('`').nth(1)).map(str::to_owned).collect();
    assert!(kinds.len() >= 80, "only {} kinds are listed", kinds.len());
    kinds
}

/// Whether what [`refused`] tells is listed there.
pub(super) fn is_listed(told: &str, kinds: &[String]) -> bool {
    let message = told.lines().nth(1).unwrap_or_default();
    kinds.iter().any(|kind| is_of_kind(message, kind))
}

/// Whether a message is what a kind says.
pub(super) fn is_of_kind(message: &str, kind: &str) -> bool {
    let mut parts = kind.split("...");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = message.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn files_hold_on_one_shard() {
    hold(1, 3);
}

#[test]
fn files_hold_on_two_shards() {
    hold(2, 1);
}

#[test]
fn files_hold_on_four_shards() {
    hold(4, 1);
}

/// How the file with this number is sent: on two shards half of them by each protocol, on four by the other one, and on one shard a
/// quarter of them by each. So each protocol meets each fleet.
fn protocol(shards: usize, number: usize) -> Option<Protocol> {
    match (shards, number % 4) {
        (1, 2 | 3) => None,
        (1 | 2, 0 | 2) | (4, 1 | 3) => Some(Protocol::Simple),
        _ => Some(Protocol::Extended),
    }
}

/// Runs the files of a fleet, which have at least one in `share` of the records of all files.
fn hold(shards: usize, share: usize) {
    let fleet = Fleet::start(shards);
    let oracle = Postgres::start().unwrap();
    let kinds = kinds_of_refusals();
    let mut tally = Tally::default();
    let is_filtered = std::env::var_os("SLT").is_some();
    for (number, path) in files().iter().enumerate() {
        let both = [Some(Protocol::Simple), Some(Protocol::Extended)];
        let protocols = if is_filtered { both } else { [protocol(shards, number), None] };
        for protocol in protocols.into_iter().flatten() {
            run(path, &fleet, &oracle, protocol, &kinds, &mut tally);
        }
    }
    let Tally { same, refused, unlisted, given_up, sharded, wrong } = &tally;
    eprintln!(
        "{shards} shards: {same} records alike, {} refused, {given_up} in blocks given up, {sharded} sharded tables\n{}",
        refused.len(),
        refused.join("\n")
    );
    crate::slt::report(wrong);
    assert!(unlisted.is_empty(), "refused, and docs/reference/sharding.md does not say so:\n{}", unlisted.join("\n"));
    if !is_filtered {
        assert!(*same >= RECORDS_MIN / share, "only {same} records were compared");
        assert!(*sharded >= TABLES_MIN / share, "only {sharded} tables were sharded");
        let share = 100 * (refused.len() + given_up) / (same + refused.len() + given_up);
        assert!(share < REFUSED_PERCENT_MAX, "{share} percent were refused:\n{}", refused.join("\n"));
    }
    fleet.ashlar.check_log();
}

fn files() -> Vec<PathBuf> {
    let filter = std::env::var("SLT").unwrap_or_default();
    let mut paths = Vec::new();
    for folder in FOLDERS {
        crate::slt::collect(&slt_dir().join(folder), &mut paths);
    }
    paths.sort();
    paths.retain(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.to_string_lossy();
        let head = text.lines().next().unwrap_or_default();
        head.contains("postgres")
            && text.contains("CREATE TABLE")
            && name.contains(&filter)
            && !ELSEWHERE.iter().any(|part| name.contains(part))
    });
    paths
}

/// The two ends of one session of a file.
struct Pair {
    alone: pg::Connection,
    fleet: pg::Connection,
    in_block: bool,
}

fn run(path: &Path, fleet: &Fleet, oracle: &Postgres, protocol: Protocol, kinds: &[String], tally: &mut Tally) {
    let name = path.strip_prefix(slt_dir()).unwrap_or(path).display().to_string();
    let text = std::fs::read_to_string(path).unwrap();
    let said = placements(&text);
    let records = parse_file::<DefaultColumnType>(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let open =
        || Pair { alone: pg::Connection::connect(oracle.address()).unwrap(), fleet: fleet.client(), in_block: false };
    let mut pairs: HashMap<String, Pair> = HashMap::new();
    let mut is_given_up = false;
    for record in records {
        let (loc, conditions, connection, sql, fails) = match record {
            Record::Statement { loc, conditions, connection, sql, expected, .. } => {
                let fails = if let StatementExpect::Error(error) = expected { Some(error) } else { None };
                (loc, conditions, connection, sql, fails)
            }
            Record::Query { loc, conditions, connection, sql, expected, .. } => {
                let fails = if let QueryExpect::Error(error) = expected { Some(error) } else { None };
                (loc, conditions, connection, sql, fails)
            }
            Record::Halt { .. } => break,
            _ => continue,
        };
        let is_skipped = |condition: &Condition| match condition {
            Condition::SkipIf { label } => label == "ashlar" || label == "shards",
            Condition::OnlyIf { label } => label != "shards",
        };
        if conditions.iter().any(is_skipped) {
            continue;
        }
        let session = match connection {
            Connection::Default => String::new(),
            Connection::Named(name) => name,
        };
        let pair = pairs.entry(session).or_insert_with(open);
        if is_given_up {
            tally.given_up += 1;
            is_given_up = !ends_block(&sql);
            continue;
        }
        let placed = if pair.in_block || fails.is_some() { None } else { placed(&sql, &said, &fleet.servers()) };
        let mut found = ask(&mut pair.fleet, placed.as_deref().unwrap_or(&sql), protocol);
        if placed.is_some() {
            if found.is_refusal() {
                // It is a table of this server then, as it would be without shards.
                found = ask(&mut pair.fleet, &sql, protocol);
            } else {
                tally.sharded += 1;
            }
        }
        let is_expected = fails.is_some_and(|error| format!("{error:?}").contains("0A000"));
        if found.is_refusal() && !is_expected {
            let (_, message) = found.error.as_ref().expect("a refusal is an error");
            tally.refuse(format!("{name}:{}", loc.line()), message, &sql, kinds);
            if pair.in_block {
                for client in [&mut pair.alone, &mut pair.fleet] {
                    ask(client, "ROLLBACK", Protocol::Simple);
                }
                pair.in_block = false;
                is_given_up = true;
            }
            continue;
        }
        let expected = ask(&mut pair.alone, &sql, protocol);
        pair.in_block = expected.in_block;
        match judge(&sql, &expected, &found) {
            Verdict::Same => {
                tally.same += 1;
                if let Some(how) = found.departs_from(&expected, &sql)
                    && !found.in_block
                    && is_passed_on(&mut pair.fleet, &sql)
                {
                    tally.wrong.push(format!("{name}:{}: of one shard, {how}\n{sql}\n", loc.line()));
                }
            }
            Verdict::Refused => {
                let (_, message) = found.error.as_ref().expect("a refusal is an error");
                tally.refuse(format!("{name}:{}: an error of another kind", loc.line()), message, &sql, kinds);
            }
            Verdict::Different(how) => tally.wrong.push(format!("{name}:{}: {how}\n{sql}\n", loc.line())),
        }
        if found.in_block != expected.in_block {
            tally.wrong.push(format!("{name}:{}: one of both is in a block\n{sql}\n", loc.line()));
            break;
        }
    }
    drop(pairs);
    let mut alone = pg::Connection::connect(oracle.address()).unwrap();
    done(&mut alone, "DROP SCHEMA public CASCADE");
    done(&mut alone, "CREATE SCHEMA public");
    let mut client = fleet.client();
    // The plain keys of the other door live in one that stays.
    let tables =
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_name <> 'kv'";
    for row in rows(&mut client, tables) {
        let table = row[0].clone().expect("a table has a name");
        done(&mut client, &format!("DROP TABLE \"{table}\""));
    }
}

/// Whether one server answers a statement, so that what it says is passed on as it is.
fn is_passed_on(client: &mut pg::Connection, sql: &str) -> bool {
    let explained = client.query(&format!("EXPLAIN {sql}")).unwrap_or_default();
    let first = explained.into_iter().flatten().flatten().next().unwrap_or_default();
    first.starts_with("Route: shard ") || first == "Route: any server"
}

/// Whether a statement is the last one of a block.
fn ends_block(sql: &str) -> bool {
    let words: Vec<String> = sql.split_whitespace().take(2).map(str::to_ascii_lowercase).collect();
    let first = words.first().map_or("", |word| word.trim_end_matches(';'));
    let is_savepoint = words.get(1).is_some_and(|word| word == "to");
    matches!(first, "commit" | "end" | "rollback" | "abort") && !is_savepoint
}

/// What the line `# sharded: ...` of a file says: by table, the end of its CREATE TABLE without the servers.
fn placements(text: &str) -> HashMap<String, String> {
    let Some(line) = text.lines().find_map(|line| line.strip_prefix("# sharded: ")) else { return HashMap::new() };
    let one = |part: &str| {
        let (name, how) = part.trim().split_once(' ').unwrap_or_else(|| panic!("a placement reads `name how`: {part}"));
        (name.to_owned(), how.to_owned())
    };
    line.split(',').map(one).collect()
}

/// A CREATE TABLE with a placement; `None` for other statements, and where nothing tells its rows apart.
fn placed(sql: &str, said: &HashMap<String, String>, servers: &str) -> Option<String> {
    let sql = sql.trim().trim_end_matches(';');
    let rest = sql.strip_prefix("CREATE TABLE ")?;
    let rest = rest.strip_prefix("IF NOT EXISTS ").unwrap_or(rest);
    let (name, columns) = rest.split_once('(')?;
    let (name, columns) = (name.trim(), columns.strip_suffix(')')?);
    // WITH (...), INHERITS (...) and the like.
    if name.contains(' ') || is_closed_early(columns) {
        return None;
    }
    let with = |algorithm: &str| format!("USING sharded WITH (servers = '{servers}', {algorithm})");
    let by = |key: &str, algorithm| format!("{sql} PARTITION BY HASH ({key}) {}", with(algorithm));
    match said.get(name).map(String::as_str) {
        Some("broadcast") => return Some(format!("{sql} {}", with("broadcast"))),
        Some("here") => return None,
        Some(how) => return Some(by(how.strip_prefix("by ")?, "algorithm = 'hash_mod'")),
        None => {}
    }
    let parts: Vec<Vec<&str>> = split(columns).into_iter().map(|part| part.split_whitespace().collect()).collect();
    let is_key = |name: &str| {
        parts.iter().any(|words| words.len() > 1 && words[0] == name && KEY_TYPES.contains(&base_type(words[1])))
    };
    let primary = split(columns).into_iter().find_map(|part| {
        let part = part.trim();
        let upper = part.to_ascii_uppercase();
        let at = upper.find("PRIMARY KEY")?;
        match part[at..].split_once('(') {
            // Of the table: its first column.
            Some((_, names)) if at == 0 || upper.starts_with("CONSTRAINT") => names.split([',', ')']).next(),
            _ => part.split_whitespace().next(),
        }
    });
    match primary.map(str::trim) {
        Some(key) => is_key(key).then(|| by(key, "algorithm = 'hash_mod'")),
        // Its rows may have no value there: PostgreSQL's own hash puts them somewhere.
        None => {
            let key = parts.iter().map(|words| words[0]).find(|name| is_key(name))?;
            Some(by(key, "algorithm = 'pg_hash'"))
        }
    }
}

/// `varchar` of `varchar(3)`.
fn base_type(word: &str) -> &str {
    word.split_once('(').map_or(word, |(name, _)| name)
}

/// Whether the parenthesis that is open before a text is closed within it.
fn is_closed_early(text: &str) -> bool {
    let mut depth = 0;
    text.bytes().any(|byte| {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        depth < 0
    })
}

/// The parts between commas that are in no parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[test]
fn messages_are_of_the_kinds_that_they_are_listed_as() {
    for (message, kind, expected) in [
        ("SELECT INTO is not supported", "SELECT INTO is not supported", true),
        ("SELECT INTO is not supported here", "SELECT INTO is not supported", false),
        ("cannot be done on shards: why", "cannot be done on shards: ...", true),
        ("it cannot be done on shards: why", "cannot be done on shards: ...", false),
        ("column \"k\" is of the key", "column \"...\" is of the key", true),
        ("column \"k\" is not of it", "column \"...\" is of the key", false),
        ("CREATE INDEX of a table", "... of a table", true),
        ("table \"a\" has taken \"b\" over", "table \"...\" has taken \"...\" over", true),
        ("table \"a\" has given \"b\" over", "table \"...\" has taken \"...\" over", false),
    ] {
        assert_eq!(is_of_kind(message, kind), expected, "{message}\n{kind}");
    }
    assert!(kinds_of_refusals().iter().all(|kind| !kind.trim_matches(['.', ' ']).is_empty()));
}

#[test]
fn tables_of_files_are_placed_by_their_keys() {
    let said = placements("# targets: x\n# sharded: l by k, r broadcast, h here\n");
    let end = |sql: &str| placed(sql, &said, "s0,s1").map(|placed| placed[sql.len()..].trim().to_owned());
    let by = |key: &str, algorithm: &str| {
        Some(format!("PARTITION BY HASH ({key}) USING sharded WITH (servers = 's0,s1', algorithm = '{algorithm}')"))
    };
    assert_eq!(end("CREATE TABLE t (id integer PRIMARY KEY, v varchar(3))"), by("id", "hash_mod"));
    assert_eq!(end("CREATE TABLE t (a numeric(4,2), b text, PRIMARY KEY (b, a))"), by("b", "hash_mod"));
    assert_eq!(end("CREATE TABLE t (a numeric(4,2), b varchar(4))"), by("b", "pg_hash"));
    assert_eq!(end("CREATE TABLE l (i integer PRIMARY KEY, k bigint)"), by("k", "hash_mod"));
    let broadcast = "USING sharded WITH (servers = 's0,s1', broadcast)";
    assert_eq!(end("CREATE TABLE r (g integer PRIMARY KEY)").as_deref(), Some(broadcast));
    for sql in [
        "CREATE TABLE h (g integer PRIMARY KEY)",
        "CREATE TABLE t (f double precision PRIMARY KEY, i integer)",
        "CREATE TABLE t (a integer[])",
        "CREATE TABLE t (a integer) WITH (ttl_ms = 5)",
        "CREATE TABLE t AS SELECT 1 AS a",
        "INSERT INTO t (a) VALUES (1)",
    ] {
        assert_eq!(end(sql), None, "{sql}");
    }
    assert!(ends_block("ROLLBACK") && ends_block("COMMIT;") && !ends_block("ROLLBACK TO s") && !ends_block("SELECT 1"));
}
