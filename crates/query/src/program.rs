//! Programs: plans over one table as steps that process one batch, for statements that read few rows.
//!
//! The engine's own plans are created for each execution, run on the query pool, and return rows through a channel, which
//! takes ten times the work of a statement about a handful of rows. A program is created once from the optimised logical
//! plan, uses the engine's own expressions, and runs on the caller's thread. `key_plan` runs one over the row of a key,
//! `short_plan` over the rows that an index finds. Never reads a table: the caller passes the rows in.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use ashlar_base::{Datum, Result, SqlType, Value};
use ashlar_functions::bound::parameter;
use ashlar_functions::concatenation;
use ashlar_functions::error::from_datafusion;
use ashlar_functions::fields::scalar;
use ashlar_functions::guards;
use ashlar_functions::tree::{any_part, rewrite_parts};
use ashlar_store::{Region, build_array};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue, internal_err};
use datafusion::datasource::{TableProvider, source_as_provider};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, TableScan};
use datafusion::physical_expr::aggregate::LoweredAggregateBuilder;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};

use crate::grid_table::{GridTable, unqualify};
use crate::parameters::number_of;
use crate::steps::{Computed, EXPRESSION_BYTES, Step, Steps, batch, passed};

/// See the module.
pub(crate) struct Program {
    /// The table.
    pub(crate) region: Arc<Region>,
    /// The version of the table's shape that ordinals refer to.
    pub(crate) version: u32,
    /// Ordinals of the columns that it reads.
    pub(crate) columns: Vec<usize>,
    /// The conditions of the plan.
    pub(crate) conditions: Vec<Expr>,
    /// The same for finding rows by indexes: an operand that is computed without a column is a placeholder.
    asked: Vec<Expr>,
    operands: Vec<Arc<dyn PhysicalExpr>>,
    /// The conditions as one expression over the columns.
    condition: Option<Arc<dyn PhysicalExpr>>,
    schema: SchemaRef,
    /// How many of the columns the steps read; the columns after them are read by the conditions only.
    outputs: usize,
    steps: Steps,
}

/// An order of the rows, by columns of the table, of which the first ones are wanted.
pub(crate) struct Order {
    /// Ordinal, descending, NULLs first.
    pub(crate) columns: Vec<(usize, bool, bool)>,
    /// The number of rows that are wanted.
    pub(crate) count: usize,
}

/// The beginning of an operand's id; no parameter's id begins like this.
const OPERAND: &str = "operand ";

/// The largest number of steps of a program.
const STEPS_MAX: usize = 16;

/// The nodes that steps can be made of, the uppermost first, and the node below them; `None` if there are too many.
fn above(plan: &LogicalPlan) -> Option<(Vec<&LogicalPlan>, &LogicalPlan)> {
    let mut nodes = Vec::new();
    let mut node = plan;
    while nodes.len() <= STEPS_MAX {
        let input = match node {
            LogicalPlan::Projection(inner) => &inner.input,
            LogicalPlan::Sort(inner) => &inner.input,
            LogicalPlan::Limit(inner) => &inner.input,
            LogicalPlan::Aggregate(inner) if inner.group_expr.is_empty() => &inner.input,
            LogicalPlan::SubqueryAlias(inner) => &inner.input,
            source => return Some((nodes, source)),
        };
        if !matches!(node, LogicalPlan::SubqueryAlias(_)) {
            nodes.push(node);
        }
        node = input;
    }
    None
}

/// The steps of an optimised plan that reads no table, over one row without columns; `None` if it reads one, or contains a node that no
/// step can do.
pub(crate) fn without_table(state: &SessionState, plan: &LogicalPlan, types: &[SqlType]) -> Option<Steps> {
    let (nodes, source) = above(plan)?;
    let LogicalPlan::EmptyRelation(source) = source else { return None };
    if !source.produce_one_row || nodes.is_empty() {
        return None;
    }
    let mut maker = Maker { state, types, parameters: Vec::new() };
    let mut needed = (0..plan.schema().fields().len()).collect();
    let steps = maker.steps(&nodes, &mut needed).ok().flatten()?;
    Some(Steps::new(steps, maker.parameters))
}

