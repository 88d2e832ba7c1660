//! Subqueries in the arguments of window functions, in what DISTINCT ON shows or compares, and beside columns of the rows around in the
//! conditions of subqueries: they are computed in a projection beneath.
//!
//! Runs over a plan as the SQL planner made it, before the other passes over subqueries: the engine joins subqueries
//! of projections and conditions to the outer rows, but treats those of a window, and of the aggregates that DISTINCT ON becomes, as
//! independent queries. A condition that reads rows around becomes that of the join with them, and a join's asks no subqueries:
//!
//! ```text
//!   EXISTS (SELECT 1 FROM b WHERE a.x < (SELECT count(*) FROM c WHERE c.k = b.k))
//!   EXISTS (SELECT 1 FROM (SELECT *, (SELECT count(*) FROM c WHERE c.k = b.k) AS n FROM b) WHERE a.x < n)
//! ```

use std::sync::Arc;

use ashlar_functions::names::NAME_END;
use ashlar_functions::tree::{any_expression, any_part, rewrite_nodes_with_subqueries, rewrite_parts_down};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Window};

use super::around::Around;

/// Puts a projection beneath each of these that has subqueries.
pub(super) fn beneath(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut number = 0;
    rewrite_nodes_with_subqueries(plan, |node| match node {
        LogicalPlan::Window(window) if has_subquery(&window.window_expr)? => {
            window_over_columns(window, &mut number).map(Transformed::yes)
        }
        LogicalPlan::Distinct(Distinct::On(on)) if has_subquery(on.select_expr.iter().chain(&on.on_expr))? => {
            distinct_over_columns(on, &mut number).map(Transformed::yes)
        }
        LogicalPlan::Filter(filter) if asks_beside(&filter.predicate, filter.input.schema())? => {
            filter_over_columns(filter, &mut number).map(Transformed::yes)
        }
        node => Ok(Transformed::no(node)),
    })
}

fn has_subquery<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Result<bool> {
    for expr in exprs {
        if any_part(expr, |part| Ok(is_subquery(part)))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
}

/// Whether a condition reads the rows around and asks, beside that, for a value that belongs to its own row.
fn asks_beside(condition: &Expr, own: &DFSchema) -> Result<bool> {
    Ok(any_part(condition, |part| Ok(matches!(part, Expr::OuterReferenceColumn(..))))?
        && any_part(condition, |part| is_of_row(part, own))?)
}

/// Whether it is a subquery of one value that reads the row with these columns, and none further out.
fn is_of_row(expr: &Expr, own: &DFSchema) -> Result<bool> {
    let Expr::ScalarSubquery(subquery) = expr else { return Ok(false) };
    let free = Around::of(&subquery.subquery)?.free;
    Ok(!free.is_empty() && free.iter().all(|column| own.has_column(column)))
}

/// Whether a subquery may have another value each time.
fn is_volatile(subquery: &Expr) -> Result<bool> {
    let plan = match subquery {
        Expr::ScalarSubquery(subquery) => &subquery.subquery,
        Expr::Exists(exists) => &exists.subquery.subquery,
        Expr::InSubquery(list) => &list.subquery.subquery,
        Expr::SetComparison(comparison) => &comparison.subquery.subquery,
        _ => return Ok(false),
    };
    Ok(subquery.is_volatile() || any_expression(plan, |part| Ok(part.is_volatile_node()))?)
}

/// The columns of what is beneath, and the subqueries above it as further ones.
struct Columns<'a> {
    exprs: Vec<Expr>,
    /// The subqueries, each with the name of its column.
    named: Vec<(Expr, String)>,
    /// Keeps names of one plan apart.
    number: &'a mut usize,
}

impl<'a> Columns<'a> {
    fn of(input: &LogicalPlan, number: &'a mut usize) -> Self {
        Self { exprs: input.schema().iter().map(Expr::from).collect(), named: Vec::new(), number }
    }

    /// The expression with columns in the place of its subqueries; equal ones are one, where they have equal values.
    fn taken_out(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        self.taken_out_if(expr, |part| Ok(is_subquery(part)))
    }

