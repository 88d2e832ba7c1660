//! COPY, RENAME and RENAMENX: a value under another name, or under a second one.
//!
//! Called through the command table. A string can only become another plain key, and a row another key of its table.
//! Everything is one commit: no client ever sees both names, or neither, where there should be one.

use std::sync::Arc;

use ashlar_base::{Datum, Error, Value};
use ashlar_store::{Expiry, KeyTransaction, Mutation, Region, Reservation, RowRef};

use super::access::atomically;
use super::arguments::{Args, is};
use super::connection::check_database;
use super::error::{KeyError, Outcome};
use super::hashes::generated_error;
use super::keyspace::{delete, named};
use super::rows::Target;
use super::{KeyService, KeySession, Reply};

/// What is done beside writing what the second name is to stand for.
#[derive(Clone, Copy)]
struct Order {
    /// The first name stands for it too.
    keeps_source: bool,
    /// What had the second name before goes.
    replaces: bool,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Done,
    /// Nothing has the first name.
    NoSource,
    /// Something has the second name.
    Taken,
    /// The second name is not one that it can have.
    Nowhere,
}

/// A table, and a key of it.
struct Spot {
    region: Arc<Region>,
    key: Box<[Value]>,
}

impl Spot {
    /// Where what has this name lies, or would lie.
    ///
    /// # Errors
    /// No row can have the name.
    fn of(session: &mut KeySession, name: &[u8]) -> Outcome<Self> {
        Ok(match session.target(name)? {
            Target::Plain => {
                Self { region: Arc::clone(&session.service.kv), key: Box::new([Value::Bytea(name.into())]) }
            }
            Target::Row(row) => {
                let (region, key) = row.into_parts();
                Self { region, key }
            }
        })
    }

    fn key(&self) -> Vec<Datum<'_>> {
        self.key.iter().map(Value::as_datum).collect()
    }
}

/// Has `to` stand for what `from` stands for.
fn go(session: &mut KeySession, from: &[u8], to: &[u8], order: Order) -> Outcome<Moved> {
    // A name that no row can have is a name of nothing.
    let Ok(source) = Spot::of(session, from) else { return Ok(Moved::NoSource) };
    let target = Spot::of(session, to);
    let service = &session.service;
    let mut work = 0;
    let moved = atomically(service, &mut session.running, |transaction| match &target {
        Ok(target) => go_in(service, transaction, (&source, target), order, &mut work),
        Err(_) => {
            let exists = transaction.get(&source.region, &source.key(), |row| row.is_some())?;
            Ok(if exists { Moved::Nowhere } else { Moved::NoSource })
        }
    });
    session.running.charge_work(work);
    match (moved?, target) {
        (Moved::Nowhere, Err(error)) => Err(error),
        (Moved::Nowhere, Ok(_)) => Err(KeyError::Redis(
            "ERR the other name is one of another table: a row keeps its table, and a string is no row",
        )),
        (moved, _) => Ok(moved),
    }
}

/// The same within a transaction. `work` is what it takes, in bytes.
fn go_in(
    service: &KeyService,
    transaction: &mut KeyTransaction,
    (source, target): (&Spot, &Spot),
    order: Order,
    work: &mut u64,
) -> Result<Moved, Error> {
    let (from, to) = (source.key(), target.key());
    if !transaction.get(&source.region, &from, |row| row.is_some())? {
        return Ok(Moved::NoSource);
    }
    if !order.replaces && transaction.peek(&target.region, &to, |row| row.is_some())? {
        return Ok(Moved::Taken);
    }
    if source.region.id() != target.region.id() {
        return Ok(Moved::Nowhere);
    }
    let mut held = service.shared.engine.store().reservation();
    let copied = transaction.peek(&source.region, &from, |row| row.map(|row| copy_of(&row, &to, &mut held)))?;
    let Some(copied) = copied else { return Ok(Moved::NoSource) };
    let (values, expiry) = copied?;
    if !order.keeps_source {
        // First, so that what it has in unique columns is free.
        transaction.entry(&source.region, &from, |entry| delete(entry, &from))??;
    }
    let row: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
    // Copied here, into the transaction, and by its commit.
    *work += 3 * row.iter().map(bytes_of).sum::<usize>() as u64;
    let write = Mutation::Upsert { row: &row };
    transaction.entry(&target.region, &to, |entry| entry.apply(Mutation::Living { write: &write, expiry }))??;
    Ok(Moved::Done)
}

/// A row's values under another key, and how long it is to live. What they take is charged before they are copied.
fn copy_of(row: &RowRef<'_>, key: &[Datum<'_>], held: &mut Reservation) -> Result<(Vec<Value>, Expiry), Error> {
    let schema = row.schema();
    if let Some(column) = schema.columns.iter().find(|column| column.is_always_generated()) {
        return Err(generated_error(column));
    }
    held.grow((0..schema.columns.len()).map(|ordinal| bytes_of(&row.get(ordinal))).sum())?;
    let mut values = row.to_values();
    for (&ordinal, datum) in schema.key.iter().zip(key) {
        values[ordinal] = datum.to_value();
    }
    Ok((values, row.expiry()))
}

/// Bytes of a value.
fn bytes_of(datum: &Datum<'_>) -> usize {
    let beside = match datum {
        Datum::Text(text) => text.len(),
        Datum::Bytea(bytes) => bytes.len(),
        Datum::Array(items) => items.iter().map(|item| bytes_of(&item)).sum(),
        _ => 0,
    };
    size_of::<Value>() + beside
}

pub(super) fn copy(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let (from, to) = (args.at(1), args.at(2));
    let mut replaces = false;
    let mut words = args.from(3);
    while let Some(word) = words.next() {
        if is(word, "replace") {
            replaces = true;
        } else if is(word, "db") {
            check_database(words.next().ok_or(KeyError::SYNTAX)?)?;
        } else {
            return Err(KeyError::SYNTAX);
        }
    }
    if from == to {
        return Err(KeyError::Redis("ERR source and destination objects are the same"));
    }
    let moved = go(session, from, to, Order { keeps_source: true, replaces })?;
    session.running.count_lookup(moved != Moved::NoSource);
    reply.integer(i64::from(moved == Moved::Done));
    Ok(())
}

/// Whether the second name of the command stands for what the first one stood for.
fn rename_by(session: &mut KeySession, args: &Args<'_>, replaces: bool) -> Outcome<bool> {
    let (from, to) = (args.at(1), args.at(2));
    let moved = if from != to {
        go(session, from, to, Order { keeps_source: false, replaces })?
    } else if !named(session, from).exists(session, from)? {
        Moved::NoSource
    } else if replaces {
        Moved::Done
    } else {
        Moved::Taken
    };
    match moved {
        Moved::NoSource => Err(KeyError::Redis("ERR no such key")),
        moved => Ok(moved == Moved::Done),
    }
}

pub(super) fn rename(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    rename_by(session, args, true)?;
    reply.ok();
    Ok(())
}

pub(super) fn renamenx(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let done = rename_by(session, args, false)?;
    reply.integer(i64::from(done));
    Ok(())
}
