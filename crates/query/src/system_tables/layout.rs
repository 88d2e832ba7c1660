//! The shape of a system table, written as a line of text, and its rows as they are gathered.
//!
//! Used by every table of this room. A layout names its columns as `name type` or `name type = default`, separated
//! by commas; a row names only the cells that differ from the defaults, and NULL is the default of the others. The
//! defaults `@database` and `@user` are those of the session that asks.

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Error, Result, SqlType, Value};
use ashlar_store::arrow_types::{arrow_field, parse_type};
use ashlar_store::build_array;

use crate::identity::Identity;
use std::sync::Arc;

/// The metadata key of a field that is an `int2vector` or an `oidvector` in PostgreSQL.
pub(crate) const VECTOR_METADATA: &str = "ashlar.vector";

/// One column.
struct Column {
    name: &'static str,
    sql_type: SqlType,
    /// Its arrays count from 0, see [`VECTOR_METADATA`].
    is_vector: bool,
    default: Value,
}

/// The columns of a system table.
pub(super) struct Layout {
    columns: Vec<Column>,
}

impl Layout {
    /// Reads a layout.
    ///
    /// # Errors
    /// XX000 where the text is none.
    pub(super) fn parse(text: &'static str, identity: &Identity) -> Result<Self> {
        let columns = text.split(',').map(|part| column(part.trim(), identity)).collect::<Result<_>>()?;
        Ok(Self { columns })
    }

    /// What DataFusion plans with.
    pub(super) fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|column| {
            let field = arrow_field(column.name, column.sql_type, true);
            if !column.is_vector {
                return field;
            }
            let mut metadata = field.metadata().clone();
            metadata.insert(VECTOR_METADATA.to_owned(), String::new());
            field.with_metadata(metadata)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

fn column(definition: &'static str, identity: &Identity) -> Result<Column> {
    let malformed = || Error::internal(format!("\"{definition}\" is no column of a system table"));
    let (name, rest) = definition.split_once(' ').ok_or_else(malformed)?;
    let (type_name, default) = match rest.split_once(" = ") {
        Some((type_name, default)) => (type_name, Some(default)),
        None => (rest, None),
    };
    let (type_name, is_vector) = match type_name {
        "int2vector" => ("smallint[]", true),
        "oidvector" => ("bigint[]", true),
        other => (other, false),
    };
    let sql_type = parse_type(type_name).ok_or_else(malformed)?;
    let default = match default {
        Some("@database") => string(identity.database.as_str()),
        Some("@user") => string(identity.user.as_str()),
        Some(default) => text::parse(sql_type, default, &TextStyle::default())?,
        None => Value::Null,
    };
    Ok(Column { name, sql_type, is_vector, default })
}

/// Rows of a layout.
pub(super) struct Rows<'a> {
    layout: &'a Layout,
    rows: Vec<Vec<Value>>,
}

impl<'a> Rows<'a> {
    /// No rows.
    pub(super) fn new(layout: &'a Layout) -> Self {
        Self { layout, rows: Vec::new() }
    }

    /// Adds a row with these cells.
    ///
    /// # Errors
    /// XX000 for a column that the layout does not have.
    pub(super) fn push<'c>(&mut self, cells: impl IntoIterator<Item = (&'c str, Value)>) -> Result<()> {
        let mut row: Vec<Value> = self.layout.columns.iter().map(|column| column.default.clone()).collect();
        for (name, value) in cells {
            let ordinal = self.layout.columns.iter().position(|column| column.name == name);
            let ordinal = ordinal.ok_or_else(|| Error::internal(format!("a system table has no column {name}")))?;
            row[ordinal] = value;
        }
        self.rows.push(row);
        Ok(())
    }

    /// The rows as DataFusion reads them.
    ///
    /// # Errors
    /// XX000 where a value is not of its column's type.
    pub(super) fn batch(&self, schema: SchemaRef) -> Result<RecordBatch> {
        let array = |(ordinal, column): (usize, &Column)| {
            build_array(column.sql_type, self.rows.iter().map(|row| &row[ordinal]))
        };
        let arrays = self.layout.columns.iter().enumerate().map(array).collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new(schema, arrays).map_err(|error| Error::internal(error.to_string()))
    }
}

/// A text cell.
pub(super) fn string(text: impl Into<String>) -> Value {
    Value::Text(text.into().into_boxed_str())
}

/// A text cell, or NULL.
pub(super) fn maybe(text: Option<String>) -> Value {
    text.map_or(Value::Null, string)
}

/// YES or NO, as the SQL standard's views have it.
pub(super) fn yes_or_no(yes: bool) -> Value {
    string(if yes { "YES" } else { "NO" })
}

/// A smallint cell. Counts of columns fit: a table has 1600 at the most in PostgreSQL's protocol.
pub(super) fn int2(number: usize) -> Value {
    Value::Int2(i16::try_from(number).unwrap_or(i16::MAX))
}

/// A smallint[] cell.
pub(super) fn int2_array(numbers: impl IntoIterator<Item = usize>) -> Value {
    Value::Array(numbers.into_iter().map(int2).collect())
}

/// An integer cell.
pub(super) fn int4(number: usize) -> Value {
    Value::Int4(i32::try_from(number).unwrap_or(i32::MAX))
}