    /// Likewise, of these subqueries.
    fn taken_out_if(&mut self, expr: Expr, is_meant: impl Fn(&Expr) -> Result<bool>) -> Result<Transformed<Expr>> {
        rewrite_parts_down(expr, |part| {
            if !is_meant(&part)? {
                return Ok(Transformed::no(part));
            }
            let known = self.named.iter().find(|(known, _)| *known == part);
            let known = if is_volatile(&part)? { None } else { known };
            let name = match known {
                Some((_, name)) => name.clone(),
                None => {
                    *self.number += 1;
                    let name = format!("subquery{NAME_END}{}", self.number);
                    self.exprs.push(part.clone().alias(&name));
                    self.named.push((part, name.clone()));
                    name
                }
            };
            Ok(Transformed::new(Expr::Column(Column::new_unqualified(name)), true, TreeNodeRecursion::Jump))
        })
    }

    /// The projection over what is beneath.
    fn over(self, input: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
        LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).project(self.exprs)?.build().map(Arc::new)
    }
}

fn window_over_columns(window: Window, number: &mut usize) -> Result<LogicalPlan> {
    let mut columns = Columns::of(&window.input, number);
    let mut functions = Vec::with_capacity(window.window_expr.len());
    for expr in window.window_expr {
        let shown = expr.schema_name().to_string();
        let rewritten = columns.taken_out(expr)?;
        functions.push(if rewritten.transformed { rewritten.data.alias(shown) } else { rewritten.data });
    }
    Ok(LogicalPlan::Window(Window::try_new(functions, columns.over(window.input)?)?))
}

fn distinct_over_columns(distinct: DistinctOn, number: &mut usize) -> Result<LogicalPlan> {
    let DistinctOn { on_expr, select_expr, sort_expr, input, schema } = distinct;
    let mut columns = Columns::of(&input, number);
    let mut shown = Vec::with_capacity(select_expr.len());
    for (expr, (qualifier, field)) in select_expr.into_iter().zip(schema.iter()) {
        let rewritten = columns.taken_out(expr)?;
        shown.push(match rewritten.transformed {
            true => rewritten.data.alias_qualified(qualifier.cloned(), field.name()),
            false => rewritten.data,
        });
    }
    let mut plain = |expr: Expr| columns.taken_out(expr).map(|rewritten| rewritten.data);
    let on = on_expr.into_iter().map(&mut plain).collect::<Result<Vec<_>>>()?;
    let mut order = sort_expr;
    for sort in order.iter_mut().flatten() {
        sort.expr = plain(sort.expr.clone())?;
    }
    Ok(LogicalPlan::Distinct(Distinct::On(DistinctOn::try_new(on, shown, order, columns.over(input)?)?)))
}

/// Conditions that ask nothing of the kind stay beneath: there are fewer rows then to find values for.
fn filter_over_columns(filter: Filter, number: &mut usize) -> Result<LogicalPlan> {
    let own = Arc::clone(filter.input.schema());
    let shown: Vec<Expr> = own.iter().map(Expr::from).collect();
    let (mut asking, mut others) = (Vec::new(), Vec::new());
    for condition in split_conjunction_owned(filter.predicate) {
        let list = if asks_beside(&condition, &own)? { &mut asking } else { &mut others };
        list.push(condition);
    }
    let mut input = filter.input;
    if let Some(others) = conjunction(others) {
        input = Arc::new(LogicalPlan::Filter(Filter::try_new(others, input)?));
    }
    let mut columns = Columns::of(&input, number);
    let taken_out = |condition| columns.taken_out_if(condition, |part| is_of_row(part, &own)).map(|found| found.data);
    let asking = asking.into_iter().map(taken_out).collect::<Result<Vec<_>>>()?;
    let mut filtered = LogicalPlanBuilder::from(Arc::unwrap_or_clone(columns.over(input)?));
    if let Some(asking) = conjunction(asking) {
        filtered = filtered.filter(asking)?;
    }
    filtered.project(shown)?.build()
}