impl Program {
    /// The program of an optimised plan with parameters of these types, which computes the outputs in `wanted`, or all. `None` if the
    /// plan reads more than one table, or contains a node that no step can do.
    pub(crate) fn of(
        state: &SessionState,
        plan: &LogicalPlan,
        types: &[SqlType],
        wanted: Option<&[usize]>,
    ) -> Option<Self> {
        let (nodes, source) = above(plan)?;
        let LogicalPlan::TableScan(scan) = source else { return None };
        // What cannot be made here is the engine's to do, or to refuse.
        Maker { state, types, parameters: Vec::new() }.program(scan, &nodes, wanted).ok().flatten()
    }

    /// The same program, for rows that are known to satisfy the conditions.
    pub(crate) fn without_conditions(mut self) -> Self {
        self.columns.truncate(self.outputs);
        self.schema =
            Arc::new(Schema::new(self.schema.fields().iter().take(self.outputs).cloned().collect::<Vec<_>>()));
        (self.condition, self.conditions) = (None, Vec::new());
        (self.asked, self.operands) = (Vec::new(), Vec::new());
        self
    }

    /// Bytes that it holds, as estimated.
    pub(crate) fn bytes(&self) -> usize {
        let expressions = self.columns.len() + 2 * self.conditions.len();
        size_of::<Self>() + self.steps.bytes() + expressions * EXPRESSION_BYTES
    }

    /// Whether it computes each row's outputs from that row alone.
    pub(crate) fn is_row_by_row(&self) -> bool {
        self.steps.all().iter().all(|step| match step {
            Step::Project { .. } => true,
            Step::Limit { skip, fetch } => *skip == 0 && *fetch != Some(0),
            Step::Sort { .. } | Step::Aggregate { .. } => false,
        })
    }

    /// The order and number of the rows that it takes from those that satisfy its conditions, if it begins with a sort and a limit.
    pub(crate) fn order(&self) -> Option<Order> {
        let mut exprs: Option<Vec<Arc<dyn PhysicalExpr>>> = None;
        for (number, step) in self.steps.all().iter().enumerate() {
            match step {
                // What is sorted below may be columns under other names.
                Step::Project { exprs: outputs, .. } if exprs.is_none() => exprs = Some(outputs.clone()),
                Step::Sort { by, fetch } => {
                    let limit = match self.steps.all().get(number + 1) {
                        Some(Step::Limit { skip, fetch: Some(fetch) }) => skip.checked_add(*fetch),
                        _ => None,
                    };
                    let count = (*fetch).into_iter().chain(limit).min()?;
                    let column = |sort: &PhysicalSortExpr| {
                        let column = sort.expr.downcast_ref::<Column>()?.index();
                        let column = match &exprs {
                            Some(outputs) => outputs.get(column)?.downcast_ref::<Column>()?.index(),
                            None => column,
                        };
                        Some((*self.columns.get(column)?, sort.options.descending, sort.options.nulls_first))
                    };
                    return Some(Order { columns: by.iter().map(column).collect::<Option<_>>()?, count });
                }
                _ => return None,
            }
        }
        None
    }

