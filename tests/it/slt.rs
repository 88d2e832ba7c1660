//! Runs the sqllogictest files of `tests/slt`: every file on a fresh `ashlar` process, and the files that are plain
//! PostgreSQL also on a real PostgreSQL server, which is where their expected results come from.
//!
//! A file's first lines say where it holds: `# targets: one-member postgres`, or `# targets: one-member` with
//! `# skip: postgres -- reason`. All failing records of all files are reported at once, as `file:line`.
//! `SLT=joins cargo test --test it slt` runs only the files whose path contains `joins`. TPC-H is in `tpch.rs`.
//!
//! A record that Ashlar answers differently stays in place for PostgreSQL: a comment `# ashlar: ...` says what Ashlar
//! does instead, and the line `skipif ashlar` follows.
//!
//! How results are written: the text that the wire carries, one row a line, a tab between columns; NULL as `NULL`, the
//! empty string as `(empty)`, line breaks and tabs inside a value as `\n`, `\r`, `\t`. The letters of `query` are checked:
//! I integers, R real, double precision and numeric, B boolean, T everything else. An error reads
//! `SQLSTATE: message at character N`. A query that begins with the line `-- columns` gets a first row with the name
//! and the type of each column.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ashlar_tests::{Ashlar, Options, Postgres, tools};
use sqllogictest::{ColumnType, DB, DBOutput, Record, Runner, parse_file};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// How long one record may take; the machine may be busy with a build.
const RECORD_TIMEOUT: Duration = Duration::from_secs(120);

#[test]
fn every_record_holds_on_one_member() {
    let mut failures = Vec::new();
    for file in files() {
        assert!(file.targets.one_member, "{}: every file holds on one member", file.path.display());
        failures.extend(on_fresh_member(&file));
    }
    report(&failures);
}

#[test]
fn plain_postgresql_records_hold_on_a_real_postgresql() {
    let server = Postgres::start().unwrap();
    let mut failures = Vec::new();
    let mut ran = 0;
    for (number, file) in files().iter().filter(|file| file.targets.postgres).enumerate() {
        let database = format!("slt_{number}");
        let mut admin = Session::connect(&server.connection_string()).unwrap();
        admin.run(&format!("CREATE DATABASE {database}")).unwrap();
        let connection = server.connection_string().replace("dbname=postgres", &format!("dbname={database}"));
        ran += run_file(file, "postgres", &connection, &mut failures);
    }
    report(&failures);
    // Without a filter a few hundred records must have been compared, or the search for files is broken.
    assert!(ran > 500 || std::env::var_os("SLT").is_some(), "only {ran} records were run");
}

/// Runs a file on a process of its own; a crash or an alarming log line is one more failure.
fn on_fresh_member(file: &File) -> Vec<String> {
    let mut failures = Vec::new();
    let run = catch_unwind(AssertUnwindSafe(|| {
        let server = Ashlar::start(Options::default()).unwrap();
        run_file(file, "ashlar", &server.connection_string(), &mut failures);
        server.stop();
    }));
    if let Err(panic) = run {
        let text = panic.downcast_ref::<String>().map_or("a panic without a message", String::as_str);
        failures.push(format!("{}: {text}\n", file.path.display()));
    }
    failures
}

/// Fails with every failure and their number.
pub(crate) fn report(failures: &[String]) {
    assert!(failures.is_empty(), "{} records failed:\n\n{}", failures.len(), failures.join("\n"));
}

/// A file of records and where it holds.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    targets: Targets,
}

#[derive(Clone, Copy)]
struct Targets {
    one_member: bool,
    postgres: bool,
}

