//! A frozen picture of one region's buffered writes, for the scans of the transaction that made them.
//!
//! Made by `Staged`, used by `region::scan` on any thread. The arrays lend the write set's memory; what is written
//! or taken back later does not show here.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Schema, SchemaRef};
use ashlar_base::{Datum, Error, PartitionId, Result, TableId, Timestamp};

use super::{Load, Staged};
use crate::build::build_array;
use crate::life::{Deadline, EXPIRES_AT};
use crate::memory::Charge;
use crate::partition::{Partition, Picture, record_batch};
use crate::reader::ColumnReader;
use crate::region::ScanBatch;
use crate::rows::split;
use crate::segment::Layout;
use crate::shape::{Place, Shape};
use crate::snapshot::Snapshot;

/// What a statement reads: everything committed up to a snapshot, and the writes of its own transaction.
#[derive(Clone, Debug)]
pub struct ReadView {
    /// What is committed.
    pub snapshot: Snapshot,
    /// What is pending, by table.
    pub overlays: HashMap<TableId, Arc<Overlay>>,
}

impl ReadView {
    /// Of committed rows only.
    pub fn committed(snapshot: Snapshot) -> Self {
        Self { snapshot, overlays: HashMap::new() }
    }
}

/// See the module.
pub struct Overlay {
    shape: Arc<Shape>,
    truncated: bool,
    segments: Vec<OverlaySegment>,
    /// Row ids by partition, in the order they were written.
    rows: Vec<u32>,
    starts: Vec<u32>,
    /// Beside `rows`: whether the key is to be deleted.
    deleted: Vec<bool>,
    /// What arrived in bulk, in the order of its partitions for each load. Its keys are new: they hide no row.
    loaded: Vec<Loaded>,
    /// When those keys were new to the table; `None`: nothing arrived in bulk.
    loaded_at: Option<Timestamp>,
    _charge: Charge,
}

/// The rows of one partition that arrived in bulk.
pub(crate) struct Loaded {
    pub(crate) partition: PartitionId,
    pub(crate) rows: Picture,
}

struct OverlaySegment {
    layout: Arc<Layout>,
    /// In the order of the layout.
    columns: Vec<ArrayRef>,
    key: Vec<ColumnReader<'static>>,
    /// When the life of each row ends, where any row has said.
    deadlines: Vec<Deadline>,
}

impl Overlay {
    pub(crate) fn new(staged: &Staged) -> Self {
        let mut segments = Vec::new();
        for (slot, segment) in staged.segments() {
            debug_assert_eq!(usize::from(slot), segments.len(), "slots are not reused in a write set");
            let len = segment.len() as usize;
            let layout = Arc::clone(&segment.layout);
            // A deleted key's row has NULLs everywhere else; those rows are never taken.
            let columns: Vec<ArrayRef> =
                (0..layout.columns.len()).map(|position| segment.column(position).share(len, true)).collect();
            let reader = |&position: &usize| {
                ColumnReader::shared(&columns[position], layout.columns[position].1)
                    .expect("a column reads as its own type")
            };
            let key = layout.key.iter().map(reader).collect();
            let deadlines = match segment.has_life() {
                true => (0..segment.len()).map(|row| segment.deadline(row)).collect(),
                false => Vec::new(),
            };
            segments.push(OverlaySegment { layout, columns, key, deadlines });
        }
        // Over the bound too: a transaction must be able to look at what it has written.
        let charge = Charge::forced(staged.account(), staged.list_bytes() + staged.row_count());
        let (rows, starts) = staged.by_partition();
        let deleted = rows.iter().map(|&row| staged.state(row).is_deleted()).collect();
        Self {
            shape: Arc::clone(staged.shape()),
            truncated: staged.truncates(),
            segments,
            rows,
            starts,
            deleted,
            loaded_at: staged.loads().iter().map(Load::read_at).min(),
            loaded: staged.loads().iter().flat_map(|load| load.picture(staged.shape())).collect(),
            _charge: charge,
        }
    }

    /// The schema version that the rows were written under.
    pub(crate) fn version(&self) -> u32 {
        self.shape.schema.version
    }

    /// Whether all committed rows are hidden.
    pub(crate) fn truncated(&self) -> bool {
        self.truncated
    }

    fn range(&self, partition: PartitionId) -> std::ops::Range<usize> {
        let at = |index: usize| self.starts.get(index).map_or(self.rows.len(), |&start| start as usize);
        at(usize::from(partition.0))..at(usize::from(partition.0) + 1)
    }

