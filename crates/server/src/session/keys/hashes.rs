//! Hash commands: a row of any table is a hash of its columns that are not NULL.
//!
//! Called through the command table. Values are PostgreSQL's text form both ways. Each command is one mutation under
//! the lock of the row's partition: it happens whole or, after an error, not at all. Key columns are fields that
//! can be read and never changed.

use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{ColumnDef, ColumnDefault, Datum, Error, ErrorCode, ScalarType, SqlType, TableSchema, Value};
use ashlar_store::{Entry, Mutation, RowRef};

use super::arguments::{Args, cursor, integer, integer_or_error};
use super::error::{KeyError, Outcome};
use super::rows::Row;
use super::scan::ScanOptions;
use super::{KeySession, Reply, glob};

pub(super) fn style() -> TextStyle {
    TextStyle::default()
}

/// Writes a value as a bulk string, NULL as null.
fn write_value(column: &ColumnDef, datum: &Datum<'_>, reply: &mut Reply<'_>) {
    match datum {
        Datum::Null => reply.null(),
        Datum::Text(text) => reply.bulk(text.as_bytes()),
        datum => reply.bulk_with(|out| text::write(column.sql_type, datum, &style(), out)),
    }
}

/// The ordinal of the column that a field names.
fn column_of(schema: &TableSchema, field: &[u8]) -> Option<usize> {
    schema.column(std::str::from_utf8(field).ok()?)
}

/// [`column_of`] for writes, where there must be one.
pub(super) fn column_to_write(schema: &TableSchema, field: &[u8]) -> Outcome<usize> {
    column_of(schema, field).ok_or_else(|| {
        let field = String::from_utf8_lossy(field);
        let message = format!("column \"{field}\" of relation \"{}\" does not exist", schema.name);
        Error::new(ErrorCode::UndefinedColumn, message).into()
    })
}

/// The fields of a row that there are, in column order.
pub(super) fn fields<'a>(
    schema: &'a TableSchema,
    row: &'a RowRef<'_>,
) -> impl Iterator<Item = (&'a ColumnDef, Datum<'a>)> {
    let columns = schema.visible_columns().iter().enumerate();
    columns.map(|(ordinal, column)| (column, row.get(ordinal))).filter(|(_, datum)| !datum.is_null())
}

pub(super) fn hget(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Some(row) = session.row(args.at(1))? else {
        reply.null();
        return Ok(());
    };
    let ordinal = column_of(&row.table.schema, args.at(2));
    row.read(&mut session.running, |found| match (found, ordinal) {
        (Some(found), Some(ordinal)) => {
            write_value(&row.table.schema.columns[ordinal], &found.get(ordinal), reply);
        }
        _ => reply.null(),
    })
}

pub(super) fn hmget(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let row = session.row(args.at(1))?;
    reply.array(args.len() - 2);
    let Some(row) = row else {
        args.from(2).for_each(|_| reply.null());
        return Ok(());
    };
    let schema = &row.table.schema;
    row.read(&mut session.running, |found| {
        for field in args.from(2) {
            match (&found, column_of(schema, field)) {
                (Some(found), Some(ordinal)) => write_value(&schema.columns[ordinal], &found.get(ordinal), reply),
                _ => reply.null(),
            }
            if super::check_length(reply).is_err() {
                break;
            }
        }
    })?;
    super::check_length(reply)
}

/// What HGETALL, HKEYS and HVALS write of each field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Both,
    Names,
    Values,
}

fn write_all(session: &mut KeySession, name: &[u8], part: Part, reply: &mut Reply<'_>) -> Outcome {
    let header = |count: usize, reply: &mut Reply<'_>| match part {
        Part::Both => reply.map(count),
        Part::Names | Part::Values => reply.array(count),
    };
    let Some(row) = session.row(name)? else {
        header(0, reply);
        return Ok(());
    };
    let schema = &row.table.schema;
    row.read(&mut session.running, |found| {
        let Some(found) = found else {
            return header(0, reply);
        };
        header(fields(schema, &found).count(), reply);
        for (column, datum) in fields(schema, &found) {
            if part != Part::Values {
                reply.bulk(column.name.as_bytes());
            }
            if part != Part::Names {
                write_value(column, &datum, reply);
            }
        }
    })
}

