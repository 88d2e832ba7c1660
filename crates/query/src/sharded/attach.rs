//! `CREATE TABLE ... USING sharded WITH (..., attach = true)`: tables that exist on every shard become one sharded table. They are
//! read, but not changed.
//!
//! Each shard itself reports how its table differs from the statement: it creates the statement's table in a transaction that is
//! rolled back, and compares the two in its catalog. Then the keys of all rows are read: each must be on the shard where the rule
//! looks for it. `attach_check = false` skips this check. DROP TABLE forgets such a table and leaves its rows in place.

use ashlar_base::value::binary;
use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Error, ErrorCode, Result, SqlType};
use ashlar_functions::quoting::quote_ident;
use ashlar_shard::backend::{RowReader, Settings};
use ashlar_shard::pool::Lease;
use ashlar_shard::rules::{Extension, Key, KeyClass, Placement, Shard, ShardId};
use pg_query::NodeEnum;
use pg_query::protobuf::CreateStmt;

use super::ShardedTable;
use super::ddl::{physical, plain_statement};
use super::rule::CONSTRAINT;
use super::rule_constraints::{held_otherwise, holding};
use crate::resources::StatementResources;
use crate::statement::statement_text;

/// The table that a shard makes for a moment.
const WANTED: &str = "ashlar_wanted";

/// Differences of one shard that are told.
const TOLD_MAX: usize = 10;

/// `text`
const TEXT: u32 = 25;

/// How the table of a name differs from [`WANTED`], a difference a row; none where they are alike.
fn differences(table: &str) -> String {
    let attributes = |relation: &str| {
        format!(
            "(SELECT a.attname::text AS name, row_number() OVER (ORDER BY a.attnum) AS place, \
             pg_catalog.format_type(a.atttypid, a.atttypmod) AS kind, a.attnotnull AS filled, \
             a.attcollation AS collation, coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), '') AS preset \
             FROM pg_catalog.pg_attribute a \
             LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
             WHERE a.attrelid = {relation} AND a.attnum > 0 AND NOT a.attisdropped)"
        )
    };
    let keys = |relation: &str| {
        format!(
            "(SELECT pg_catalog.pg_get_constraintdef(c.oid) AS text FROM pg_catalog.pg_constraint c \
             WHERE c.conrelid = {relation} AND c.contype IN ('p', 'u', 'c'))"
        )
    };
    let (wanted, found) = (wanted(), to_regclass(table));
    format!(
        "SELECT CASE \
         WHEN f.name IS NULL THEN 'column \"' || w.name || '\" is missing' \
         WHEN w.name IS NULL THEN 'column \"' || f.name || '\" is not in the statement' \
         WHEN w.kind <> f.kind THEN 'column \"' || w.name || '\" is of type ' || f.kind || ' instead of ' || w.kind \
         WHEN w.place <> f.place THEN 'column \"' || w.name || '\" is column ' || f.place || ' instead of ' || w.place \
         WHEN w.filled AND NOT f.filled THEN 'column \"' || w.name || '\" can be null' \
         WHEN f.filled AND NOT w.filled THEN 'column \"' || w.name || '\" is not null' \
         WHEN w.collation <> f.collation THEN 'column \"' || w.name || '\" has a collation of its own' \
         ELSE 'column \"' || w.name || '\" has another default: ' || f.preset END \
         FROM {} w FULL JOIN {} f ON f.name = w.name \
         WHERE (w.name, w.kind, w.place, w.filled, w.collation, w.preset) \
         IS DISTINCT FROM (f.name, f.kind, f.place, f.filled, f.collation, f.preset) \
         UNION ALL SELECT 'it has no ' || w.text FROM {} w WHERE w.text NOT IN (SELECT f.text FROM {} f) \
         UNION ALL SELECT 'it is no table' FROM pg_catalog.pg_class c WHERE c.oid = {found} AND c.relkind NOT IN ('r', 'p')",
        attributes(&wanted),
        attributes(&found),
        keys(&wanted),
        keys(&found)
    )
}

fn wanted() -> String {
    format!("'pg_temp.{WANTED}'::regclass")
}

