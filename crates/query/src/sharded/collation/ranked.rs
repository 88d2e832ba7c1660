//! A plan over shards whose texts are in an order that only they know, rewritten so that it compares the ranks of texts.
//!
//! ```text
//!   Sort: b.name, t.id                 Projection: t.id, b.name
//!     Join                      ──▶      Sort: rank 0, t.id
//!                                          Ranks: rank 0 of b.name
//!                                            Join
//! ```
//!
//! Each node that compares texts gets a node [`Ranks`] beneath it, which adds a column for each text that is compared; a projection leaves
//! them out again. All ranks of one such node may be compared with each other. Texts that are only equal or not are compared by their bytes as
//! ever: collations of databases tell all texts apart. What is not rewritten here is refused as before.
//!
//! The plan is one that no rule of the optimiser has seen: these compare constants, and bounds of conditions, by their bytes.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::Schema;
use ashlar_base::{ScalarType, SqlType};
use ashlar_functions::fields::field_of;
use ashlar_functions::guards::may_fail;
use ashlar_functions::tree::{
    any_part, each_expression_of, each_node_with_subqueries, each_part, rewrite_nodes_with_subqueries, rewrite_parts,
};
use ashlar_store::arrow_types::sql_type_of;
use datafusion::catalog::cte_worktable::CteWorkTable;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, Sort as SortExpr};
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Between, BinaryExpr, Cast, Distinct, DistinctOn, Expr, ExprSchemable, Filter, Join, JoinType,
    LogicalPlan, Operator, Projection, Sort, Window,
};

use super::asked::Ranker;
use super::ranks::{Ranks, is_rank_name, rank_field, rank_name};
use super::{CHOOSING, compares, compares_text, is_text, orders_text, provider_of};

