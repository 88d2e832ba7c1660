//! Commands on any name, plain key or row: DEL, EXISTS, TOUCH, TYPE, DBSIZE, FLUSHALL.
//!
//! Called through the command table. A name that no row can have is a name of nothing, not an error.

use std::sync::Arc;

use ashlar_base::{Datum, Error};
use ashlar_store::{Entry, KeyTransaction, LOOKAHEAD_MAX, Mutation, Region, Snapshot};

use super::access::{self, atomically};
use super::arguments::{Args, is};
use super::error::{KeyError, Outcome};
use super::rows::{Row, RowTable, Target};
use super::{KeyService, KeySession, Reply};

/// What a name may stand for.
pub(super) enum Named {
    Plain,
    Row(Row),
    /// No row can have this name.
    Nothing,
}

pub(super) fn named(session: &mut KeySession, name: &[u8]) -> Named {
    match session.target(name) {
        Ok(Target::Plain) => Named::Plain,
        Ok(Target::Row(row)) => Named::Row(row),
        Err(_) => Named::Nothing,
    }
}

impl Named {
    /// Whether there is something of this name.
    pub(super) fn exists(&self, session: &mut KeySession, name: &[u8]) -> Outcome<bool> {
        match self {
            Self::Plain => session.plain_exists(name),
            Self::Row(row) => row.peek(&mut session.running, |found| found.is_some()),
            Self::Nothing => Ok(false),
        }
    }

    /// Like [`Self::exists`], and what is there counts as used.
    fn touch(&self, session: &mut KeySession, name: &[u8]) -> Outcome<bool> {
        match self {
            Self::Plain => {
                access::read(&mut session.running, &session.service.kv, &[Datum::Bytea(name)], |row| row.is_some())
            }
            Self::Row(row) => row.read(&mut session.running, |found| found.is_some()),
            Self::Nothing => Ok(false),
        }
    }

    /// Whether a snapshot sees what it stands for, which counts as used then, or does not.
    fn exists_at(&self, service: &KeyService, snapshot: &Snapshot, name: &[u8], is_use: bool) -> bool {
        let look = |region: &Region, key: &[Datum<'_>]| match is_use {
            true => region.get_at(snapshot, key, |row| row.is_some()),
            false => region.peek_at(snapshot, key, |row| row.is_some()),
        };
        match self {
            Self::Plain => look(&service.kv, &[Datum::Bytea(name)]),
            Self::Row(row) => row.with_key(|key| look(&row.table.region, key)),
            Self::Nothing => false,
        }
    }
}

pub(super) fn touch(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    count_existing(session, args, true, reply)
}

pub(super) fn exists(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    count_existing(session, args, false, reply)
}

fn count_existing(session: &mut KeySession, args: &Args<'_>, is_use: bool, reply: &mut Reply<'_>) -> Outcome {
    // Several are looked at in one snapshot: what comes or goes together is there whole or not at all.
    let is_alone = args.len() == 2 || session.running.transaction.is_some();
    let snapshot = (!is_alone).then(|| session.service.shared.engine.store().snapshot());
    let mut count = 0;
    for first in (1..args.len()).step_by(LOOKAHEAD_MAX) {
        let names = (first..args.len().min(first + LOOKAHEAD_MAX)).map(|at| args.at(at));
        if !is_alone {
            session.look_ahead_for(names.clone());
        }
        for name in names {
            let target = named(session, name);
            let exists = match &snapshot {
                Some(snapshot) => {
                    let exists = target.exists_at(&session.service, snapshot, name, is_use);
                    session.running.look(exists);
                    exists
                }
                None if is_use => target.touch(session, name)?,
                None => target.exists(session, name)?,
            };
            count += i64::from(exists);
        }
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
    session.look_ahead_for_all(args.from(1));
    let mut targets = Vec::with_capacity(args.len() - 1);
    for name in args.from(1) {
        targets.push((name, named(session, name)));
    }
    let service = &session.service;
    let gone = atomically(service, &mut session.running, |transaction| {
        let mut gone = 0;
        for (name, target) in &targets {
            gone += i64::from(delete_in(service, transaction, name, target)?);
        }
        Ok(gone)
    })?;
    reply.integer(gone);
    Ok(())
}

fn delete_one(session: &mut KeySession, name: &[u8]) -> Outcome<bool> {
    match named(session, name) {
        Named::Plain => {
            let key = [Datum::Bytea(name)];
            access::change(&mut session.running, &session.service.kv, &key, |entry| Ok(delete(entry, &key)?))
        }
        Named::Row(row) => row.change(&mut session.running, |entry, key| Ok(delete(entry, key)?)),
        Named::Nothing => Ok(false),
    }
}

/// Deletes the row of an entry: whether there was one.
pub(super) fn delete(entry: &mut Entry<'_>, key: &[Datum<'_>]) -> Result<bool, Error> {
    let exists = entry.row().is_some();
    if exists {
        entry.apply(Mutation::Delete { key })?;
    }
    Ok(exists)
}

/// Deletes one of several names, if it is there and was not deleted by the same command.
fn delete_in(
    service: &KeyService,
    transaction: &mut KeyTransaction,
    name: &[u8],
    target: &Named,
) -> Result<bool, Error> {
    let mut delete_row =
        |region: &Arc<Region>, key: &[Datum<'_>]| transaction.entry(region, key, |entry| delete(entry, key))?;
    match target {
        Named::Plain => delete_row(&service.kv, &[Datum::Bytea(name)]),
        Named::Row(row) => row.with_key(|key| delete_row(&row.table.region, key)),
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

/// What it takes to look into a partition, in bytes that one could go through meanwhile.
const PARTITION_WORK: u64 = 64;

/// What it takes to look into all partitions.
pub(super) fn work(service: &KeyService) -> u64 {
    PARTITION_WORK * u64::from(service.kv.partition_count()) * tables(service).len() as u64
}

pub(super) fn dbsize(session: &mut KeySession, _: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let keys = count(&session.service);
    // Those that end by themselves are looked at.
    session.running.charge_work(work(&session.service).saturating_add(keys));
    reply.integer(i64::try_from(keys).unwrap_or(i64::MAX));
    Ok(())
}

/// Keys that go here: the memory of more is given back by another thread, which ends them one by one where a snapshot sees them.
const FLUSHED_HERE_MAX: u64 = 4096;

/// FLUSHALL and FLUSHDB: all keys go at once. Where a table has rows they would be keys too, and those are not for a cache to
/// throw away.
pub(super) fn flush(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let is_known = args.from(1).all(|word| is(word, "sync") || is(word, "async"));
    if args.len() > 2 || !is_known {
        return Err(KeyError::SYNTAX);
    }
    if let Some(done) = session.running.take_beside() {
        done?;
        reply.ok();
        return Ok(());
    }
    let service = &session.service;
    let holds_rows = |table: &RowTable| table.region.id() != service.kv.id() && table.region.row_count() > 0;
    if let Some(table) = tables(service).iter().find(|table| holds_rows(table)) {
        let table = &table.schema.name;
        return Err(KeyError::line(format!(
            "ERR rows of table \"{table}\" would go too: delete them first, or empty the plain keys alone by TRUNCATE kv in SQL"
        )));
    }
    if service.kv.row_estimate() > FLUSHED_HERE_MAX {
        let kv = Arc::clone(&service.kv);
        session.running.begin_beside(move || kv.truncate().map(drop));
        // Nobody is told so: it runs once more, when that is done.
        return Err(KeyError::Redis("TRYAGAIN the keys are being removed"));
    }
    service.kv.truncate()?;
    reply.ok();
    Ok(())
}
