//! Statements that read a few rows of one table, found by its key or an index, or that read no table at all. They run
//! on the calling thread.
//!
//! Called by sessions for queries before the query pool is asked, and by `select` on the pool for the other
//! statements that read rows: UPDATE, DELETE, the source of an INSERT. The conditions, with the parameters filled in,
//! say how the rows are found. If more rows would have to be read than a connection's thread should read, there is no
//! answer from here, and the engine runs the statement.

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use ashlar_base::{PartitionId, Result, SqlType, Value};
use ashlar_functions::error::from_datafusion;
use ashlar_functions::tree::rewrite_parts;
use ashlar_store::{ReadView, Region, Store};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};

use crate::access::{Access, walk_of};
use crate::program::{Order, Program};
use crate::steps::{Steps, batch};

/// Rows that may be read, in a fraction of a millisecond, while other clients of the thread wait.
const ROWS_MAX: usize = 2048;
/// Bytes of these rows.
const BYTES_MAX: usize = 1 << 20;

/// See the module.
pub struct ShortPlan(Source);

/// Where the rows come from.
enum Source {
    Table(FewRows),
    /// One row without columns.
    Nothing(Steps),
}

/// Few rows of a table.
struct FewRows {
    program: Program,
    order: Option<Order>,
    types: Vec<SqlType>,
}

impl ShortPlan {
    /// A plan that runs a program; `None` if it would read all rows.
    pub(crate) fn of(program: Program, types: &[SqlType]) -> Option<Self> {
        let order = program.order().filter(|order| order.count <= ROWS_MAX);
        let is_short = !program.conditions.is_empty() || order.is_some();
        is_short.then(|| Self(Source::Table(FewRows { order, types: types.to_vec(), program })))
    }

    /// A plan that runs steps over one row without columns.
    pub(crate) fn without_table(steps: Steps) -> Self {
        Self(Source::Nothing(steps))
    }

    /// The table, if there is one.
    pub fn region(&self) -> Option<&Arc<Region>> {
        match &self.0 {
            Source::Table(rows) => Some(&rows.program.region),
            Source::Nothing(_) => None,
        }
    }

    /// Bytes that it holds, as estimated.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.0 {
                Source::Table(rows) => rows.program.bytes(),
                Source::Nothing(steps) => steps.bytes(),
            }
    }

    /// The line that EXPLAIN shows, with these parameters.
    pub(crate) fn describe(&self, parameters: &[Value]) -> Option<String> {
        match &self.0 {
            Source::Table(rows) => rows.describe(parameters),
            Source::Nothing(_) => Some("Short Plan without a table, in the place of".to_owned()),
        }
    }

    /// The result of the statement; `None` if the engine has to run it.
    ///
    /// # Errors
    /// Errors of evaluating expressions, 40001 if the table has another shape by now, 53200.
    pub fn run(&self, store: &Store, view: &ReadView, parameters: &[Value]) -> Result<Option<RecordBatch>> {
        match &self.0 {
            Source::Table(rows) => rows.run(store, view, parameters),
            Source::Nothing(steps) => steps.with_values(parameters, || {
                let one = batch(&Arc::new(Schema::empty()), Vec::new(), 1).map_err(from_datafusion)?;
                steps.run(one).map(Some)
            }),
        }
    }
}

impl FewRows {
    /// How rows are found with these parameters; `None` if many might have to be read.
    fn access(&self, parameters: &[Value]) -> Result<Option<Access>> {
        let conditions = self.conditions(parameters)?;
        let access = Access::of(&self.program.region, &conditions);
        if let (Some(order), Access::Asked(asked)) = (&self.order, &access)
            && asked.key.is_none()
            && let Some(walk) = walk_of(&self.program.region, &conditions, &asked.plain, &order.columns, order.count)
        {
            return Ok(Some(Access::Walks(Arc::new([walk]))));
        }
        // A range may hold any number of rows.
        Ok(access.is_narrow().then_some(access))
    }

    /// The conditions with the parameters filled in, and with columns compared with numbers of their own type.
    fn conditions(&self, parameters: &[Value]) -> Result<Vec<Expr>> {
        let schema = self.program.region.arrow_schema();
        let plain = |condition: Expr| {
            let replaced = rewrite_parts(condition, |part| {
                Ok(match part {
                    Expr::Cast(cast) => match widened(&cast) {
                        Some(literal) => Transformed::yes(Expr::Literal(literal, None)),
                        None => Transformed::no(Expr::Cast(cast)),
                    },
                    Expr::BinaryExpr(compared) => match narrowed(&compared, &schema) {
                        Some(narrow) => Transformed::yes(narrow),
                        None => Transformed::no(Expr::BinaryExpr(compared)),
                    },
                    other => Transformed::no(other),
                })
            });
            replaced.map(|replaced| replaced.data).map_err(from_datafusion)
        };
        self.program.conditions_with(&self.types, parameters)?.into_iter().map(plain).collect()
    }

