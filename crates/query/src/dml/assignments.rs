//! Assignments to several columns at once, each of which becomes one to a column.
//!
//! Called for the SET of UPDATE and of ON CONFLICT DO UPDATE.

use ashlar_base::{Error, ErrorCode, Result};
use datafusion::sql::sqlparser::ast::{Assignment, AssignmentTarget, Expr, GroupByExpr, Query, SelectItem, SetExpr};

use crate::select::members_of;

/// `SET (a, b) = (x, y)` is `SET a = x, b = y`, and of `SET (a, b) = (SELECT x, y ...)` each column gets its own subquery.
///
/// # Errors
/// 42601 for more or fewer values than columns, 0A000 for a subquery that may give another row each time that it is asked.
pub(super) fn split_assignments(assignments: Vec<Assignment>) -> Result<Vec<Assignment>> {
    let mut result = Vec::with_capacity(assignments.len());
    for Assignment { target, value } in assignments {
        let names = match target {
            AssignmentTarget::Tuple(names) => names,
            target @ AssignmentTarget::ColumnName(_) => {
                result.push(Assignment { target, value });
                continue;
            }
        };
        let values = match value {
            Expr::Tuple(values) => values,
            value => match of_subquery(&value, names.len())? {
                Some(values) => values,
                None => {
                    result.push(Assignment { target: AssignmentTarget::Tuple(names), value });
                    continue;
                }
            },
        };
        if names.len() != values.len() {
            return Err(wrong_number());
        }
        let pairs = names.into_iter().zip(values);
        result.extend(pairs.map(|(name, value)| Assignment { target: AssignmentTarget::ColumnName(name), value }));
    }
    Ok(result)
}

fn wrong_number() -> Error {
    Error::new(ErrorCode::SyntaxError, "number of columns does not match number of values")
}

/// The columns of a subquery's one row, each by a subquery of its own; `None` for what is no subquery.
fn of_subquery(value: &Expr, width: usize) -> Result<Option<Vec<Expr>>> {
    let members = members_of(value, width)
        .map_err(|error| if error.code() == ErrorCode::SyntaxError { wrong_number() } else { error })?;
    // The engine joins a subquery to the rows around it where no other one stands between.
    Ok(members.map(|members| plain(value).filter(|plain| plain.len() == width).unwrap_or(members)))
}

/// The subquery once for each of its columns, with that one alone; `None` where another part of it may mean its other columns.
fn plain(value: &Expr) -> Option<Vec<Expr>> {
    let query = match value {
        Expr::Nested(inner) => return plain(inner),
        Expr::Subquery(query) => query,
        _ => return None,
    };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let has_groups = !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    if has_groups || select.distinct.is_some() || query.order_by.is_some() {
        return None;
    }
    let is_one = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    if !select.projection.iter().all(is_one) {
        return None;
    }
    let alone = |item: &SelectItem| {
        let mut query = Query::clone(query);
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = vec![item.clone()];
        }
        Expr::Subquery(Box::new(query))
    };
    Some(select.projection.iter().map(alone).collect())
}
