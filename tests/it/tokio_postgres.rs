//! tokio-postgres (Rust), as documentation and conformance test: the same tour on PostgreSQL and on Ashlar.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use ashlar_tests::{Ashlar, Postgres};
use bytes::Bytes;
use futures::future::try_join_all;
use futures::{SinkExt, StreamExt, TryStreamExt, pin_mut};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::error::{ErrorPosition, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, IsolationLevel, NoTls, SimpleQueryMessage};

#[test]
fn tokio_postgres_takes_its_tour() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime
        .block_on(tour(&Postgres::shared().connection_string()))
        .unwrap_or_else(|error| panic!("on PostgreSQL: {error:?}"));
    let ashlar = Ashlar::shared();
    runtime.block_on(tour(&ashlar.connection_string())).unwrap_or_else(|error| panic!("on Ashlar: {error:?}"));
}

/// A connection whose driver runs on the current runtime until the client is dropped.
pub(crate) async fn connect(address: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn tour(address: &str) -> Result<()> {
    let mut client = connect(address).await?;
    client.batch_execute("DROP TABLE IF EXISTS rust_item; DROP TABLE IF EXISTS rust_types; DROP TABLE IF EXISTS rust_defaults, rust_volatile").await?;
    types(&client).await.context("types")?;
    statements(&client).await.context("statements")?;
    pipelining(&client).await.context("pipelining")?;
    copy(&client).await.context("copy")?;
    transactions_and_portals(&mut client, address).await.context("transactions and portals")?;
    errors(&client).await.context("errors")?;
    cancel(&client).await.context("cancel")?;
    client.batch_execute("DROP TABLE rust_item").await?;
    Ok(())
}

/// The driver sends every parameter and reads every result in binary.
async fn types(client: &Client) -> Result<()> {
    client
        .batch_execute(
            "CREATE TABLE rust_types (id integer PRIMARY KEY, b boolean, i2 smallint, i8 bigint, f4 real, \
             f8 double precision, t text, v varchar(20), bin bytea, ts timestamp, tz timestamptz, ints integer[], texts text[])",
        )
        .await?;
    let insert = client.prepare("INSERT INTO rust_types VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13)").await?;
    let expected = [
        Type::INT4,
        Type::BOOL,
        Type::INT2,
        Type::INT8,
        Type::FLOAT4,
        Type::FLOAT8,
        Type::TEXT,
        Type::VARCHAR,
        Type::BYTEA,
        Type::TIMESTAMP,
        Type::TIMESTAMPTZ,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
    ];
    ensure!(insert.params() == expected, "{:?}", insert.params());
    let moment = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
    let (ints, texts) = (vec![Some(1), None, Some(3)], vec!["a,b", "q\"q", ""]);
    client
        .execute(
            &insert,
            &[
                &1_i32,
                &true,
                &i16::MIN,
                &i64::MAX,
                &1.5_f32,
                &0.1_f64,
                &"grün 🌳",
                &"varchar",
                &&[0_u8, 1, 255, 92][..],
                &moment,
                &moment,
                &ints,
                &texts,
            ],
        )
        .await?;
    let row = client.query_one("SELECT * FROM rust_types WHERE id = $1", &[&1_i32]).await?;
    ensure!(row.get::<_, bool>("b") && row.get::<_, i16>("i2") == i16::MIN && row.get::<_, i64>("i8") == i64::MAX);
    ensure!(row.get::<_, f32>("f4") == 1.5 && row.get::<_, f64>("f8") == 0.1);
    ensure!(row.get::<_, &str>("t") == "grün 🌳" && row.get::<_, &str>("v") == "varchar");
    ensure!(row.get::<_, &[u8]>("bin") == [0, 1, 255, 92]);
    ensure!(row.get::<_, SystemTime>("ts") == moment && row.get::<_, SystemTime>("tz") == moment);
    ensure!(row.get::<_, Vec<Option<i32>>>("ints") == ints && row.get::<_, Vec<&str>>("texts") == texts);
    let types: Vec<&Type> = row.columns().iter().map(|column| column.type_()).collect();
    ensure!(types == expected.iter().collect::<Vec<_>>(), "{types:?}");

    client.execute("INSERT INTO rust_types (id, t) VALUES ($1, $2)", &[&2_i32, &None::<&str>]).await?;
    let row = client.query_one("SELECT * FROM rust_types WHERE id = 2", &[]).await?;
    ensure!(row.get::<_, Option<bool>>(1).is_none() && row.get::<_, Option<Vec<i32>>>("ints").is_none());
    client.batch_execute("DROP TABLE rust_types").await?;
    Ok(())
}

async fn statements(client: &Client) -> Result<()> {
    client
        .batch_execute("CREATE TABLE rust_item (id bigint PRIMARY KEY, name text NOT NULL, sold integer NOT NULL)")
        .await?;
    let insert = client.prepare("INSERT INTO rust_item VALUES ($1, $2, $3)").await?;
    for id in 1..=100_i64 {
        let count = client.execute(&insert, &[&id, &format!("item {id}"), &((id % 10) as i32)]).await?;
        ensure!(count == 1);
    }
    let rows = client.query("SELECT id FROM rust_item WHERE sold = $1 ORDER BY id", &[&3_i32]).await?;
    ensure!(rows.iter().map(|row| row.get::<_, i64>(0)).eq((3..100).step_by(10)));
    ensure!(client.query_opt("SELECT name FROM rust_item WHERE id = $1", &[&1000_i64]).await?.is_none());
    let typed = client.prepare_typed("SELECT $1 + 1", &[Type::INT8]).await?;
    ensure!(client.query_one(&typed, &[&41_i64]).await?.get::<_, i64>(0) == 42);
    ensure!(client.execute("UPDATE rust_item SET sold = sold + 1 WHERE id <= $1", &[&10_i64]).await? == 10);
    let any = client.query("SELECT id FROM rust_item WHERE id = ANY($1) ORDER BY id", &[&vec![5_i64, 2, 500]]).await?;
    ensure!(any.iter().map(|row| row.get::<_, i64>(0)).eq([2, 5]));

    let rows = client.query_raw("SELECT name FROM rust_item ORDER BY id", std::iter::empty::<i32>()).await?;
    let names: Vec<String> = rows.map_ok(|row| row.get(0)).try_collect().await?;
    ensure!(names.len() == 100 && names[99] == "item 100");

    let messages =
        client.simple_query("SELECT id, name FROM rust_item WHERE id = 7; DELETE FROM rust_item WHERE id = 0").await?;
    let mut rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get("name"),
        _ => None,
    });
    ensure!(rows.next() == Some("item 7") && rows.next().is_none());
    ensure!(matches!(messages.last(), Some(SimpleQueryMessage::CommandComplete(0))));
    Ok(())
}

