//! INCRBYFLOAT and HINCRBYFLOAT.
//!
//! Called through the command table. Numbers are those of `extended`; a column holds what its type makes of the sum.

use ashlar_base::Datum;
use ashlar_base::value::text;
use ashlar_store::Expiry;

use super::arguments::Args;
use super::error::{KeyError, Outcome};
use super::extended::Extended;
use super::hashes::{self, Changes};
use super::strings::{put_living, value_of};
use super::{KeySession, Reply};

const NOT_A_FLOAT: KeyError = KeyError::Redis("ERR value is not a valid float");
const INFINITE: KeyError = KeyError::Redis("ERR increment would produce NaN or Infinity");

pub(super) fn incrbyfloat(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let key = args.at(1);
    let sum = session.plain(key)?.entry(&[Datum::Bytea(key)], |entry| {
        let mut current = Extended::parse(b"0");
        if let Some(row) = entry.row() {
            value_of(&row, |bytes| current = Extended::parse(bytes));
        }
        let current = current.ok_or(NOT_A_FLOAT)?;
        let amount = Extended::parse(args.at(2)).ok_or(NOT_A_FLOAT)?;
        let sum = current.plus(amount).text().ok_or(INFINITE)?;
        put_living(entry, key, sum.as_bytes(), Expiry::Keep)?;
        Ok::<_, KeyError>(sum)
    })?;
    reply.bulk(sum.as_bytes());
    Ok(())
}

pub(super) fn hincrbyfloat(session: &mut KeySession, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let amount = match Extended::parse(args.at(3)) {
        None => return Err(NOT_A_FLOAT),
        Some(Extended::Infinite) => return Err(KeyError::Redis("ERR value is NaN or Infinity")),
        Some(amount) => amount,
    };
    let row = session.row_to_write(args.at(1))?;
    let ordinal = hashes::column_to_write(&row.table.schema, args.at(2))?;
    let column = &row.table.schema.columns[ordinal];
    let scratch = &mut session.scratch;
    row.change(&mut session.running, |entry, key| {
        let current = match (entry.row(), row.key_value(ordinal)) {
            (Some(found), _) => Some(found.get(ordinal)),
            // The row is not there yet, and its key is a field that it will have.
            (None, Some(value)) => Some(value.as_datum()),
            (None, None) => None,
        };
        scratch.clear();
        match current {
            None | Some(Datum::Null) => scratch.push(b'0'),
            Some(datum) => text::write(column.sql_type, &datum, &hashes::style(), scratch),
        }
        let current = Extended::parse(scratch).ok_or(KeyError::Redis("ERR hash value is not a float"))?;
        let sum = current.plus(amount).text().ok_or(INFINITE)?;
        Changes::parse(&row, std::iter::once((args.at(2), sum.as_bytes())))?.apply(&row, entry, key)?;
        // What is stored is what the column's type makes of it.
        scratch.clear();
        if let Some(found) = entry.row() {
            text::write(column.sql_type, &found.get(ordinal), &hashes::style(), scratch);
        }
        Ok(())
    })?;
    reply.bulk(scratch);
    Ok(())
}