impl File {
    /// Reads the head of a file; a file that does not say where it holds is refused.
    pub(crate) fn open(path: PathBuf) -> File {
        let text = std::fs::read_to_string(&path).unwrap();
        let head = text.lines().next().unwrap_or_default();
        let Some(names) = head.strip_prefix("# targets: ") else {
            panic!("{}: the first line is not \"# targets: ...\"", path.display());
        };
        let mut targets = Targets { one_member: false, postgres: false };
        for name in names.split(' ') {
            match name {
                "one-member" => targets.one_member = true,
                "postgres" => targets.postgres = true,
                _ => panic!("{}: unknown target {name:?}", path.display()),
            }
        }
        let reason = text.lines().any(|line| line.starts_with("# skip: postgres -- "));
        assert_eq!(reason, !targets.postgres, "{}: a file that skips postgres says why", path.display());
        File { path, targets }
    }
}

/// All files but those of TPC-H, which need their data first, in the order of their paths.
fn files() -> Vec<File> {
    let filter = std::env::var("SLT").unwrap_or_default();
    let mut paths = Vec::new();
    collect(&slt_dir(), &mut paths);
    paths.sort();
    paths.retain(|path| !path.starts_with(slt_dir().join("tpch")) && path.to_string_lossy().contains(&filter));
    paths.into_iter().map(File::open).collect()
}

/// The folder of the files.
pub(crate) fn slt_dir() -> PathBuf {
    tools::repository().join("tests/slt")
}

/// The files in a folder and those below it; of a file, itself.
pub(crate) fn collect(dir: &Path, paths: &mut Vec<PathBuf>) {
    if dir.is_file() {
        paths.push(dir.to_path_buf());
        return;
    }
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            paths.push(path);
        }
    }
}

fn records(file: &File) -> Vec<Record<Letter>> {
    parse_file::<Letter>(&file.path).unwrap_or_else(|error| panic!("{}: {error}", file.path.display()))
}

/// The texts of the queries of a file.
pub(crate) fn queries(file: &File) -> Vec<String> {
    let queries = records(file).into_iter().filter_map(|record| match record {
        Record::Query { sql, .. } => Some(sql),
        _ => None,
    });
    queries.collect()
}

/// Runs all records of a file that `skipif` and `onlyif` lines leave to the engine `ashlar` or `postgres`, adds the
/// failing ones to `failures`, and says how many the file has.
pub(crate) fn run_file(file: &File, engine: &str, connection: &str, failures: &mut Vec<String>) -> usize {
    let mut runner = Runner::new(|| std::future::ready(Session::connect(connection)));
    runner.add_label(engine);
    runner.with_validator(same_rows);
    runner.with_column_validator(sqllogictest::strict_column_validator);
    runner.with_normalizer(Clone::clone);
    runner.set_var("REPOSITORY".to_owned(), tools::repository().display().to_string());
    let mut ran = 0;
    for record in records(file) {
        ran += usize::from(matches!(record, Record::Query { .. } | Record::Statement { .. }));
        if let Err(error) = runner.run(record) {
            failures.push(error.to_string());
        }
    }
    ran
}

/// Rows compare exactly: nothing is trimmed and white space is not folded. Where a line has sqllogictest's mark for
/// what may vary, as plans do with the number of cores, the parts around the marks must be found in order.
fn same_rows(normalizer: sqllogictest::Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    if expected.iter().any(|line| line.contains("<slt:ignore>")) {
        return sqllogictest::default_validator(normalizer, actual, expected);
    }
    actual.iter().flatten().eq(expected)
}

/// The family of a column's type, as the letters after `query` give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letter {
    Integer,
    Real,
    Boolean,
    Text,
}

impl ColumnType for Letter {
    fn from_char(letter: char) -> Option<Letter> {
        match letter {
            'I' => Some(Letter::Integer),
            'R' => Some(Letter::Real),
            'B' => Some(Letter::Boolean),
            'T' => Some(Letter::Text),
            _ => None,
        }
    }

    fn to_char(&self) -> char {
        match self {
            Letter::Integer => 'I',
            Letter::Real => 'R',
            Letter::Boolean => 'B',
            Letter::Text => 'T',
        }
    }
}

