//! TPC-H at scale factor 0.1: the crate `tpchgen` makes the rows, COPY loads them, and the files of `tests/slt/tpch` say what
//! the tables and the 22 queries must give. The answers come from a real PostgreSQL, and are checked against one again here. Then the queries
//! are asked by our operators, by DataFusion's, and by ours with little memory.
//!
//! Every byte that was loaded is read back: the rows of a table come out through COPY and their checksum is compared with
//! the generator's. The order of the rows is nobody's promise, so the checksum does not depend on it.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::hash::{DefaultHasher, Hasher};

use anyhow::{Context, Result};
use ashlar_tests::{Ashlar, Options, Postgres};
use bytes::Bytes;
use futures::{SinkExt, TryStreamExt, pin_mut};
use tokio_postgres::{Client, NoTls};
use tpchgen::csv::{CustomerCsv, LineItemCsv, PartSuppCsv, SupplierCsv};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use crate::slt::{File, queries, report, run_file, slt_dir};
use crate::threeways::{self, Exception};

const SCALE_FACTOR: f64 = 0.1;

/// Bytes that one message of COPY carries, about.
const CHUNK_BYTES: usize = 64 * 1024;

/// The queries that two tenths of their memory are too little for.
const EXCEPTIONS: &[Exception] = &[];

#[test]
fn tpch_answers_as_postgresql_does_by_all_operators_and_with_little_memory() {
    let server = Ashlar::start(Options::default()).unwrap();
    let connection = server.connection_string();
    load_and_ask("ashlar", &connection, &[]);
    let text_of = |name: String| (name.clone(), queries(&tpch_file(&name)).concat());
    let texts: BTreeMap<String, String> = (1..=22).map(|query| text_of(format!("q{query:02}"))).collect();
    assert!(EXCEPTIONS.iter().all(|exception| texts.contains_key(exception.query)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let faults = runtime.block_on(threeways::compare(&server, &texts, EXCEPTIONS, false)).unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    server.stop();
}

#[test]
fn tpch_answers_are_those_of_a_real_postgresql() {
    let server = Postgres::start().unwrap();
    // Without the index two of the correlated subqueries take minutes there.
    let after_load = ["CREATE INDEX ON lineitem (l_partkey, l_suppkey)", "ANALYZE"];
    load_and_ask("postgres", &server.connection_string(), &after_load);
}

fn load_and_ask(engine: &str, connection: &str, after_load: &[&str]) {
    let mut failures = Vec::new();
    run_file(&tpch_file("schema"), engine, connection, &mut failures);
    report(&failures);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, driver) = tokio_postgres::connect(connection, NoTls).await.unwrap();
        tokio::spawn(driver);
        load(&client).await.unwrap();
        for statement in after_load {
            client.batch_execute(statement).await.unwrap();
        }
    });
    run_file(&tpch_file("loaded"), engine, connection, &mut failures);
    for query in 1..=22 {
        run_file(&tpch_file(&format!("q{query:02}")), engine, connection, &mut failures);
    }
    report(&failures);
}

fn tpch_file(name: &str) -> File {
    File::open(slt_dir().join("tpch").join(format!("{name}.slt")))
}

/// Loads all tables, half of them as text and half as CSV, and reads each back.
async fn load(client: &Client) -> Result<()> {
    let regions = RegionGenerator::default();
    copy(client, "region", TEXT, as_text(regions.iter()), as_text(regions.iter())).await?;
    let nations = NationGenerator::default();
    copy(client, "nation", TEXT, as_text(nations.iter()), as_text(nations.iter())).await?;
    let parts = PartGenerator::new(SCALE_FACTOR, 1, 1);
    copy(client, "part", TEXT, as_text(parts.iter()), as_text(parts.iter())).await?;
    let orders = OrderGenerator::new(SCALE_FACTOR, 1, 1);
    copy(client, "orders", TEXT, as_text(orders.iter()), as_text(orders.iter())).await?;
    let suppliers = SupplierGenerator::new(SCALE_FACTOR, 1, 1);
    copy(client, "supplier", CSV, suppliers.iter().map(SupplierCsv::new), as_text(suppliers.iter())).await?;
    let supplies = PartSuppGenerator::new(SCALE_FACTOR, 1, 1);
    copy(client, "partsupp", CSV, supplies.iter().map(PartSuppCsv::new), as_text(supplies.iter())).await?;
    let customers = CustomerGenerator::new(SCALE_FACTOR, 1, 1);
    copy(client, "customer", CSV, customers.iter().map(CustomerCsv::new), as_text(customers.iter())).await?;
    let items = LineItemGenerator::new(SCALE_FACTOR, 1, 1);
    let text = as_text(items.iter()).map(with_scale_of_quantity);
    copy(client, "lineitem", CSV, items.iter().map(LineItemCsv::new), text).await
}

