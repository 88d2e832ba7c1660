//! Commands on any name, plain key or row: DEL, EXISTS, TYPE, TTL, DBSIZE.
//!
//! Called through the command table. A name that no row can have is a name of nothing, not an error.

use std::sync::Arc;

use ashlar_base::{Datum, Error, ErrorCode};
use ashlar_store::{Mutation, Pending, Region, Snapshot, WriteSet};

use super::arguments::Args;
use super::error::Outcome;
use super::rows::{Row, RowTable, Target};
use super::{KeyService, KeySession, Reply};

/// Attempts of a command on several keys whose snapshot others overtake, before it says so.
const ATTEMPTS_MAX: usize = 100;

/// Runs a command on several keys as one commit: `work` reads at the snapshot and buffers its writes. Runs it again
/// when one of the keys was changed by somebody else meanwhile.
pub(super) fn atomically<R>(
    service: &KeyService,
    mut work: impl FnMut(&Snapshot, &mut WriteSet) -> Result<R, Error>,
) -> Outcome<R> {
    let store = service.shared.engine.store();
    let mut attempt = 0;
    loop {
        attempt += 1;
        let snapshot = store.snapshot();
        let mut writes = WriteSet::new();
        let done = work(&snapshot, &mut writes);
        // The write set holds what its commit must know; for a snapshot that is open old rows would be kept.
        drop(snapshot);
        let done = done.and_then(|result| {
            if !writes.is_empty() {
                store.commit(&mut writes)?;
            }
            Ok(result)
        });
        match done {
            Ok(result) => return Ok(result),
            Err(error) if error.code() == ErrorCode::SerializationFailure && attempt < ATTEMPTS_MAX => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What a name may stand for.
enum Named {
    Plain,
    Row(Row),
    /// No row can have this name.
    Nothing,
}

fn named(session: &mut KeySession, name: &[u8]) -> Named {
    match session.target(name) {
        Ok(Target::Plain) => Named::Plain,
        Ok(Target::Row(row)) => Named::Row(row),
        Err(_) => Named::Nothing,
    }
}

impl Named {
    fn exists(&self, session: &KeySession, name: &[u8]) -> Outcome<bool> {
        match self {
            Self::Plain => Ok(session.plain_exists(name)),
            Self::Row(row) => row.read(|found| found.is_some()),
            Self::Nothing => Ok(false),
        }
    }
}

pub(super) fn exists(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let mut count = 0;
    for name in args.from(1) {
        count += i64::from(named(session, name).exists(session, name)?);
    }
    reply.integer(count);
    Ok(())
}

/// DEL and UNLINK: memory is given back in the background either way.
pub(super) fn del(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    if args.len() == 2 {
        let gone = delete_one(session, args.at(1))?;
        reply.integer(i64::from(gone));
        return Ok(());
    }
    let mut targets = Vec::with_capacity(args.len() - 1);
    for name in args.from(1) {
        targets.push((name, named(session, name)));
    }
    let service = &session.service;
    let gone = atomically(service, |snapshot, writes| {
        let mut gone = 0;
        for (name, target) in &targets {
            gone += i64::from(delete_in(service, snapshot, writes, name, target)?);
        }
        Ok(gone)
    })?;
    reply.integer(gone);
    Ok(())
}

fn delete_one(session: &mut KeySession, name: &[u8]) -> Outcome<bool> {
    match named(session, name) {
        Named::Plain => session.service.kv.entry(&[Datum::Bytea(name)], |entry| {
            let exists = entry.row().is_some();
            if exists {
                entry.apply(Mutation::Delete { key: &[Datum::Bytea(name)] })?;
            }
            Ok(exists)
        }),
        Named::Row(row) => row.change(|entry, key| {
            let exists = entry.row().is_some();
            if exists {
                entry.apply(Mutation::Delete { key })?;
            }
            Ok(exists)
        }),
        Named::Nothing => Ok(false),
    }
}

/// Deletes one of several names, if it exists at the snapshot and was not deleted by the same command.
fn delete_in(
    service: &KeyService,
    snapshot: &Snapshot,
    writes: &mut WriteSet,
    name: &[u8],
    target: &Named,
) -> Result<bool, Error> {
    let delete = |writes: &mut WriteSet, region: &Arc<Region>, key: &[Datum<'_>]| {
        let untouched = matches!(writes.get(region, key), Pending::Untouched);
        let exists = untouched && region.get_at(snapshot, key, |row| row.is_some());
        if exists {
            writes.delete(region, region.schema().version, snapshot, key)?;
        }
        Ok(exists)
    };
    match target {
        Named::Plain => delete(writes, &service.kv, &[Datum::Bytea(name)]),
        Named::Row(row) => row.with_key(|key| delete(writes, &row.table.region, key)),
        Named::Nothing => Ok(false),
    }
}

pub(super) fn type_of(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let name = args.at(1);
    let target = named(session, name);
    let exists = target.exists(session, name)?;
    reply.simple(match target {
        Named::Plain if exists => "string",
        Named::Row(_) if exists => "hash",
        Named::Plain | Named::Row(_) | Named::Nothing => "none",
    });
    Ok(())
}

/// TTL and PTTL: no key expires.
pub(super) fn ttl(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let name = args.at(1);
    let exists = named(session, name).exists(session, name)?;
    reply.integer(if exists { -1 } else { -2 });
    Ok(())
}

/// PERSIST: there is never an expiration to remove.
pub(super) fn persist(_: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(0);
    Ok(())
}

/// The tables whose rows have names, and `kv`, by id: an order in which a new table comes last.
pub(super) fn tables(service: &KeyService) -> Vec<RowTable> {
    let tables = service.shared.engine.catalog().grid_tables().into_iter().map(RowTable::new);
    let mut tables: Vec<_> = tables.filter(RowTable::is_addressable).collect();
    tables.sort_by_key(|table| table.region.id());
    tables
}

/// How many keys and rows have names.
pub(super) fn count(service: &KeyService) -> u64 {
    tables(service).iter().map(|table| table.region.row_count()).sum()
}

pub(super) fn dbsize(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(i64::try_from(count(&session.service)).unwrap_or(i64::MAX));
    Ok(())
}