    /// The conditions with the parameters filled in. Called within [`Self::with_values`].
    ///
    /// # Errors
    /// Errors of evaluating expressions.
    pub(crate) fn conditions_with(&self, types: &[SqlType], values: &[Value]) -> Result<Vec<Expr>> {
        let literal = |id: &str| -> PlanResult<Option<ScalarValue>> {
            if let Some(operand) =
                id.strip_prefix(OPERAND).and_then(|number| self.operands.get(number.parse::<usize>().ok()?))
            {
                let one = RecordBatchOptions::new().with_row_count(Some(1));
                let one = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one)?;
                let value = operand.evaluate(&one)?.into_array(1)?;
                return ScalarValue::try_from_array(&value, 0).map(Some);
            }
            let found = number_of(id).and_then(|number| Some((types.get(number)?, values.get(number)?)));
            Ok(found.and_then(|(sql_type, value)| scalar(*sql_type, value).ok()))
        };
        let with_values = |condition: &Expr| {
            let replaced = rewrite_parts(condition.clone(), |part| {
                let Expr::Placeholder(placeholder) = part else { return Ok(Transformed::no(part)) };
                Ok(match literal(&placeholder.id)? {
                    Some(literal) => Transformed::yes(Expr::Literal(literal, None)),
                    None => Transformed::no(Expr::Placeholder(placeholder)),
                })
            });
            replaced.map(|replaced| replaced.data).map_err(from_datafusion)
        };
        self.asked.iter().map(with_values).collect()
    }

    /// Calls `run` while the values of the parameters can be read by expressions.
    ///
    /// # Errors
    /// 42P02 if one is missing.
    pub(crate) fn with_values<T>(&self, values: &[Value], run: impl FnOnce() -> Result<T>) -> Result<T> {
        self.steps.with_values(values, run)
    }

    /// A batch of one row; `read` returns its values by the ordinals of their columns.
    ///
    /// # Errors
    /// XX000 if a value does not have its column's type.
    pub(crate) fn batch_of<'r>(&self, read: impl Fn(usize) -> Datum<'r>, types: &[SqlType]) -> Result<RecordBatch> {
        let arrays = self.columns.iter().map(|ordinal| build_array(types[*ordinal], std::iter::once(read(*ordinal))));
        batch(&self.schema, arrays.collect::<Result<_>>()?, 1).map_err(from_datafusion)
    }

    /// Columns of the table as a batch for this program.
    ///
    /// # Errors
    /// XX000 if they have other types.
    pub(crate) fn rows(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        batch(&self.schema, rows.columns().to_vec(), rows.num_rows()).map_err(from_datafusion)
    }

    /// An empty batch.
    pub(crate) fn no_rows(&self) -> RecordBatch {
        RecordBatch::new_empty(Arc::clone(&self.schema))
    }

    /// The schema of its input batches.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows that satisfy the conditions. Called within [`Self::with_values`].
    ///
    /// # Errors
    /// Errors of evaluating expressions.
    pub(crate) fn wanted(&self, rows: RecordBatch) -> Result<RecordBatch> {
        let Some(condition) = &self.condition else { return Ok(rows) };
        passed(&rows, condition).map_err(from_datafusion)
    }

    /// The result over rows that satisfy the conditions. Called within [`Self::with_values`].
    ///
    /// # Errors
    /// Errors of evaluating expressions.
    pub(crate) fn run(&self, rows: RecordBatch) -> Result<RecordBatch> {
        self.steps.run(rows)
    }
}

/// The construction of one program.
struct Maker<'a> {
    state: &'a SessionState,
    types: &'a [SqlType],
    parameters: Vec<(usize, SqlType)>,
}

