//! `nextval`, `currval`, `lastval`, `setval` and `pg_get_serial_sequence` as expressions: over the columns that count, and the numbers that
//! the session was given.
//!
//! Called by `bound`, for each row: a number is taken when the row is computed, and stays taken whatever becomes of the transaction.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use ashlar_base::{Error, ErrorCode, TableId};
use ashlar_functions::error::external;
use ashlar_functions::quoting::quote_ident;
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;

use super::functions::cast;
use super::objects::{self, ObjectKind};
use crate::catalog::CatalogState;
use crate::sequences;

/// What is asked of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// `nextval`
    Next,
    /// `currval`
    Current,
    /// `lastval`
    Last,
    /// `setval`
    Set,
}

impl Counter {
    fn name(self) -> &'static str {
        match self {
            Self::Next => "nextval",
            Self::Current => "currval",
            Self::Last => "lastval",
            Self::Set => "setval",
        }
    }
}

/// Numbers for so many rows.
pub(super) fn numbers(
    catalog: &CatalogState,
    counter: Counter,
    args: &[ColumnarValue],
    rows: usize,
) -> Result<ArrayRef> {
    let identity = catalog.identity();
    if matches!(counter, Counter::Next | Counter::Set) && is_read_only(catalog) {
        let message = format!("cannot execute {}() in a read-only transaction", counter.name());
        return Err(external(Error::new(ErrorCode::ReadOnlyTransaction, message)));
    }
    let arrays = args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
    let names = arrays.first().map(names_of).transpose()?;
    // The last argument says nothing.
    let said = &arrays[..arrays.len().saturating_sub(1)];
    let values = said.get(1).map(integers_of).transpose()?;
    let called = said.get(2).map(|array| cast(array, &DataType::Boolean)).transpose()?;
    let given = &identity.numbers;
    let number = |row: usize| -> ashlar_base::Result<Option<i64>> {
        let Some(names) = &names else { return sequences::last_number(catalog, given).map(Some) };
        let names = names.as_string::<i32>();
        if names.is_null(row) {
            return Ok(None);
        }
        let name = names.value(row);
        match counter {
            Counter::Next => sequences::next_number(catalog, name, given).map(Some),
            Counter::Current => sequences::current_number(catalog, name, given).map(Some),
            Counter::Last => sequences::last_number(catalog, given).map(Some),
            Counter::Set => {
                let Some(values) = values.as_ref().filter(|values| values.is_valid(row)) else { return Ok(None) };
                let value = values.as_primitive::<Int64Type>().value(row);
                let is_called = match &called {
                    Some(called) if called.is_null(row) => return Ok(None),
                    Some(called) => called.as_boolean().value(row),
                    None => true,
                };
                sequences::set_number(catalog, name, value, is_called, given).map(|()| Some(value))
            }
        }
    };
    let numbers: ashlar_base::Result<Int64Array> = (0..rows).map(number).collect();
    Ok(Arc::new(numbers.map_err(external)?))
}

/// The names of the sequences of columns, by tables and columns.
pub(super) fn serial_sequences(catalog: &CatalogState, args: &[ArrayRef]) -> Result<ArrayRef> {
    let [tables, columns] = args else {
        return Err(external(Error::internal("pg_get_serial_sequence takes a table and a column")));
    };
    let (tables, columns) = (cast(tables, &DataType::Utf8)?, cast(columns, &DataType::Utf8)?);
    let pairs = tables.as_string::<i32>().iter().zip(columns.as_string::<i32>().iter());
    let name = |(table, column): (Option<&str>, Option<&str>)| -> ashlar_base::Result<Option<String>> {
        let (Some(table), Some(column)) = (table, column) else { return Ok(None) };
        let number = objects::number(catalog, ObjectKind::Class, table)?;
        let Ok(number) = u32::try_from(number) else { return Ok(None) };
        let found = sequences::serial_of(catalog, TableId(number), column)?;
        Ok(found.map(|name| format!("public.{}", quote_ident(&name))))
    };
    let names: ashlar_base::Result<StringArray> = pairs.map(name).collect();
    Ok(Arc::new(names.map_err(external)?))
}

/// The transaction's own mode, as SHOW tells it.
fn is_read_only(catalog: &CatalogState) -> bool {
    let settings = &catalog.identity().settings;
    settings.iter().any(|setting| setting.name == "transaction_read_only" && setting.shown == "on")
}

fn names_of(array: &ArrayRef) -> Result<ArrayRef> {
    if array.data_type().is_string() || array.data_type().is_null() {
        return cast(array, &DataType::Utf8);
    }
    Err(external(Error::unsupported("a sequence that is not said by its name is not supported")))
}

fn integers_of(array: &ArrayRef) -> Result<ArrayRef> {
    let data_type = array.data_type();
    if data_type.is_integer() || data_type.is_string() || data_type.is_null() {
        return cast(array, &DataType::Int64);
    }
    let message = "function setval takes the name of a sequence and a bigint";
    Err(external(Error::new(ErrorCode::UndefinedFunction, message)))
}
