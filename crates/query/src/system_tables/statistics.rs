//! `pg_stats`: what ANALYZE has found.

use std::borrow::Cow;

use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{Datum, Items, Result, SqlType, Value};

use super::Picture;
use super::layout::{Rows, int4, maybe, string};
use crate::catalog::Table;

/// A row for each column of each table that was analysed.
pub(super) fn fill(picture: &Picture, rows: &mut Rows<'_>) -> Result<()> {
    for (name, table) in picture.catalog.tables() {
        let Table::Grid(region) = table else { continue };
        let Some(known) = region.statistics().filter(|known| known.rows > 0) else { continue };
        for column in region.schema().visible_columns() {
            let Some(found) = known.column(column.id) else { continue };
            let (values, parts): (Vec<Value>, Vec<f64>) = found.common.iter().cloned().unzip();
            let parts: Vec<Value> = parts.into_iter().map(real).collect();
            rows.push([
                ("tablename", string(name)),
                ("attname", string(&column.name)),
                ("null_frac", real(found.null_fraction)),
                ("avg_width", int4(found.width.round() as usize)),
                ("n_distinct", real(found.distinct_as_postgres(known.rows))),
                ("most_common_vals", array_text(column.sql_type, &values)),
                ("most_common_freqs", if parts.is_empty() { Value::Null } else { Value::Array(parts.into()) }),
                ("histogram_bounds", array_text(column.sql_type, &found.bounds)),
            ])?;
        }
    }
    Ok(())
}

/// PostgreSQL's columns are reals, and estimates.
fn real(value: f64) -> Value {
    Value::Float4(value as f32)
}

/// `{a,b}`; NULL where there is nothing.
fn array_text(sql_type: SqlType, values: &[Value]) -> Value {
    let SqlType::Scalar(scalar) = sql_type else { return Value::Null };
    let shown = (!values.is_empty()).then(|| {
        let mut out = Vec::new();
        let array = Datum::Array(Items::Values(Cow::Borrowed(values)));
        text::write(SqlType::Array(scalar), &array, &TextStyle::default(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    });
    maybe(shown)
}