pub(super) fn hgetall(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    write_all(session, args.at(1), Part::Both, reply)
}

pub(super) fn hkeys(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    write_all(session, args.at(1), Part::Names, reply)
}

pub(super) fn hvals(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    write_all(session, args.at(1), Part::Values, reply)
}

/// HSCAN: a row is one step, wherever it is said to begin.
pub(super) fn hscan(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    cursor(args.at(2))?;
    let row = session.row(args.at(1))?;
    let mut written = Vec::new();
    let mut elements = Reply::new(&mut written, session.version);
    let mut count = 0;
    if let Some(row) = &row {
        row.read(&mut session.running, |found| {
            let Some(found) = found else { return Ok(()) };
            // As in Redis, of what is not there nobody asks whether the options are right.
            let options = ScanOptions::parse(args.from(3), false)?;
            for (column, datum) in fields(&row.table.schema, &found) {
                if glob::matches(options.pattern, column.name.as_bytes()) {
                    count += 2;
                    elements.bulk(column.name.as_bytes());
                    write_value(column, &datum, &mut elements);
                }
            }
            Ok::<_, KeyError>(())
        })??;
    }
    reply.array(2);
    reply.bulk(b"0");
    reply.array(count);
    reply.append(&written);
    Ok(())
}

pub(super) fn hlen(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let row = session.row(args.at(1))?;
    let length = match &row {
        Some(row) => {
            row.read(&mut session.running, |found| found.map_or(0, |found| fields(&row.table.schema, &found).count()))?
        }
        None => 0,
    };
    reply.integer(length as i64);
    Ok(())
}

/// The length of a field's text; none where the field is absent.
fn text_length(session: &mut KeySession, args: &Args<'_>) -> Outcome<Option<usize>> {
    let Some(row) = session.row(args.at(1))? else {
        return Ok(None);
    };
    let Some(ordinal) = column_of(&row.table.schema, args.at(2)) else {
        return Ok(None);
    };
    let sql_type = row.table.schema.columns[ordinal].sql_type;
    let scratch = &mut session.scratch;
    row.read(&mut session.running, |found| match found.as_ref().map(|found| found.get(ordinal)) {
        None | Some(Datum::Null) => None,
        Some(Datum::Text(text)) => Some(text.len()),
        Some(datum) => {
            scratch.clear();
            text::write(sql_type, &datum, &style(), scratch);
            Some(scratch.len())
        }
    })
}

pub(super) fn hexists(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let exists = text_length(session, args)?.is_some();
    reply.integer(i64::from(exists));
    Ok(())
}

pub(super) fn hstrlen(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let length = text_length(session, args)?.unwrap_or(0);
    reply.integer(length as i64);
    Ok(())
}

/// The values that a command gives to columns: no column twice, and no key column.
pub(super) struct Changes {
    values: Vec<(usize, Value)>,
    /// Key columns that were given too, with the value that they have.
    keys: Vec<usize>,
}

