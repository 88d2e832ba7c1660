//! Subqueries that DataFusion could not join to the rows around them, run for each row: once for each set of values
//! that they read from it.
//!
//! Runs over an optimised plan right before its execution. Each such subquery becomes a function of the columns that it
//! reads, in the projection or filter where it stands; the function puts the values in and runs the plan.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::Array;
use arrow::datatypes::{DataType, Field, FieldRef};
use ashlar_base::{Error, ErrorCode};
use ashlar_functions::error::external;
use ashlar_functions::guards;
use ashlar_functions::single_row::VALUE_OF_ONE;
use ashlar_functions::tree::{
    any_node, any_part, each_expression_of, rewrite_expressions, rewrite_expressions_of, rewrite_nodes, rewrite_parts,
};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, ScalarValue, internal_err};
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::expr::{Exists, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Sort, Subquery, TypeSignature, Volatility,
};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use futures::future::BoxFuture;

use super::around::Around;
use super::runnable::runnable;
use super::subqueries::has_one_row;

/// What plans are made and run with.
#[derive(Clone)]
pub(super) struct Runner {
    pub(super) state: Arc<SessionState>,
    pub(super) context: Arc<TaskContext>,
}

/// The physical plan of an optimised one.
pub(super) async fn physical(plan: LogicalPlan, runner: &Runner) -> Result<Arc<dyn ExecutionPlan>> {
    super::physical::of(replace(plan, runner)?, &runner.state).await
}

