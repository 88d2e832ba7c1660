//! LATERAL: items of FROM that read columns of the items before them.
//!
//! Runs over a plan as the SQL planner made it, where such an item is the right side of a join. A function that gives rows
//! is unnested right over the left side. Of any other item the rows of each left row are gathered into an array, by a
//! subquery for a value, and unnested:
//!
//! ```text
//!   t JOIN LATERAL (S) s ON c   ->   unnest(a)   over   t.*, (SELECT array_agg(row) FROM (S) s WHERE c) AS a   over   t
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use ashlar_base::Error;
use ashlar_functions::array_rows::{column_of, row};
use ashlar_functions::error::external;
use ashlar_functions::names::NAME_END;
use ashlar_functions::tree::{
    any_node, any_part, each_expression_of, each_node_with_subqueries, rewrite_inputs,
    rewrite_nodes_down_with_subqueries, rewrite_parts,
};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue, Spans, TableReference, UnnestOptions};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Cast, Expr, ExprSchemable, Join, JoinConstraint, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery,
    SubqueryAlias, Unnest, Values,
};

/// Puts what it means in the place of each LATERAL item.
pub(super) fn joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_item = |node: &LogicalPlan| matches!(node, LogicalPlan::Subquery(_));
    let mut found = false;
    each_node_with_subqueries(&plan, |node| {
        // A subquery of an expression is such a node too, but none's input.
        found |= node.inputs().into_iter().any(is_item);
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !found {
        return Ok(plan);
    }
    let mut number = 0;
    rewrite_nodes_down_with_subqueries(plan, |node| match node {
        LogicalPlan::Join(join) if item_of(&join.right).is_some() => {
            let Some((item, alias)) = item_of(&join.right) else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
            number += 1;
            Lateral { join, item, alias, number }.plan().map(Transformed::yes)
        }
        // The first item of its FROM: what it reads is of the query around.
        other => rewrite_inputs(other, |child| {
            Ok(match child {
                LogicalPlan::Subquery(Subquery { subquery, .. }) => Transformed::yes(Arc::unwrap_or_clone(subquery)),
                child => Transformed::no(child),
            })
        }),
    })
}

/// A LATERAL item, and its name.
fn item_of(plan: &LogicalPlan) -> Option<(LogicalPlan, Option<TableReference>)> {
    match plan {
        LogicalPlan::Subquery(Subquery { subquery, .. }) => Some((subquery.as_ref().clone(), None)),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => match input.as_ref() {
            LogicalPlan::Subquery(Subquery { subquery, .. }) => Some((subquery.as_ref().clone(), Some(alias.clone()))),
            _ => None,
        },
        _ => None,
    }
}

struct Lateral {
    join: Join,
    item: LogicalPlan,
    alias: Option<TableReference>,
    /// Keeps names of one plan apart.
    number: usize,
}

impl Lateral {
    fn plan(self) -> Result<LogicalPlan> {
        let is_left = match self.join.join_type {
            JoinType::Inner => false,
            JoinType::Left => true,
            other => return Err(unsupported(&format!("LATERAL in a {other} join"))),
        };
        if self.join.join_constraint == JoinConstraint::Using && !self.join.on.is_empty() {
            return Err(unsupported("LATERAL in a join with USING"));
        }
        let keys = self.join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
        let condition = conjunction(keys.chain(self.join.filter.clone()));
        let condition =
            condition.filter(|condition| !matches!(condition, Expr::Literal(ScalarValue::Boolean(Some(true)), _)));
        if (!is_left || condition.is_none())
            && let Some(plan) = self.beside(is_left)?
        {
            return match condition {
                Some(condition) => LogicalPlanBuilder::from(plan).filter(condition)?.build(),
                None => Ok(plan),
            };
        }
        self.gathered(is_left, condition)
    }

    /// The columns of the left side, and what they are called while the right side is worked out over them.
    fn kept(&self) -> Vec<(Column, String)> {
        let columns = self.join.left.schema().columns().into_iter().enumerate();
        columns.map(|(place, column)| (column, format!("left{NAME_END}{} {place}", self.number))).collect()
    }

    /// A function's rows beside the left row: the item's own nodes over the left side. `None` where it is not of such nodes.
    fn beside(&self, is_left: bool) -> Result<Option<LogicalPlan>> {
        if holds_subquery(&self.item)? {
            return Ok(None);
        }
        let kept = self.kept();
        let Some(plan) = self.over_left(&self.item, &kept, is_left)? else { return Ok(None) };
        let columns = kept.iter().map(|(column, name)| {
            Expr::Column(Column::new_unqualified(name)).alias_qualified(column.relation.clone(), &column.name)
        });
        let item = self.item.schema().columns().into_iter().zip(self.join.right.schema().columns());
        let item = item.map(|(from, to)| Expr::Column(from).alias_qualified(to.relation, to.name));
        LogicalPlanBuilder::from(plan).project(columns.chain(item).collect::<Vec<_>>())?.build().map(Some)
    }

    fn over_left(&self, item: &LogicalPlan, kept: &[(Column, String)], is_left: bool) -> Result<Option<LogicalPlan>> {
        let passed = || kept.iter().map(|(_, name)| Expr::Column(Column::new_unqualified(name)));
        let own = |expr: &Expr| self.with_own_columns(expr.clone(), kept);
        Ok(match item {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
                let renamed = kept.iter().map(|(column, name)| Expr::Column(column.clone()).alias(name));
                let left = LogicalPlanBuilder::from(LogicalPlan::clone(&self.join.left));
                Some(left.project(renamed.collect::<Vec<_>>())?.build()?)
            }
            LogicalPlan::Values(values) if !is_left => {
                let name = format!("values{NAME_END}{}", self.number);
                let list = Column::new_unqualified(&name);
                let rows = rows_of(values)?
                    .into_iter()
                    .map(|cells| cells.iter().map(own).collect::<Result<Vec<Expr>>>().map(row));
                let array = make_array_udf().call(rows.collect::<Result<Vec<Expr>>>()?).alias(&name);
                let columns = values.schema.columns().into_iter().enumerate();
                let columns =
                    columns.map(|(place, column)| column_of(Expr::Column(list.clone()), place).alias(column.name));
                let renamed = kept.iter().map(|(column, name)| Expr::Column(column.clone()).alias(name));
                let plan = LogicalPlanBuilder::from(LogicalPlan::clone(&self.join.left))
                    .project(renamed.collect::<Vec<_>>())?
                    .project(passed().chain([array]).collect::<Vec<_>>())?
                    .unnest_columns_with_options(vec![list.clone()], UnnestOptions::new())?
                    .project(passed().chain(columns).collect::<Vec<_>>())?;
                Some(plan.build()?)
            }
            LogicalPlan::Projection(projection) => {
                // Above the rows of an outer join a column is NULL for a row that is not there; an expression may not be.
                let is_plain = |expr: &Expr| matches!(expr.clone().unalias(), Expr::Column(_));
                if is_left && holds_unnest(&projection.input) && !projection.expr.iter().all(is_plain) {
                    return Ok(None);
                }
                let Some(input) = self.over_left(&projection.input, kept, is_left)? else { return Ok(None) };
                let exprs = projection.expr.iter().zip(projection.schema.columns()).map(|(expr, column)| {
                    let expr = own(expr)?;
                    // Other words for the same column must not change its name.
                    Ok(match expr {
                        Expr::Column(_) => expr,
                        other => other.unalias().alias_qualified(column.relation, column.name),
                    })
                });
                let exprs = exprs.collect::<Result<Vec<Expr>>>()?;
                Some(LogicalPlanBuilder::from(input).project(passed().chain(exprs))?.build()?)
            }
            LogicalPlan::Unnest(unnest) => {
                if is_left && holds_unnest(&unnest.input) {
                    return Ok(None);
                }
                let Some(input) = self.over_left(&unnest.input, kept, is_left)? else { return Ok(None) };
                let options = UnnestOptions { null_handling: null_handling(is_left), ..unnest.options.clone() };
                Some(LogicalPlan::Unnest(Unnest::try_new(Arc::new(input), unnest.exec_columns.clone(), options)?))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(input) = self.over_left(&alias.input, kept, is_left)? else { return Ok(None) };
                let columns = alias.input.schema().columns().into_iter().zip(alias.schema.columns());
                let columns = columns.map(|(from, to)| Expr::Column(from).alias_qualified(to.relation, to.name));
                Some(LogicalPlanBuilder::from(input).project(passed().chain(columns).collect::<Vec<_>>())?.build()?)
            }
            LogicalPlan::Subquery(Subquery { subquery, .. }) => self.over_left(subquery, kept, is_left)?,
            LogicalPlan::Filter(filter) if !is_left => {
                let Some(input) = self.over_left(&filter.input, kept, is_left)? else { return Ok(None) };
                Some(LogicalPlanBuilder::from(input).filter(own(&filter.predicate)?)?.build()?)
            }
            _ => None,
        })
    }

    /// An expression of the item, which reads the left side as its own input.
    fn with_own_columns(&self, expr: Expr, kept: &[(Column, String)]) -> Result<Expr> {
        rewrite_parts(expr, |expr| match &expr {
            Expr::OuterReferenceColumn(_, column) => Ok(match kept.iter().find(|(known, _)| known == column) {
                Some((_, name)) => Transformed::yes(Expr::Column(Column::new_unqualified(name))),
                None => Transformed::no(expr),
            }),
            _ => Ok(Transformed::no(expr)),
        })
        .map(|transformed| transformed.data)
    }

    /// The rows of each left row as an array, unnested.
    fn gathered(self, is_left: bool, condition: Option<Expr>) -> Result<LogicalPlan> {
        let left_schema = Arc::clone(self.join.left.schema());
        let right_columns = self.join.right.schema().columns();
        let mut item = LogicalPlanBuilder::from(self.item);
        if let Some(alias) = self.alias {
            item = item.alias(alias)?;
        }
        if let Some(condition) = condition {
            item = item.filter(from_outside(condition, &left_schema)?)?;
        }
        let columns = right_columns.iter().cloned().map(Expr::Column).collect();
        let rows = AggregateFunction::new_udf(array_agg_udaf(), vec![row(columns)], false, None, Vec::new(), None);
        let name = format!("rows{NAME_END}{}", self.number);
        let rows = Expr::AggregateFunction(rows).alias(&name);
        let subquery = item.aggregate(Vec::<Expr>::new(), vec![rows])?.build()?;
        let outer_ref_columns = subquery.all_out_ref_exprs();
        let subquery = Subquery { subquery: Arc::new(subquery), outer_ref_columns, spans: Spans::new() };
        let kept = left_schema.columns().into_iter().map(Expr::Column);
        let with_rows = kept.clone().chain([Expr::ScalarSubquery(subquery).alias(&name)]);
        let rows = Column::new_unqualified(&name);
        let columns = right_columns.into_iter().enumerate().map(|(place, column)| {
            column_of(Expr::Column(rows.clone()), place).alias_qualified(column.relation, column.name)
        });
        let options = UnnestOptions::new().with_null_handling(null_handling(is_left));
        LogicalPlanBuilder::from(Arc::unwrap_or_clone(self.join.left))
            .project(with_rows.collect::<Vec<_>>())?
            .unnest_columns_with_options(vec![rows.clone()], options)?
            .project(kept.chain(columns).collect::<Vec<_>>())?
            .build()
    }
}

