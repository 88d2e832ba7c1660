//! The description of a join: its keys, the columns of the build side that are kept, and the source of each output column.
//!
//! Called by the node when it is planned; the work of an execution reads it. The build side is the left one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion_common::{JoinSide, JoinType, NullEquality, Result};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::joins::HashJoinExec;
use datafusion_physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};

use super::build::Seen;
use crate::hash_table::keys::Packing;

/// Where a column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Of the columns that are kept of the build side.
    Kept(usize),
    /// Of the keys: those of a row of the build side are not kept beside its key.
    Key(usize),
    /// Of the probe side.
    Probe(usize),
    /// Whether there is a match.
    Mark,
}

/// What a row of the build side or of the probe side has to do with the result beside pairs of rows that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alone {
    Nothing,
    /// It comes where it has a match.
    Matched,
    /// It comes where it has none.
    Unmatched,
    /// It comes, and says whether it has.
    Marked,
}

/// The condition that pairs with equal keys must meet.
pub(crate) struct Filter {
    pub(crate) expr: Arc<dyn PhysicalExpr>,
    pub(crate) columns: Vec<Source>,
    pub(crate) schema: SchemaRef,
}

/// See the module.
pub(crate) struct Spec {
    pub(crate) join_type: JoinType,
    pub(crate) left_keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) right_keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) packing: Packing,
    /// Whether NULL is a key like others.
    pub(crate) null_is_equal: bool,
    /// Whether a NULL of the probe side may be equal to anything, so that nothing is unequal to all of it: NOT IN.
    pub(crate) null_aware: bool,
    pub(crate) filter: Option<Filter>,
    /// Of the results.
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Vec<Source>,
    /// Columns of the build side that are kept.
    pub(crate) kept: Vec<usize>,
    /// Kept columns and keys of the build side, as files have them.
    pub(crate) left_schema: SchemaRef,
    /// Columns and keys of the probe side, as files have them.
    pub(crate) right_schema: SchemaRef,
    /// Columns of the probe side.
    pub(crate) right_columns: usize,
}

impl Spec {
    /// Of a join that the engine has planned; `None` where the engine's own has to do it.
    ///
    /// # Errors
    /// What expressions say of their types.
    pub(crate) fn of(join: &HashJoinExec) -> Result<Option<Self>> {
        let (left, right) = (join.left().schema(), join.right().schema());
        let null_is_equal = join.null_equality() == NullEquality::NullEqualsNull;
        if join.null_aware && (join.filter().is_some() || null_is_equal) {
            return Ok(None);
        }
        let (mut left_keys, mut right_keys, mut types) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_null_lost = false;
        for (of_left, of_right) in join.on() {
            let data_type = of_left.data_type(&left)?;
            if of_right.data_type(&right)? != data_type {
                return Ok(None);
            }
            let nullable = of_left.nullable(&left)? || of_right.nullable(&right)?;
            is_null_lost |= nullable && !null_is_equal && join.on().len() > 1;
            // Where NULL is equal to nothing, keys that are found have none.
            types.push((data_type, nullable && null_is_equal));
            left_keys.push(Arc::clone(of_left));
            right_keys.push(Arc::clone(of_right));
        }
        let Some(packing) = Packing::of(&types) else { return Ok(None) };
        let (joined, indices) = build_join_schema(&left, &right, join.join_type());
        if joined.fields().len() != indices.len() {
            return Ok(None);
        }
        let indices: Vec<ColumnIndex> = match &join.projection {
            Some(projection) => projection.iter().map(|at| indices[*at].clone()).collect(),
            None => indices,
        };
        let gives_back = packing.gives_back() && !is_null_lost;
        let mut kept = Vec::new();
        let mut source = |column: &ColumnIndex| {
            let key_of = |key: &Arc<dyn PhysicalExpr>| {
                key.downcast_ref::<Column>().is_some_and(|key| key.index() == column.index)
            };
            match column.side {
                JoinSide::None => Source::Mark,
                JoinSide::Right => Source::Probe(column.index),
                JoinSide::Left => match left_keys.iter().position(key_of).filter(|_| gives_back) {
                    Some(key) => Source::Key(key),
                    None => Source::Kept(kept.iter().position(|known| *known == column.index).unwrap_or_else(|| {
                        kept.push(column.index);
                        kept.len() - 1
                    })),
                },
            }
        };
        let columns: Vec<Source> = indices.iter().map(&mut source).collect();
        let filter = join.filter().map(|filter: &JoinFilter| Filter {
            expr: Arc::clone(filter.expression()),
            columns: filter.column_indices().iter().map(&mut source).collect(),
            schema: Arc::clone(filter.schema()),
        });
        let key_fields = types.iter().enumerate().map(|(at, (data_type, _))| key_field(at, data_type));
        let key_fields: Vec<FieldRef> = key_fields.collect();
        let of_left = kept.iter().map(|at| Arc::new(left.field(*at).clone()));
        let left_schema = Arc::new(Schema::new(of_left.chain(key_fields.iter().cloned()).collect::<Vec<_>>()));
        let of_right = right.fields().iter().cloned();
        let right_schema = Arc::new(Schema::new(of_right.chain(key_fields).collect::<Vec<_>>()));
        Ok(Some(Self {
            join_type: *join.join_type(),
            left_keys,
            right_keys,
            packing,
            null_is_equal,
            null_aware: join.null_aware,
            filter,
            schema: join.schema(),
            columns,
            kept,
            left_schema,
            right_schema,
            right_columns: right.fields().len(),
        }))
    }

