//! VALUES lists whose rows say a column's type in one place and leave it open in another.

use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, SetExpr, UnaryOperator, Value};

/// Casts the open literals of a VALUES list to the type that the same column is cast to elsewhere in the list, where
/// PostgreSQL would give them that very type.
pub(super) fn settle(body: &mut SetExpr) {
    let SetExpr::Values(values) = body else { return };
    let width = values.rows.first().map_or(0, |row| row.len());
    if values.rows.iter().any(|row| row.len() != width) {
        return;
    }
    for column in 0..width {
        let mut types = values.rows.iter().filter_map(|row| match &row[column] {
            Expr::Cast { data_type, kind: CastKind::Cast | CastKind::DoubleColon, .. } => Some(data_type.clone()),
            Expr::TypedString(typed) => Some(typed.data_type.clone()),
            _ => None,
        });
        let Some(found) = types.next() else { continue };
        if types.any(|other| other != found) {
            continue;
        }
        let Some(found) = without_limit(found) else { continue };
        for row in &mut values.rows {
            let item = &mut row[column];
            if is_taken_as(item, &found) {
                *item = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(item.clone()),
                    data_type: found.clone(),
                    array: false,
                    format: None,
                };
            }
        }
    }
}

/// A type that values of another row may have too: a numeric's digits and a varchar's length are one value's own.
fn without_limit(data_type: DataType) -> Option<DataType> {
    match data_type {
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => None,
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => None,
        other => Some(other),
    }
}

/// Whether a literal takes this type: NULL and quoted ones do, numbers where the type is of floats, or theirs.
fn is_taken_as(expr: &Expr, data_type: &DataType) -> bool {
    let is_float = matches!(
        data_type,
        DataType::Real
            | DataType::Float4
            | DataType::Float8
            | DataType::DoublePrecision
            | DataType::Double(_)
            | DataType::Float(_)
    );
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Null | Value::SingleQuotedString(_) => true,
            Value::Number(digits, _) => is_float || is_integer(data_type) && digits.parse::<i32>().is_ok(),
            _ => false,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            matches!(expr.as_ref(), Expr::Value(value) if matches!(value.value, Value::Number(..)))
                && is_taken_as(expr, data_type)
        }
        _ => false,
    }
}

/// Types that an integer is no wider than.
fn is_integer(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) | DataType::BigInt(_) | DataType::Int8(_)
    )
}
