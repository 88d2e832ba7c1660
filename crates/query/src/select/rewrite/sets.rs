//! `INTERSECT ALL` and `EXCEPT ALL`: the copies of a row are numbered, which makes them different rows.

use ashlar_base::{Error, Result};
use datafusion::sql::sqlparser::ast::{Ident, SelectItem, SetExpr, SetOperator, SetQuantifier, Statement, TableFactor};
use datafusion::sql::sqlparser::parser::Parser;

use crate::select::aliases::PART_OF_SET;
use crate::select::dialect::Postgres;
use crate::select::names::{folded, label_of};

/// Rewrites a query's body in place.
///
/// # Errors
/// 0A000 where the number of columns is not written down.
pub(super) fn body(expr: &mut SetExpr) -> Result<()> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = expr else { return Ok(()) };
    body(left)?;
    body(right)?;
    if !matches!(set_quantifier, SetQuantifier::All) || !matches!(op, SetOperator::Intersect | SetOperator::Except) {
        return Ok(());
    }
    let labels =
        labels(left).ok_or_else(|| Error::unsupported(format!("{op} ALL of a query with a star is not supported")))?;
    let columns: Vec<String> = (0..labels.len()).map(|number| format!("c{number}")).collect();
    let columns = columns.join(", ");
    let numbered = format!(
        "SELECT {columns}, row_number() OVER (PARTITION BY {columns}) AS n FROM (SELECT 1) AS \"{PART_OF_SET}\" ({columns})"
    );
    let sql = format!("SELECT {columns} FROM ({numbered} {op} {numbered}) AS numbered");
    let unexpected = || Error::internal("a template is a query");
    let mut parsed = Parser::parse_sql(&Postgres, &sql).map_err(|_| unexpected())?;
    let Some(Statement::Query(mut query)) = parsed.pop() else { return Err(unexpected()) };
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(unexpected()) };
    for (item, label) in select.projection.iter_mut().zip(labels) {
        if let SelectItem::UnnamedExpr(column) = item {
            *item = SelectItem::ExprWithAlias { expr: column.clone(), alias: Ident::with_quote('"', label) };
        }
    }
    let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|table| &mut table.relation) else {
        return Err(unexpected());
    };
    let SetExpr::SetOperation { left: first, right: second, .. } = subquery.body.as_mut() else {
        return Err(unexpected());
    };
    for (side, source) in [(first, left), (second, right)] {
        let SetExpr::Select(select) = side.as_mut() else { return Err(unexpected()) };
        let Some(TableFactor::Derived { subquery, .. }) = select.from.first_mut().map(|table| &mut table.relation)
        else {
            return Err(unexpected());
        };
        subquery.body = std::mem::replace(source, Box::new(SetExpr::Values(empty_values())));
    }
    *expr = SetExpr::clone(&query.body);
    Ok(())
}

fn empty_values() -> datafusion::sql::sqlparser::ast::Values {
    datafusion::sql::sqlparser::ast::Values { explicit_row: false, value_keyword: false, rows: Vec::new() }
}

fn labels(body: &SetExpr) -> Option<Vec<String>> {
    match body {
        SetExpr::Select(select) => {
            let label = |item: &SelectItem| match item {
                SelectItem::UnnamedExpr(expr) => Some(label_of(expr)),
                SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
                _ => None,
            };
            select.projection.iter().map(label).collect()
        }
        SetExpr::Values(values) => {
            let width = values.rows.first()?.content.len();
            Some((1..=width).map(|number| format!("column{number}")).collect())
        }
        SetExpr::Query(query) => labels(&query.body),
        SetExpr::SetOperation { left, .. } => labels(left),
        _ => None,
    }
}
