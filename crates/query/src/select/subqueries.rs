//! Scalar subqueries that read columns of the query around them.
//!
//! Runs before analysis: marks such a subquery as returning one row or failing, so that DataFusion can join it to the rows
//! around it. Subqueries that it cannot join, or would join with another meaning, are left to `per_row`.

use std::sync::Arc;

use ashlar_functions::array_rows::{column_of, row};
use ashlar_functions::names::NAME_END;
use ashlar_functions::single_row::{SINGLE_ROW, value_of_one};
use ashlar_functions::tree::{
    any_expression, any_node, any_node_with_subqueries, any_part, each_part, rewrite_conjuncts, rewrite_expressions,
    rewrite_nodes_with_subqueries, rewrite_parts,
};
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator,
    Subquery, binary_expr, lit, when,
};

use super::around::Around;

/// Makes subqueries for a value fail where they have more than one row and the value is asked for, and says that they give NULL where they
/// have none.
pub(super) fn one_row_each(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_wanted =
        |expr: &Expr| Ok(matches!(expr, Expr::ScalarSubquery(subquery) if !has_one_row(&subquery.subquery)));
    if !any_expression(&plan, is_wanted)? {
        return Ok(plan);
    }
    let mut is_other = false;
    let plan = rewrite_expressions(plan, |expr, _| match expr {
        Expr::ScalarSubquery(subquery) if is_row_wanted(&subquery) => {
            is_other |= !subquery.subquery.schema().field(0).is_nullable();
            value_of(subquery).map(Transformed::yes)
        }
        Expr::Case(mut case) => {
            let mut changed = false;
            let whens = case.when_then_expr.iter_mut().enumerate().flat_map(|(at, (when, then))| {
                // The first condition is asked of every row.
                [Some(when).filter(|_| at > 0), Some(then)]
            });
            for part in whens.flatten().chain(&mut case.else_expr) {
                changed |= asked_at_times(part)?;
            }
            Ok(Transformed::new_transformed(Expr::Case(case), changed))
        }
        Expr::ScalarFunction(mut function) if function.func.name() == "coalesce" => {
            let mut changed = false;
            for arg in function.args.iter_mut().skip(1) {
                changed |= asked_at_times(arg)?;
            }
            Ok(Transformed::new_transformed(Expr::ScalarFunction(function), changed))
        }
        other => Ok(Transformed::no(other)),
    })?;
    if is_other { with_nullable_references(plan) } else { Ok(plan) }
}

/// Counts the rows of subqueries by themselves where their value is asked for: the engine, which runs them beforehand, would refuse them
/// for rows that do not ask. Whether there were any.
fn asked_at_times(expr: &mut Expr) -> Result<bool> {
    let counted = rewrite_parts(std::mem::take(expr), |part| match part {
        Expr::ScalarSubquery(subquery) if !has_one_row(&subquery.subquery) => value_of(subquery).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })?;
    *expr = counted.data;
    Ok(counted.transformed)
}

/// The value of a subquery's one row.
fn value_of(subquery: Subquery) -> Result<Expr> {
    let Subquery { subquery, outer_ref_columns, spans } = subquery;
    let subquery = Arc::new(one_row(Arc::unwrap_or_clone(subquery))?);
    Ok(value_of_one(Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, spans })))
}

/// The plan whose references to rows around may all be NULL. Each has a copy of the field that it refers to, which is an older one
/// where a value turned out to be NULL at times.
fn with_nullable_references(plan: LogicalPlan) -> Result<LogicalPlan> {
    let of_subquery = |subquery: Subquery| {
        let Subquery { subquery, outer_ref_columns, spans } = subquery;
        let outer_ref_columns = outer_ref_columns.into_iter().map(nullable_reference).collect();
        Subquery { subquery, outer_ref_columns, spans }
    };
    rewrite_expressions(plan, |expr, _| {
        Ok(match expr {
            Expr::OuterReferenceColumn(..) => Transformed::yes(nullable_reference(expr)),
            Expr::ScalarSubquery(subquery) => Transformed::yes(Expr::ScalarSubquery(of_subquery(subquery))),
            Expr::Exists(Exists { subquery, negated }) => {
                Transformed::yes(Expr::Exists(Exists { subquery: of_subquery(subquery), negated }))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery: of_subquery(subquery), negated }))
            }
            other => Transformed::no(other),
        })
    })
}