impl Changes {
    /// Reads fields and values in pairs. Of a field that comes twice the last value holds.
    pub(super) fn parse<'a>(row: &Row, pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Outcome<Self> {
        let schema = &row.table.schema;
        let mut changes = Self { values: Vec::new(), keys: Vec::new() };
        for (field, bytes) in pairs {
            let ordinal = column_to_write(schema, field)?;
            let column = &schema.columns[ordinal];
            let value = text::parse(column.sql_type, text::utf8(bytes)?, &style())?;
            if row.key_value(ordinal).is_none() && column.is_always_generated() {
                return Err(generated_error(column).into());
            }
            if let Some(key) = row.key_value(ordinal) {
                if *key != value {
                    return Err(key_column_error(column, "changed"));
                }
                if !changes.keys.contains(&ordinal) {
                    changes.keys.push(ordinal);
                }
            } else if let Some(given) = changes.values.iter_mut().find(|(given, _)| *given == ordinal) {
                given.1 = value;
            } else {
                changes.values.push((ordinal, value));
            }
        }
        Ok(changes)
    }

    /// Writes the values, or inserts the row. Returns how many of the given fields there were not before.
    pub(super) fn apply(&self, row: &Row, entry: &mut Entry<'_>, key: &[Datum<'_>]) -> Outcome<usize> {
        let before =
            entry.row().map(|found| self.values.iter().filter(|(ordinal, _)| found.get(*ordinal).is_null()).count());
        match before {
            Some(absent) => {
                if !self.values.is_empty() {
                    let changes: Vec<_> =
                        self.values.iter().map(|(ordinal, value)| (*ordinal, value.as_datum())).collect();
                    entry.apply(Mutation::Update { key, changes: &changes })?;
                }
                Ok(absent)
            }
            None => {
                insert(row, entry, &self.values)?;
                Ok(self.values.len() + self.keys.len())
            }
        }
    }
}

fn key_column_error(column: &ColumnDef, what: &str) -> KeyError {
    let message = format!("column \"{}\" is part of the row's name and cannot be {what}", column.name);
    Error::unsupported(message).into()
}

/// 428C9 for a column whose values the table makes itself.
pub(super) fn generated_error(column: &ColumnDef) -> Error {
    let message = format!("column \"{}\" is always generated and cannot be given a value", column.name);
    Error::new(ErrorCode::GeneratedAlways, message).with_hint("insert the row by SQL")
}

/// Inserts the row: its key, the given values, and defaults for the rest.
fn insert(row: &Row, entry: &mut Entry<'_>, given: &[(usize, Value)]) -> Outcome {
    let schema = &row.table.schema;
    let mut values = Vec::with_capacity(schema.columns.len());
    for (ordinal, column) in schema.columns.iter().enumerate() {
        let value = match given.iter().find(|(given, _)| *given == ordinal) {
            Some((_, value)) => Some(value),
            None => row.key_value(ordinal),
        };
        values.push(match value {
            Some(_) if column.is_always_generated() => return Err(generated_error(column).into()),
            Some(value) => value.clone(),
            None => default_of(row, column)?,
        });
    }
    let datums: Vec<_> = values.iter().map(Value::as_datum).collect();
    row.table.region.check_row(&datums)?;
    entry.apply(Mutation::Insert { row: &datums })?;
    Ok(())
}

/// The value of a column that the command does not name.
fn default_of(row: &Row, column: &ColumnDef) -> Outcome<Value> {
    match &column.default {
        None => Ok(Value::Null),
        Some(ColumnDefault::Constant(value)) => Ok(value.clone()),
        Some(ColumnDefault::Sequence(_)) => Ok(row.table.region.next_number(column)?),
        Some(ColumnDefault::Expression(expression)) => {
            let message = format!("the default of column \"{}\" is computed by SQL: {expression}", column.name);
            Err(Error::unsupported(message).with_hint("give the column a value").into())
        }
    }
}

/// HSET and HMSET: returns how many fields were new.
fn set_fields(session: &mut KeySession, args: &Args<'_>, name: &str) -> Outcome<usize> {
    if !args.len().is_multiple_of(2) {
        return Err(KeyError::arity(name));
    }
    let row = session.row_to_write(args.at(1))?;
    let pairs = (2..args.len()).step_by(2).map(|at| (args.at(at), args.at(at + 1)));
    let changes = Changes::parse(&row, pairs)?;
    row.change(&mut session.running, |entry, key| changes.apply(&row, entry, key))
}

pub(super) fn hset(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let new = set_fields(session, args, "hset")?;
    reply.integer(new as i64);
    Ok(())
}

pub(super) fn hmset(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    set_fields(session, args, "hmset")?;
    reply.ok();
    Ok(())
}

