//! Result columns: what a client is told about each before the rows come.

use arrow::datatypes::Schema;
use ashlar_base::{Error, Result, ScalarType, SqlType};
use ashlar_functions::names::shown_name;
use ashlar_store::arrow_types::sql_type_of;

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, as PostgreSQL would choose it.
    pub name: String,
    /// The type, which decides how values are encoded.
    pub sql_type: SqlType,
    /// The OID of the type in PostgreSQL.
    pub oid: u32,
    /// The size of the type, as in `pg_type.typlen`.
    pub typlen: i16,
    /// The type modifier, as in `pg_attribute.atttypmod`.
    pub typmod: i32,
    /// The OID of the table that the column is read from; 0 if it is computed.
    pub table_oid: u32,
    /// The number of the column in that table, from 1; 0 if it is computed.
    pub column_number: i16,
}

impl Column {
    /// A computed column.
    pub fn new(name: impl Into<String>, sql_type: SqlType) -> Self {
        Self {
            name: name.into(),
            sql_type,
            oid: sql_type.oid(),
            typlen: sql_type.typlen(),
            typmod: sql_type.typmod(),
            table_oid: 0,
            column_number: 0,
        }
    }

    /// A text column, as utility statements return.
    pub fn text(name: &str) -> Self {
        Self::new(name, SqlType::Scalar(ScalarType::Text))
    }
}

/// The columns of a plan's output.
///
/// # Errors
/// 0A000 for a type that PostgreSQL clients could not read.
pub fn of_schema(schema: &Schema) -> Result<Vec<Column>> {
    let column = |field: &arrow::datatypes::FieldRef| {
        let name = shown_name(field.name());
        let sql_type = sql_type_of(field).ok_or_else(|| {
            Error::unsupported(format!("column \"{name}\" has a type that cannot be sent: {}", field.data_type()))
        })?;
        Ok(Column::new(name, sql_type))
    };
    schema.fields().iter().map(column).collect()
}