fn nullable_reference(expr: Expr) -> Expr {
    match expr {
        Expr::OuterReferenceColumn(field, column) => {
            Expr::OuterReferenceColumn(Arc::new(field.as_ref().clone().with_nullable(true)), column)
        }
        other => other,
    }
}

/// The rows that a value is compared with.
const COMPARED: &str = "compared rows";

/// `x < ANY (SELECT ...)` and `x < ALL (SELECT ...)` as questions whether there are rows for which the comparison is true, false or NULL:
/// the engine says so too, but later, when comparisons are no longer resolved as PostgreSQL resolves them.
///
/// ```text
///   CASE WHEN EXISTS (S where x < column IS TRUE) THEN true
///        WHEN EXISTS (S where x < column IS NULL) THEN NULL
///        ELSE false END
/// ```
pub(super) fn compared(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !any_expression(&plan, |expr| Ok(matches!(expr, Expr::SetComparison(_))))? {
        return Ok(plan);
    }
    rewrite_expressions(plan, |expr, schema| match expr {
        Expr::SetComparison(found) => told_from_rows(found, schema).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })
}

fn told_from_rows(found: SetComparison, schema: &DFSchema) -> Result<Expr> {
    let SetComparison { expr, subquery: Subquery { subquery, spans, .. }, op, quantifier } = found;
    // Inside the subquery the row's own columns are of the query around.
    let operand = rewrite_parts(*expr, |expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })?
    .data;
    // With a name that no table has, for both may read the same one.
    let (_, field) = subquery.schema().qualified_field(0);
    let value = Expr::from(subquery.schema().qualified_field(0)).alias_qualified(Some(COMPARED), field.name().as_str());
    let rows = LogicalPlanBuilder::from(Arc::unwrap_or_clone(subquery)).project(vec![value])?.build()?;
    let column = Expr::from(rows.schema().qualified_field(0));
    let comparison = binary_expr(operand, op, column);
    let exists = |condition: Expr| -> Result<Expr> {
        let plan = LogicalPlanBuilder::from(rows.clone()).filter(condition)?.build()?;
        let outer_ref_columns = plan.all_out_ref_exprs();
        let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: spans.clone() };
        Ok(Expr::Exists(Exists { subquery, negated: false }))
    };
    let (decides, answer) = match quantifier {
        SetQuantifier::Any => (exists(comparison.clone().is_true())?, true),
        SetQuantifier::All => (exists(comparison.clone().is_false())?, false),
    };
    when(decides, lit(answer))
        .when(exists(comparison.is_null())?, Expr::Literal(ScalarValue::Boolean(None), None))
        .otherwise(lit(!answer))
}

/// `x IN (SELECT ...)` as part of a condition, under OR, NOT or IS NULL, where its NULL counts: DataFusion's mark joins know
/// true and false only, so that NULL is told from false by two more questions.
///
/// ```text
///   CASE WHEN x IN (S) THEN true
///        WHEN x IS NULL AND EXISTS (S) OR EXISTS (S with a NULL) THEN NULL
///        ELSE false END
/// ```
pub(super) fn three_valued(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite_conjuncts(plan, |conjunct, schema| {
        // A conjunct by itself drops the row for NULL as for false.
        if matches!(&conjunct, Expr::InSubquery(_))
            || matches!(&conjunct, Expr::Not(inner) if matches!(inner.as_ref(), Expr::InSubquery(_)))
        {
            return Ok(Transformed::no(conjunct));
        }
        rewrite_parts(conjunct, |expr| match expr {
            Expr::InSubquery(found) if may_be_null(&found, schema)? => told_from_null(found).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })
    })
}

fn may_be_null(found: &InSubquery, schema: &DFSchema) -> Result<bool> {
    let inner = found.subquery.subquery.schema();
    Ok(found.expr.nullable(schema).unwrap_or(true) || inner.fields().iter().any(|field| field.is_nullable()))
}