    fn describe(&self, parameters: &[Value]) -> Option<String> {
        let access = self.program.with_values(parameters, || self.access(parameters)).ok().flatten()?;
        let table = &self.program.region.schema().name;
        Some(format!("Short Plan on {table}{}, where it looks at {ROWS_MAX} rows at most; else", access.describe()))
    }

    fn run(&self, store: &Store, view: &ReadView, parameters: &[Value]) -> Result<Option<RecordBatch>> {
        let (program, region) = (&self.program, &self.program.region);
        let Some(access) = program.with_values(parameters, || self.access(parameters))? else { return Ok(None) };
        let candidates = access.candidates(region, view);
        let mut held = store.reservation();
        program.with_values(parameters, || {
            let (mut found, mut rows, mut bytes) = (Vec::new(), 0, 0);
            let count = region.partition_count();
            for partition in (0..count).map(PartitionId) {
                // The last one is looked at in any case: it knows whether the table is still what it was.
                if partition.0 + 1 < count && !candidates.contains(partition) {
                    continue;
                }
                for scanned in access.scan(region, view, partition, &program.columns, program.version)? {
                    rows += scanned.batch.num_rows();
                    if rows > ROWS_MAX {
                        return Ok(None);
                    }
                    let batch = match scanned.visible {
                        Some(visible) => filter_record_batch(&scanned.batch, &BooleanArray::new(visible, None))
                            .map_err(|error| from_datafusion(error.into()))?,
                        None => scanned.batch,
                    };
                    let batch = program.wanted(program.rows(&batch)?)?;
                    if batch.num_rows() == 0 {
                        continue;
                    }
                    let more = bytes_of(&batch);
                    bytes += more;
                    if bytes > BYTES_MAX {
                        return Ok(None);
                    }
                    held.grow(more)?;
                    found.push(batch);
                }
            }
            let rows = match found.pop() {
                None => program.no_rows(),
                Some(only) if found.is_empty() => only,
                Some(last) => {
                    found.push(last);
                    concat_batches(program.schema(), &found).map_err(|error| from_datafusion(error.into()))?
                }
            };
            program.run(rows).map(Some)
        })
    }
}

/// Bytes of the rows of a batch, which may share the memory of others.
fn bytes_of(batch: &RecordBatch) -> usize {
    let of_column = |column: &arrow::array::ArrayRef| {
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(of_column).sum()
}

fn width(data_type: &DataType) -> Option<u8> {
    match data_type {
        DataType::Int16 => Some(2),
        DataType::Int32 => Some(4),
        DataType::Int64 => Some(8),
        _ => None,
    }
}

/// An integer that is cast to a wider type.
fn widened(cast: &Cast) -> Option<ScalarValue> {
    let Expr::Literal(literal, _) = cast.expr.as_ref() else { return None };
    let (from, to) = (width(&literal.data_type())?, width(cast.field.data_type())?);
    if from <= to { literal.cast_to(cast.field.data_type()).ok() } else { None }
}

/// A comparison of a column that is cast to a wider integer, as a comparison in the column's own type, if the number is in its range.
fn narrowed(compared: &BinaryExpr, schema: &SchemaRef) -> Option<Expr> {
    if !matches!(compared.op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) {
        return None;
    }
    let narrow = |cast: &Expr, literal: &Expr| {
        let (Expr::Cast(cast), Expr::Literal(literal, _)) = (cast, literal) else { return None };
        let Expr::Column(column) = cast.expr.as_ref() else { return None };
        let own = schema.field_with_name(&column.name).ok()?.data_type();
        let (from, to) = (width(own)?, width(cast.field.data_type())?);
        if from > to || literal.data_type() != *cast.field.data_type() {
            return None;
        }
        let number = match literal {
            ScalarValue::Int16(number) => i64::from((*number)?),
            ScalarValue::Int32(number) => i64::from((*number)?),
            ScalarValue::Int64(number) => (*number)?,
            _ => return None,
        };
        let literal = match own {
            DataType::Int16 => ScalarValue::Int16(Some(i16::try_from(number).ok()?)),
            DataType::Int32 => ScalarValue::Int32(Some(i32::try_from(number).ok()?)),
            _ => ScalarValue::Int64(Some(number)),
        };
        Some((Expr::Column(column.clone()), Expr::Literal(literal, None)))
    };
    let (left, right) = match narrow(&compared.left, &compared.right) {
        Some(found) => found,
        None => narrow(&compared.right, &compared.left).map(|(column, literal)| (literal, column))?,
    };
    Some(Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op: compared.op, right: Box::new(right) }))
}

#[cfg(test)]
mod tests;