/// Whether there are subqueries left in a plan that DataFusion cannot run.
pub(super) fn is_needed(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| {
        let mut found = false;
        each_expression_of(node, |expr| {
            found |= any_part(expr, |expr| {
                Ok(match expr {
                    Expr::ScalarSubquery(subquery) => !free_columns(&subquery.subquery)?.is_empty(),
                    Expr::Exists(_) | Expr::InSubquery(_) => true,
                    _ => false,
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    })
}

/// The plan with functions in the place of the subqueries that are left.
fn replace(plan: LogicalPlan, runner: &Runner) -> Result<LogicalPlan> {
    rewrite_nodes(plan, |node| {
        // Nothing else evaluates a function that waits.
        if !matches!(node, LogicalPlan::Projection(_) | LogicalPlan::Filter(_)) {
            return beneath(node, runner);
        }
        let Some(schema) = input_schema(&node) else { return Ok(Transformed::no(node)) };
        let names = NamePreserver::new(&node);
        rewrite_expressions_of(node, |expr| {
            let saved = names.save(&expr);
            let guarded = rewrite_parts(expr, |expr| branches(expr, &schema, runner))?;
            let mut replaced = rewrite_parts(guarded.data, |expr| expression(expr, None, &schema, runner))?;
            replaced.transformed |= guarded.transformed;
            Ok(if replaced.transformed { replaced.update_data(|expr| saved.restore(expr)) } else { replaced })
        })
    })
}

/// The schema of the one input that a node has.
fn input_schema(node: &LogicalPlan) -> Option<DFSchemaRef> {
    node.inputs().first().map(|input| Arc::clone(input.schema()))
}

/// The subqueries of an aggregation or a sort, evaluated in a projection beneath it.
fn beneath(node: LogicalPlan, runner: &Runner) -> Result<Transformed<LogicalPlan>> {
    if !matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Sort(_)) {
        return Ok(Transformed::no(node));
    }
    let Some(schema) = input_schema(&node) else { return Ok(Transformed::no(node)) };
    let names = NamePreserver::new(&node);
    let mut columns = Vec::new();
    let output: Vec<Expr> = node.schema().iter().map(Expr::from).collect();
    let replaced = rewrite_expressions_of(node, |expr| {
        let saved = names.save(&expr);
        let replaced = rewrite_parts(expr, |expr| {
            let replaced = expression(expr, None, &schema, runner)?;
            Ok(match (replaced.transformed, &replaced.data) {
                (true, Expr::ScalarFunction(function)) => {
                    let name = function.func.name().to_owned();
                    columns.push(replaced.data.alias(&name));
                    Transformed::yes(Expr::Column(Column::new_unqualified(name)))
                }
                _ => replaced,
            })
        })?;
        Ok(if replaced.transformed { replaced.update_data(|expr| saved.restore(expr)) } else { replaced })
    })?;
    if columns.is_empty() {
        return Ok(replaced);
    }
    let with_columns = |input: Arc<LogicalPlan>| {
        let exprs: Vec<Expr> = input.schema().iter().map(Expr::from).chain(columns).collect();
        Ok::<_, DataFusionError>(Arc::new(
            LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).project(exprs)?.build()?,
        ))
    };
    Ok(Transformed::yes(match replaced.data {
        LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) => {
            LogicalPlan::Aggregate(Aggregate::try_new(with_columns(input)?, group_expr, aggr_expr)?)
        }
        LogicalPlan::Sort(sort) => {
            let sorted = LogicalPlan::Sort(Sort { input: with_columns(sort.input)?, ..sort });
            LogicalPlanBuilder::from(sorted).project(output)?.build()?
        }
        other => other,
    }))
}

/// The values of a CASE that are subqueries run for the rows alone whose value they are: what they would find for others is no
/// concern of PostgreSQL's either, and takes time. Only behind conditions that may be asked of every row.
fn branches(expr: Expr, schema: &DFSchema, runner: &Runner) -> Result<Transformed<Expr>> {
    let mut case = match expr {
        Expr::Case(case) if case.expr.is_none() => case,
        other => return Ok(Transformed::no(other)),
    };
    let mut transformed = false;
    let mut earlier: Option<Expr> = None;
    for (when, then) in &mut case.when_then_expr {
        if !cannot_fail(when) {
            earlier = None;
            break;
        }
        let taken = Expr::clone(when).is_true();
        let guard = match &earlier {
            Some(earlier) => earlier.clone().is_not_true().and(taken.clone()),
            None => taken.clone(),
        };
        transformed |= guarded(then, guard, schema, runner)?;
        earlier = Some(match earlier {
            Some(earlier) => earlier.or(taken),
            None => taken,
        });
    }
    if let (Some(value), Some(earlier)) = (&mut case.else_expr, earlier) {
        transformed |= guarded(value, earlier.is_not_true(), schema, runner)?;
    }
    Ok(Transformed::new_transformed(Expr::Case(case), transformed))
}

/// Makes a function of a value that is a subquery; whether it was one, and may be NULL, as it is for the rows that it is not run for.
fn guarded(value: &mut Expr, guard: Expr, schema: &DFSchema, runner: &Runner) -> Result<bool> {
    if let Expr::ScalarFunction(function) = value
        && function.func.name() == VALUE_OF_ONE
        && let [rows] = &mut function.args[..]
    {
        return guarded(rows, guard, schema, runner);
    }
    let is_one = match &*value {
        Expr::ScalarSubquery(Subquery { subquery, .. }) => !free_columns(subquery)?.is_empty() && may_be_null(subquery),
        _ => false,
    };
    if is_one {
        *value = expression(value.clone(), Some(guard), schema, runner)?.data;
    }
    Ok(is_one)
}

/// Whether an expression has a value, or NULL, for any row, and may be evaluated once more. What is computed of constants alone may fail too
/// where nobody asks it.
fn cannot_fail(expr: &Expr) -> bool {
    let is_computed = |part: &Expr| {
        let is_call = matches!(
            part,
            Expr::ScalarFunction(_) | Expr::BinaryExpr(BinaryExpr { op: Operator::Divide | Operator::Modulo, .. })
        );
        Ok(is_call && !part.any_column_refs())
    };
    !guards::may_fail(expr) && !guards::is_single(expr) && !any_part(expr, is_computed).unwrap_or(true)
}

fn may_be_null(subquery: &LogicalPlan) -> bool {
    subquery.schema().field(0).is_nullable() || !has_one_row(subquery)
}

/// With a guard the function is run for the rows alone where that is true.
fn expression(expr: Expr, guard: Option<Expr>, schema: &DFSchema, runner: &Runner) -> Result<Transformed<Expr>> {
    // What the plan around says too: groups are not made of values that may be NULL where it says that they are not.
    let is_nullable = match &expr {
        Expr::ScalarSubquery(subquery) => may_be_null(&subquery.subquery),
        Expr::InSubquery(_) => expr.nullable(schema).unwrap_or(true),
        Expr::Exists(_) => false,
        _ => return Ok(Transformed::no(expr)),
    };
    let (subquery, shape, operand) = match expr {
        Expr::ScalarSubquery(subquery) if free_columns(&subquery.subquery)?.is_empty() => {
            return Ok(Transformed::no(Expr::ScalarSubquery(subquery)));
        }
        Expr::ScalarSubquery(subquery) => (subquery, Shape::Value, None),
        Expr::Exists(Exists { subquery, negated }) => (subquery, Shape::Exists { negated }, None),
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => (subquery, Shape::In { negated }, Some(*expr)),
        other => return Ok(Transformed::no(other)),
    };
    let Subquery { subquery: plan, .. } = subquery;
    let outer = free_columns(&plan)?;
    let field = match shape {
        Shape::Value => Arc::new(plan.schema().field(0).as_ref().clone().with_nullable(is_nullable)),
        Shape::Exists { .. } | Shape::In { .. } => Arc::new(Field::new("found", DataType::Boolean, is_nullable)),
    };
    let is_guarded = guard.is_some();
    let args = guard.into_iter().chain(operand).chain(outer.iter().cloned().map(Expr::Column)).collect();
    let function = PerRow {
        name: format!("subquery_{}", NUMBERS.fetch_add(1, Ordering::Relaxed)),
        shape,
        is_guarded,
        plan,
        outer,
        field,
        // Not to be computed ahead, nor moved.
        signature: Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Volatile),
        runner: runner.clone(),
    };
    let function = Arc::new(AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf());
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: function, args })))
}

