//! A condition that panics while parts are joined: what ends one task must not pass for the end of the rows.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion_common::{DataFusionError, Result};
use datafusion_expr::ColumnarValue;

use super::*;

/// What is true of all rows, and panics some of the times that it is asked.
#[derive(Debug)]
struct Panicking {
    asked: AtomicUsize,
    when: Range<usize>,
}

impl fmt::Display for Panicking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("panicking")
    }
}

impl PartialEq for Panicking {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Panicking {}

impl Hash for Panicking {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self).hash(state);
    }
}

impl PhysicalExpr for Panicking {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let before = self.asked.fetch_add(1, Ordering::Relaxed);
        assert!(!self.when.contains(&before), "asked when it panics");
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::from(vec![true; batch.num_rows()]))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A join whose condition panics then.
fn joined(left: &Arc<dyn ExecutionPlan>, right: &Arc<dyn ExecutionPlan>, when: Range<usize>) -> Arc<dyn ExecutionPlan> {
    let on = vec![(col("int", &left.schema()).unwrap(), col("int", &right.schema()).unwrap())];
    let fields = vec![Field::new("l", DataType::Int32, true), Field::new("r", DataType::Int32, true)];
    let columns = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 1, side }).to_vec();
    let condition = Arc::new(Panicking { asked: AtomicUsize::new(0), when });
    let filter = Some(JoinFilter::new(condition, columns, Arc::new(Schema::new(fields))));
    let (left, right) = (Arc::clone(left), Arc::clone(right));
    let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
    let join = HashJoinExec::try_new(left, right, on, filter, &JoinType::Inner, None, mode, nulls, false);
    own(&join.unwrap(), None)
}

#[test]
fn a_panic_in_a_part_is_an_error_and_never_the_end_of_the_rows() {
    let runtime = runtime();
    let left = made(Rows { count: 2000, keys: 2500, null: 50, seed: 1, ..NONE });
    let right = made(Rows { count: 1500, keys: 2500, null: 30, seed: 2, ..NONE });
    let (left, right) = (table(&left, 3, 128), table(&right, 2, 128));
    let free = joined(&left, &right, 0..0);
    let expected = run(&runtime, &free, &context_of(1 << 30, 500)).num_rows();
    let limit = peak(&free) / 2;
    let calm = joined(&left, &right, 0..0);
    assert_eq!(run(&runtime, &calm, &context_of(limit, 500)).num_rows(), expected);
    assert!(files(&calm) > 0);
    // One of the tasks at its first batch, one of them later while the others go on, and all of them.
    for when in [0..1, 2..3, 0..usize::MAX] {
        let plan = joined(&left, &right, when.clone());
        let outcome = runtime.block_on(collect(Arc::clone(&plan), context_of(limit, 500)));
        assert!(files(&plan) > 0, "{when:?}");
        let Err(error) = outcome else { panic!("{when:?}: rows are missing, and nobody is told") };
        assert!(matches!(error.find_root(), DataFusionError::ExecutionJoin(_)), "{when:?}: {error}");
    }
}
