//! `(a, b) IN (SELECT x, y ...)`, said by EXISTS: the engine compares no row with those of a subquery.
//!
//! ```text
//!   EXISTS (SELECT 1 FROM (SELECT x, y ...) AS rows (c0, c1) WHERE c0 = a AND c1 = b)
//! ```
//!
//! That is false where IN is NULL, which is the same to a condition of WHERE. In other places the three answers are told apart:
//!
//! ```text
//!   NOT CASE WHEN EXISTS (... WHERE equal) THEN false WHEN EXISTS (... WHERE equal IS NULL) THEN NULL ELSE true END
//! ```
//!
//! `(a, b) > ANY (SELECT x, y ...)` and ALL are said so too, with their own comparison. And `(a, b) < (SELECT x, y ...)`, whose one row is
//! taken apart.

use std::ops::ControlFlow;

use ashlar_base::{Error, Result};
use ashlar_functions::names::NAME_END;
use ashlar_functions::walk;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Ident, Query, Select, SelectItem, SetExpr, Statement, TableAlias,
    TableAliasColumnDef, TableFactor, TableWithJoins, UnaryOperator, Value, Visitor, With,
};

use super::copies::{Copies, nodes_of};
use super::rows::{compare, equal, members};
use crate::select::aliases::{ROWS_OF_SUBQUERY, wrong_width};
use crate::select::names::folded;
use crate::select::with_once::Reads;

/// A row and the subquery whose rows it is compared with: whether the comparison holds for one of them, or for none.
struct Search<'e> {
    row: Vec<Expr>,
    op: BinaryOperator,
    subquery: &'e Query,
    negated: bool,
}

/// Puts EXISTS in the place of such conditions of WHERE.
///
/// # Errors
/// 42601 for a subquery of more or fewer columns than the row.
pub(super) fn conditions(selection: &mut Option<Expr>) -> Result<()> {
    selection.as_mut().map_or(Ok(()), condition)
}

fn condition(mut expr: &mut Expr) -> Result<()> {
    loop {
        match expr {
            Expr::Nested(inner) => expr = inner,
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                condition(right)?;
                expr = left;
            }
            other => return last(other),
        }
    }
}

/// A condition that is none of several.
fn last(expr: &mut Expr) -> Result<()> {
    let (inner, is_denied) = match &*expr {
        Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => (inner.as_ref(), true),
        other => (other, false),
    };
    let said = match Search::of(inner) {
        None => return Ok(()),
        // Said as a value, where what is said twice is counted.
        Some(search) if search.op != BinaryOperator::Eq => return Ok(()),
        Some(search) => {
            let equal = search.equal()?;
            let negated = search.negated != is_denied;
            search.exists(if negated { Expr::IsNotFalse(Box::new(equal)) } else { equal }, negated)?
        }
    };
    *expr = said;
    Ok(())
}

/// What such a condition is worth anywhere.
///
/// # Errors
/// As [`conditions`]; 54001 where that is too much.
pub(super) fn value(expr: &Expr, copies: &mut Copies) -> Result<Option<Expr>> {
    let Some(search) = Search::of(expr) else { return Ok(None) };
    copies.take(nodes_of(search.subquery) + search.row.iter().map(nodes_of).sum::<usize>())?;
    let equal = search.comparison(copies)?;
    let (found, none) = if search.negated { ("true", "false") } else { ("false", "true") };
    let template = format!("SELECT NOT (CASE WHEN true THEN {found} WHEN true THEN NULL ELSE {none} END)");
    let unexpected = || Error::internal("a template is a query");
    let Ok(Statement::Query(mut query)) = crate::select::parse(&template) else { return Err(unexpected()) };
    let SetExpr::Select(select) = query.body.as_mut() else { return Err(unexpected()) };
    let Some(SelectItem::UnnamedExpr(mut value)) = select.projection.pop() else { return Err(unexpected()) };
    if let Expr::UnaryOp { expr: inner, .. } = &mut value
        && let Expr::Nested(case) = inner.as_mut()
        && let Expr::Case { conditions, .. } = case.as_mut()
        && let [is_in, is_unknown] = &mut conditions[..]
    {
        is_in.condition = search.exists(equal.clone(), false)?;
        is_unknown.condition = search.exists(Expr::IsNull(Box::new(equal)), false)?;
        return Ok(Some(value));
    }
    Err(unexpected())
}

/// The members of `(SELECT x, y ...)`, of as many as a row has that it is compared with, each by a subquery of its own; `None` for what is no
/// subquery.
///
/// # Errors
/// As [`one_row_of`].
pub(crate) fn members_of(expr: &Expr, width: usize) -> Result<Option<Vec<Expr>>> {
    let Some(subquery) = one_row_of(expr, width)? else { return Ok(None) };
    let row = vec![Expr::value(Value::Null); width];
    let rows = Search { row, op: BinaryOperator::Eq, subquery, negated: false };
    let member = |place: usize| -> Result<Expr> {
        let mut query = rows.query()?;
        let name = vec![Ident::with_quote('"', ROWS_OF_SUBQUERY), column(place)];
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.projection = vec![SelectItem::UnnamedExpr(Expr::CompoundIdentifier(name))];
        }
        Ok(Expr::Subquery(query))
    };
    (0..width).map(member).collect::<Result<Vec<Expr>>>().map(Some)
}