/// Keeps functions of one plan apart.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The columns that a plan reads from around it.
fn free_columns(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let Around { free, bound, .. } = Around::of(plan)?;
    if free.iter().any(|column| bound.contains(column)) {
        return Err(external(Error::unsupported(
            "subqueries that use one name for columns of different queries around them are not supported",
        )));
    }
    Ok(free)
}

/// What is wanted of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    /// The value of the one row there may be.
    Value,
    /// Whether there are any.
    Exists { negated: bool },
    /// Whether the first argument is among them.
    In { negated: bool },
}

/// A subquery as a function of the columns it reads.
#[derive(Clone)]
struct PerRow {
    name: String,
    shape: Shape,
    /// Whether the first argument says for which rows it is run.
    is_guarded: bool,
    plan: Arc<LogicalPlan>,
    outer: Vec<Column>,
    field: FieldRef,
    signature: Signature,
    runner: Runner,
}

impl fmt::Debug for PerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerRow").field("name", &self.name).field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl PartialEq for PerRow {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PerRow {}

impl Hash for PerRow {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for PerRow {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("a subquery runs where it can wait")
    }
}

impl AsyncScalarUDFImpl for PerRow {
    // As `async_trait` would make it, but its future borrows nothing: if it did, all that a plan holds would be shown to
    // be `Send` for that lifetime, type by type, as for the scan of a grid table.
    fn invoke_async_with_args<'s, 'r>(&'s self, args: ScalarFunctionArgs) -> BoxFuture<'r, Result<ColumnarValue>>
    where
        's: 'r,
    {
        self.clone().boxed_results(args)
    }
}

impl PerRow {
    fn boxed_results(self, args: ScalarFunctionArgs) -> BoxFuture<'static, Result<ColumnarValue>> {
        Box::pin(async move { self.results(args).await })
    }

