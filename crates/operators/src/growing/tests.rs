//! What files take while they are open, as it is charged.

use arrow::array::{ArrayRef, Int32Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion_execution::memory_pool::MemoryConsumer;
use datafusion_physical_plan::metrics::{ExecutionPlanMetricsSet, Gauge, SpillMetrics};

use super::*;
use crate::aggregate::tests::context;

#[test]
fn a_file_is_charged_once_while_it_is_open_and_given_back() {
    let runtime = context(1 << 30).runtime_env();
    let pool = Arc::clone(&runtime.memory_pool);
    let memory = Arc::new(Memory::new(MemoryConsumer::new("test").register(&pool), Gauge::new()));
    let fields: Vec<Field> = ["a", "b"].map(|name| Field::new(name, DataType::Int32, false)).to_vec();
    let schema = Arc::new(Schema::new(fields));
    let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let manager = SpillManager::new(Arc::clone(&runtime), metrics, Arc::clone(&schema));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_new(schema, vec![Arc::clone(&numbers), numbers]).unwrap();
    for is_finished in [true, false] {
        let mut growing = Growing::default();
        growing.charge(&memory);
        assert!(growing.is_empty());
        assert_eq!(pool.reserved(), 0);
        for _ in 0..3 {
            growing.append(&manager, "test", &batch).unwrap();
            growing.charge(&memory);
            assert!(!growing.is_empty());
            assert_eq!(pool.reserved(), FILE_BYTES + 2 * COLUMN_BYTES);
        }
        if is_finished {
            let file = growing.finish().unwrap();
            assert!(file.is_some());
            assert_eq!(pool.reserved(), 0);
        } else {
            drop(growing);
            assert_eq!(pool.reserved(), 0);
        }
    }
}
