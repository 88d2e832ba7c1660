//! The shape of a region's rows at one schema version: what a row may hold, and where older segments keep it.
//!
//! Called by `region` when a table is created or altered, by every write before anything is changed, and by every
//! read of a column. Immutable.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use ashlar_base::value::numeric;
use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{
    ColumnDef, ColumnDefault, ColumnId, Datum, Error, ErrorCode, Result, ScalarType, SqlType, TableSchema, Value,
};

use crate::arrow_types::to_arrow_field;
use crate::life::EXPIRES_AT;
use crate::segment::{Layout, NANOS_PER_MICRO, Segment};

mod checks;

use checks::Check;
pub use checks::{Passed, holds, violated_by_some_row};

/// See the module.
pub(crate) struct Shape {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) arrow: SchemaRef,
    /// The layout of new segments: the schema's columns in their order.
    pub(crate) layout: Arc<Layout>,
    /// What a column reads as in segments older than itself.
    missing: Vec<(ColumnId, Value)>,
    /// CHECK constraints, in the order in which they are asked.
    conditions: Box<[Check]>,
}

/// Where a segment keeps a column of the shape.
pub(crate) enum Place<'a> {
    /// At this position.
    At(usize),
    /// Nowhere: the column is younger than the segment, and reads as this value.
    Missing(Datum<'a>),
}

impl Shape {
    /// The shape of a new region.
    pub(crate) fn new(schema: Arc<TableSchema>) -> Result<Self> {
        if schema.columns.is_empty() || schema.key.is_empty() {
            return Err(Error::internal(format!("table \"{}\" has no key", schema.name)));
        }
        for &ordinal in &schema.key {
            let Some(column) = schema.columns.get(ordinal) else {
                return Err(Error::internal(format!("table \"{}\" has no column {ordinal}", schema.name)));
            };
            if column.sql_type.is_array() || !column.sql_type.scalar().can_be_key() {
                return Err(Error::unsupported(format!("a column of type {} cannot be a key", column.sql_type))
                    .with_table(&schema.name)
                    .with_column(&column.name));
            }
        }
        if schema.partition_by.iter().any(|ordinal| !schema.key.contains(ordinal)) {
            return Err(Error::new(
                ErrorCode::InvalidTableDefinition,
                "the columns of partition_by must be part of the primary key",
            )
            .with_table(&schema.name));
        }
        for column in &schema.columns {
            if let ScalarType::Numeric { precision, scale } = column.sql_type.scalar()
                && !(1..=38).contains(&precision) | (scale > precision)
            {
                return Err(Error::unsupported(format!("type {} is not supported", column.sql_type)));
            }
        }
        Self::with_missing(schema, Vec::new())
    }

    fn with_missing(schema: Arc<TableSchema>, missing: Vec<(ColumnId, Value)>) -> Result<Self> {
        let layout = Arc::new(Layout {
            columns: schema.columns.iter().map(|column| (column.id, column.sql_type)).collect(),
            key: schema.key.iter().copied().collect(),
        });
        let arrow = Arc::new(Schema::new(schema.columns.iter().map(to_arrow_field).collect::<Vec<_>>()));
        let conditions = Check::of(&schema)?;
        Ok(Self { schema, arrow, layout, missing, conditions })
    }