/// Requests that are made without waiting go out together, and each gets its own answer.
async fn pipelining(client: &Client) -> Result<()> {
    let statement = client.prepare("SELECT name FROM rust_item WHERE id = $1").await?;
    let statement = &statement;
    let names = try_join_all((1..=100_i64).map(async move |id| {
        let row = client.query_one(statement, &[&id]).await?;
        Ok::<String, tokio_postgres::Error>(row.get(0))
    }));
    ensure!(names.await? == (1..=100).map(|id| format!("item {id}")).collect::<Vec<_>>());
    Ok(())
}

async fn copy(client: &Client) -> Result<()> {
    let sink = client.copy_in("COPY rust_item FROM STDIN (FORMAT binary)").await?;
    let writer = BinaryCopyInWriter::new(sink, &[Type::INT8, Type::TEXT, Type::INT4]);
    pin_mut!(writer);
    for id in 1000..4000_i64 {
        writer.as_mut().write(&[&id, &format!("copied {id}"), &7_i32]).await?;
    }
    ensure!(writer.finish().await? == 3000);

    let sink = client.copy_in("COPY rust_item (id, name, sold) FROM STDIN").await?;
    pin_mut!(sink);
    // Cut in the middle of a row.
    for part in ["4000\ttext\t1\n40", "01\ttext \\\\ two\t", "2\n"] {
        sink.send(Bytes::from_static(part.as_bytes())).await?;
    }
    ensure!(sink.finish().await? == 2);

    let stream =
        client.copy_out("COPY (SELECT id, name FROM rust_item WHERE id >= 3999 ORDER BY id) TO STDOUT").await?;
    let text: Vec<Bytes> = stream.try_collect().await?;
    ensure!(text.concat() == b"3999\tcopied 3999\n4000\ttext\n4001\ttext \\\\ two\n", "{text:?}");

    let stream =
        client.copy_out("COPY (SELECT id, name FROM rust_item WHERE id >= 1000) TO STDOUT (FORMAT binary)").await?;
    let rows = BinaryCopyOutStream::new(stream, &[Type::INT8, Type::TEXT]);
    pin_mut!(rows);
    let (mut count, mut sum) = (0, 0);
    while let Some(row) = rows.next().await {
        let row = row?;
        count += 1;
        sum += row.get::<i64>(0);
        ensure!(!row.get::<&str>(1).is_empty());
    }
    ensure!(count == 3002 && sum == (1000..=4001).sum::<i64>(), "{count} rows, sum {sum}");

    // Columns that the data has not: computed once for all rows, or counted.
    client
        .batch_execute(
            "CREATE TABLE rust_defaults (id serial PRIMARY KEY, at timestamptz DEFAULT now(), word text DEFAULT upper('x'), v integer); \
             CREATE TABLE rust_volatile (id uuid DEFAULT gen_random_uuid() PRIMARY KEY, v integer)",
        )
        .await?;
    let sink = client.copy_in("COPY rust_defaults (v) FROM STDIN").await?;
    pin_mut!(sink);
    sink.send(Bytes::from_static(b"10\n20\n30\n")).await?;
    ensure!(sink.finish().await? == 3);
    let row = client
        .query_one(
            "SELECT sum(id * v), count(DISTINCT at), max(at) > now() - interval '1 hour', min(word) FROM rust_defaults",
            &[],
        )
        .await?;
    let (sum, times, is_recent, word) = (row.get::<_, i64>(0), row.get::<_, i64>(1), row.get(2), row.get::<_, &str>(3));
    ensure!((sum, times, is_recent, word) == (140, 1, true, "X"), "{sum} {times} {is_recent} {word}");
    let sink = client.copy_in("COPY rust_volatile FROM STDIN").await?;
    pin_mut!(sink);
    sink.send(Bytes::from_static(b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\t1\n")).await?;
    ensure!(sink.finish().await? == 1);

    // A sink that is dropped before its end leaves nothing behind.
    let sink = client.copy_in("COPY rust_item FROM STDIN").await?;
    {
        pin_mut!(sink);
        sink.send(Bytes::from_static(b"9000\tlost\t1\n")).await?;
    }
    let row = client.query_one("SELECT count(*) FROM rust_item WHERE id >= 9000", &[]).await?;
    ensure!(row.get::<_, i64>(0) == 0);
    client.batch_execute("DELETE FROM rust_item WHERE id >= 1000").await?;
    Ok(())
}

async fn transactions_and_portals(client: &mut Client, address: &str) -> Result<()> {
    let count = "SELECT count(*) FROM rust_item";
    {
        // Dropped without commit: rolled back.
        let transaction = client.transaction().await?;
        transaction.execute("DELETE FROM rust_item", &[]).await?;
        ensure!(transaction.query_one(count, &[]).await?.get::<_, i64>(0) == 0);
    }
    ensure!(client.query_one(count, &[]).await?.get::<_, i64>(0) == 100);

    let mut transaction = client.transaction().await?;
    transaction.execute("UPDATE rust_item SET name = 'outer' WHERE id = 1", &[]).await?;
    let savepoint = transaction.transaction().await?;
    savepoint.execute("UPDATE rust_item SET name = 'inner' WHERE id = 1", &[]).await?;
    savepoint.rollback().await?;
    let statement = transaction.prepare("SELECT id FROM rust_item ORDER BY id").await?;
    let portal = transaction.bind(&statement, &[]).await?;
    let mut seen = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 30).await?;
        if rows.is_empty() {
            break;
        }
        ensure!(rows.len() <= 30);
        seen.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    }
    ensure!(seen.iter().copied().eq(1..=100), "{seen:?}");
    transaction.commit().await?;
    let name: String = client.query_one("SELECT name FROM rust_item WHERE id = 1", &[]).await?.get(0);
    ensure!(name == "outer", "{name}");

    let other = connect(address).await?;
    let snapshot = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await?;
    ensure!(snapshot.query_one(count, &[]).await?.get::<_, i64>(0) == 100);
    other.execute("INSERT INTO rust_item VALUES (500, 'later', 1)", &[]).await?;
    ensure!(snapshot.query_one(count, &[]).await?.get::<_, i64>(0) == 100);
    snapshot.commit().await?;
    ensure!(client.query_one(count, &[]).await?.get::<_, i64>(0) == 101);
    Ok(())
}

