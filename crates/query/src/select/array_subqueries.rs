//! `ARRAY(SELECT ...)` of a query with GROUP BY, DISTINCT or LIMIT: a query around it aggregates its values, in the
//! order of its rows.
//!
//! ```text
//!   ARRAY(SELECT x FROM t ORDER BY y LIMIT 2)
//!   ->  (SELECT array_or_empty(array_agg(x ORDER BY place)) FROM (SELECT x, row_number() OVER (ORDER BY y) AS place FROM t) WHERE place <= 2)
//! ```
//!
//! Called while a statement is rewritten, for queries that one aggregation over their rows does not express.

use ashlar_base::Result;
use ashlar_functions::array_rows::ARRAY_OR_EMPTY;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, FunctionArgumentClause, Ident, LimitClause, OrderByExpr, Query, SelectItem, SetExpr, TableAlias,
    TableFactor, TableWithJoins, Value, WindowType,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::dialect::Postgres;
use super::names::folded;
use super::nodes::{call, call_with};
use super::rewrite::copies::{Copies, nodes_of};

const ROWS: &str = "array rows";
const VALUE: &str = "array value";
const PLACE: &str = "array place";

/// The array of a query without its ORDER BY, which is given beside it; `None` for a form that cannot be said so.
///
/// # Errors
/// 54001 where saying it is too much.
pub(super) fn of_rows(
    mut query: Query,
    order_by: Vec<OrderByExpr>,
    copies: &mut Copies,
) -> Result<Option<(Expr, Box<Query>)>> {
    let Some((offset, limit)) = bounds(query.limit_clause.take().as_ref()) else { return Ok(None) };
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(None) };
    let (value, label) = match &select.projection[..] {
        [SelectItem::UnnamedExpr(expr)] => (expr.clone(), Ident::with_quote('"', VALUE)),
        [SelectItem::ExprWithAlias { expr, alias }] => (expr.clone(), alias.clone()),
        _ => return Ok(None),
    };
    copies.take(nodes_of(&value).saturating_mul(order_by.len()))?;
    let is_value = |expr: &Expr| match expr {
        Expr::Value(place) => matches!(&place.value, Value::Number(digits, _) if digits == "1"),
        Expr::Identifier(name) if folded(name) == folded(&label) => true,
        other => *other == value,
    };
    select.projection = vec![SelectItem::ExprWithAlias { expr: value.clone(), alias: label.clone() }];
    let shown = |name: Ident| Expr::CompoundIdentifier(vec![Ident::with_quote('"', ROWS), name]);
    let place = Ident::with_quote('"', PLACE);
    let (sorted, condition) = match select.distinct {
        Some(Distinct::On(_)) => return Ok(None),
        Some(Distinct::Distinct) => {
            if offset > 0 || limit.is_some() || !order_by.iter().all(|one| is_value(&one.expr)) {
                return Ok(None);
            }
            let sorted = order_by.into_iter().map(|one| OrderByExpr { expr: shown(label.clone()), ..one });
            (sorted.collect::<Vec<OrderByExpr>>(), None)
        }
        Some(Distinct::All) | None => {
            let order_by = order_by
                .into_iter()
                .map(|one| OrderByExpr { expr: if is_value(&one.expr) { value.clone() } else { one.expr }, ..one });
            let Some(numbered) = numbered(order_by.collect()) else { return Ok(None) };
            select.projection.push(SelectItem::ExprWithAlias { expr: numbered, alias: place.clone() });
            let last = limit.map_or(i64::MAX, |limit| offset.saturating_add(limit));
            let condition = format!("\"{ROWS}\".\"{PLACE}\" > {offset} AND \"{ROWS}\".\"{PLACE}\" <= {last}");
            let Some(condition) = parsed(&condition) else { return Ok(None) };
            (vec![OrderByExpr { expr: shown(place), ..OrderByExpr::from(label.clone()) }], Some(condition))
        }
    };
    let clauses = if sorted.is_empty() { Vec::new() } else { vec![FunctionArgumentClause::OrderBy(sorted)] };
    let array = call(ARRAY_OR_EMPTY, vec![call_with("array_agg", vec![shown(label)], clauses)]);
    let around = Parser::new(&Postgres).try_with_sql("SELECT 1").and_then(|mut parser| parser.parse_query());
    let Ok(mut around) = around else { return Ok(None) };
    let SetExpr::Select(outer) = around.body.as_mut() else { return Ok(None) };
    let alias = TableAlias { explicit: true, name: Ident::with_quote('"', ROWS), columns: Vec::new(), at: None };
    let subquery = Box::new(query);
    let relation = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    outer.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    outer.selection = condition;
    Ok(Some((array, around)))
}

fn parsed(text: &str) -> Option<Expr> {
    Parser::new(&Postgres).try_with_sql(text).and_then(|mut parser| parser.parse_expr()).ok()
}

/// The place of each row in an order.
fn numbered(order_by: Vec<OrderByExpr>) -> Option<Expr> {
    let mut numbered = parsed("row_number() OVER ()")?;
    let Expr::Function(function) = &mut numbered else { return None };
    let Some(WindowType::WindowSpec(window)) = &mut function.over else { return None };
    window.order_by = order_by;
    Some(numbered)
}

/// How many rows are passed over, and how many there may be at most; `None` where that is not written out.
fn bounds(clause: Option<&LimitClause>) -> Option<(i64, Option<i64>)> {
    let number = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<i64>().ok(),
            _ => None,
        },
        _ => None,
    };
    match clause {
        None => Some((0, None)),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            let offset = match offset {
                Some(offset) => number(&offset.value)?,
                None => 0,
            };
            match limit {
                Some(limit) => Some((offset, Some(number(limit)?))),
                None => Some((offset, None)),
            }
        }
        Some(_) => None,
    }
}
