//! Steps over rows that have been read already: projections, sorts, limits and aggregates over one batch.
//!
//! Called by [`crate::program`], which has the rows of one table, and by `short_plan` for statements that read no
//! table.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use ashlar_base::{Result, SqlType, Value};
use ashlar_functions::bound::with_parameters;
use ashlar_functions::error::from_datafusion;
use ashlar_functions::fields::scalar;
use datafusion::common::Result as PlanResult;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::sorts::sort::sort_batch;

use crate::key_plan::missing_parameter;

/// Bytes that an expression holds, as estimated.
pub(crate) const EXPRESSION_BYTES: usize = 512;

/// See the module.
pub(crate) struct Steps {
    steps: Vec<Step>,
    /// Parameters that expressions read: from 0.
    parameters: Vec<(usize, SqlType)>,
}

/// What is done with a batch, the result of the step before.
pub(crate) enum Step {
    Project {
        exprs: Vec<Arc<dyn PhysicalExpr>>,
        schema: SchemaRef,
    },
    Sort {
        by: LexOrdering,
        fetch: Option<usize>,
    },
    Limit {
        skip: usize,
        fetch: Option<usize>,
    },
    /// Of all rows, without groups.
    Aggregate {
        aggregates: Vec<Computed>,
        schema: SchemaRef,
    },
}

/// An aggregate, and its FILTER.
pub(crate) struct Computed {
    pub(crate) function: Arc<AggregateFunctionExpr>,
    pub(crate) args: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) filter: Option<Arc<dyn PhysicalExpr>>,
}

impl Steps {
    /// One after the other.
    pub(crate) fn new(steps: Vec<Step>, parameters: Vec<(usize, SqlType)>) -> Self {
        Self { steps, parameters }
    }

    /// In their order.
    pub(crate) fn all(&self) -> &[Step] {
        &self.steps
    }

    /// Bytes that they hold, as estimated.
    pub(crate) fn bytes(&self) -> usize {
        let expressions = self.steps.iter().map(|step| match step {
            Step::Project { exprs, .. } => exprs.len(),
            Step::Sort { by, .. } => by.len(),
            Step::Limit { .. } => 1,
            Step::Aggregate { aggregates, .. } => aggregates.len() * 2,
        });
        (expressions.sum::<usize>() + self.parameters.len()) * EXPRESSION_BYTES
    }

    /// Calls `run` with the parameters' values where expressions find them.
    ///
    /// # Errors
    /// 42P02 where one is missing.
    pub(crate) fn with_values<T>(&self, values: &[Value], run: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.parameters.is_empty() {
            return run();
        }
        let mut scalars = Vec::new();
        for (number, sql_type) in &self.parameters {
            let value = values.get(*number).ok_or_else(|| missing_parameter(*number))?;
            if scalars.len() <= *number {
                scalars.resize(number + 1, None);
            }
            scalars[*number] = Some(scalar(*sql_type, value)?);
        }
        with_parameters(scalars, run)
    }

    /// What comes out of rows. Within [`Self::with_values`].
    ///
    /// # Errors
    /// What evaluating finds.
    pub(crate) fn run(&self, mut rows: RecordBatch) -> Result<RecordBatch> {
        for step in &self.steps {
            rows = step.run(rows).map_err(from_datafusion)?;
        }
        Ok(rows)
    }
}

/// A batch that knows its length even without columns.
pub(crate) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> PlanResult<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn values(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> PlanResult<ArrayRef> {
    expr.evaluate(rows)?.into_array(rows.num_rows())
}

/// The rows that fulfil a condition.
///
/// # Errors
/// What evaluating finds.
pub(crate) fn passed(rows: &RecordBatch, condition: &Arc<dyn PhysicalExpr>) -> PlanResult<RecordBatch> {
    let value = values(condition, rows)?;
    let passed: &BooleanArray = datafusion::common::cast::as_boolean_array(&value)?;
    if passed.true_count() == rows.num_rows() {
        return Ok(rows.clone());
    }
    Ok(filter_record_batch(rows, passed)?)
}

impl Step {
    fn run(&self, rows: RecordBatch) -> PlanResult<RecordBatch> {
        match self {
            // Nothing is evaluated of no rows: constants may be wrong that nobody asks for.
            Self::Project { schema, .. } if rows.num_rows() == 0 => Ok(RecordBatch::new_empty(Arc::clone(schema))),
            Self::Project { exprs, schema } => {
                let arrays = exprs.iter().map(|expr| values(expr, &rows)).collect::<PlanResult<Vec<_>>>()?;
                batch(schema, arrays, rows.num_rows())
            }
            Self::Sort { by, fetch } if rows.num_rows() > 1 => sort_batch(&rows, by, *fetch),
            Self::Sort { fetch, .. } => Ok(rows.slice(0, fetch.unwrap_or(1).min(rows.num_rows()))),
            Self::Limit { skip, fetch } => {
                let skip = (*skip).min(rows.num_rows());
                Ok(rows.slice(skip, fetch.unwrap_or(usize::MAX).min(rows.num_rows() - skip)))
            }
            Self::Aggregate { aggregates, schema } => {
                let arrays = aggregates.iter().map(|computed| computed.run(&rows)).collect::<PlanResult<Vec<_>>>()?;
                batch(schema, arrays, 1)
            }
        }
    }
}

impl Computed {
    fn run(&self, rows: &RecordBatch) -> PlanResult<ArrayRef> {
        let mut state = self.function.create_accumulator()?;
        let rows = match &self.filter {
            Some(filter) => passed(rows, filter)?,
            None => rows.clone(),
        };
        if rows.num_rows() > 0 {
            let args = self.args.iter().map(|arg| values(arg, &rows)).collect::<PlanResult<Vec<_>>>()?;
            state.update_batch(&args)?;
        }
        state.evaluate()?.to_array()
    }
}