fn told_from_null(found: InSubquery) -> Result<Expr> {
    let InSubquery { expr, subquery, negated } = found;
    let exists = |plan: Arc<LogicalPlan>| {
        let subquery = Subquery {
            subquery: plan,
            outer_ref_columns: subquery.outer_ref_columns.clone(),
            spans: subquery.spans.clone(),
        };
        Expr::Exists(Exists { subquery, negated: false })
    };
    let column = Expr::from(subquery.subquery.schema().qualified_field(0));
    let with_null =
        LogicalPlanBuilder::from(LogicalPlan::clone(&subquery.subquery)).filter(column.is_null())?.build()?;
    let unknown =
        expr.as_ref().clone().is_null().and(exists(Arc::clone(&subquery.subquery))).or(exists(Arc::new(with_null)));
    let is_in = Expr::InSubquery(InSubquery { expr, subquery, negated: false });
    let answer = when(is_in, lit(!negated))
        .when(unknown, Expr::Literal(ScalarValue::Boolean(None), None))
        .otherwise(lit(negated))?;
    Ok(answer)
}

/// Whether it is a subquery that may have another number of rows than the one that is wanted. One by itself is counted by the engine,
/// which takes its column to be NULL only where a row of it is. An aggregate says so whatever it is of: a function of a constant would
/// be one.
fn is_row_wanted(subquery: &Subquery) -> bool {
    let Subquery { subquery: plan, outer_ref_columns, .. } = subquery;
    let hands_on = || Around::of(plan).is_ok_and(|around| around.is_handed_on);
    !has_one_row(plan) && (!outer_ref_columns.is_empty() || !plan.schema().field(0).is_nullable() || hands_on())
}

/// Whether a plan gives one row, neither more nor less, whatever there is.
pub(super) fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(Aggregate { group_expr, .. }) => group_expr.is_empty(),
        LogicalPlan::EmptyRelation(relation) => relation.produce_one_row,
        LogicalPlan::Values(values) => values.values.len() == 1,
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Sort(sort) => sort.fetch != Some(0) && has_one_row(&sort.input),
        LogicalPlan::Window(window) => has_one_row(&window.input),
        LogicalPlan::Distinct(Distinct::All(input)) => has_one_row(input),
        LogicalPlan::Join(join) => {
            let is_product = join.join_type == JoinType::Inner && join.on.is_empty() && join.filter.is_none();
            is_product && has_one_row(&join.left) && has_one_row(&join.right)
        }
        _ => false,
    }
}

fn one_row(plan: LogicalPlan) -> Result<LogicalPlan> {
    let (qualifier, field) = plan.schema().qualified_field(0);
    // A name of its own: the rows around may have a column of that name.
    let name = format!("{}{NAME_END}row", field.name());
    let column = Expr::from((qualifier, field));
    let single = AggregateFunction::new_udf(Arc::clone(&SINGLE_ROW), vec![column], false, None, Vec::new(), None);
    let single = Expr::AggregateFunction(single);
    let shown = single.schema_name().to_string();
    LogicalPlanBuilder::from(plan)
        .aggregate(Vec::<Expr>::new(), vec![single])?
        .project(vec![Expr::Column(datafusion::common::Column::new_unqualified(shown)).alias(name)])?
        .build()
}

/// Conditions of inner joins that ask subqueries, above the joins: who joins subqueries to rows, or runs them for each, looks for them in
/// filters. For the rows of an outer join it is not the same.
pub(super) fn above_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let asks = |condition: &Expr| any_part(condition, |part| Ok(subquery_of(part).is_some()));
    let is_concerned = |node: &LogicalPlan| match node {
        LogicalPlan::Join(Join { join_type: JoinType::Inner, filter: Some(filter), .. }) => asks(filter),
        _ => Ok(false),
    };
    if !any_node_with_subqueries(&plan, is_concerned)? {
        return Ok(plan);
    }
    rewrite_nodes_with_subqueries(plan, |node| {
        if !is_concerned(&node)? {
            return Ok(Transformed::no(node));
        }
        let LogicalPlan::Join(mut join) = node else { return Ok(Transformed::no(node)) };
        let (mut asking, mut others) = (Vec::new(), Vec::new());
        for condition in join.filter.take().map(split_conjunction_owned).unwrap_or_default() {
            if asks(&condition)? {
                asking.push(condition);
            } else {
                others.push(condition);
            }
        }
        join.filter = conjunction(others);
        let joined = LogicalPlanBuilder::from(LogicalPlan::Join(join));
        let filtered = match conjunction(asking) {
            Some(asking) => joined.filter(asking)?,
            None => joined,
        };
        filtered.build().map(Transformed::yes)
    })
}