/// COPY's own format.
const TEXT: &str = "";
const CSV: &str = "WITH (FORMAT csv)";

/// Loads a table with these lines and reads it back; `rows` are the same rows in COPY's text format.
async fn copy(
    client: &Client,
    table: &str,
    format: &str,
    lines: impl Iterator<Item = impl Display>,
    rows: impl Iterator<Item = String>,
) -> Result<()> {
    copy_in(client, &format!("COPY {table} FROM STDIN {format}"), lines).await?;
    assert_eq!(copy_out(client, table).await?, Checksum::of(rows), "what {table} holds is not what it was sent");
    Ok(())
}

/// The generator's own form ends every field with `|`; no value has a `|`, a tab or a backslash in it.
fn as_text(rows: impl Iterator<Item = impl Display>) -> impl Iterator<Item = String> {
    rows.map(|row| {
        let row = row.to_string();
        row.strip_suffix('|').unwrap_or(&row).replace('|', "\t")
    })
}

/// The generator writes a line item's quantity as an integer; the column is `numeric(15,2)`.
fn with_scale_of_quantity(row: String) -> String {
    let mut fields: Vec<&str> = row.split('\t').collect();
    let quantity = format!("{}.00", fields[4]);
    fields[4] = &quantity;
    fields.join("\t")
}

async fn copy_in(client: &Client, statement: &str, lines: impl Iterator<Item = impl Display>) -> Result<()> {
    let sink = client.copy_in::<_, Bytes>(statement).await?;
    pin_mut!(sink);
    let mut chunk = String::with_capacity(2 * CHUNK_BYTES);
    let mut sent = 0;
    for line in lines {
        writeln!(chunk, "{line}")?;
        sent += 1;
        if chunk.len() >= CHUNK_BYTES {
            sink.send(Bytes::copy_from_slice(chunk.as_bytes())).await?;
            chunk.clear();
        }
    }
    sink.send(Bytes::copy_from_slice(chunk.as_bytes())).await?;
    let loaded = sink.finish().await.with_context(|| statement.to_owned())?;
    assert_eq!(loaded, sent, "{statement}: the count of rows");
    Ok(())
}

async fn copy_out(client: &Client, table: &str) -> Result<Checksum> {
    let chunks = client.copy_out(&format!("COPY {table} TO STDOUT")).await?;
    pin_mut!(chunks);
    let mut checksum = Checksum::default();
    let mut rest: Vec<u8> = Vec::new();
    // A server may send a row a message, many, or a part of one.
    while let Some(chunk) = chunks.try_next().await? {
        rest.extend_from_slice(&chunk);
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in rest[..whole].split_inclusive(|byte| *byte == b'\n') {
            checksum.add(&line[..line.len() - 1]);
        }
        rest.drain(..whole);
    }
    assert!(rest.is_empty(), "{table}: the last row has no end");
    Ok(checksum)
}

/// Rows and the wrapping sum of their hashes: the same for the same rows in any order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Checksum {
    rows: u64,
    sum: u64,
}

impl Checksum {
    fn of(rows: impl Iterator<Item = String>) -> Checksum {
        let mut checksum = Checksum::default();
        for row in rows {
            checksum.add(row.as_bytes());
        }
        checksum
    }

    fn add(&mut self, row: &[u8]) {
        let mut hasher = DefaultHasher::new();
        hasher.write(row);
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hasher.finish());
    }
}