/// The rows of a VALUES list, cells of one type in each column.
fn rows_of(values: &Values) -> Result<Vec<Vec<Expr>>> {
    let empty = DFSchema::empty();
    let is_small = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Int64(Some(value)), _) if i32::try_from(*value).is_ok());
    let mut rows = values.values.clone();
    for (place, field) in values.schema.fields().iter().enumerate() {
        // A whole number that fits is an integer.
        let mut is_integer = *field.data_type() == DataType::Int64;
        for row in &rows {
            let cell = plain(&row[place]);
            is_integer &= is_small(cell) || matches!(cell.get_type(&empty)?, DataType::Int32 | DataType::Int16);
        }
        let wanted = if is_integer { DataType::Int32 } else { field.data_type().clone() };
        for row in &mut rows {
            let cell = plain(&row[place]).clone();
            let field = Arc::new(field.as_ref().clone().with_data_type(wanted.clone()));
            row[place] = Expr::Cast(Cast { expr: Box::new(cell), field });
        }
    }
    Ok(rows)
}

/// A cell without the cast by which the planner made the list's types one.
fn plain(cell: &Expr) -> &Expr {
    match cell {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Int64 && field.metadata().is_empty() => {
            expr
        }
        other => other,
    }
}

fn unsupported(what: &str) -> datafusion::error::DataFusionError {
    external(Error::unsupported(format!("{what} is not supported")))
}

fn null_handling(is_left: bool) -> datafusion::common::NullHandling {
    use datafusion::common::NullHandling;
    if is_left { NullHandling::PreserveAndExpandEmpty } else { NullHandling::Drop }
}

fn holds_unnest(plan: &LogicalPlan) -> bool {
    any_node(plan, |node| Ok(matches!(node, LogicalPlan::Unnest(_)))).unwrap_or(true)
}

/// A condition as the item's own, to which the left side lies outside.
fn from_outside(condition: Expr, left: &DFSchema) -> Result<Expr> {
    rewrite_parts(condition, |expr| match &expr {
        Expr::Column(column) if left.has_column(column) => {
            let field = Arc::clone(left.field_from_column(column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column.clone())))
        }
        _ => Ok(Transformed::no(expr)),
    })
    .map(|transformed| transformed.data)
}

fn holds_subquery(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| {
        let mut found = false;
        each_expression_of(node, |expr| {
            found |= any_part(expr, |expr| {
                Ok(matches!(
                    expr,
                    Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)
                ))
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    })
}
