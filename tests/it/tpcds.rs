//! TPC-DS at scale factor 0.1: its queries by the operators of the server, by DataFusion's stock ones, and by the former with a tenth of
//! the memory that they took: every answer is the same. Where one of DataFusion's operators beside them, a sort as a rule, has no way with so
//! little and says so, the query gets twice as much until it has.
//!
//! The rows are those of the lab's workload `tpcds`, and so are the texts of the queries. A run of all tests asks a third of them, by
//! `ASHLAR_TPCDS_SEED` another third; `ASHLAR_TPCDS=all ./x test tpcds` asks all, in some ten minutes, and says which got more.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use ashlar_tests::{Ashlar, Options, tools};
use bytes::Bytes;
use futures::{SinkExt, pin_mut};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

#[path = "../../crates/lab/src/workload/analytic/tpcds/rows.rs"]
mod rows;

/// Appends the next line of COPY's text form; false when there are no more.
type Lines = Box<dyn FnMut(&mut Vec<u8>) -> bool>;

const SCALE_FACTOR: f64 = 0.1;

/// Bytes that one message of COPY carries, about.
const CHUNK_BYTES: usize = 64 * 1024;

/// With less no operator does anything: batches on their way through a plan take that.
const MEMORY_KB_MIN: u64 = 1024;

/// Of queries that are asked when not all are, one in so many.
const ONE_IN: u64 = 3;

/// Rows as text.
type Rows = Vec<Vec<Option<String>>>;

#[test]
fn tpcds_answers_are_the_same_by_all_operators_and_with_little_memory() {
    let server = Ashlar::start(Options::default()).unwrap();
    let connection = server.connection_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let faults = runtime.block_on(async {
        let own = connect(&connection, &[]).await.unwrap();
        load(&own).await.unwrap();
        let stock = connect(&connection, &["SET operators = 'stock'"]).await.unwrap();
        let mut faults = Vec::new();
        for (name, sql) in asked() {
            if let Err(fault) = compare(&own, &stock, &name, &sql).await {
                faults.push(format!("{name}: {fault:#}"));
            }
        }
        faults
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    server.stop();
}

/// The queries that are asked in this run.
fn asked() -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name.starts_with('q') && path.extension().is_some_and(|extension| extension == "sql") {
            all.insert(name, std::fs::read_to_string(path).unwrap());
        }
    }
    assert_eq!(all.len(), 103, "four of the 99 are two statements");
    if std::env::var("ASHLAR_TPCDS").is_ok_and(|which| which == "all") {
        return all;
    }
    let seed: u64 = std::env::var("ASHLAR_TPCDS_SEED").map_or(0, |seed| seed.parse().unwrap());
    let number = |name: &str| name[1..3].parse::<u64>().unwrap();
    all.retain(|name, _| (number(name) + seed).is_multiple_of(ONE_IN));
    all
}

fn folder() -> PathBuf {
    tools::repository().join("crates/lab/src/workload/analytic/tpcds")
}

async fn connect(connection: &str, settings: &[&str]) -> Result<Client> {
    let (client, driver) = tokio_postgres::connect(connection, NoTls).await?;
    tokio::spawn(driver);
    for setting in settings {
        client.batch_execute(setting).await?;
    }
    Ok(client)
}

/// Makes the tables and fills them.
async fn load(client: &Client) -> Result<()> {
    let schema = std::fs::read_to_string(folder().join("schema.sql"))?;
    for statement in schema.split("create table ").skip(1) {
        client.batch_execute(&format!("CREATE TABLE {statement}")).await?;
        let (table, _) = statement.split_once(' ').context("a table with a name")?;
        let sink = client.copy_in::<_, Bytes>(&format!("COPY {table} FROM STDIN")).await?;
        pin_mut!(sink);
        let (mut lines, mut chunk) = (rows::lines(table, SCALE_FACTOR), Vec::with_capacity(2 * CHUNK_BYTES));
        while lines(&mut chunk) {
            if chunk.len() >= CHUNK_BYTES {
                sink.send(Bytes::copy_from_slice(&chunk)).await?;
                chunk.clear();
            }
        }
        sink.send(Bytes::from(chunk)).await?;
        let (loaded, about) = (sink.finish().await?, rows::about(table, SCALE_FACTOR)?);
        ensure!(loaded.abs_diff(about) <= about / 5 + 5, "{table} has {loaded} rows, not {about}");
    }
    client.batch_execute("ANALYZE").await?;
    Ok(())
}