    /// Whether pairs of rows come out.
    pub(crate) fn gives_pairs(&self) -> bool {
        matches!(self.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full)
    }

    /// What rows of the build side have to do with the result, when all have been looked for.
    pub(crate) fn left_alone(&self) -> Alone {
        match self.join_type {
            JoinType::Left | JoinType::Full | JoinType::LeftAnti => Alone::Unmatched,
            JoinType::LeftSemi => Alone::Matched,
            JoinType::LeftMark => Alone::Marked,
            JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                Alone::Nothing
            }
        }
    }

    /// The same of the probe side, when one has been looked up.
    pub(crate) fn right_alone(&self) -> Alone {
        match self.join_type {
            JoinType::Right | JoinType::Full | JoinType::RightAnti => Alone::Unmatched,
            JoinType::RightSemi => Alone::Matched,
            JoinType::RightMark => Alone::Marked,
            JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                Alone::Nothing
            }
        }
    }

    /// Whether rows of the build side are of use that match nothing.
    pub(crate) fn wants_unmatched_left(&self) -> bool {
        matches!(self.left_alone(), Alone::Unmatched | Alone::Marked)
    }

    /// Whether a row of the probe side comes to nothing where the build side has no rows.
    pub(crate) fn is_empty_without_left(&self) -> bool {
        !matches!(self.right_alone(), Alone::Unmatched | Alone::Marked)
    }

    /// The keys of rows of the probe side.
    ///
    /// # Errors
    /// What evaluating finds.
    pub(crate) fn right_keys_of(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        evaluate(&self.right_keys, batch)
    }

    /// The keys of rows of the build side.
    ///
    /// # Errors
    /// What evaluating finds.
    pub(crate) fn left_keys_of(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        evaluate(&self.left_keys, batch)
    }

    /// Notes what has come of the probe side, of rows whose keys are findable or not.
    pub(crate) fn see(&self, seen: &Seen, findable: &Option<NullBuffer>) {
        seen.any.store(true, Ordering::Relaxed);
        if findable.is_some() {
            seen.null.store(true, Ordering::Relaxed);
        }
    }

    /// Rows of the probe side in a file, and their keys.
    ///
    /// # Errors
    /// Where the file has other columns, which is a bug.
    pub(crate) fn right_of_file(&self, batch: &RecordBatch) -> Result<(RecordBatch, Vec<ArrayRef>)> {
        let places: Vec<usize> = (0..self.right_columns).collect();
        Ok((batch.project(&places)?, batch.columns()[self.right_columns..].to_vec()))
    }

    /// Which rows have a key that may be equal to one; `None` for all.
    pub(crate) fn findable(&self, keys: &[ArrayRef]) -> Option<NullBuffer> {
        if self.null_is_equal {
            return None;
        }
        let nulls =
            keys.iter().fold(None, |nulls, key| NullBuffer::union(nulls.as_ref(), key.logical_nulls().as_ref()));
        nulls.filter(|nulls| nulls.null_count() > 0)
    }
}

fn key_field(at: usize, data_type: &DataType) -> FieldRef {
    Arc::new(Field::new(format!("key {at}"), data_type.clone(), true))
}

/// Values of expressions over the rows of a batch.
///
/// # Errors
/// What evaluating finds.
pub(crate) fn evaluate(exprs: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    exprs.iter().map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows())).collect()
}