    /// The shape after ALTER TABLE. Columns are the same when their ids are; a new one reads as its constant
    /// default, or as NULL, in the rows that are there.
    pub(crate) fn altered(&self, schema: Arc<TableSchema>, has_rows: bool) -> Result<Self> {
        let old = &self.schema;
        if schema.id != old.id || schema.version <= old.version {
            return Err(Error::internal(format!("table \"{}\" has moved on", schema.name)));
        }
        let key = |schema: &TableSchema| -> Vec<(ColumnId, SqlType)> {
            let ids = schema.key.iter().map(|&ordinal| &schema.columns[ordinal]);
            ids.map(|column| (column.id, column.sql_type)).collect()
        };
        let partition_by = |schema: &TableSchema| -> Vec<ColumnId> {
            schema.partition_by.iter().map(|&ordinal| schema.columns[ordinal].id).collect()
        };
        if key(&schema) != key(old) || partition_by(&schema) != partition_by(old) {
            return Err(Error::unsupported("the key of a table cannot be changed").with_table(&schema.name));
        }
        let mut missing = self.missing.clone();
        for column in &schema.columns {
            match old.columns.iter().find(|before| before.id == column.id) {
                Some(before) if !same_layout(before.sql_type, column.sql_type) => {
                    return Err(Error::unsupported("the type of a column cannot be changed")
                        .with_table(&schema.name)
                        .with_column(&column.name));
                }
                Some(_) => {}
                None => {
                    let value = match &column.default {
                        Some(ColumnDefault::Constant(value)) => value.clone(),
                        _ => Value::Null,
                    };
                    if !value.is_null() {
                        check_value(&schema, column, &value.as_datum())?;
                    } else if has_rows && !column.nullable {
                        return Err(contains_null(&schema, column));
                    }
                    missing.push((column.id, value));
                }
            }
        }
        missing.retain(|(id, _)| schema.columns.iter().any(|column| column.id == *id));
        let mut shape = Self::with_missing(schema, missing)?;
        if shape.layout == self.layout {
            shape.layout = Arc::clone(&self.layout);
        }
        Ok(shape)
    }

    /// 23502 for a column that may not be NULL any more, and is.
    pub(crate) fn contains_null(&self, ordinal: usize) -> Error {
        contains_null(&self.schema, &self.schema.columns[ordinal])
    }

