//! Conditions of a query as text for a shard: those that a shard decides exactly as we do, and no others.
//!
//! Comparisons of a column with constants of its own type, IN, IS NULL, AND and OR. Texts are compared for equality only: their
//! order is a matter of collation. Floats are left out, since their text may round.

use arrow::array::Array;
use ashlar_base::value::text::{self, TextStyle};
use ashlar_base::{ColumnDef, ScalarType, SqlType, Value};
use ashlar_functions::quoting::quote_ident;
use ashlar_store::ColumnReader;
use ashlar_store::arrow_types::to_arrow_type;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// The longest list that is sent; a longer one is applied here alone.
const LIST_MAX: usize = 1000;

/// A condition as a shard reads it; `None` for one that it might decide otherwise.
pub(super) fn text_of(condition: &Expr, columns: &[ColumnDef]) -> Option<String> {
    match condition {
        Expr::Column(_) => {
            let column = column_of(condition, columns)?;
            (column.sql_type == SqlType::Scalar(ScalarType::Bool)).then(|| quote_ident(&column.name))
        }
        Expr::IsNull(inner) => column_of(inner, columns).map(|column| format!("{} IS NULL", quote_ident(&column.name))),
        Expr::IsNotNull(inner) => {
            column_of(inner, columns).map(|column| format!("{} IS NOT NULL", quote_ident(&column.name)))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            Some(format!("({} {op} {})", text_of(left, columns)?, text_of(right, columns)?))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (column, op, constant) = match (column_of(left, columns), column_of(right, columns)) {
                (Some(column), None) => (column, *op, right),
                (None, Some(column)) => (column, op.swap()?, left),
                _ => return None,
            };
            let op = operator(op, column.sql_type)?;
            Some(format!("{} {op} {}", quote_ident(&column.name), constant_text(constant, column)?))
        }
        Expr::InList(InList { expr, list, negated: false }) if !list.is_empty() && list.len() <= LIST_MAX => {
            let column = column_of(expr, columns)?;
            operator(Operator::Eq, column.sql_type)?;
            let list: Option<Vec<String>> = list.iter().map(|constant| constant_text(constant, column)).collect();
            Some(format!("{} IN ({})", quote_ident(&column.name), list?.join(", ")))
        }
        Expr::Between(between) if !between.negated => {
            let column = column_of(&between.expr, columns)?;
            operator(Operator::Lt, column.sql_type)?;
            let (low, high) = (constant_text(&between.low, column)?, constant_text(&between.high, column)?);
            Some(format!("{} BETWEEN {low} AND {high}", quote_ident(&column.name)))
        }
        _ => None,
    }
}

/// The only values that a column of a row can have that fulfils a condition; `None` where that is not known.
pub(super) fn values_of(condition: &Expr, columns: &[ColumnDef], ordinal: usize) -> Option<Vec<Value>> {
    let wanted = columns.get(ordinal)?;
    let is_wanted = |expr: &Expr| column_of(expr, columns).is_some_and(|column| column.id == wanted.id);
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let constant = match (is_wanted(left), is_wanted(right)) {
                (true, false) => right,
                (false, true) => left,
                _ => return None,
            };
            Some(vec![value_of(constant, wanted.sql_type)?])
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            values_of(left, columns, ordinal).or_else(|| values_of(right, columns, ordinal))
        }
        Expr::InList(InList { expr, list, negated: false }) if is_wanted(expr) => {
            list.iter().map(|constant| value_of(constant, wanted.sql_type)).collect()
        }
        _ => None,
    }
}

fn column_of<'c>(expr: &Expr, columns: &'c [ColumnDef]) -> Option<&'c ColumnDef> {
    let Expr::Column(column) = expr else { return None };
    columns.iter().find(|known| known.name == column.name)
}

/// The operator, where a shard's is ours for values of the type.
fn operator(op: Operator, sql_type: SqlType) -> Option<Operator> {
    let SqlType::Scalar(scalar) = sql_type else { return None };
    let is_equality = matches!(op, Operator::Eq | Operator::NotEq);
    let is_order = matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    let fits = match scalar {
        ScalarType::Int2
        | ScalarType::Int4
        | ScalarType::Int8
        | ScalarType::Numeric { .. }
        | ScalarType::Date
        | ScalarType::Time
        | ScalarType::Timestamp
        | ScalarType::Timestamptz => is_equality || is_order,
        ScalarType::Bool | ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Uuid | ScalarType::Bytea => {
            is_equality
        }
        ScalarType::Float4
        | ScalarType::Float8
        | ScalarType::Char { .. }
        | ScalarType::Interval
        | ScalarType::Json
        | ScalarType::Jsonb => false,
    };
    fits.then_some(op)
}

/// A constant that has exactly the type of a column. NULL is none: what is compared with it is decided here.
fn value_of(constant: &Expr, sql_type: SqlType) -> Option<Value> {
    let Expr::Literal(scalar, _) = constant else { return None };
    if scalar.is_null() || scalar.data_type() != to_arrow_type(sql_type) {
        return None;
    }
    let array = ScalarValue::to_array(scalar).ok()?;
    debug_assert_eq!(array.len(), 1);
    Some(ColumnReader::new(&array, sql_type).ok()?.datum(0).to_value())
}

fn constant_text(constant: &Expr, column: &ColumnDef) -> Option<String> {
    let value = value_of(constant, column.sql_type)?;
    let mut out = Vec::new();
    text::write(column.sql_type, &value.as_datum(), &TextStyle::default(), &mut out);
    let text = String::from_utf8(out).ok()?;
    // Of the column's own type, without a length that would cut: an unknown literal takes it from the other side.
    Some(format!("'{}'", text.replace('\'', "''")))
}