/// The plan that compares ranks; `None`: it compares texts where ranks are not taken.
///
/// # Errors
/// As DataFusion's traversal.
pub(crate) fn ranked(plan: LogicalPlan, ranker: &Ranker) -> Result<Option<LogicalPlan>> {
    if !is_of_shards_alone(&plan)? || is_compared_row_by_row(&plan)? {
        return Ok(None);
    }
    let mut is_whole = true;
    let rewritten = rewrite_nodes_with_subqueries(plan, |node| {
        if let Some(provider) = provider_of(&node) {
            let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
            scan.source = provider_as_source(Arc::new(provider.without_order()));
            return Ok(Transformed::yes(LogicalPlan::TableScan(scan)));
        }
        if !is_whole || !compares(&node)? {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        let rewriting =
            Rewriting { columns: schema.fields().len(), schema, texts: Vec::new(), is_guarded: false, ranker };
        match rewriting.node(node.clone())? {
            Some(rewritten) if has_columns_of(&rewritten, &node) => Ok(Transformed::yes(rewritten)),
            _ => {
                is_whole = false;
                Ok(Transformed::no(node))
            }
        }
    })?;
    Ok(is_whole.then_some(rewritten))
}

/// Whether all that a plan reads is of shards: what else there is has the order of bytes.
fn is_of_shards_alone(plan: &LogicalPlan) -> Result<bool> {
    let mut is_alone = true;
    each_node_with_subqueries(plan, |node| {
        if let LogicalPlan::TableScan(scan) = node
            && provider_of(node).is_none()
        {
            // What a recursive query has found so far.
            is_alone &= source_as_provider(&scan.source).is_ok_and(|provider| {
                let provider: &dyn Any = provider.as_ref();
                provider.is::<CteWorkTable>()
            });
        }
        Ok(if is_alone { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(is_alone)
}

/// Whether texts are compared in a sub-query that is another one for each row around it.
fn is_compared_row_by_row(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    each_node_with_subqueries(plan, |node| {
        if let LogicalPlan::Subquery(subquery) = node {
            found |= !subquery.outer_ref_columns.is_empty() && orders_text(&subquery.subquery)?;
        }
        each_expression_of(node, |expr| {
            each_part(expr, |expr| {
                let subquery = match expr {
                    Expr::ScalarSubquery(subquery) => Some(subquery),
                    Expr::Exists(exists) => Some(&exists.subquery),
                    Expr::InSubquery(within) => Some(&within.subquery),
                    Expr::SetComparison(comparison) => Some(&comparison.subquery),
                    _ => None,
                };
                if let Some(subquery) = subquery {
                    found |= !subquery.outer_ref_columns.is_empty() && orders_text(&subquery.subquery)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Whether a plan has the columns of another one.
fn has_columns_of(plan: &LogicalPlan, other: &LogicalPlan) -> bool {
    let (own, others) = (plan.schema(), other.schema());
    own.fields().len() == others.fields().len()
        && own.iter().zip(others.iter()).all(|((qualifier, field), (other_qualifier, other))| {
            qualifier == other_qualifier
                && field.name() == other.name()
                && field.data_type() == other.data_type()
                && sql_type_of(field) == sql_type_of(other)
        })
}

/// One node on its way.
struct Rewriting<'r> {
    /// Columns of its inputs.
    columns: usize,
    /// These, and behind them the ranks that there are so far.
    schema: DFSchema,
    /// What is ranked.
    texts: Vec<Expr>,
    /// Nothing that may fail is ranked: some of the rows are left out by what stands beside it.
    is_guarded: bool,
    ranker: &'r Ranker,
}

impl Rewriting<'_> {
    /// `None`: it compares texts otherwise than by what is known here.
    fn node(mut self, node: LogicalPlan) -> Result<Option<LogicalPlan>> {
        match node {
            LogicalPlan::Sort(sort) => self.sort(sort),
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Projection(projection) => {
                let names = names_of(&projection.schema);
                let Some(exprs) = self.expressions(projection.expr)? else { return Ok(None) };
                let exprs = exprs.into_iter().zip(names).map(|(expr, name)| named(expr, name));
                let input = self.ranks(projection.input)?;
                Ok(Some(LogicalPlan::Projection(Projection::try_new(exprs.collect(), Arc::new(input))?)))
            }
            LogicalPlan::Window(window) => {
                let Some(exprs) = self.expressions(window.window_expr)? else { return Ok(None) };
                let columns = self.columns;
                let input = self.ranks(window.input)?;
                let added = input.schema().fields().len() - columns;
                let made = LogicalPlan::Window(Window::try_new(exprs, Arc::new(input))?);
                let kept = (0..columns).chain(columns + added..made.schema().fields().len());
                renamed(made, kept, &window.schema).map(Some)
            }
            LogicalPlan::Aggregate(aggregate) => {
                let Some(groups) = self.expressions(aggregate.group_expr)? else { return Ok(None) };
                let Some(aggregates) = self.expressions(aggregate.aggr_expr)? else { return Ok(None) };
                let input = self.ranks(aggregate.input)?;
                let made = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, aggregates)?);
                let kept = 0..made.schema().fields().len();
                if made.schema().fields().len() != aggregate.schema.fields().len() {
                    return Ok(None);
                }
                renamed(made, kept, &aggregate.schema).map(Some)
            }
            LogicalPlan::Distinct(Distinct::On(on)) => self.distinct(on),
            _ => Ok(None),
        }
    }

    fn sort(mut self, sort: Sort) -> Result<Option<LogicalPlan>> {
        let Some(keys) = self.keys(sort.expr)? else { return Ok(None) };
        let input = self.ranks(Arc::clone(&sort.input))?;
        let sorted = LogicalPlan::Sort(Sort { expr: keys, input: Arc::new(input), fetch: sort.fetch });
        Ok(Some(first_columns(sorted, self.columns)?))
    }

    /// Conditions that compare no texts, and cannot fail, stay beneath: they leave fewer rows to be ranked, and shards can be asked with them.
    fn filter(mut self, filter: Filter) -> Result<Option<LogicalPlan>> {
        let (above, plain) = self.divided(filter.predicate)?;
        let input = match conjunction(plain) {
            Some(plain) => Arc::new(LogicalPlan::Filter(Filter::try_new(plain, filter.input)?)),
            None => filter.input,
        };
        self.is_guarded = above.len() > 1;
        let Some(above) = self.expressions(above)? else { return Ok(None) };
        let input = self.ranks(input)?;
        let Some(above) = conjunction(above) else { return Ok(None) };
        let filtered = LogicalPlan::Filter(Filter::try_new(above, Arc::new(input))?);
        Ok(Some(first_columns(filtered, self.columns)?))
    }

    /// What joins rows that match is the same above the join.
    fn join(self, mut join: Join) -> Result<Option<LogicalPlan>> {
        for (left, right) in &join.on {
            if self.is_compared(left)? || self.is_compared(right)? {
                return Ok(None);
            }
        }
        let (JoinType::Inner, Some(condition)) = (join.join_type, join.filter.take()) else { return Ok(None) };
        let (above, plain) = self.divided(condition)?;
        join.filter = conjunction(plain);
        let Some(above) = conjunction(above) else { return Ok(None) };
        self.filter(Filter::try_new(above, Arc::new(LogicalPlan::Join(join)))?)
    }

    /// Whether texts are compared in an expression.
    fn is_compared(&self, expr: &Expr) -> Result<bool> {
        any_part(expr, |part| Ok(compares_text(part, &self.schema)))
    }

    /// Conditions that compare texts or may fail, and others.
    fn divided(&self, conditions: Expr) -> Result<(Vec<Expr>, Vec<Expr>)> {
        let (mut above, mut plain) = (Vec::new(), Vec::new());
        for condition in split_conjunction_owned(conditions) {
            let stays = self.is_compared(&condition)? || may_fail(&condition) || condition.is_volatile();
            if stays { above.push(condition) } else { plain.push(condition) }
        }
        Ok((above, plain))
    }

    /// What tells the kept rows apart has to lead their order.
    fn distinct(mut self, on: DistinctOn) -> Result<Option<LogicalPlan>> {
        let Some(keys) = on.sort_expr else { return Ok(None) };
        let Some(keys) = self.keys(keys)? else { return Ok(None) };
        let mut told = Vec::with_capacity(on.on_expr.len());
        for expr in on.on_expr {
            let Some(expr) = self.key(expr)? else { return Ok(None) };
            told.push(expr);
        }
        let names = names_of(&on.schema);
        let Some(selected) = self.expressions(on.select_expr)? else { return Ok(None) };
        let selected = selected.into_iter().zip(names).map(|(expr, name)| named(expr, name)).collect();
        let input = self.ranks(on.input)?;
        let made = DistinctOn::try_new(told, selected, Some(keys), Arc::new(input))?;
        Ok(Some(LogicalPlan::Distinct(Distinct::On(made))))
    }

    /// The input with the ranks of all that has been found.
    fn ranks(&self, input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
        if self.texts.is_empty() {
            return Ok(LogicalPlan::clone(&input));
        }
        Ranks::over(input, self.texts.clone(), self.ranker.clone())
    }

    /// The rank of a text.
    fn rank(&mut self, text: Expr) -> Result<Expr> {
        // Of what is another one each time there are two.
        let known = self.texts.iter().position(|known| *known == text && !text.is_volatile());
        let at = match known {
            Some(at) => at,
            None => {
                let rank = Schema::new(vec![rank_field(self.texts.len())]);
                self.schema.merge(&DFSchema::try_from(rank)?);
                self.texts.push(text);
                self.texts.len() - 1
            }
        };
        Ok(Expr::Column(Column::new_unqualified(rank_name(at))))
    }

    /// What rows are sorted by in the place of an expression.
    fn key(&mut self, expr: Expr) -> Result<Option<Expr>> {
        let Some(expr) = self.expression(expr)? else { return Ok(None) };
        match is_text(&expr, &self.schema) {
            true if self.is_ranked(&expr, false)? => self.rank(expr).map(Some),
            true => Ok(None),
            false => Ok(Some(expr)),
        }
    }

    fn keys(&mut self, keys: Vec<SortExpr>) -> Result<Option<Vec<SortExpr>>> {
        let mut ranked = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(expr) = self.key(key.expr)? else { return Ok(None) };
            ranked.push(SortExpr { expr, ..key });
        }
        Ok(Some(ranked))
    }

    fn expressions(&mut self, exprs: Vec<Expr>) -> Result<Option<Vec<Expr>>> {
        exprs.into_iter().map(|expr| self.expression(expr)).collect()
    }

    /// The expression with ranks where it compares texts.
    fn expression(&mut self, expr: Expr) -> Result<Option<Expr>> {
        // Where not all of it is evaluated for each row, nothing that may fail is taken out of it.
        let is_guarded = self.is_guarded
            || any_part(&expr, |part| {
                Ok(is_lazy(part) && !compares_text(part, &self.schema) && self.is_compared(part)?)
            })?;
        let mut is_whole = true;
        let rewritten = rewrite_parts(expr, |part| {
            if !is_whole || !compares_text(&part, &self.schema) {
                return Ok(Transformed::no(part));
            }
            Ok(match self.part(part.clone(), is_guarded)? {
                Some(rewritten) => Transformed::yes(rewritten),
                None => {
                    is_whole = false;
                    Transformed::no(part)
                }
            })
        })?;
        Ok(is_whole.then_some(rewritten.data))
    }

    /// A comparison, of whose operands nothing compares texts any more.
    fn part(&mut self, part: Expr, is_guarded: bool) -> Result<Option<Expr>> {
        match part {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                if !self.are_ranked(&[&left, &right], is_guarded)? {
                    return Ok(None);
                }
                let (left, right) = (Box::new(self.rank(*left)?), Box::new(self.rank(*right)?));
                Ok(Some(Expr::BinaryExpr(BinaryExpr { left, op, right })))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                if !self.are_ranked(&[&expr, &low, &high], is_guarded)? {
                    return Ok(None);
                }
                let (expr, low, high) = (self.rank(*expr)?, self.rank(*low)?, self.rank(*high)?);
                Ok(Some(Expr::Between(Between::new(Box::new(expr), negated, Box::new(low), Box::new(high)))))
            }
            Expr::AggregateFunction(mut aggregate) => {
                if let "min" | "max" = aggregate.func.name() {
                    return self.extreme(aggregate);
                }
                // With DISTINCT the order is one of its arguments.
                let is_by_arguments = aggregate.params.distinct || CHOOSING.contains(&aggregate.func.name());
                if is_by_arguments && aggregate.params.args.iter().any(|arg| is_text(arg, &self.schema)) {
                    return Ok(None);
                }
                let Some(order_by) = self.keys(aggregate.params.order_by)? else { return Ok(None) };
                aggregate.params.order_by = order_by;
                Ok(Some(Expr::AggregateFunction(aggregate)))
            }
            Expr::WindowFunction(mut window) => {
                let is_choosing = CHOOSING.contains(&window.fun.name());
                if is_choosing && window.params.args.iter().any(|arg| is_text(arg, &self.schema)) {
                    return Ok(None);
                }
                let Some(order_by) = self.keys(window.params.order_by)? else { return Ok(None) };
                window.params.order_by = order_by;
                Ok(Some(Expr::WindowFunction(window)))
            }
            _ => Ok(None),
        }
    }

    /// The least or the greatest text: the first in that order, NULL behind all others.
    fn extreme(&mut self, aggregate: AggregateFunction) -> Result<Option<Expr>> {
        let mut params = aggregate.params;
        let [text] = &mut params.args[..] else { return Ok(None) };
        if !params.order_by.is_empty() || !self.is_ranked(text, false)? {
            return Ok(None);
        }
        let rank = self.rank(text.clone())?;
        // Of varchar(n) they are text.
        *text = Expr::Cast(Cast::new_from_field(Box::new(text.clone()), field_of("text", ScalarType::Text.into())));
        params.order_by = vec![SortExpr::new(rank, aggregate.func.name() == "min", false)];
        // Of equal texts it is one and the same.
        params.distinct = false;
        Ok(Some(Expr::AggregateFunction(AggregateFunction { func: first_value_udaf(), params })))
    }

    /// Whether ranks are taken of all these texts.
    fn are_ranked(&self, texts: &[&Expr], is_guarded: bool) -> Result<bool> {
        for text in texts {
            if !self.is_ranked(text, is_guarded)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a rank is taken of a text.
    fn is_ranked(&self, text: &Expr, is_guarded: bool) -> Result<bool> {
        // An array is none, and neither is JSON, which is kept as text.
        let sql_type = text.to_field(&self.schema).ok().and_then(|(_, field)| sql_type_of(&field));
        let is_one = matches!(
            sql_type,
            Some(SqlType::Scalar(ScalarType::Text | ScalarType::Varchar { .. } | ScalarType::Char { .. }))
        );
        // Neither is one that depends on ranks itself: all of a node are asked for together.
        let is_elsewhere = any_part(text, |part| {
            Ok(match part {
                Expr::Column(column) => column.relation.is_none() && is_rank_name(&column.name),
                Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_) => true,
                _ => false,
            })
        })?;
        Ok(is_one && !is_elsewhere && !(is_guarded && may_fail(text)))
    }
}

/// Whether not all of an expression may be evaluated.
fn is_lazy(expr: &Expr) -> bool {
    match expr {
        Expr::Case(_) | Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) => true,
        Expr::ScalarFunction(function) => function.func.short_circuits(),
        _ => false,
    }
}

/// The names of columns.
fn names_of(schema: &DFSchema) -> Vec<(Option<TableReference>, String)> {
    schema.iter().map(|(qualifier, field)| (qualifier.cloned(), field.name().clone())).collect()
}

/// An expression with a name.
fn named(expr: Expr, (qualifier, name): (Option<TableReference>, String)) -> Expr {
    match &expr {
        Expr::Column(column) if column.relation == qualifier && column.name == name => expr,
        _ => expr.unalias().alias_qualified(qualifier, name),
    }
}

/// The first so many columns of a plan.
fn first_columns(plan: LogicalPlan, count: usize) -> Result<LogicalPlan> {
    let columns = plan.schema().iter().take(count).map(Expr::from).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

/// Some columns of a plan, with the names that another schema has for them.
fn renamed(plan: LogicalPlan, kept: impl Iterator<Item = usize>, schema: &DFSchema) -> Result<LogicalPlan> {
    let columns =
        kept.zip(names_of(schema)).map(|(at, name)| named(Expr::from(plan.schema().qualified_field(at)), name));
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}