async fn errors(client: &Client) -> Result<()> {
    for (state, sql) in [
        (SqlState::UNDEFINED_TABLE, "SELECT * FROM rust_missing"),
        (SqlState::UNDEFINED_COLUMN, "SELECT missing FROM rust_item"),
        (SqlState::UNIQUE_VIOLATION, "INSERT INTO rust_item VALUES (1, 'x', 1)"),
        (SqlState::NOT_NULL_VIOLATION, "INSERT INTO rust_item (id) VALUES (900)"),
        (SqlState::DIVISION_BY_ZERO, "SELECT id / (sold - sold) FROM rust_item"),
        (SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "SELECT 9223372036854775807 + id FROM rust_item"),
    ] {
        let error = client.query(sql, &[]).await.err().with_context(|| format!("no error: {sql}"))?;
        ensure!(error.code() == Some(&state), "{sql}: {error:?}");
    }
    let error = client.query("SELECT id FORM rust_item", &[]).await.err().context("no error")?;
    let error = error.as_db_error().context("no error of the server")?;
    ensure!(error.code() == &SqlState::SYNTAX_ERROR && error.severity() == "ERROR");
    ensure!(error.position() == Some(&ErrorPosition::Original(16)), "{:?}", error.position());
    Ok(())
}

async fn cancel(client: &Client) -> Result<()> {
    let token = client.cancel_token();
    let query = client.query_one(
        "SELECT count(*) FROM rust_item a, rust_item b, rust_item c, rust_item d, rust_item e, rust_item f",
        &[],
    );
    pin_mut!(query);
    // A request that comes before the query has begun is lost, as the protocol has it: ask until it ends.
    let outcome = loop {
        match tokio::time::timeout(Duration::from_millis(50), &mut query).await {
            Ok(outcome) => break outcome,
            Err(_) => token.cancel_query(NoTls).await?,
        }
    };
    let error = outcome.err().context("the query was not cancelled")?;
    ensure!(error.code() == Some(&SqlState::QUERY_CANCELED), "{error:?}");
    ensure!(client.query_one("SELECT 1 AS one", &[]).await?.get::<_, i32>(0) == 1);
    Ok(())
}