    /// Where a segment keeps the column at `ordinal`.
    #[inline]
    pub(crate) fn place(&self, layout: &Arc<Layout>, ordinal: usize) -> Place<'_> {
        if Arc::ptr_eq(layout, &self.layout) {
            return Place::At(ordinal);
        }
        let id = self.layout.columns[ordinal].0;
        match layout.columns.iter().position(|(column, _)| *column == id) {
            Some(position) => Place::At(position),
            None => Place::Missing(self.missing_value(id)),
        }
    }

    /// [`Self::place`] of what a scan is asked for: no segment has it where it is no column.
    pub(crate) fn place_asked(&self, layout: &Arc<Layout>, ordinal: usize) -> Place<'_> {
        if ordinal == EXPIRES_AT { Place::Missing(Datum::Null) } else { self.place(layout, ordinal) }
    }

    fn missing_value(&self, id: ColumnId) -> Datum<'_> {
        let value = self.missing.iter().find(|(column, _)| *column == id);
        value.map_or(Datum::Null, |(_, value)| value.as_datum())
    }

    /// The value of a row at the ordinal of this shape.
    #[inline]
    pub(crate) fn datum<'a>(&'a self, segment: &'a Segment, row: u32, ordinal: usize) -> Datum<'a> {
        match self.place(&segment.layout, ordinal) {
            Place::At(position) => segment.datum(row, position),
            Place::Missing(datum) => datum,
        }
    }

    /// Whether a scan can be asked for an ordinal.
    pub(crate) fn has(&self, ordinal: usize) -> bool {
        ordinal < self.schema.columns.len() || ordinal == EXPIRES_AT
    }

    /// The type of what a scan is asked for by an ordinal.
    pub(crate) fn type_of(&self, ordinal: usize) -> SqlType {
        if ordinal == EXPIRES_AT {
            return SqlType::Scalar(ScalarType::Timestamptz);
        }
        self.schema.columns[ordinal].sql_type
    }

    /// The key of a row.
    pub(crate) fn key_of<'r, 'd>(&'r self, row: &'r [Datum<'d>]) -> impl Iterator<Item = &'r Datum<'d>> + Clone {
        self.schema.key.iter().map(move |&ordinal| &row[ordinal])
    }

    /// Whether a row may be stored: a value of the right type for every column, within the type's limits, no
    /// NULL where there must be none, and nothing that a CHECK constraint forbids.
    pub(crate) fn check_row(&self, row: &[Datum<'_>]) -> Result<()> {
        self.check_row_of(row, false)
    }

    /// The same of a row of which it may be known that no CHECK constraint forbids it.
    pub(crate) fn check_row_of(&self, row: &[Datum<'_>], has_passed: bool) -> Result<()> {
        let schema = &self.schema;
        if row.len() != schema.columns.len() {
            let (values, columns) = (row.len(), schema.columns.len());
            return Err(
                Error::internal(format!("a row of {values} values for {columns} columns")).with_table(&schema.name)
            );
        }
        for (column, datum) in schema.columns.iter().zip(row) {
            check_value(schema, column, datum).map_err(|error| with_row(schema, row, error))?;
        }
        if !has_passed && self.has_conditions() {
            self.check_conditions(|ordinal| row[ordinal].clone())?;
        }
        Ok(())
    }

    /// Whether one column may hold a value.
    pub(crate) fn check_column(&self, ordinal: usize, datum: &Datum<'_>) -> Result<()> {
        match self.schema.columns.get(ordinal) {
            Some(column) => check_value(&self.schema, column, datum),
            None => Err(Error::internal(format!("table \"{}\" has no column {ordinal}", self.schema.name))),
        }
    }

    /// `(1, 2)`: the text of values, as PostgreSQL shows them in details.
    pub(crate) fn list<'d>(columns: impl Iterator<Item = (SqlType, &'d Datum<'d>)>) -> String {
        let mut out = Vec::new();
        for (index, (sql_type, datum)) in columns.enumerate() {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            match datum {
                Datum::Null => out.extend_from_slice(b"null"),
                datum if has_type(sql_type, datum) => text::write(sql_type, datum, &TextStyle::default(), &mut out),
                Datum::Int2(value) => out.extend_from_slice(value.to_string().as_bytes()),
                Datum::Int4(value) => out.extend_from_slice(value.to_string().as_bytes()),
                Datum::Int8(value) => out.extend_from_slice(value.to_string().as_bytes()),
                _ => out.push(b'?'),
            }
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// What an internal error about a foreign key says.
    pub(crate) fn wrong_key(&self) -> Error {
        Error::internal(format!("a write to another key of table \"{}\"", self.schema.name))
    }

    /// 23505, worded as PostgreSQL does.
    pub(crate) fn duplicate(&self, key: &[Datum<'_>]) -> Error {
        let schema = &self.schema;
        let constraint = schema.key_name.as_str();
        let names: Vec<_> = schema.key.iter().map(|&ordinal| schema.columns[ordinal].name.as_str()).collect();
        let types = schema.key.iter().map(|&ordinal| schema.columns[ordinal].sql_type);
        let values = Self::list(types.zip(key));
        Error::new(
            ErrorCode::UniqueViolation,
            format!("duplicate key value violates unique constraint \"{constraint}\""),
        )
        .with_detail(format!("Key ({})=({values}) already exists.", names.join(", ")))
        .with_table(&schema.name)
        .with_constraint(constraint)
    }
}

/// 23502 shows the row.
fn with_row(schema: &TableSchema, row: &[Datum<'_>], error: Error) -> Error {
    if error.code() != ErrorCode::NotNullViolation {
        return error;
    }
    let values = schema.visible_columns().iter().zip(row).map(|(column, datum)| (column.sql_type, datum.clone()));
    error.with_detail(checks::failing_row(values))
}

fn contains_null(schema: &TableSchema, column: &ColumnDef) -> Error {
    let (name, table) = (&column.name, &schema.name);
    let message = format!("column \"{name}\" of relation \"{table}\" contains null values");
    Error::new(ErrorCode::NotNullViolation, message).with_table(table).with_column(name)
}

/// Whether values of one type are stored as those of the other, so that an ALTER need not rewrite them.
fn same_layout(before: SqlType, after: SqlType) -> bool {
    let varchar = |scalar: ScalarType| match scalar {
        ScalarType::Varchar { .. } => ScalarType::Text,
        scalar => scalar,
    };
    // A limit that becomes shorter would have to look at the rows.
    let narrower = match (before.scalar(), after.scalar()) {
        (ScalarType::Varchar { length: Some(before) }, ScalarType::Varchar { length: Some(after) }) => after < before,
        (ScalarType::Text | ScalarType::Varchar { length: None }, ScalarType::Varchar { length: Some(_) }) => true,
        _ => false,
    };
    before.is_array() == after.is_array() && varchar(before.scalar()) == varchar(after.scalar()) && !narrower
}

fn check_value(schema: &TableSchema, column: &ColumnDef, datum: &Datum<'_>) -> Result<()> {
    if datum.is_null() {
        if column.nullable {
            return Ok(());
        }
        let (name, table) = (&column.name, &schema.name);
        return Err(Error::new(
            ErrorCode::NotNullViolation,
            format!("null value in column \"{name}\" of relation \"{table}\" violates not-null constraint"),
        )
        .with_table(table)
        .with_column(name));
    }
    check_type(column.sql_type, datum).map_err(|error| match error.code() {
        ErrorCode::DatatypeMismatch => error.with_table(&schema.name).with_column(&column.name),
        _ => error,
    })
}

/// Whether the datum is a value of the type; its limits aside.
pub(crate) fn has_type(sql_type: SqlType, datum: &Datum<'_>) -> bool {
    let scalar = match (sql_type, datum) {
        (SqlType::Array(element), Datum::Array(items)) => {
            return items.iter().all(|item| item.is_null() || has_type(SqlType::Scalar(element), &item));
        }
        (SqlType::Array(_), _) => return false,
        (SqlType::Scalar(scalar), _) => scalar,
    };
    matches!(
        (scalar, datum),
        (ScalarType::Bool, Datum::Bool(_))
            | (ScalarType::Int2, Datum::Int2(_))
            | (ScalarType::Int4, Datum::Int4(_))
            | (ScalarType::Int8, Datum::Int8(_))
            | (ScalarType::Float4, Datum::Float4(_))
            | (ScalarType::Float8, Datum::Float8(_))
            | (ScalarType::Numeric { .. }, Datum::Numeric(_))
            | (
                ScalarType::Text
                    | ScalarType::Varchar { .. }
                    | ScalarType::Char { .. }
                    | ScalarType::Json
                    | ScalarType::Jsonb,
                Datum::Text(_)
            )
            | (ScalarType::Bytea, Datum::Bytea(_))
            | (ScalarType::Date, Datum::Date(_))
            | (ScalarType::Time, Datum::Time(_))
            | (ScalarType::Timestamp | ScalarType::Timestamptz, Datum::Timestamp(_))
            | (ScalarType::Interval, Datum::Interval(_))
            | (ScalarType::Uuid, Datum::Uuid(_))
    )
}

/// Whether a value that is not NULL is of the type and within its limits.
pub(crate) fn check_type(sql_type: SqlType, datum: &Datum<'_>) -> Result<()> {
    if !has_type(sql_type, datum) {
        return Err(Error::new(ErrorCode::DatatypeMismatch, format!("value {datum:?} is not of type {sql_type}")));
    }
    match (sql_type.scalar(), datum) {
        (_, Datum::Array(items)) => {
            let element = SqlType::Scalar(sql_type.scalar());
            let mut items = items.iter().filter(|item| !item.is_null());
            items.try_for_each(|item| check_type(element, &item))
        }
        (
            ScalarType::Varchar { length: Some(length) } | ScalarType::Char { length: Some(length) },
            Datum::Text(text),
        ) if text.len() > length as usize && text.chars().count() > length as usize => {
            Err(Error::new(ErrorCode::StringTooLong, format!("value too long for type {sql_type}")))
        }
        (ScalarType::Numeric { precision, scale }, Datum::Numeric(value)) => {
            numeric::fit(*value, precision, scale).map(drop)
        }
        (ScalarType::Interval, Datum::Interval(interval)) if interval.micros.checked_mul(NANOS_PER_MICRO).is_none() => {
            Err(Error::new(ErrorCode::DatetimeOverflow, "interval out of range"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