    /// Whether a partition has pending rows or deletions.
    pub fn touches(&self, partition: PartitionId) -> bool {
        let is_loaded = || self.loaded.iter().any(|loaded| loaded.partition == partition);
        self.truncated || !self.range(partition).is_empty() || is_loaded()
    }

    /// Visits every pending key of a partition that a committed row may have, of which `stored` are all.
    pub(crate) fn for_keys(
        &self,
        partition: PartitionId,
        stored: &Partition,
        mut f: impl FnMut(&[Datum<'_>]),
    ) -> Result<()> {
        let mut key = Vec::new();
        for &row in &self.rows[self.range(partition)] {
            let (slot, offset) = split(row);
            key.clear();
            key.extend(self.segments[usize::from(slot)].key.iter().map(|column| column.datum(offset as usize)));
            f(&key);
        }
        drop(key);
        // Keys of a load were new. Where somebody has written since, they may not be: then the commit will say so, and
        // until then this transaction has its own row.
        if self.loaded_at.is_some_and(|at| !stored.is_present(at)) {
            let loaded = self.loaded.iter().filter(|loaded| loaded.partition == partition);
            loaded.map(|loaded| &loaded.rows).try_for_each(|rows| self.for_loaded_keys(rows, &mut f))?;
        }
        Ok(())
    }

    fn for_loaded_keys(&self, rows: &Picture, f: &mut impl FnMut(&[Datum<'_>])) -> Result<()> {
        let schema = &self.shape.schema;
        let fields: Vec<_> =
            schema.key.iter().map(|&ordinal| Arc::clone(&self.shape.arrow.fields()[ordinal])).collect();
        for ScanBatch { batch, visible } in rows.batches_of(&schema.key, &Arc::new(Schema::new(fields)))? {
            let reader = |(column, &ordinal): (&ArrayRef, &usize)| {
                ColumnReader::shared(column, schema.columns[ordinal].sql_type)
            };
            let readers = batch.columns().iter().zip(&schema.key).map(reader).collect::<Result<Vec<_>>>()?;
            let is_visible = |row: &usize| visible.as_ref().is_none_or(|visible| visible.value(*row));
            for row in (0..batch.num_rows()).filter(is_visible) {
                let key: Vec<Datum<'_>> = readers.iter().map(|reader| reader.datum(row)).collect();
                f(&key);
            }
        }
        Ok(())
    }

    /// Appends the pending rows of a partition.
    pub(crate) fn batches(
        &self,
        partition: PartitionId,
        projection: &[usize],
        schema: &SchemaRef,
        batches: &mut Vec<ScanBatch>,
    ) -> Result<()> {
        let range = self.range(partition);
        let rows: Vec<u32> =
            range.clone().filter(|&index| !self.deleted[index]).map(|index| self.rows[index]).collect();
        for rows in rows.chunk_by(|left, right| split(*left).0 == split(*right).0) {
            let segment = &self.segments[usize::from(split(rows[0]).0)];
            let offsets = UInt32Array::from_iter_values(rows.iter().map(|&row| split(row).1));
            let deadline = |&row: &u32| segment.deadlines.get(split(row).1 as usize).copied();
            let column = |&ordinal: &usize| match self.shape.place_asked(&segment.layout, ordinal) {
                Place::Missing(_) if ordinal == EXPIRES_AT => {
                    let values = rows.iter().map(|row| deadline(row).unwrap_or(Deadline::NONE).datum());
                    build_array(self.shape.type_of(ordinal), values)
                }
                Place::At(position) => {
                    take(&segment.columns[position], &offsets, None).map_err(|error| Error::internal(error.to_string()))
                }
                // Written before the column was added.
                Place::Missing(datum) => {
                    let sql_type = self.shape.schema.columns[ordinal].sql_type;
                    build_array(sql_type, std::iter::repeat_n(datum, rows.len()))
                }
            };
            let columns = projection.iter().map(column).collect::<Result<Vec<_>>>()?;
            batches.push(ScanBatch { batch: record_batch(schema, columns, rows.len())?, visible: None });
        }
        for loaded in self.loaded.iter().filter(|loaded| loaded.partition == partition) {
            batches.extend(loaded.rows.batches_of(projection, schema)?);
        }
        Ok(())
    }
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay")
            .field("rows", &self.rows.len())
            .field("loaded", &self.loaded.len())
            .field("truncated", &self.truncated)
            .finish()
    }
}