impl Maker<'_> {
    /// Makes the program of `nodes`, the nodes above the scan, the uppermost first.
    fn program(
        &mut self,
        scan: &TableScan,
        nodes: &[&LogicalPlan],
        wanted: Option<&[usize]>,
    ) -> PlanResult<Option<Program>> {
        let provider = source_as_provider(&scan.source)?;
        let Some(table) = provider.downcast_ref::<GridTable>() else { return Ok(None) };
        let full = table.schema();
        let projected: Vec<usize> = match &scan.projection {
            Some(projection) => projection.clone(),
            None => (0..full.fields().len()).collect(),
        };
        let top = nodes.first().map_or(projected.len(), |node| node.schema().fields().len());
        let mut needed: Vec<usize> = wanted.map_or_else(|| (0..top).collect(), <[usize]>::to_vec);
        let Some(mut steps) = self.steps(nodes, &mut needed)? else { return Ok(None) };
        if let Some(fetch) = scan.fetch {
            steps.insert(0, Step::Limit { skip: 0, fetch: Some(fetch) });
        }
        let mut columns: Vec<usize> = needed.iter().map(|column| projected[*column]).collect();
        let outputs = columns.len();
        let (mut conditions, mut asked, mut operands) = (Vec::new(), Vec::new(), Vec::new());
        for filter in &scan.filters {
            check(filter)?;
            asked.push(self.with_operands(filter.clone(), &mut operands)?);
            for column in filter.column_refs() {
                let ordinal = full.index_of(column.name())?;
                if !columns.contains(&ordinal) {
                    columns.push(ordinal);
                }
            }
            conditions.push(filter.clone());
        }
        if columns.iter().any(|column| table.is_expiry(*column)) {
            return Ok(None);
        }
        let nullable = |field: &Field| field.clone().with_nullable(true);
        let schema =
            Arc::new(Schema::new(columns.iter().map(|ordinal| nullable(full.field(*ordinal))).collect::<Vec<Field>>()));
        let condition = match conjunction(conditions.iter().cloned()) {
            Some(condition) => {
                let names = DFSchema::try_from(schema.as_ref().clone())?;
                Some(self.physical(guards::condition(unqualify(condition)?)?, &names)?)
            }
            None => None,
        };
        let (region, version) = (Arc::clone(table.region()), table.version());
        let steps = Steps::new(steps, std::mem::take(&mut self.parameters));
        Ok(Some(Program { region, version, columns, conditions, condition, asked, operands, schema, outputs, steps }))
    }

    /// The steps of nodes, the uppermost first, that compute the outputs in `needed`, which then has the positions of the inputs that
    /// they need.
    fn steps(&mut self, nodes: &[&LogicalPlan], needed: &mut Vec<usize>) -> PlanResult<Option<Vec<Step>>> {
        let mut steps = Vec::new();
        for node in nodes {
            let Some(step) = self.step(node, needed)? else { return Ok(None) };
            steps.push(step);
        }
        steps.reverse();
        Ok(Some(steps))
    }

    /// The step of one node that computes the outputs in `needed`, which then has the positions of the inputs that it needs.
    fn step(&mut self, node: &LogicalPlan, needed: &mut Vec<usize>) -> PlanResult<Option<Step>> {
        let nullable = |field: &Field| field.clone().with_nullable(true);
        Ok(Some(match node {
            LogicalPlan::Projection(projection) => {
                let schema = needed.iter().map(|output| nullable(projection.schema.field(*output))).collect::<Vec<_>>();
                let outputs = needed.iter().map(|output| projection.expr[*output].clone());
                let exprs = outputs
                    .map(|expr| self.physical(guards::value(expr)?.data, projection.input.schema()))
                    .collect::<PlanResult<Vec<_>>>()?;
                *needed = columns_of(&exprs);
                let exprs = exprs.into_iter().map(|expr| placed(expr, needed)).collect::<PlanResult<Vec<_>>>()?;
                Step::Project { exprs, schema: Arc::new(Schema::new(schema)) }
            }
            LogicalPlan::Sort(sort) => {
                let mut by = Vec::new();
                for key in &sort.expr {
                    let expr = self.physical(guards::value(key.expr.clone())?.data, sort.input.schema())?;
                    let options = arrow::compute::SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
                    by.push(PhysicalSortExpr { expr, options });
                }
                // What goes out comes first, in its order: the steps above count on it.
                let keys: Vec<Arc<dyn PhysicalExpr>> = by.iter().map(|key| Arc::clone(&key.expr)).collect();
                needed.extend(
                    columns_of(&keys).into_iter().filter(|column| !needed.contains(column)).collect::<Vec<_>>(),
                );
                for key in &mut by {
                    key.expr = placed(Arc::clone(&key.expr), needed)?;
                }
                let Some(by) = LexOrdering::new(by) else { return Ok(None) };
                Step::Sort { by, fetch: sort.fetch }
            }
            LogicalPlan::Limit(limit) => {
                let count = |expr: &Option<Box<Expr>>| match expr.as_deref() {
                    None => Some(None),
                    Some(Expr::Literal(ScalarValue::Int64(count), _)) => {
                        count.map_or(Some(None), |count| usize::try_from(count).ok().map(Some))
                    }
                    Some(_) => None,
                };
                let (Some(skip), Some(fetch)) = (count(&limit.skip), count(&limit.fetch)) else { return Ok(None) };
                Step::Limit { skip: skip.unwrap_or(0), fetch }
            }
            LogicalPlan::Aggregate(aggregate) => {
                let schema: Vec<Field> =
                    needed.iter().map(|output| nullable(aggregate.schema.field(*output))).collect();
                let mut aggregates = Vec::new();
                let input = aggregate.input.schema();
                for output in needed.iter() {
                    let expr = self.bound(guards::value(aggregate.aggr_expr[*output].clone())?.data)?;
                    let context =
                        datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext::default();
                    let lowered = LoweredAggregateBuilder::new(
                        &expr,
                        input,
                        input.as_arrow(),
                        self.state.execution_props(),
                        &context,
                    );
                    let lowered = lowered.build()?;
                    // Arguments in an order of their own.
                    if !lowered.order_bys.is_empty() {
                        return Ok(None);
                    }
                    let args = lowered.aggregate.expressions();
                    aggregates.push(Computed { function: lowered.aggregate, args, filter: lowered.filter });
                }
                let read = aggregates.iter().flat_map(|computed| computed.args.iter().chain(&computed.filter));
                *needed = columns_of(&read.cloned().collect::<Vec<_>>());
                for computed in &mut aggregates {
                    for expr in computed.args.iter_mut().chain(&mut computed.filter) {
                        *expr = placed(Arc::clone(expr), needed)?;
                    }
                }
                Step::Aggregate { aggregates, schema: Arc::new(Schema::new(schema)) }
            }
            _ => return Ok(None),
        }))
    }

    /// A condition in which each operand of a comparison that is computed without a column has become a placeholder.
    fn with_operands(&mut self, condition: Expr, operands: &mut Vec<Arc<dyn PhysicalExpr>>) -> PlanResult<Expr> {
        let rewritten = rewrite_parts(condition, |part| {
            let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { return Ok(Transformed::no(part)) };
            if !matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            let mut operand = |side: Box<Expr>| -> PlanResult<Box<Expr>> {
                let is_simple = match side.as_ref() {
                    Expr::Literal(..) | Expr::Placeholder(_) => true,
                    Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Placeholder(_)),
                    _ => false,
                };
                if is_simple || !side.column_refs().is_empty() {
                    return Ok(side);
                }
                operands.push(self.physical(*side, &DFSchema::empty())?);
                let id = format!("{OPERAND}{}", operands.len() - 1);
                Ok(Box::new(Expr::Placeholder(Placeholder { id, field: None })))
            };
            let (left, right) = (operand(left)?, operand(right)?);
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
        })?;
        Ok(rewritten.data)
    }

    fn physical(&mut self, expr: Expr, schema: &DFSchema) -> PlanResult<Arc<dyn PhysicalExpr>> {
        let expr = concatenation::of_expr(self.bound(expr)?, schema)?.data;
        self.state.create_physical_expr(expr, schema)
    }

    /// The expression with the parameters that can be evaluated replaced.
    fn bound(&mut self, expr: Expr) -> PlanResult<Expr> {
        check(&expr)?;
        let bound = rewrite_parts(expr, |expr| match expr {
            Expr::Placeholder(placeholder) => {
                let number = number_of(&placeholder.id);
                let known = number.and_then(|number| Some((number, self.types.get(number)?)));
                let (Some((number, sql_type)), Some(field)) = (known, placeholder.field) else {
                    return internal_err!("a parameter without a type");
                };
                if !self.parameters.iter().any(|(known, _)| *known == number) {
                    self.parameters.push((number, *sql_type));
                }
                Ok(Transformed::yes(parameter(number, field)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(bound.data)
    }
}

/// An error if an expression cannot be evaluated outside of a plan, or must be evaluated by one.
fn check(expr: &Expr) -> PlanResult<()> {
    let is_beyond = any_part(expr, |part| {
        Ok(part.is_volatile_node()
            || matches!(
                part,
                Expr::ScalarSubquery(_)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::SetComparison(_)
                    | Expr::OuterReferenceColumn(..)
                    | Expr::WindowFunction(_)
                    | Expr::Unnest(_)
                    | Expr::SimilarTo(_)
            )
            || is_heavy(part))
    })?;
    if is_beyond { internal_err!("an expression that is not evaluated by itself") } else { Ok(()) }
}

/// Whether a part of an expression may take long or produce a large value, while other clients of the thread wait.
fn is_heavy(part: &Expr) -> bool {
    match part {
        Expr::ScalarFunction(function) => {
            let name = function.func.name();
            matches!(name, "repeat" | "lpad" | "rpad" | "replace" | "array_fill" | "format" | "generate_series")
                || name.starts_with("regexp")
        }
        Expr::BinaryExpr(binary) => matches!(
            binary.op,
            Operator::RegexMatch | Operator::RegexIMatch | Operator::RegexNotMatch | Operator::RegexNotIMatch
        ),
        _ => false,
    }
}

/// The positions of the columns that expressions read, each once.
fn columns_of(exprs: &[Arc<dyn PhysicalExpr>]) -> Vec<usize> {
    let mut columns: Vec<usize> = exprs.iter().flat_map(collect_columns).map(|column| column.index()).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The expression over a batch that has these columns of its input, in this order.
fn placed(expr: Arc<dyn PhysicalExpr>, columns: &[usize]) -> PlanResult<Arc<dyn PhysicalExpr>> {
    let placed = expr.transform(|part| {
        let Some(column) = part.downcast_ref::<Column>() else { return Ok(Transformed::no(part)) };
        let Some(place) = columns.iter().position(|kept| *kept == column.index()) else {
            return internal_err!("a column that is read is not needed");
        };
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>))
    });
    placed.map(|placed| placed.data)
}