/// Says that a subquery by itself may give NULL, and keeps DataFusion from joining subqueries whose conditions on the row
/// around them cannot be put last: it does so whatever lies between, such as a window function or an aggregate of no rows.
/// And those that read a row further out, with those between: it looks for what they read right around them.
pub(super) fn kept_apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_concerned = |expr: &Expr| -> Result<bool> {
        let Some(found) = subquery_of(expr) else { return Ok(false) };
        // What reads further out stands in one that hands it on.
        Ok(is_apart(found) || never_null(expr) || Around::of(&found.0.subquery)?.is_handed_on)
    };
    if !any_expression(&plan, is_concerned)? {
        return Ok(plan);
    }
    rewrite_expressions(plan, |expr, schema| {
        let Some(found) = subquery_of(&expr) else { return Ok(Transformed::no(expr)) };
        let Around { references, is_handed_on, .. } = Around::of(&found.0.subquery)?;
        let far = read_further_out(&expr, &references, schema)?;
        if far.is_empty() && !is_handed_on && never_null(&expr) {
            return Ok(match expr {
                Expr::ScalarSubquery(subquery) => Transformed::yes(Expr::ScalarSubquery(may_be_empty(subquery)?)),
                other => Transformed::no(other),
            });
        }
        let marks = if is_handed_on || is_apart(found) {
            references
        } else if far.is_empty() {
            return Ok(Transformed::no(expr));
        } else {
            // Once the row further out is known, it may be joined.
            far
        };
        Ok(Transformed::yes(match expr {
            Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(apart(subquery, marks)?),
            Expr::Exists(Exists { subquery, negated }) => {
                Expr::Exists(Exists { subquery: apart(subquery, marks)?, negated })
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                Expr::InSubquery(InSubquery { expr, subquery: apart(subquery, marks)?, negated })
            }
            other => other,
        }))
    })
}

/// Which of a subquery's references are not to the rows right around it, whose schema this is; and those of what is looked for in it.
fn read_further_out(expr: &Expr, references: &[Expr], schema: &DFSchema) -> Result<Vec<Expr>> {
    let is_far = |read: &&Expr| matches!(read, Expr::OuterReferenceColumn(_, column) if !schema.has_column(column));
    let mut far: Vec<Expr> = references.iter().filter(is_far).cloned().collect();
    if let Expr::InSubquery(InSubquery { expr: operand, .. }) = expr {
        each_part(operand, |part| {
            if matches!(part, Expr::OuterReferenceColumn(..)) && !far.contains(part) {
                far.push(part.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(far)
}

/// Whether it is a subquery by itself of a column that is never NULL: the engine's nodes may say otherwise of what its plan becomes.
fn never_null(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(Subquery { subquery, outer_ref_columns, .. })
        if outer_ref_columns.is_empty() && !subquery.schema().field(0).is_nullable())
}

/// The subquery of a column that may be NULL.
fn may_be_empty(subquery: Subquery) -> Result<Subquery> {
    let Subquery { subquery: plan, outer_ref_columns, spans } = subquery;
    let (qualifier, field) = plan.schema().qualified_field(0);
    let column = row(vec![Expr::from((qualifier, field))]);
    let column = column_of(column, 0).alias_qualified(qualifier.cloned(), field.name());
    let plan = LogicalPlanBuilder::from(LogicalPlan::clone(&plan)).project(vec![column])?.build()?;
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans })
}

/// A subquery, and whether it stands for a value.
fn subquery_of(expr: &Expr) -> Option<(&Subquery, bool)> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some((subquery, true)),
        Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. }) => {
            Some((subquery, false))
        }
        _ => None,
    }
}

fn is_apart((subquery, is_value): (&Subquery, bool)) -> bool {
    let above = Above { is_value, ..Above::default() };
    !subquery.outer_ref_columns.is_empty() && !is_joinable(&subquery.subquery, above)
}