    async fn results(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<_>>>()?;
        // Bounded by the rows of a batch.
        let mut known: HashMap<Vec<ScalarValue>, ScalarValue> = HashMap::new();
        let mut results = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let values = arrays.iter().map(|array| ScalarValue::try_from_array(array, row));
            let values = values.collect::<Result<Vec<_>>>()?;
            let result = match known.get(&values) {
                Some(result) => result.clone(),
                None => {
                    let result = match values.split_first() {
                        Some((ScalarValue::Boolean(Some(true)), rest)) if self.is_guarded => self.run(rest).await?,
                        _ if self.is_guarded => ScalarValue::try_from(self.field.data_type())?,
                        _ => self.run(&values).await?,
                    };
                    // Rows in memory never make anybody wait: without this nobody could cancel.
                    tokio::task::yield_now().await;
                    known.insert(values, result.clone());
                    result
                }
            };
            results.push(result);
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(results)?))
    }
}

/// The same value; of the two zeros of a float, which are equal, the one without a sign.
fn plain_zero(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(number)) => ScalarValue::Float64(Some(number + 0.0)),
        ScalarValue::Float32(Some(number)) => ScalarValue::Float32(Some(number + 0.0)),
        other => other,
    }
}

impl PerRow {
    /// A subquery inside, which no more reads what has been put into it.
    fn told(&self, mut expr: Expr) -> Transformed<Expr> {
        let mut changed = false;
        if let Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. }) = &mut expr
        {
            let reads = &mut subquery.outer_ref_columns;
            let before = reads.len();
            reads.retain(|read| !matches!(read, Expr::OuterReferenceColumn(_, column) if self.outer.contains(column)));
            changed = reads.len() < before;
        }
        Transformed::new_transformed(expr, changed)
    }

    async fn run(&self, args: &[ScalarValue]) -> Result<ScalarValue> {
        let (operand, values) = match self.shape {
            Shape::In { .. } => (args.first(), args.get(1..).unwrap_or_default()),
            _ => (None, args),
        };
        let plan = rewrite_expressions(LogicalPlan::clone(&self.plan), |expr, _| match &expr {
            Expr::OuterReferenceColumn(field, column) => {
                let place = self.outer.iter().position(|known| known == column);
                Ok(match place.and_then(|place| values.get(place)) {
                    // A value of its type: what is put together of it has the field's type, as was planned.
                    Some(value) => {
                        Transformed::yes(Expr::Literal(value.clone(), Some(FieldMetadata::new_from_field(field))))
                    }
                    None => Transformed::no(expr),
                })
            }
            Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => Ok(self.told(expr)),
            _ => Ok(Transformed::no(expr)),
        })?;
        let state = &self.runner.state;
        let plan = state.optimizer().optimize(plan, state.as_ref(), |_, _| {})?;
        // Boxed: a subquery may hold others.
        let plan = Box::pin(physical(plan, &self.runner)).await?;
        let plan = runnable(plan)?;
        let mut rows = execute_stream(plan, Arc::clone(&self.runner.context))?;
        let mut value = None;
        let mut has_null = false;
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            match self.shape {
                Shape::Value => {
                    if value.is_some() || batch.num_rows() > 1 {
                        return Err(external(Error::new(
                            ErrorCode::CardinalityViolation,
                            "more than one row returned by a subquery used as an expression",
                        )));
                    }
                    value = Some(ScalarValue::try_from_array(batch.column(0), 0)?);
                }
                Shape::Exists { negated } => return Ok(ScalarValue::from(!negated)),
                Shape::In { negated } => {
                    let column = batch.column(0);
                    let Some(operand) = operand.filter(|operand| !operand.is_null()).cloned().map(plain_zero) else {
                        return Ok(ScalarValue::Boolean(None));
                    };
                    has_null |= column.null_count() > 0;
                    for row in 0..column.len() {
                        if plain_zero(ScalarValue::try_from_array(column, row)?) == operand {
                            return Ok(ScalarValue::from(!negated));
                        }
                    }
                }
            }
        }
        Ok(match self.shape {
            Shape::Value => match value {
                Some(value) => value,
                None => ScalarValue::try_from(self.field.data_type())?,
            },
            Shape::Exists { negated } => ScalarValue::from(negated),
            Shape::In { .. } if has_null => ScalarValue::Boolean(None),
            Shape::In { negated } => ScalarValue::from(negated),
        })
    }
}