/// Asks a query in all ways.
#[expect(clippy::print_stdout, reason = "which queries got more is for whoever asks for it")]
async fn compare(own: &Client, stock: &Client, name: &str, sql: &str) -> Result<()> {
    let expected = ask(stock, sql).await.context("stock operators")?;
    let found = ask(own, sql).await.context("own operators")?;
    same(&found, &expected).context("own operators")?;
    let peak = peak(own, sql).await?;
    let mut kilobytes = (peak / 10).max(MEMORY_KB_MIN);
    loop {
        own.batch_execute(&format!("SET query_memory_max = '{kilobytes}kB'")).await?;
        let found = ask(own, sql).await;
        own.batch_execute("RESET query_memory_max").await?;
        match found {
            Ok(found) => return same(&found, &expected).with_context(|| format!("with {kilobytes} kB")),
            Err(error) => {
                let refused =
                    error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::as_db_error);
                let (code, message) = refused.map_or(("", ""), |error| (error.code().code(), error.message()));
                let is_ours = ["HashJoin has", "HashAggregate has"].iter().any(|ours| message.contains(ours));
                ensure!(
                    code == "53200" && !is_ours && kilobytes <= (2 * peak).max(8 * MEMORY_KB_MIN),
                    "with {kilobytes} kB of {peak}: {error:#} {message}"
                );
                println!("{name}: {kilobytes} kB of {peak} are too few: {message}");
                kilobytes *= 2;
            }
        }
    }
}

async fn ask(client: &Client, sql: &str) -> Result<Rows> {
    let mut rows = Rows::new();
    for message in client.simple_query(sql).await? {
        if let SimpleQueryMessage::Row(row) = message {
            rows.push((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect());
        }
    }
    Ok(rows)
}

/// The most memory that a query took, kB.
async fn peak(client: &Client, sql: &str) -> Result<u64> {
    let lines = ask(client, &format!("EXPLAIN (ANALYZE) {sql}")).await?;
    let lines = lines.iter().filter_map(|row| row.first()?.as_deref());
    let peak = lines.filter_map(|line| line.trim().strip_prefix("Peak Memory: ")?.strip_suffix(" kB")).next_back();
    Ok(peak.context("a line that says it")?.parse()?)
}

/// Whether rows are the same, in any order; sums of floats may differ in their last digits.
fn same(found: &Rows, expected: &Rows) -> Result<()> {
    ensure!(found.len() == expected.len(), "{} rows instead of {}", found.len(), expected.len());
    let sorted = |rows: &Rows| {
        let mut rows = rows.clone();
        rows.sort();
        rows
    };
    for (found, expected) in sorted(found).iter().zip(&sorted(expected)) {
        let is_same = found.iter().zip(expected).all(|(found, expected)| match (found, expected) {
            (Some(found), Some(expected)) => found == expected || are_near(found, expected),
            _ => found == expected,
        });
        ensure!(is_same, "{found:?} instead of {expected:?}");
    }
    Ok(())
}

fn are_near(found: &str, expected: &str) -> bool {
    // Of numerics every digit counts: their scale is at most 16 here, and floats have as many.
    let is_float = |text: &str| text.contains('.') && text.len() > 15;
    match (found.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(found_number), Ok(expected_number)) if is_float(found) || is_float(expected) => {
            (found_number - expected_number).abs() <= expected_number.abs() * 1e-12
        }
        _ => false,
    }
}
