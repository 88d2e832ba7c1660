//! `ashlar`: what only this server can tell about its tables.

use std::any::Any;
use std::collections::HashMap;
use std::time::Duration;

use ashlar_base::{Result, TableId, Value};
use datafusion::catalog::Session;
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use futures::TryStreamExt;

use super::layout::{Rows, string};
use super::{Definition, Picture};
use crate::catalog::{CatalogState, Table};
use crate::files::FileTable;

/// The tables. `rows` and `partitions` are NULL for files, whose rows nobody has counted; `bytes` is NULL for files
/// that cannot be listed now.
pub(super) const TABLES: &[Definition] = &[
    Definition {
        name: "tables",
        columns: "name text, kind text, rows bigint, bytes bigint, partitions integer, path text, ttl_ms bigint, \
            max_idle_ms bigint, memory_max bigint, eviction text, expired bigint, evicted bigint",
        fill: Some(tables),
    },
    Definition {
        name: "shards",
        columns: "name text, host text, port integer, dbname text, tables bigint, replica_of text, state text, \
            role text, is_acting boolean, error text",
        fill: Some(shards),
    },
    Definition {
        name: "backends",
        columns: "server text, pool text, pid integer, login text, state text, age_ms bigint, lent bigint",
        fill: Some(backends),
    },
    Definition {
        name: "pools",
        columns: "server text, pool text, connections_max bigint, idle bigint, in_use bigint, waiting bigint, \
            oldest_wait_ms bigint, waits bigint, waited_ms bigint, timeouts bigint, refused bigint, made bigint, \
            lent bigint, used_ms bigint, taken bigint",
        fill: Some(pools),
    },
    Definition {
        name: "in_doubt",
        columns: "gid text, server text, deciding_server text, age_ms bigint, state text",
        fill: Some(in_doubt),
    },
    Definition {
        name: "routes",
        columns: "route text, tables text, statements bigint, errors bigint, rows bigint, time_us bigint",
        fill: Some(routes),
    },
];

fn tables(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    let bigint = |number: u64| Value::Int8(i64::try_from(number).unwrap_or(i64::MAX));
    for (name, table) in picture.catalog.tables() {
        match table {
            Table::Grid(region) => {
                let (life, ended) = (region.schema().life, region.ended());
                let stated = |number: u64| if number == 0 { Value::Null } else { bigint(number) };
                rows.push([
                    ("name", string(name)),
                    ("kind", string("grid")),
                    ("rows", bigint(region.row_count())),
                    ("bytes", bigint(region.bytes())),
                    ("partitions", Value::Int4(i32::from(region.partition_count()))),
                    ("ttl_ms", stated(life.ttl_ms)),
                    ("max_idle_ms", stated(life.max_idle_ms)),
                    ("memory_max", stated(life.memory_max)),
                    ("eviction", string(life.eviction.name())),
                    ("expired", bigint(ended.expired)),
                    ("evicted", bigint(ended.evicted)),
                ])?;
            }
            Table::File(file) => rows.push([
                ("name", string(name)),
                ("kind", string("file")),
                ("bytes", picture.file_bytes.get(&file.id).copied().map_or(Value::Null, bigint)),
                ("path", string(&file.path)),
            ])?,
            Table::Sharded(_) => rows.push([("name", string(name)), ("kind", string("sharded"))])?,
        }
    }
    Ok(())
}

/// Bytes of the files of every foreign table whose files can be listed.
pub(super) async fn file_bytes(state: &dyn Session, catalog: &CatalogState) -> HashMap<TableId, u64> {
    let mut result = HashMap::new();
    for (_, table) in catalog.tables() {
        if let Table::File(file) = table
            && let Ok(Some(bytes)) = bytes_of(state, file).await
        {
            result.insert(file.id, bytes);
        }
    }
    result
}

async fn bytes_of(state: &dyn Session, file: &FileTable) -> datafusion::common::Result<Option<u64>> {
    let Some((paths, extension)) = listed(file) else { return Ok(None) };
    let mut bytes = 0;
    for path in &paths {
        let store = state.runtime_env().object_store(path)?;
        let files = path.list_all_files(state, store.as_ref(), &extension).await?;
        bytes += files.try_fold(0, |sum, file| std::future::ready(Ok(sum + file.size))).await?;
    }
    Ok(Some(bytes))
}