impl Letter {
    fn of(sql_type: &Type) -> Letter {
        match *sql_type {
            Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => Letter::Integer,
            Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC => Letter::Real,
            Type::BOOL => Letter::Boolean,
            _ => Letter::Text,
        }
    }
}

/// One connection: statements go over the simple protocol, and every result's columns are compared with what
/// the extended protocol says about the same statement.
struct Session {
    runtime: tokio::runtime::Runtime,
    connection: String,
    client: Client,
}

impl Session {
    fn connect(connection: &str) -> Result<Session, SessionError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(open(connection))?;
        Ok(Session { runtime, connection: connection.to_owned(), client })
    }

    async fn answer(client: &Client, sql: &str) -> Result<DBOutput<Letter>, SessionError> {
        let mut names: Option<Vec<String>> = None;
        let mut rows = Vec::new();
        let mut count = 0;
        for message in client.simple_query(sql).await? {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    names = Some(columns.iter().map(|column| column.name().to_owned()).collect());
                }
                SimpleQueryMessage::Row(row) => {
                    rows.push((0..row.len()).map(|column| printed(row.get(column))).collect::<Vec<_>>());
                }
                SimpleQueryMessage::CommandComplete(rows) => count = rows,
                _ => {}
            }
        }
        let Some(names) = names else {
            return Ok(DBOutput::StatementComplete(count));
        };
        let described = client.prepare(sql).await?;
        let columns = described.columns();
        if !columns.iter().map(tokio_postgres::Column::name).eq(names.iter().map(String::as_str)) {
            let columns: Vec<_> = columns.iter().map(tokio_postgres::Column::name).collect();
            return Err(SessionError(format!("the protocols disagree about the columns: {names:?} and {columns:?}")));
        }
        let mut types: Vec<Letter> = columns.iter().map(|column| Letter::of(column.type_())).collect();
        if sql.starts_with("-- columns\n") {
            rows.insert(
                0,
                columns.iter().map(|column| format!("{}:{}", column.name(), column.type_().name())).collect(),
            );
            types.fill(Letter::Text);
        }
        // One string a row: sorting keeps its meaning, and a failure shows the row as the file has it.
        let rows = rows.into_iter().map(|row| vec![row.join("\t")]).collect();
        Ok(DBOutput::Rows { types, rows })
    }
}

impl DB for Session {
    type Error = SessionError;
    type ColumnType = Letter;

    fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, SessionError> {
        // After a lost connection the next records still have something to say.
        if self.client.is_closed() {
            self.client = self.runtime.block_on(open(&self.connection))?;
        }
        let answer = Self::answer(&self.client, sql);
        let answer = self.runtime.block_on(async { tokio::time::timeout(RECORD_TIMEOUT, answer).await });
        answer.unwrap_or_else(|_| Err(SessionError(format!("no answer within {RECORD_TIMEOUT:?}"))))
    }
}

async fn open(connection: &str) -> Result<Client, SessionError> {
    let (client, driver) = tokio_postgres::connect(connection, NoTls).await?;
    // Ends when the client is dropped; what it could say, the client's calls say too.
    tokio::spawn(driver);
    Ok(client)
}

/// A value as the files write it.
fn printed(value: Option<&str>) -> String {
    match value {
        None => "NULL".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(text) => text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t"),
    }
}

/// An error as the files write it.
#[derive(Debug)]
struct SessionError(String);

impl fmt::Display for SessionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for SessionError {}

impl From<std::io::Error> for SessionError {
    fn from(error: std::io::Error) -> SessionError {
        SessionError(error.to_string())
    }
}

impl From<tokio_postgres::Error> for SessionError {
    fn from(error: tokio_postgres::Error) -> SessionError {
        let Some(sent) = error.as_db_error() else {
            return SessionError(format!("connection: {error}"));
        };
        let position = match sent.position() {
            Some(tokio_postgres::error::ErrorPosition::Original(position)) => format!(" at character {position}"),
            _ => String::new(),
        };
        SessionError(format!("{}: {}{position}", sent.code().code(), sent.message()))
    }
}