/// The subquery that stands for a row of so many members; `None` for what is no subquery. It is run for each of them, and has to give the same
/// row each time.
///
/// # Errors
/// 42601 for a subquery of more or fewer columns, 0A000 for one that may give another row each time.
pub(crate) fn one_row_of(expr: &Expr, members: usize) -> Result<Option<&Query>> {
    let Some(subquery) = subquery_of(expr) else { return Ok(None) };
    check_width(subquery, members)?;
    if walk::visit(subquery, &mut Chooses).is_break() {
        let message =
            "comparing a row with that of a subquery which limits its rows or calls such functions is not supported";
        return Err(Error::unsupported(message).with_hint("Compute its row in a query in FROM."));
    }
    Ok(Some(subquery))
}

/// Whether a subquery reads a query of the WITH around it that may give other rows each time.
pub(crate) fn reads_choice(subquery: &Query, with: &With) -> bool {
    let mut choosing: Vec<String> = Vec::new();
    for cte in &with.cte_tables {
        let query = cte.query.as_ref();
        let reads_one = choosing.iter().any(|name| Reads::of(query, name).count > 0);
        if reads_one || walk::visit(query, &mut Chooses).is_break() {
            choosing.push(folded(&cte.alias.name));
        }
    }
    choosing.iter().any(|name| Reads::of(subquery, name).count > 0)
}

/// Looks for what makes a query choose among its rows: it may choose otherwise the next time.
struct Chooses;

impl Visitor for Chooses {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if query.limit_clause.is_some() || query.fetch.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if matches!(select.distinct, Some(Distinct::On(_))) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        const VOLATILE: [&str; 5] = ["random", "gen_random_uuid", "clock_timestamp", "timeofday", "nextval"];
        const IN_ANY_ORDER: [&str; 3] = ["array_agg", "string_agg", "json_agg"];
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
        let chooses = function.over.is_some()
            || VOLATILE.contains(&name.as_str())
            || IN_ANY_ORDER.contains(&name.as_str())
            || name.starts_with("jsonb_agg")
            || name.ends_with("object_agg");
        if chooses { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl<'e> Search<'e> {
    fn of(expr: &'e Expr) -> Option<Self> {
        Some(match expr {
            Expr::Nested(inner) => return Self::of(inner),
            Expr::InSubquery { expr: row, subquery, negated } => {
                Self { row: members(row)?, op: BinaryOperator::Eq, subquery, negated: *negated }
            }
            Expr::AnyOp { left, compare_op, right, .. } => {
                // Only what is the opposite of another one compares rows.
                opposite(compare_op)?;
                Self { row: members(left)?, op: compare_op.clone(), subquery: subquery_of(right)?, negated: false }
            }
            Expr::AllOp { left, compare_op, right } => {
                let op = opposite(compare_op)?;
                Self { row: members(left)?, op, subquery: subquery_of(right)?, negated: true }
            }
            _ => return None,
        })
    }

    /// The columns of a row of the subquery.
    fn columns(&self) -> Vec<Expr> {
        let columns = (0..self.row.len())
            .map(|place| Expr::CompoundIdentifier(vec![Ident::with_quote('"', ROWS_OF_SUBQUERY), column(place)]));
        columns.collect()
    }

    /// Whether a row of the subquery is the row.
    fn equal(&self) -> Result<Expr> {
        if self.row.iter().any(|member| members(member).is_some()) {
            return Err(Error::unsupported("comparing rows of rows is not supported"));
        }
        Ok(equal(&self.columns(), &self.row))
    }

    /// Whether the comparison holds for a row of the subquery.
    fn comparison(&self, copies: &mut Copies) -> Result<Expr> {
        if self.op == BinaryOperator::Eq {
            return self.equal();
        }
        let (row, columns) = (Expr::Tuple(self.row.clone()), Expr::Tuple(self.columns()));
        compare(&row, &self.op, &columns, copies)?.ok_or_else(|| Error::internal("rows are compared with rows"))
    }

    fn exists(&self, condition: Expr, negated: bool) -> Result<Expr> {
        let mut query = self.query()?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.selection = Some(condition);
        }
        Ok(Expr::Exists { subquery: query, negated })
    }

    /// A query of the subquery's rows.
    fn query(&self) -> Result<Box<Query>> {
        check_width(self.subquery, self.row.len())?;
        let unexpected = || Error::internal("a template is a query");
        let Ok(Statement::Query(mut query)) = crate::select::parse("SELECT 1") else { return Err(unexpected()) };
        let SetExpr::Select(select) = query.body.as_mut() else { return Err(unexpected()) };
        let columns = (0..self.row.len()).map(|place| TableAliasColumnDef { name: column(place), data_type: None });
        let name = Ident::with_quote('"', ROWS_OF_SUBQUERY);
        let alias = TableAlias { explicit: true, name, columns: columns.collect(), at: None };
        let subquery = Box::new(self.subquery.clone());
        let relation = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
        select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
        Ok(query)
    }
}

/// What is true where a comparison is false.
fn opposite(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    })
}

fn subquery_of(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Nested(inner) => subquery_of(inner),
        Expr::Subquery(query) => Some(query),
        _ => None,
    }
}

/// The name of a column of the subquery's rows.
fn column(place: usize) -> Ident {
    Ident::with_quote('"', format!("column{NAME_END}{place}"))
}

/// 42601 for a subquery of which it is seen that it has not so many columns.
fn check_width(subquery: &Query, wanted: usize) -> Result<()> {
    match width(&subquery.body) {
        Some(found) if found != wanted => Err(wrong_width(found > wanted)),
        _ => Ok(()),
    }
}

/// How many columns a query has, where no star hides it.
fn width(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        SetExpr::Query(query) => width(&query.body),
        SetExpr::SetOperation { left, .. } => width(left),
        _ => None,
    }
}