pub(super) fn hsetnx(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let row = session.row_to_write(args.at(1))?;
    let ordinal = column_to_write(&row.table.schema, args.at(2))?;
    let done = row.change(&mut session.running, |entry, key| {
        if entry.row().is_some_and(|found| !found.get(ordinal).is_null()) {
            return Ok(false);
        }
        let changes = Changes::parse(&row, std::iter::once((args.at(2), args.at(3))))?;
        changes.apply(&row, entry, key)?;
        Ok(true)
    })?;
    reply.integer(i64::from(done));
    Ok(())
}

pub(super) fn hdel(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let Some(row) = session.row(args.at(1))? else {
        reply.integer(0);
        return Ok(());
    };
    let schema = &row.table.schema;
    let mut ordinals = Vec::with_capacity(args.len() - 2);
    for ordinal in args.from(2).filter_map(|field| column_of(schema, field)) {
        if !ordinals.contains(&ordinal) {
            ordinals.push(ordinal);
        }
    }
    let gone = row.change(&mut session.running, |entry, key| {
        let Some(found) = entry.row() else {
            return Ok(0);
        };
        ordinals.retain(|&ordinal| !found.get(ordinal).is_null());
        // Every field is checked before one is gone.
        for &ordinal in &ordinals {
            let column = &schema.columns[ordinal];
            if schema.key.contains(&ordinal) {
                return Err(key_column_error(column, "deleted"));
            }
            if !column.nullable {
                return Err(not_null_error(schema, column).into());
            }
        }
        if !ordinals.is_empty() {
            let changes: Vec<_> = ordinals.iter().map(|&ordinal| (ordinal, Datum::Null)).collect();
            entry.apply(Mutation::Update { key, changes: &changes })?;
        }
        Ok(ordinals.len())
    })?;
    reply.integer(gone as i64);
    Ok(())
}

fn not_null_error(schema: &TableSchema, column: &ColumnDef) -> Error {
    let message = format!(
        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
        column.name, schema.name
    );
    Error::new(ErrorCode::NotNullViolation, message).with_table(&*schema.name).with_column(&*column.name)
}

pub(super) fn hincrby(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let amount = integer_or_error(args.at(3))?;
    let row = session.row_to_write(args.at(1))?;
    let ordinal = column_to_write(&row.table.schema, args.at(2))?;
    let column = &row.table.schema.columns[ordinal];
    let scratch = &mut session.scratch;
    let sum = row.change(&mut session.running, |entry, key| {
        let current = match (entry.row(), row.key_value(ordinal)) {
            (Some(found), _) => number_of(column, &found.get(ordinal), scratch),
            // The row is not there yet, and its key is a field that it will have.
            (None, Some(value)) => number_of(column, &value.as_datum(), scratch),
            (None, None) => Some(0),
        };
        let current = current.ok_or(KeyError::Redis("ERR hash value is not an integer"))?;
        let sum = current.checked_add(amount).ok_or(KeyError::OVERFLOW)?;
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(sum).as_bytes();
        Changes::parse(&row, std::iter::once((args.at(2), digits)))?.apply(&row, entry, key)?;
        Ok(sum)
    })?;
    reply.integer(sum);
    Ok(())
}

/// A field as an integer; NULL counts as 0. The text decides, so that a text column serves as in Redis. A numeric is
/// written with all decimals of its column: zeros do not keep it from being an integer.
fn number_of(column: &ColumnDef, datum: &Datum<'_>, scratch: &mut Vec<u8>) -> Option<i64> {
    if datum.is_null() {
        return Some(0);
    }
    scratch.clear();
    text::write(column.sql_type, datum, &style(), scratch);
    if matches!(column.sql_type, SqlType::Scalar(ScalarType::Numeric { .. }))
        && let Some(point) = scratch.iter().position(|byte| *byte == b'.')
        && scratch[point + 1..].iter().all(|digit| *digit == b'0')
    {
        scratch.truncate(point);
    }
    integer(scratch)
}
