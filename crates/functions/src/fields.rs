//! SQL types and values as the engine has them.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use ashlar_base::{ColumnDef, ColumnId, Result, SqlType, Value};
use ashlar_store::arrow_types::to_arrow_field;
use ashlar_store::build_array;
use datafusion_common::ScalarValue;

use crate::error::from_datafusion;

/// The field that stands for a SQL type: its Arrow type, and the SQL type in its metadata.
pub fn field_of(name: &str, sql_type: SqlType) -> FieldRef {
    let column = ColumnDef { id: ColumnId(0), name: name.to_owned(), sql_type, nullable: true, default: None };
    Arc::new(to_arrow_field(&column))
}

/// One value as DataFusion has it.
///
/// # Errors
/// XX000 where the value is not of the type.
pub fn scalar(sql_type: SqlType, value: &Value) -> Result<ScalarValue> {
    let array = build_array(sql_type, std::iter::once(value.as_datum()))?;
    ScalarValue::try_from_array(&array, 0).map_err(from_datafusion)
}
