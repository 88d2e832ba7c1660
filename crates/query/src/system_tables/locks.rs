//! `pg_locks`: who has locked which rows, and who waits.
//!
//! A locked row is a line of the kind `tuple`, in the mode that PostgreSQL has for the strength of the lock; its number is
//! nobody's address here, so `page` and `tuple` are NULL and `virtualxid` holds the hash of the row's key, the same for all
//! who want the same row. Whoever holds a lock in a table has a line of the kind `relation` too, as in PostgreSQL. Advisory locks are
//! shown as there.

use std::collections::BTreeSet;
use std::time::Instant;

use ashlar_base::{Result, Value, clock};

use super::layout::{Rows, string};
use super::pg_catalog::DATABASE_OID;
use super::{Definition, Picture};
use crate::catalog::Table;

/// The table.
pub(super) const TABLES: &[Definition] = &[Definition {
    name: "pg_locks",
    columns: "locktype text, database bigint, relation bigint, page integer, tuple smallint, virtualxid text, \
        transactionid bigint, classid bigint, objid bigint, objsubid smallint, virtualtransaction text, pid integer, \
        mode text, granted boolean, fastpath boolean = false, waitstart timestamp with time zone",
    fill: Some(fill),
}];

fn fill(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    let (now, wall) = (clock::monotonic(), clock::wall_micros());
    let time_of = |since: Instant| {
        let waited = now.saturating_duration_since(since).as_micros();
        Value::Timestamp(wall.saturating_sub(i64::try_from(waited).unwrap_or(i64::MAX)))
    };
    for (_, table) in picture.catalog.tables() {
        let Table::Grid(region) = table else { continue };
        let relation = Value::Int8(i64::from(region.id().0));
        // A client of the RESP door has no number.
        let pid = |pid: i32| if pid == 0 { Value::Null } else { Value::Int4(pid) };
        let mut holders = BTreeSet::new();
        for lock in region.locks() {
            let since = lock.waits_since.map(time_of);
            if since.is_none() {
                holders.insert(lock.pid);
            }
            rows.push([
                ("locktype", string("tuple")),
                ("database", Value::Int8(DATABASE_OID)),
                ("relation", relation.clone()),
                ("virtualxid", string(format!("{:016x}", lock.row))),
                ("pid", pid(lock.pid)),
                ("mode", string(lock.strength.mode())),
                ("granted", Value::Bool(since.is_none())),
                ("waitstart", since.unwrap_or(Value::Null)),
            ])?;
        }
        for holder in holders {
            rows.push([
                ("locktype", string("relation")),
                ("database", Value::Int8(DATABASE_OID)),
                ("relation", relation.clone()),
                ("pid", pid(holder)),
                ("mode", string("RowShareLock")),
                ("granted", Value::Bool(true)),
            ])?;
        }
    }
    for lock in picture.catalog.other_locks() {
        let (class, object, part) = lock.object;
        let since = lock.waits_since.map(time_of);
        rows.push([
            ("locktype", string("advisory")),
            ("database", Value::Int8(DATABASE_OID)),
            ("classid", Value::Int8(i64::from(class))),
            ("objid", Value::Int8(i64::from(object))),
            ("objsubid", Value::Int2(part)),
            ("pid", Value::Int4(lock.pid)),
            ("mode", string(lock.mode())),
            ("granted", Value::Bool(since.is_none())),
            ("waitstart", since.unwrap_or(Value::Null)),
        ])?;
    }
    Ok(())
}