/// What stands above a part of a subquery.
#[derive(Clone, Copy, Default)]
struct Above {
    is_value: bool,
    /// A condition or a join.
    is_filtered: bool,
    is_aggregated: bool,
}

/// Whether the rows of a subquery for one row around it are those of the subquery for all rows with the conditions on that
/// row put last.
fn is_joinable(plan: &LogicalPlan, above: Above) -> bool {
    let filtered = Above { is_filtered: true, ..above };
    let is_free = |plan: &LogicalPlan| plan.all_out_ref_exprs().is_empty();
    match plan {
        LogicalPlan::Projection(projection) => is_joinable(&projection.input, above),
        // What a condition reads beneath a name of its own is not shown above it.
        LogicalPlan::SubqueryAlias(alias) => is_free(&alias.input),
        LogicalPlan::Sort(sort) => is_joinable(&sort.input, above),
        LogicalPlan::Filter(filter) => is_joinable(&filter.input, filtered),
        LogicalPlan::Join(join) => {
            let (left, right) = (join.left.as_ref(), join.right.as_ref());
            match join.join_type {
                // The condition of an outer join does not choose among its rows, but the engine moves it to a side and takes it for one.
                other if other != JoinType::Inner && plan.contains_outer_reference() => false,
                JoinType::Inner => is_joinable(left, filtered) && is_joinable(right, filtered),
                JoinType::Left => is_joinable(left, filtered) && is_free(right),
                JoinType::Right => is_free(left) && is_joinable(right, filtered),
                _ => is_free(left) && is_free(right),
            }
        }
        other if is_free(other) => true,
        LogicalPlan::Aggregate(Aggregate { group_expr, input, .. }) => {
            // Without groups there is a row even of nothing, which only a value is mended for.
            let is_mended = !group_expr.is_empty() || above.is_value && !above.is_filtered;
            let has_sets = group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
            let beneath = Above { is_aggregated: true, ..above };
            is_mended && !has_sets && !above.is_aggregated && !compares_values(input) && is_joinable(input, beneath)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            !above.is_aggregated && is_joinable(input, Above { is_aggregated: true, ..above })
        }
        // The engine drops the limit of rows that are asked for alone, but a condition above chooses among those that it leaves.
        LogicalPlan::Limit(limit) => limit.skip.is_none() && !above.is_filtered && is_joinable(&limit.input, above),
        _ => false,
    }
}

/// Whether the row around is compared other than for equality, and there are subqueries of one value: beneath an aggregation the engine
/// leaves such a condition where it is, but looks for the values above.
fn compares_values(input: &LogicalPlan) -> bool {
    let is_other = |condition: &&Expr| {
        let is_equality = matches!(condition, Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }));
        !is_equality && any_part(condition, |part| Ok(matches!(part, Expr::OuterReferenceColumn(..)))).unwrap_or(true)
    };
    let compares = |node: &LogicalPlan| match node {
        LogicalPlan::Filter(filter) => Ok(split_conjunction(&filter.predicate).iter().any(is_other)),
        _ => Ok(false),
    };
    let is_value = |expr: &Expr| matches!(expr, Expr::ScalarSubquery(value) if !value.outer_ref_columns.is_empty());
    any_node(input, compares).unwrap_or(true) && any_expression(input, |expr| Ok(is_value(expr))).unwrap_or(true)
}

/// The subquery with these columns of the rows around it as a part of its result: such a one is not joined.
fn apart(subquery: Subquery, marks: Vec<Expr>) -> Result<Subquery> {
    let Subquery { subquery: plan, mut outer_ref_columns, spans } = subquery;
    let mut columns: Vec<Expr> = plan.schema().iter().map(Expr::from).collect();
    for mark in &marks {
        if !outer_ref_columns.contains(mark) {
            outer_ref_columns.push(mark.clone());
        }
    }
    if let Some(first) = columns.first_mut()
        && !marks.is_empty()
    {
        let (qualifier, field) = plan.schema().qualified_field(0);
        let all = row(std::iter::once(first.clone()).chain(marks).collect());
        *first = column_of(all, 0).alias_qualified(qualifier.cloned(), field.name());
    }
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(plan)).project(columns)?.build()?;
    Ok(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans })
}
