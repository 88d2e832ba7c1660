//! `count(*)` of a whole table: from the store's counts, partition by partition, without reading a row.
//!
//! Put in the place of an aggregation and its scan by `settle`.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use ashlar_base::PartitionId;
use ashlar_functions::error::external;
use ashlar_store::{ReadView, Region};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};

/// See the module: one row for each stream, with the count in each of its columns.
pub(crate) struct GridCountExec {
    region: Arc<Region>,
    version: u32,
    properties: Arc<PlanProperties>,
}

impl GridCountExec {
    /// Of a table; every column of the schema is a bigint.
    pub(crate) fn new(region: &Arc<Region>, version: u32, schema: SchemaRef, streams: usize) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(streams),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { region: Arc::clone(region), version, properties: Arc::new(properties) }
    }
}

impl fmt::Debug for GridCountExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GridCountExec of {:?}", self.region)
    }
}

impl DisplayAs for GridCountExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GridCountExec: table={}", self.region.schema().name)
    }
}

impl ExecutionPlan for GridCountExec {
    fn name(&self) -> &str {
        "GridCountExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a count has no children") }
    }

    fn execute(&self, stream_partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(view) = context.session_config().get_extension::<ReadView>() else {
            return internal_err!("a count runs without a read view");
        };
        let streams = self.properties.partitioning.partition_count();
        let partitions = usize::from(self.region.partition_count());
        let range = partitions * stream_partition / streams..partitions * (stream_partition + 1) / streams;
        let (region, version, schema) = (Arc::clone(&self.region), self.version, self.schema());
        let counted = async move {
            let mut rows = 0;
            for partition in range {
                let partition = PartitionId(u16::try_from(partition).unwrap_or(u16::MAX));
                rows += region.count(&view, partition, version).map_err(external)?;
                tokio::task::consume_budget().await;
            }
            let rows = i64::try_from(rows).unwrap_or(i64::MAX);
            let columns = schema.fields().iter().map(|_| Arc::new(Int64Array::from(vec![rows])) as ArrayRef).collect();
            Ok(RecordBatch::try_new(schema, columns)?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), futures::stream::once(counted))))
    }
}