fn to_regclass(table: &str) -> String {
    format!("pg_catalog.to_regclass({})", quoted(table))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Looks at what is there. `extension`: what is about to be changed, with shards that are held to the rule then, whatever they are held to now.
///
/// # Errors
/// 42P01 where a shard has no such table, 42P16 where it is another one, 55000 where a row is not on the shard of its key; what a
/// shard says.
pub(super) async fn check(
    table: &ShardedTable,
    statement: &CreateStmt,
    resources: &StatementResources,
    rows: bool,
    extension: &Extension,
) -> Result<()> {
    let mut wanted = plain_statement(statement);
    if let Some(relation) = &mut wanted.relation {
        (relation.schemaname, relation.relname) = ("pg_temp".to_owned(), WANTED.to_owned());
    }
    let making = statement_text(&NodeEnum::CreateStmt(wanted))?;
    let rule = &table.routed.rule;
    for (number, shard) in rule.shards().iter().enumerate() {
        let fleet = &table.fleet;
        let from = (fleet.pool_of_queries(), None);
        let mut lease = fleet.lend(from, &shard.server, &resources.role, &Settings::default()).await?;
        let name = physical(shard);
        let there = texts(&mut lease, &format!("SELECT {}::text", to_regclass(&name))).await?;
        if !matches!(&there[..], [Some(_)]) {
            return Err(on(shard, ErrorCode::UndefinedTable, format!("relation \"{name}\" does not exist")));
        }
        lease.run(&format!("BEGIN; {making}")).await?;
        let is_replaced = extension.changed.iter().any(|(changed, _)| changed.index() == number);
        let found = compared(&mut lease, table, number, is_replaced).await;
        lease.run("ROLLBACK").await?;
        let (mut found, held) = found?;
        let hint = (!held.is_empty()).then(|| format!("Drop it: ALTER TABLE {name} DROP CONSTRAINT {CONSTRAINT}."));
        found.extend(held);
        if !found.is_empty() {
            let more = found.len().saturating_sub(TOLD_MAX);
            let mut told = found.into_iter().take(TOLD_MAX).collect::<Vec<_>>().join("; ");
            if more > 0 {
                told.push_str(&format!("; and {more} more"));
            }
            let message = format!("table {name} is not as the statement says");
            let error = on(shard, ErrorCode::InvalidTableDefinition, message).with_detail(told);
            return Err(match hint {
                Some(hint) => error.with_hint(hint),
                None => error,
            });
        }
        if rows && rule.placement() == Placement::Sharded {
            check_rows(table, &mut lease, shard, ShardId(u16::try_from(number).unwrap_or(u16::MAX))).await?;
        }
    }
    Ok(())
}

/// How a shard's table differs from [`WANTED`], which is there for the moment, and what holds it to another rule, where that is not replaced.
async fn compared(
    lease: &mut Lease,
    table: &ShardedTable,
    number: usize,
    is_replaced: bool,
) -> Result<(Vec<String>, Vec<String>)> {
    let name = physical(&table.routed.rule.shards()[number]);
    let found = texts(lease, &differences(&name)).await?;
    let mut held = Vec::new();
    if !is_replaced {
        // As the shard would write it.
        if let Some(holding) = holding(table, number, &format!("pg_temp.{WANTED}")) {
            lease.run(&holding).await?;
        }
        held = texts(lease, &held_otherwise(&to_regclass(&name), &wanted())).await?;
    }
    Ok((found.into_iter().flatten().collect(), held.into_iter().flatten().collect()))
}

/// The only column of a query.
pub(super) async fn texts(lease: &mut Lease, sql: &str) -> Result<Vec<Option<String>>> {
    lease.queue_scan(sql);
    lease.flush().await?;
    let (mut all, mut failure) = (Vec::new(), None);
    while let Some(range) = lease.next_row(&[TEXT], &mut failure).await? {
        let value = RowReader::new(lease.row(&range)).and_then(|mut row| row.value());
        let value = value.map_err(|_| garbled())?.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        lease.consume_row(&range);
        if all.len() <= 10 * TOLD_MAX {
            all.push(value);
        }
    }
    Ok(all)
}

/// Reads the keys of all rows of a shard.
async fn check_rows(table: &ShardedTable, lease: &mut Lease, shard: &Shard, here: ShardId) -> Result<()> {
    let rule = &table.routed.rule;
    let columns: Vec<_> = rule.key().iter().map(|ordinal| &table.schema.columns[*ordinal]).collect();
    let names: Vec<String> = columns.iter().map(|column| quote_ident(&column.name)).collect();
    let types: Vec<SqlType> = columns.iter().map(|column| column.sql_type).collect();
    let oids: Vec<u32> = types.iter().map(|sql_type| sql_type.oid()).collect();
    let name = physical(shard);
    lease.queue_scan(&format!("SELECT {} FROM {name}", names.join(", ")));
    lease.flush().await?;
    let mut failure = None;
    while let Some(range) = lease.next_row(&oids, &mut failure).await? {
        let mut row = RowReader::new(lease.row(&range)).map_err(|_| garbled())?;
        let mut keys = Vec::with_capacity(types.len());
        for (sql_type, class) in types.iter().zip(rule.classes()) {
            keys.push(match row.value().map_err(|_| garbled())? {
                Some(bytes) => Key::new(*class, &binary::decode(*sql_type, bytes)?.as_datum())?,
                None => None,
            });
        }
        // A key that no shard has is on the wrong one too.
        if rule.shard_of_keys(&keys).ok() != Some(here) {
            let told: Vec<String> =
                keys.iter().zip(rule.classes()).map(|(key, class)| told(key.as_ref(), *class)).collect();
            let message = format!("a row of table {name} is not on the shard of its key");
            let error = on(shard, ErrorCode::ObjectNotInPrerequisiteState, message);
            return Err(error.with_detail(format!("Its key is ({}).", told.join(", "))));
        }
        lease.consume_row(&range);
        tokio::task::coop::consume_budget().await;
    }
    Ok(())
}

fn told(key: Option<&Key>, class: KeyClass) -> String {
    let mut out = Vec::new();
    match key {
        Some(key) => text::write(class.sql_type(), &key.as_datum(class), &TextStyle::default(), &mut out),
        None => out.extend_from_slice(b"null"),
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn on(shard: &Shard, code: ErrorCode, message: String) -> Error {
    Error::new(code, message).with_context(format!("shard {}", shard.server))
}

fn garbled() -> Error {
    Error::new(ErrorCode::ProtocolViolation, "a shard sent what cannot be read")
}