/// Where the files of a table lie, and how their names end.
fn listed(file: &FileTable) -> Option<(Vec<ListingTableUrl>, String)> {
    let provider: &dyn Any = file.provider.as_ref();
    let listing = provider.downcast_ref::<ListingTable>()?;
    Some((listing.table_paths().clone(), listing.options().file_extension.clone()))
}

/// Servers, without anything that only they should know.
fn shards(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    let Some(fleet) = picture.catalog.fleet() else { return Ok(()) };
    for server in fleet.catalog().known().servers.values() {
        let is_on = |table: &Table| match table {
            Table::Sharded(table) => table.routed.rule.shards().iter().any(|shard| *shard.server == *server.name),
            Table::Grid(_) | Table::File(_) => false,
        };
        let tables = picture.catalog.tables().filter(|(_, table)| is_on(table)).count();
        let report = fleet.health().report(server);
        rows.push([
            ("name", string(&server.name)),
            ("host", string(&server.host)),
            ("port", Value::Int4(i32::from(server.port))),
            ("dbname", string(&server.dbname)),
            ("tables", Value::Int8(i64::try_from(tables).unwrap_or(i64::MAX))),
            ("replica_of", server.primary.as_deref().map_or(Value::Null, string)),
            ("state", string(report.state)),
            ("role", report.role.map_or(Value::Null, string)),
            ("is_acting", Value::Bool(report.is_acting)),
            ("error", report.error.as_deref().map_or(Value::Null, string)),
        ])?;
    }
    Ok(())
}

/// Each connection to a server.
fn backends(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    let Some(fleet) = picture.catalog.fleet() else { return Ok(()) };
    let mut all = fleet.connections();
    all.sort_by(|one, other| (&one.server, &one.pool, one.pid).cmp(&(&other.server, &other.pool, other.pid)));
    for one in all {
        rows.push([
            ("server", string(&one.server)),
            ("pool", string(&one.pool)),
            ("pid", Value::Int4(one.pid)),
            ("login", string(&one.login)),
            ("state", string(one.state)),
            ("age_ms", milliseconds(one.age)),
            ("lent", Value::Int8(i64::try_from(one.lent).unwrap_or(i64::MAX))),
        ])?;
    }
    Ok(())
}

/// What the pools of connections do, by server and thread.
fn pools(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    let Some(fleet) = picture.catalog.fleet() else { return Ok(()) };
    let size = |count: usize| Value::Int8(i64::try_from(count).unwrap_or(i64::MAX));
    let count = |count: u64| Value::Int8(i64::try_from(count).unwrap_or(i64::MAX));
    let mut all = fleet.statistics();
    all.sort_by(|one, other| (&one.server, &one.pool).cmp(&(&other.server, &other.pool)));
    for line in all {
        rows.push([
            ("server", string(&line.server)),
            ("pool", string(&line.pool)),
            ("connections_max", size(line.connections_max)),
            ("idle", size(line.idle)),
            ("in_use", size(line.in_use)),
            ("waiting", size(line.waiting)),
            ("oldest_wait_ms", line.oldest_wait.map_or(Value::Null, milliseconds)),
            ("waits", count(line.waits)),
            ("waited_ms", milliseconds(line.waited)),
            ("timeouts", count(line.timeouts)),
            ("refused", count(line.refused)),
            ("made", count(line.made)),
            ("lent", count(line.lent)),
            ("used_ms", milliseconds(line.used)),
            ("taken", count(line.taken)),
        ])?;
    }
    Ok(())
}

fn milliseconds(time: Duration) -> Value {
    Value::Int8(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// What servers had prepared and not finished when they were last looked at.
fn in_doubt(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    let Some(fleet) = picture.catalog.fleet() else { return Ok(()) };
    for one in fleet.in_doubt().iter() {
        rows.push([
            ("gid", string(&one.gid)),
            ("server", string(&one.server)),
            ("deciding_server", one.decider.as_deref().map_or(Value::Null, string)),
            ("age_ms", milliseconds(one.age)),
            ("state", string(one.state)),
        ])?;
    }
    Ok(())
}

/// What routes to servers have cost.
fn routes(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    let Some(fleet) = picture.catalog.fleet() else { return Ok(()) };
    let count = |count: u64| Value::Int8(i64::try_from(count).unwrap_or(i64::MAX));
    for route in fleet.routes().statistics() {
        rows.push([
            ("route", string(route.kind.name())),
            ("tables", string(&route.tables)),
            ("statements", count(route.statements)),
            ("errors", count(route.errors)),
            ("rows", count(route.rows)),
            ("time_us", count(route.micros)),
        ])?;
    }
    Ok(())
}
